"""Allowed and forbidden commands after the last answer on an OpenWire connection."""

from typing import Any

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import openwire_aftermath
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatSent,
    OctetsSent,
)

ASKED, STAYS_OPEN, REMOVED = "OPENWIRE-RESP-1", "OPENWIRE-RESP-2", "OPENWIRE-REMOVE-1"
SURPLUS = "OPENWIRE-ACK-2"


def frame(
    kind: type[FrameSent] | type[FrameReceived], at: int, command: str, **fields: Any
) -> Event:
    headers = tuple((name, str(value)) for name, value in fields.items())
    return kind(at_ns=ms(at), conn=1, protocol="OPENWIRE", command=command, headers=headers)


def we(at: int, command: str, number: int = 0, asks: str = "false", **fields: Any) -> Event:
    return frame(FrameSent, at, command, commandId=number, responseRequired=asks, **fields)


def broker(at: int, command: str, **fields: Any) -> Event:
    return frame(FrameReceived, at, command, **fields)


def judged(*events: Event, undisturbed: bool = True) -> list[str]:
    linger = Linger(ms(10), ms(9000), ms(1000), 0, undisturbed=undisturbed)
    return [finding.requirement for finding in openwire_aftermath.judge(events, 1, linger)]


ASKS = we(1, "SessionInfo", 2, "true", sessionId="ID:c:1")
CONSUMES = we(2, "ConsumerInfo", 3, "true", consumerId="ID:c:1:7")
ENDED = ConnectionClosed(at_ns=ms(20), conn=1, how=CloseHow.EOF)


def dispatched(at: int, name: str = "ID:c:1:7") -> Event:
    return broker(at, "MessageDispatch", consumerId=name, correlationId="of the message")


def test_each_command_gets_the_response_that_it_asks_for() -> None:
    answer = broker(3, "Response", correlationId=2)
    assert not judged(ASKS, answer)
    assert judged(ASKS, answer, answer) == [ASKED]
    assert judged(we(1, "MessageAck", 2), answer) == [ASKED]
    beat = HeartBeatSent(at_ns=ms(2), conn=1, protocol="OPENWIRE", size=10)
    assert not judged(beat, answer), "it may have asked"
    raw = OctetsSent(at_ns=ms(2), conn=1, data=b"?", size=1)
    assert not judged(raw, answer)


@pytest.mark.parametrize("removed", ["ID:c:1:7", "ID:c:1"])
def test_no_message_arrives_for_what_is_gone(removed: str) -> None:
    removes = we(4, "RemoveInfo", 5, "true", objectId=removed)
    answer = broker(5, "Response", correlationId=5)
    assert not judged(CONSUMES, dispatched(3), removes, answer, dispatched(900))
    assert judged(CONSUMES, removes, answer, dispatched(1200)) == [REMOVED]
    refused = broker(5, "ExceptionResponse", correlationId=5)
    assert not judged(CONSUMES, removes, refused, dispatched(1200))
    again = we(6, "ConsumerInfo", 6, consumerId="ID:c:1:7")
    assert not judged(
        CONSUMES,
        we(4, "RemoveInfo", 5, "true", objectId="ID:c:1:7"),
        answer,
        again,
        dispatched(1200),
    )
    assert judged(CONSUMES, dispatched(3, "ID:c:1:8")) == [REMOVED]


def test_the_removal_of_a_producer_concerns_no_consumer_of_its_name() -> None:
    producer = we(2, "ProducerInfo", 4, producerId="ID:c:1:7")
    removes = we(4, "RemoveInfo", 5, "true", objectId="ID:c:1:7")
    answer = broker(5, "Response", correlationId=5)
    assert not judged(CONSUMES, producer, removes, answer, dispatched(1200))


def test_a_connection_survives_a_failed_command() -> None:
    failed = broker(3, "ExceptionResponse", correlationId=2)
    assert judged(ASKS, failed, ENDED) == [STAYS_OPEN]
    assert not judged(ASKS, failed, ENDED, undisturbed=False)
    assert not judged(ASKS, failed, we(4, "ShutdownInfo"), ENDED)
    assert not judged(we(0, "WireFormatInfo", MaxInactivityDuration=500), ASKS, failed, ENDED)
    opens = we(0, "ConnectionInfo", 1, connectionId="ID:c")
    leaves = we(4, "RemoveInfo", 9, "true", objectId="ID:c")
    gone = broker(5, "Response", correlationId=9)
    assert not judged(opens, ASKS, failed, leaves, gone, ENDED)


def test_producers_without_a_window_get_no_acknowledgement() -> None:
    producer = we(2, "ProducerInfo", 4, producerId="ID:c:1:1", windowSize=0)
    taken = broker(3, "ProducerAck", producerId="ID:c:1:1", size=1024)
    assert judged(producer, taken) == [SURPLUS]
