"""The reference broker's OpenWire: its own codec, negotiation, windows, prefetch, transactions,
time, other protocols."""

import gc
import json
from dataclasses import replace
from importlib.resources import files
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.openwire import codec as openwire_codec
from brokerproof.harness.protocols.openwire.codec import Structure, encode_command, read_command
from brokerproof.harness.protocols.openwire.raw_peer import topic
from brokerproof.harness.protocols.openwire.tables import MESSAGES
from brokerproof.harness.protocols.openwire.values import encode_map, long_utf, read_map
from brokerproof.reference_broker.families.activemq.producer_flow import PendingSend
from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.persistence import codec as persistence_codec
from brokerproof.reference_broker.protocols.openwire import maps
from brokerproof.reference_broker.protocols.openwire.connection import least
from brokerproof.reference_broker.protocols.openwire.encoding import Fields, decoded, encoded
from brokerproof.reference_broker.protocols.openwire.message import MessageFields, OpenWireMessage
from brokerproof.reference_broker.settings.activemq import Cursor
from brokerproof.suites.units.drivers.activemq import (
    configured,
    messages,
    policy,
    receipts,
    send,
    subscribe,
    sync,
)
from brokerproof.suites.units.drivers.broker import patient
from brokerproof.suites.units.drivers.openwire import (
    OpenWireClient,
    client,
    contents,
    driver,
    names,
)

VECTORS = json.loads(
    (files("brokerproof.fixtures") / "vectors" / "openwire.json").read_text("utf-8")
)
LIMITED = policy("queue://Q", memory_limit=1025, cursor=Cursor.VM)
FULL = configured(LIMITED)
"""One message of one byte fills the queue."""


# --- the two codecs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "vector",
    [vector for vector in VECTORS["commands"] if vector["name"] in MESSAGES],
    ids=lambda each: f"{each['name']}-{each['version']}",
)
def test_messages_of_the_library_are_read_and_written_by_the_broker(vector: dict[str, Any]) -> None:
    """The broker's codec agrees with the harness's, except for fields that the broker rewrites
    (number, header, bridges)."""
    data, version = bytes.fromhex(vector["octets"]), vector["version"]
    said = MessageFields.read(data[4], Fields(data, 10), version)
    again = said.encode(version, 77, said.redeliveries)
    ours, theirs = (
        read_command(openwire_codec.frame(again[0], again[1:]), version),
        read_command(data, version),
    )
    assert isinstance(ours, Structure)
    assert isinstance(theirs, Structure)
    anew = {"commandId", "responseRequired", "recievedByDFBridge", "brokerOutTime", "messageId"}
    assert ours.name == theirs.name
    assert {name: each for name, each in ours.fields.items() if name not in anew} == {
        name: each for name, each in theirs.fields.items() if name not in anew
    }
    assert str(ours["messageId"]) == str(theirs["messageId"])
    assert ours["messageId"]["brokerSequenceId"] == 77


def test_both_codecs_read_the_same_map() -> None:
    data = bytes.fromhex(VECTORS["map"])

    def plain(value: Any) -> Any:
        value = getattr(value, "value", value)
        if isinstance(value, dict):
            return {name: plain(item) for name, item in value.items()}
        return [plain(item) for item in value] if isinstance(value, list) else value

    assert maps.read(data) == plain(read_map(data))


@given(st.text(max_size=40))
@patient
def test_both_codecs_write_text_alike(text: str) -> None:
    data = encoded(text)
    assert (len(data).to_bytes(4) + data, decoded(data)) == (long_utf(text), text)


def test_stored_messages_come_back() -> None:
    data = bytes.fromhex(
        next(
            command["octets"]
            for command in VECTORS["commands"]
            if command["name"] == "ActiveMQTextMessage"
        )
    )
    said = MessageFields.read(data[4], Fields(data, 10), 12)
    message = OpenWireMessage(
        5, Envelope("queue://Q", "queue://Q", RoutingType.ANYCAST, (), text=False), 99, said
    )
    found = persistence_codec.Decoder(lambda id, size: pytest.fail("no large body")).decode(
        persistence_codec.encode(message), 0
    )
    assert isinstance(found, OpenWireMessage)
    assert (found.number, found.arrived, found.route.address) == (5, 99, "queue://Q")
    assert persistence_codec.encode(found) == persistence_codec.encode(message)
    assert found.durable is said.persistent


# --- negotiation ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", range(1, 13))
def test_every_version_has_its_own_fields(version: int) -> None:
    one = client(version=version)
    producer = one.producer(window=10_000)
    came = one.publish(producer, response=version < 3)
    assert names(came) == (["ProducerAck"] if version >= 3 else ["Response"])
    assert contents(one.consumer()) == [b"m"]


@pytest.mark.parametrize(
    "data",
    [
        encode_command("KeepAliveInfo"),
        encode_command("WireFormatInfo", {"version": 12, "magic": b"ActiveMX"}),
        encode_command("WireFormatInfo", {"version": 0}),
        encode_command(
            "WireFormatInfo",
            {"version": 12, "marshalledProperties": {"MaxInactivityDuration": "x"}},
        ),
        openwire_codec.frame(1, b"", size=-1),
    ],
)
def test_what_does_not_begin_right_is_closed(data: bytes) -> None:
    one = OpenWireClient(driver(), start=False)
    one.feed(data)
    assert one.driver.closed == [1]


