"""Allowed and forbidden frames after the last answer on a STOMP connection."""

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import stomp_aftermath
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    HeartBeatReceived,
    HeartBeatSent,
    LinkFaulted,
    OctetsSent,
)
from brokerproof.suites.units.drivers import frames

CONN = 1


def sent(at: int, command: str, **headers: str) -> Event:
    return frames.sent(command, frames.dashed(headers), at_ns=ms(at), conn=CONN)


def got(at: int, command: str, **headers: str) -> Event:
    return frames.received(command, frames.dashed(headers), at_ns=ms(at), conn=CONN)


def beat(at: int) -> Event:
    return HeartBeatReceived(at_ns=ms(at), conn=CONN, protocol="STOMP", size=1)


def closed(at: int) -> Event:
    return ConnectionClosed(at_ns=ms(at), conn=CONN, how=CloseHow.EOF)


def session(asked: str = "0,0", answered: str = "0,0", version: str = "1.2") -> list[Event]:
    return [
        sent(0, "CONNECT", heart_beat=asked),
        got(1, "CONNECTED", version=version, heart_beat=answered),
    ]


def judged(
    *events: Event, until: int = 5000, patience: int | None = None, undisturbed: bool = True
) -> list[str]:
    linger = Linger(
        ms(10),
        ms(until),
        ms(1000),
        0,
        None if patience is None else ms(patience),
        undisturbed=undisturbed,
    )
    return [finding.requirement for finding in stomp_aftermath.judge(events, CONN, linger)]


SUBSCRIBED = [sent(2, "SUBSCRIBE", id="a", receipt="s"), got(3, "RECEIPT", receipt_id="s")]
ERROR = got(5, "ERROR", message="no")


@pytest.mark.parametrize(
    "events",
    [
        [*session(), sent(4, "SEND"), ERROR, closed(6)],
        [*session(), *SUBSCRIBED, got(4, "MESSAGE", subscription="a")],
        [
            *session("5000,0", "0,5000"),
            HeartBeatSent(at_ns=ms(9), conn=CONN, protocol="STOMP", size=1),
        ],
        [*session("0,1000", "1000,0"), *(beat(at) for at in range(1000, 5001, 1000))],
        [*session("1000,0", "0,1000"), closed(1500)],
        [*session(), ConnectionAbandoned(at_ns=ms(4), conn=CONN, how=CloseHow.EOF), closed(5)],
        [*session("9000,0", "0,9000"), sent(4, "ACK", id="?"), ERROR, closed(6)],
        [*session("9000,0", "0,9000"), sent(4, "DISCONNECT"), closed(5)],
        [*session(), sent(2, "SEND", receipt="r"), got(3, "RECEIPT", receipt_id="r"), beat(4)],
        [*session(), got(2000, "MESSAGE"), beat(2005)],
        [*session(), OctetsSent(at_ns=ms(2), conn=CONN, data=b"?", size=1), ERROR, closed(6)],
        [sent(0, "CONNECT"), ERROR],
        [sent(0, "CONNECT"), closed(1)],
    ],
    ids=lambda events: ", ".join(getattr(event, "command", "") or "-" for event in events[2:]),
)
def test_an_honest_broker_is_not_accused(events: list[Event]) -> None:
    assert judged(*events) == []


@pytest.mark.parametrize(
    ("version", "events", "broken"),
    [
        ("1.2", [sent(4, "SEND"), ERROR, got(6, "RECEIPT", receipt_id="?")], 2),
        ("1.2", [sent(4, "SEND"), ERROR], 1),
        ("1.1", [sent(4, "SEND"), ERROR], 0),
    ],
)
def test_error_is_the_last_frame_of_version_1_2(
    version: str, events: list[Event], broken: int
) -> None:
    found = judged(*session(version=version), *events)
    assert ("STOMP12-ERR-02" in found) is (version == "1.2")
    assert len(found) == broken


@pytest.mark.parametrize(
    ("version", "requirement"), sorted(stomp_aftermath.RECEIPT_FOR_SUCCESS.items())
)
@pytest.mark.parametrize("named", [True, False])
@pytest.mark.parametrize("error_first", [True, False])
def test_a_refused_frame_has_no_receipt(
    version: str, requirement: str, named: bool, error_first: bool
) -> None:
    error = got(5, "ERROR", receipt_id="r") if named else ERROR
    answers = [error, got(5, "RECEIPT", receipt_id="r")]
    frame = sent(4, "SUBSCRIBE", id="a", receipt="r")
    found = judged(*session(version=version), frame, *(answers if error_first else answers[::-1]))
    assert (requirement in found) is (named or error_first)


