"""Allowed and forbidden frames after the last answer on an AMQP 0-9-1 connection."""

from typing import Any

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import amqp091_aftermath
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsSent,
)


def frame(
    kind: type[FrameSent] | type[FrameReceived], at: int, command: str, channel: int, **fields: Any
) -> Event:
    texts = tuple((name.replace("_", "-"), str(value).lower()) for name, value in fields.items())
    headers = (("channel", str(channel)), *texts)
    return kind(at_ns=ms(at), conn=1, protocol="AMQP091", command=command, headers=headers)


def we(at: int, command: str, channel: int = 1, **fields: Any) -> Event:
    return frame(FrameSent, at, command, channel, **fields)


def broker(at: int, command: str, channel: int = 1, **fields: Any) -> Event:
    return frame(FrameReceived, at, command, channel, **fields)


def beat(at: int, *, ours: bool = False) -> Event:
    kind = HeartBeatSent if ours else HeartBeatReceived
    return kind(at_ns=ms(at), conn=1, protocol="AMQP091", size=8)


def opened(heartbeat: int = 0) -> list[Event]:
    return [
        we(0, "connection.tune-ok", 0, heartbeat=heartbeat),
        broker(1, "connection.open-ok", 0),
        we(2, "channel.open"),
        broker(3, "channel.open-ok"),
    ]


def judged(*events: Event, until: int = 9000, undisturbed: bool = True) -> list[str]:
    linger = Linger(ms(10), ms(until), ms(1000), 0, undisturbed=undisturbed)
    return [finding.requirement for finding in amqp091_aftermath.judge(events, 1, linger)]


CONSUMED = [
    we(4, "basic.consume", consumer_tag="c"),
    broker(5, "basic.consume-ok", consumer_tag="c"),
]
DELIVERED = broker(8, "basic.deliver", consumer_tag="c", delivery_tag=1)
CANCELLED = [
    we(6, "basic.cancel", consumer_tag="c"),
    broker(7, "basic.cancel-ok", consumer_tag="c"),
]
CONFIRMING = [
    we(4, "confirm.select"),
    broker(5, "confirm.select-ok"),
    we(6, "basic.publish"),
    we(6, "basic.publish"),
]
REFUSED = broker(6, "channel.close", reply_code=404)
BYE = we(6, "connection.close", 0)
END = ConnectionClosed(at_ns=ms(2500), conn=1, how=CloseHow.EOF)
LEFT = ConnectionAbandoned(at_ns=ms(4), conn=1, how=CloseHow.EOF)
RAW = OctetsSent(at_ns=ms(4), conn=1, data=b"?", size=1)


def confirm(tag: int, *, multiple: bool = False, command: str = "basic.ack") -> Event:
    return broker(7, command, delivery_tag=tag, multiple=multiple)


@pytest.mark.parametrize(
    "events",
    [
        [*opened(), BYE, broker(7, "connection.close-ok", 0), END],
        [*opened(), broker(7, "connection.close", 0, reply_code=501), END],
        [*opened(), LEFT, END],
        [*opened(), RAW, END],
        [*opened(), we(2400, "basic.ack"), END],
        [*opened(1), END],
        [*opened(1), beat(1500, ours=True), END],
        [*opened(1), *(beat(at) for at in range(500, 9000, 500))],
        [*opened(), *CONSUMED, DELIVERED, *CANCELLED],
        [*opened(), *CONSUMED, *CANCELLED, *CONSUMED, DELIVERED],
        [*opened(), we(4, "basic.consume", consumer_tag="c", no_wait=True), DELIVERED],
        [*opened(), *CONSUMED, we(6, "basic.cancel", consumer_tag="c", no_wait=True), DELIVERED],
        [*opened(), REFUSED, we(7, "channel.close-ok"), *opened()[2:], *CONSUMED, DELIVERED],
        [*opened(), REFUSED, broker(7, "basic.qos-ok", 2)],
        [*opened(), we(5, "channel.close"), REFUSED, broker(7, "channel.close-ok")],
        [*opened(), *CONFIRMING, confirm(2), confirm(1, command="basic.nack")],
        [*opened(), *CONFIRMING, confirm(1), confirm(2, multiple=True)],
    ],
    ids=lambda events: ", ".join(getattr(event, "command", "") or "-" for event in events[4:]),
)
def test_an_honest_broker_is_not_accused(events: list[Event]) -> None:
    assert judged(*events) == []


@pytest.mark.parametrize(
    ("events", "requirement"),
    [
        ([*opened(), REFUSED, broker(7, "basic.qos-ok")], amqp091_aftermath.CHANNEL_ENDED),
        (
            [*opened(), we(5, "channel.close"), broker(6, "channel.close-ok"), confirm(1)],
            amqp091_aftermath.BEHIND_CLOSE,
        ),
        (
            [*opened(), broker(6, "connection.close", 0), broker(7, "basic.qos-ok")],
            amqp091_aftermath.BEHIND_CLOSE,
        ),
        ([*opened(), *CONSUMED, *CANCELLED, DELIVERED], amqp091_aftermath.CANCELLED),
        ([*opened(), DELIVERED, *CONSUMED], amqp091_aftermath.CONSUMING),
        ([*opened(), *CONFIRMING, confirm(1), confirm(1)], amqp091_aftermath.CONFIRMED_ONCE),
        ([*opened(), *CONFIRMING, confirm(3)], amqp091_aftermath.CONFIRMED_ONCE),
        (
            [*opened(), *CONFIRMING, confirm(2, multiple=True), confirm(2, multiple=True)],
            amqp091_aftermath.CONFIRMED_ONCE,
        ),
        ([*opened(), beat(5)], amqp091_aftermath.NO_HEARTBEATS),
        ([*opened(), END], amqp091_aftermath.NO_HEARTBEATS),
        ([*opened(60), END], amqp091_aftermath.CLIENT_SPEAKS),
        ([*opened(2), beat(1500, ours=True), END], amqp091_aftermath.CLIENT_SPEAKS),
        ([*opened(1), beat(7000)], "AMQP091-HB-02"),
        ([*opened(), BYE, END], amqp091_aftermath.CLOSE_ANSWERED),
        ([*opened(), BYE], amqp091_aftermath.CLOSE_ANSWERED),
        ([*opened(), we(5, "channel.close")], amqp091_aftermath.CHANNEL_CLOSE_ANSWERED),
        ([*opened(), *CONSUMED, DELIVERED, DELIVERED], "AMQP091-TAG-01"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_breaks_a_rule_is_seen(events: list[Event], requirement: str) -> None:
    assert judged(*events) == [requirement]


@pytest.mark.parametrize(
    ("heartbeat", "event"), [(60, END), (1, beat(7000)), (0, we(5, "channel.close"))]
)
def test_ends_and_silence_are_judged_on_an_undisturbed_link_alone(
    heartbeat: int, event: Event
) -> None:
    assert len(judged(*opened(heartbeat), event)) == 1
    assert judged(*opened(heartbeat), event, undisturbed=False) == []


def test_raw_bytes_may_be_any_frame() -> None:
    assert judged(*opened(), RAW, *CONSUMED, DELIVERED, DELIVERED, beat(5)) == []
    behind = [REFUSED, broker(7, "basic.qos-ok")]
    assert judged(*opened(), RAW, *behind) == [amqp091_aftermath.CHANNEL_ENDED]


def test_the_interval_is_what_tune_ok_says() -> None:
    assert amqp091_aftermath.intervals(opened(7), 1) == (ms(7000), ms(7000))
    assert amqp091_aftermath.intervals(opened(), 1) == (0, 0)
