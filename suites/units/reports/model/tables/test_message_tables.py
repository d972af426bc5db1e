"""The tables of messages and of waiting, on a few frames. The expected result is given first."""

from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace import events as ev
from brokerproof.reports.judging.recorded_verdicts import anomalies, beside_verdicts
from brokerproof.reports.model.tables.addresses import addresses
from brokerproof.reports.model.tables.deliveries import deliveries
from brokerproof.reports.model.tables.latencies import latencies
from brokerproof.reports.model.tables.stalls import stalls
from brokerproof.reports.model.tables.unsettled import credit, held
from brokerproof.suites.units.drivers import frames
from brokerproof.suites.units.drivers.event_dataframe import recorded
from brokerproof.suites.units.drivers.recorded_case import recorded_case

GROUND = Expectations("artemis", {"consumer-window-size": "octets"}, queues=True)


def out(
    at: int, command: str, body: bytes = b"", protocol: str = "STOMP", **headers: str
) -> ev.FrameSent:
    fields = {"at_ns": ms(at), "protocol": protocol, "body": body, "size": 50}
    return frames.sent(command, frames.dashed(headers), **fields)


def back(
    at: int, command: str, body: bytes = b"", protocol: str = "STOMP", **headers: str
) -> ev.FrameReceived:
    fields = {"at_ns": ms(at), "protocol": protocol, "body": body, "size": 100 + len(body)}
    return frames.received(command, frames.dashed(headers), **fields)


CONVERSATION: list[ev.Event] = [
    ev.ConnectionOpened(at_ns=0, conn=1, protocol="STOMP", acceptor="stomp"),
    out(
        1,
        "SUBSCRIBE",
        id="s",
        destination="/queue/q",
        ack="client-individual",
        consumer_window_size="150",
    ),
    out(2, "SEND", b"a", destination="/queue/q", receipt="1"),
    out(3, "SEND", b"b", destination="/queue/q", receipt="2"),
    back(5, "RECEIPT", receipt_id="1"),
    back(10, "MESSAGE", b"a", subscription="s", ack="x", message_id="m", destination="/queue/q"),
    back(
        12, "MESSAGE", b"b", subscription="s", ack="y", destination="/queue/q", redelivered="true"
    ),
    out(20, "ACK", id="x"),
    back(313, "RECEIPT", receipt_id="2"),
]


def test_a_delivery_knows_the_frame_that_settled_it_and_what_was_held(spark: SparkSession) -> None:
    expected = spark.createDataFrame(
        [
            ("/queue/q", "s", "x", False, ms(10), 101, "ACK", ms(20), ms(10)),
            ("/queue/q", "s", "y", True, ms(12), 101, None, None, None),
        ],
        "queue string, subscription string, message string, redelivered boolean, at_ns long, size"
        " long, settled_by string, settled_ns long, held_ns long",
    )
    found = deliveries(recorded(spark, CONVERSATION))
    assertDataFrameEqual(found.select(*expected.columns), expected)
    changes = spark.createDataFrame(
        [(ms(10), 1, 101), (ms(20), 0, 0)], "at_ns long, messages long, octets long"
    )
    assertDataFrameEqual(held(found).select(*changes.columns), changes)


def test_waits_of_producers_and_latencies(spark: SparkSession) -> None:
    trace = recorded(spark, CONVERSATION)
    stalled = spark.createDataFrame(
        [(1, ms(20), ms(313), ms(293), "RECEIPT")],
        "conn long, since_ns long, until_ns long, lasted_ns long, ended_by string",
    )
    assertDataFrameEqual(stalls(trace).select(*stalled.columns), stalled)
    expected = spark.createDataFrame(
        [("delivery", 2, ms(8), ms(9)), ("receipt", 2, ms(3), ms(310))],
        "what string, count long, p50_ns long, most_ns long",
    )
    assertDataFrameEqual(latencies(trace).select(*expected.columns), expected)


def test_credit_is_what_amqp_flows_say(spark: SparkSession) -> None:
    expected = spark.createDataFrame(
        [("sent", 0, 1, 7, 10, True), ("received", 3, None, None, None, False)],
        "direction string, channel long, handle long, delivery_count long, link_credit long, drain"
        " boolean",
    )
    flows = [
        out(
            1,
            "flow",
            protocol="AMQP",
            channel="0",
            handle="1",
            delivery_count="7",
            link_credit="10",
            drain="true",
        ),
        back(2, "flow", protocol="AMQP", channel="3", incoming_window="5"),
        back(3, "begin", protocol="AMQP", channel="3"),
    ]
    assertDataFrameEqual(credit(recorded(spark, flows)).select(*expected.columns), expected)


def test_a_recording_is_judged_again_beside_what_its_case_said() -> None:
    overrun = [
        *CONVERSATION[:-1],
        back(30, "MESSAGE", b"c", subscription="s", ack="z", destination="/queue/q"),
        back(31, "MESSAGE", b"d", subscription="s", ack="w", destination="/queue/q"),
    ]
    irregular = list(anomalies(recorded_case(overrun), GROUND))
    of_cases = [
        {"run": "r", "target": "t", "case": case, **anomaly}
        for case in ("known", "content")
        for anomaly in irregular
    ]
    verdicts = {("r", "t", "content"): "PASS", ("r", "t", "known"): "KNOWN"}
    rows = [
        (row["case"], row["requirement"], row["position"], row["contradicts"])
        for row in beside_verdicts(of_cases, verdicts)
        if row["kind"] == "overrun"
    ]
    assert rows == [
        ("content", "ARTEMIS-STOMP-window-3", 9, True),
        ("known", "ARTEMIS-STOMP-window-3", 9, False),
    ]


def test_what_a_broker_says_of_an_address_is_a_reading(spark: SparkSession) -> None:
    def ask(at: int, number: str, attribute: str) -> ev.FrameSent:
        named = {"_AMQ_ResourceName": "address.orders", "_AMQ_Attribute": attribute}
        about = {"destination": "activemq.management", "reply-to": "here"}
        headers = about | {"correlation-id": number} | named
        return frames.sent("SEND", headers, at_ns=ms(at), size=9)

    def answer(at: int, number: str, body: bytes) -> ev.FrameReceived:
        return back(at, "MESSAGE", body, destination="here", correlation_id=number)

    told = [
        *(
            ask(1, "1", "addressSize"),
            answer(2, "1", b"[10240]"),
            ask(3, "2", "paging"),
            answer(4, "2", b"[true]"),
        ),
        *(ask(5, "3", "numberOfPages"), answer(6, "3", b'["no such attribute"]')),
        *(ask(7, "4", "routingTypes"), answer(8, "4", b"[5]"), answer(9, "9", b"[7]")),
    ]
    expected = spark.createDataFrame(
        [(ms(2), "orders", "size", 10_240), (ms(4), "orders", "paging", 1)],
        "at_ns long, address string, what string, value long",
    )
    assertDataFrameEqual(
        addresses(recorded(spark, told)).select("at_ns", "address", "what", "value"), expected
    )