def test_a_receipt_comes_once() -> None:
    receipts = [got(5, "RECEIPT", receipt_id="r")] * 2
    assert judged(*session(), sent(4, "SEND", receipt="r"), *receipts) == ["STOMP12-RCPT-01"]


@pytest.mark.parametrize(
    ("version", "requirement"), sorted(stomp_aftermath.NOTHING_ONCE_REMOVED.items())
)
def test_nothing_comes_from_a_subscription_that_is_gone(version: str, requirement: str) -> None:
    gone = [sent(4, "UNSUBSCRIBE", id="a", receipt="u"), got(6, "RECEIPT", receipt_id="u")]
    message, again = got(5, "MESSAGE", subscription="a"), sent(7, "SUBSCRIBE", id="a")
    begun = [*session(version=version), *SUBSCRIBED]
    assert judged(*begun, *gone, got(8, "MESSAGE", subscription="a")) == [requirement]
    assert judged(*begun, gone[0], message, gone[1]) == [], "it crossed the UNSUBSCRIBE"
    assert judged(*begun, *gone, again, got(8, "MESSAGE", subscription="a")) == []


def test_a_message_is_of_a_subscription() -> None:
    stranger = got(8, "MESSAGE", subscription="b")
    assert judged(*session(), *SUBSCRIBED, stranger) == ["STOMP12-MSG-04"]
    unnamed = sent(7, "SUBSCRIBE", destination="x")
    assert judged(*session(), *SUBSCRIBED, unnamed, stranger) == [], "the server chose its id"
    replies = sent(7, "SEND", reply_to="/temp-queue/x")
    assert judged(*session(), *SUBSCRIBED, replies, stranger) == [], "the reply's queue"


@pytest.mark.parametrize("end", [[closed(700)], [got(700, "ERROR", message="x"), closed(701)]])
def test_a_promise_that_is_kept_keeps_the_session(end: list[Event]) -> None:
    large = str(2**63 - 1)
    begun = session(f"{large},0", f"0,{large}")
    assert judged(*begun, *end) == ["STOMP12-HB-06"]
    assert judged(*begun, *end, undisturbed=False) == []
    assert judged(*begun, *end, patience=500) == [], "its own manual ends it then"
    client = [sent(3, "SUBSCRIBE", ack="client", receipt="s"), got(4, "RECEIPT", receipt_id="s")]
    assert judged(*begun, *client, got(5, "MESSAGE"), *end) == [], "a consumer may be too slow"


def test_a_client_that_broke_its_promise_is_owed_nothing() -> None:
    late = HeartBeatSent(at_ns=ms(3000), conn=CONN, protocol="STOMP", size=1)
    assert judged(*session("1000,0", "0,1000"), late, closed(3001)) == []


def test_an_agreed_heartbeat_is_no_reason_to_close() -> None:
    assert judged(*session("0,8589935000", "8589935000,0"), closed(1)) == ["STOMP12-HB-09"]


def test_heartbeats_arrive_where_they_were_agreed_on_and_nowhere_else() -> None:
    assert judged(*session("0,1000", "1000,0"), beat(1000), beat(2000)) == ["STOMP12-HB-09"]
    assert judged(*session("0,0", "0,0"), beat(2000)) == ["STOMP12-HB-07"]


def test_a_number_that_nobody_has_to_understand_agrees_on_nothing() -> None:
    asked = session("0,99999999999999999999x", "500,30000")
    assert judged(*asked, beat(2000)) == []
    assert judged(*asked, closed(2000)) == []


def test_an_error_out_of_the_blue_is_noted() -> None:
    assert judged(*session(), got(2000, "ERROR"), closed(2001)) == ["STOMP12-READING-ERROR-01"]


def test_a_fault_of_the_link_is_no_event_of_the_protocol() -> None:
    fault = LinkFaulted(at_ns=ms(4), conn=CONN, detail="the client stops reading")
    assert judged(*session(), fault) == []
