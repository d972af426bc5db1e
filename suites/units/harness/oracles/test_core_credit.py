"""The oracles of CORE's credit in bytes, on handmade traces: correct traces pass, and each single
fault is found."""

import itertools
from dataclasses import replace

import pytest

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import core_credit
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.harness.trace.events import Event, FrameReceived
from brokerproof.suites.units.drivers import frames

_count = itertools.count()
SENT = {"create-consumer", "consumer-credits", "force-delivery", "request-producer-credits", "send"}


def event(command: str, size: int = 0, **headers: object) -> Event:
    """A packet of connection 1, channel 10; its name decides whether it is sent or received."""
    made = frames.sent if command in SENT else frames.received
    fields = frames.dashed({"channel": 10} | headers)
    return made(command, fields, at_ns=next(_count), protocol="CORE", size=size)


def credit(credits: int, consumer: int = 0) -> Event:
    return event("consumer-credits", consumer=consumer, credits=credits)


def message(size: int, consumer: int = 0) -> Event:
    return event("receive", size, consumer=consumer, message=1)


def ask(sequence: int) -> Event:
    return event("force-delivery", consumer=0, sequence=sequence)


def answer(sequence: int) -> Event:
    forced = event("receive", 166, consumer=0)
    assert isinstance(forced, FrameReceived)
    return replace(forced, headers=(*forced.headers, (FORCED, str(sequence))))


def worst(found: list[Finding]) -> Seen:
    return max(
        (finding.seen for finding in found),
        key=[Seen.NEVER_REACHED, Seen.HELD, Seen.VIOLATED].index,
    )


SOUND = {
    "one byte is enough for one message": [credit(1), message(500)],
    "what was overdrawn is paid back": [credit(1), message(500), credit(500), message(500)],
    "two begin": [credit(501), message(500), message(500)],
    "without limit": [credit(-1), *(message(10_000) for _ in range(5))],
    "without limit for good": [credit(-1), credit(0), ask(1), answer(1), message(1)],
    "each consumer has its own": [credit(1, 0), credit(1, 1), message(9, 1), message(9, 0)],
    "under way when it was taken away": [credit(1), credit(0), ask(1), message(9), answer(1)],
    "given again behind that": [credit(5), credit(0), ask(1), credit(1), answer(1), message(9)],
    "a new consumer of the same number": [
        credit(-1),
        event("create-consumer", consumer=0),
        credit(1),
        message(9),
    ],
    "what was overdrawn is forgiven by 0": [
        credit(1),
        message(500),
        credit(0),
        credit(1),
        message(9),
    ],
    "an answer costs nothing": [credit(1), ask(1), answer(1), message(9)],
}
WRONG = {
    "no credit": [message(9)],
    "no credit left": [credit(500), message(500), message(500)],
    "overdrawn": [credit(1), message(500), credit(499), message(1)],
    "forgiven is not given": [credit(1), message(500), credit(0), message(9)],
    "somebody else's": [credit(1, 1), message(9, 0)],
    "taken away before": [credit(1), credit(0), ask(1), answer(1), message(9)],
    "only what was given behind that": [
        credit(9),
        credit(0),
        ask(1),
        credit(1),
        answer(1),
        message(9),
        message(9),
    ],
    "the one before was without limit": [
        credit(-1),
        event("create-consumer", consumer=0),
        message(9),
    ],
}


@pytest.mark.parametrize("name", SOUND)
def test_what_is_sound_holds(name: str) -> None:
    assert worst(core_credit.consumers(SOUND[name], 1)) is Seen.HELD


@pytest.mark.parametrize("name", WRONG)
def test_a_message_without_credit_is_found(name: str) -> None:
    assert worst(core_credit.consumers(WRONG[name], 1)) is Seen.VIOLATED


def test_nothing_delivered_proves_nothing() -> None:
    assert worst(core_credit.consumers([credit(1)], 1)) is Seen.NEVER_REACHED
    assert worst(core_credit.consumers([message(9)], 2)) is Seen.NEVER_REACHED


def grant(credits: int, address: str = "q") -> Event:
    return event("producer-credits", credits=credits, address=address)


def request(credits: int, address: str = "q") -> Event:
    return event("request-producer-credits", credits=credits, address=address)


@pytest.mark.parametrize(
    ("events", "seen"),
    [
        ([request(5), grant(5)], Seen.HELD),
        ([request(5), grant(2), grant(3)], Seen.HELD),
        ([request(5), request(5), grant(10)], Seen.HELD),
        ([request(5), grant(6)], Seen.VIOLATED),
        ([request(5), grant(5), grant(1)], Seen.VIOLATED),
        ([request(5), grant(5, "other")], Seen.VIOLATED),
        ([request(5)], Seen.NEVER_REACHED),
    ],
)
def test_no_more_is_granted_than_was_asked_for(events: list[Event], seen: Seen) -> None:
    assert worst(core_credit.producers(events, 1)) is seen


def test_how_far_a_producer_overdrew() -> None:
    send = event("send", cost=300, address="q")
    assert core_credit.overdrawn([request(500), grant(500), send], 1) == 0
    assert core_credit.overdrawn([request(500), grant(500), send, send], 1) == 100
    assert core_credit.overdrawn([send], 1) == 300