def test_the_lesser_number_counts_and_a_missing_one_does_not() -> None:
    assert [least(5, number) for number in (3, 7, 0, -1, None, "3")] == [3, 5, 5, 5, 5, 5]
    assert least(0, 7) == 7


def test_a_client_that_never_says_anything_is_closed() -> None:
    one = OpenWireClient(driver(), start=False)
    assert one.driver.closed == []
    one.at(ms(30_000))
    assert one.driver.closed == [1]


def test_who_is_not_known_is_told_and_closed() -> None:
    about = driver()
    about.broker._shared.settings = replace(
        about.broker._shared.settings, security_enabled=True, users={"someone": "secret"}
    )
    one = OpenWireClient(about, start=False)
    one.negotiate()
    said = {
        "connectionId": Structure("ConnectionId", {"value": "c"}),
        "clientId": "c",
        "userName": "someone",
    }
    (refused,) = one.say("ConnectionInfo", **said, password="wrong")
    assert refused["exception"].kind == "java.lang.SecurityException"
    assert about.closed == [1]


def test_a_connection_that_ends_while_it_is_stalled_leaves_nothing_behind() -> None:
    one = client(FULL)
    other = OpenWireClient(one.driver, 2, beside=one)
    producer = one.producer()
    one.publish(producer, b"1")
    one.publish(producer, b"2")
    one.driver.gone(1)
    found = other.consumer(prefetch=5)
    assert contents(found) == [b"1"]
    assert contents(other.ack(found[-1] if found[-1].name == "MessageDispatch" else found[0])) == []


def test_a_message_that_was_taken_is_freed_without_a_collection() -> None:
    one = client()
    producer = one.producer()
    gc.collect()
    gc.disable()
    try:
        one.publish(producer)
        assert not [found for found in gc.get_objects() if isinstance(found, PendingSend)]
    finally:
        gc.enable()


# --- consumers ------------------------------------------------------------------------------------


def test_a_consumer_gets_what_its_selector_selects() -> None:
    one = client()
    producer = one.producer()
    for number in range(4):
        one.publish(producer, b"%d" % number, marshalledProperties={"n": number})
    assert contents(one.consumer(selector="n > 1 AND JMSPriority = 4")) == [b"2", b"3"]


def test_topics_and_those_who_stay_away() -> None:
    one, place = client(), topic("T")
    producer = one.producer(destination=place)
    one.consumer(destination=place, subscriptionName="d")
    one.consumer(destination=place, value=2)
    assert contents(one.publish(producer, b"1", destination=place)) == [b"1", b"1"]
    one.say("RemoveInfo", objectId=one.consumer_id(), lastDeliveredSequenceId=0)
    one.publish(producer, b"2", destination=place)
    assert contents(one.consumer(destination=place, value=3, subscriptionName="d")) == [b"1", b"2"]


def test_a_failure_has_the_name_of_an_exception_of_jms() -> None:
    (refused,) = client().consumer(noLocal=True)
    assert refused["exception"].kind == "jakarta.jms.JMSException"


def test_who_waits_for_space_is_not_silent() -> None:
    one = OpenWireClient(
        driver(FULL), MaxInactivityDuration=900, MaxInactivityDurationInitalDelay=0
    )
    producer = one.producer()
    one.publish(producer)
    one.publish(producer)
    for now in range(100, 20_000, 100):
        one.at(ms(now))
    assert one.driver.closed == []


# --- other protocols ------------------------------------------------------------------------------


def test_stomp_gets_what_openwire_sent() -> None:
    one = client()
    one.driver.connect(2)
    (answer,) = one.publish(
        one.producer(),
        long_utf("gr\u00fc\u00df"),
        name="ActiveMQTextMessage",
        response=True,
        persistent=True,
        correlationId="c",
        marshalledProperties={"n": 5, "yes": True},
    )
    assert answer.name == "Response"
    (got,) = messages(one.driver.feed(2, subscribe()), 2)
    assert got.body == "gr\u00fc\u00df".encode()
    assert got["n"] == "5"
    assert got["yes"] == "true"
    assert got["persistent"] == "true"
    assert got["correlation-id"] == "c"


def test_openwire_gets_what_stomp_sent() -> None:
    one = client()
    one.driver.connect(2)
    assert receipts(
        one.driver.feed(2, sync(1, headers="colour:blue\npersistent:true\npriority:7\n")), 2
    ) == [1]
    one.driver.feed(2, send("ab", headers="content-length:2\n"))
    text, data = [
        command["message"] for command in one.consumer() if command.name == "MessageDispatch"
    ]
    assert text.name == "ActiveMQTextMessage"
    assert text.text() == "m"
    assert text.properties()["colour"] == "blue"
    assert text["persistent"] is True
    assert text["priority"] == 7
    assert str(text["destination"]) == "queue://Q"
    assert (data.name, data["content"]) == ("ActiveMQBytesMessage", b"ab")


# --- peers that lie -------------------------------------------------------------------------------


def test_a_map_in_the_place_of_bytes_is_the_one_that_is_read() -> None:
    assert maps.read(encode_map({"a": "b", "n": 1})) == {"a": "b", "n": 1}
    assert read_map(maps.write({"a": "b" * 9000, "n": 1, "yes": True}))["a"].value == "b" * 9000
