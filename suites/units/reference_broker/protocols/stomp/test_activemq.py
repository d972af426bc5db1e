"""STOMP on an ActiveMQ-like broker: errors that do not close, prefetch, NACK, heartbeats,
destinations."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.families.activemq.inactivity import InactivityMonitor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.suites.units.drivers.activemq import (
    ack,
    broker,
    configured,
    errors,
    messages,
    policy,
    receipts,
    send,
    settings,
    subscribe,
    sync,
)
from brokerproof.suites.units.drivers.broker import Driver, only, patient


def connected(
    heart_beat: str | None, grace: float = 1.0, version: str = "1.2"
) -> tuple[Driver, str]:
    about = settings(configured())
    stomp, *others = about.acceptors
    driver = Driver(
        replace(about, acceptors=(with_parameters(stomp, stomp_heart_beat_grace=grace), *others))
    )
    driver.open(1)
    header = "" if heart_beat is None else f"heart-beat:{heart_beat}\n"
    return driver, only(
        driver.feed(1, f"CONNECT\naccept-version:{version}\nhost:h\n{header}\n\0"), 1
    )["heart-beat"]


def lenient() -> Driver:
    about = settings(configured())
    stomp, *others = about.acceptors
    driver = Driver(
        replace(about, acceptors=(with_parameters(stomp, stomp_errors_close=False), *others))
    )
    driver.connect(1)
    return driver


def closed_at(driver: Driver, until: int) -> int | None:
    """Return the instant at which the session ends, in milliseconds; None if it does not end."""
    while not driver.closed and (due := driver.broker.next_deadline()) is not None and due <= until:
        driver.at(due)
    return driver.now // ms(1) if driver.closed else None


@pytest.mark.parametrize(
    "wrong",
    [
        "SEND\n\nm\0",
        "SEND\ndestination:nowhere\n\nm\0",
        "ACK\nid:none\n\n\0",
        "COMMIT\ntransaction:none\n\n\0",
        "SUBSCRIBE\nid:1\n\n\0",
    ],
)
def test_an_error_ends_the_session_unless_that_is_switched_off(wrong: str) -> None:
    assert errors(broker(configured()).feed(1, wrong + sync(8))) == [None]
    driver = lenient()
    effects = driver.feed(1, wrong.replace("\n", "\nreceipt:7\n", 1) + wrong + sync(8))
    assert (errors(effects), receipts(effects), driver.closed) == (["7", None], [8], [])


@pytest.mark.parametrize(
    ("to", "durable", "prefetch"),
    [("/queue/Q", "", 3), ("/topic/T", "", 5), ("/topic/T", "activemq.subscriptionName:s\n", 4)],
)
def test_a_subscription_gets_as_many_messages_as_its_prefetch(
    to: str, durable: str, prefetch: int
) -> None:
    entries = [
        policy(name, queue_prefetch=3, topic_prefetch=5, durable_topic_prefetch=4)
        for name in ("queue://Q", "topic://T")
    ]
    driver = Driver(settings(configured(*entries))).connected(1)
    driver.connect(2, headers="client-id:c\n")
    driver.feed(2, subscribe(to, headers=durable))
    got = messages(driver.feed(1, "".join(send(str(number), to) for number in range(9))), 2)
    assert len(got) == prefetch
    assert len(messages(driver.feed(2, ack(got[1])), 2)) == 1, (
        "one was acknowledged, whatever its size"
    )


def test_a_subscription_may_ask_for_another_prefetch() -> None:
    driver = broker(configured(), 3)
    driver.feed(1, "".join(send(str(number)) for number in range(5)))
    assert len(messages(driver.feed(2, subscribe(headers="activemq.prefetchSize:2\n")), 2)) == 2
    assert len(messages(driver.feed(3, subscribe(headers="activemq.prefetchSize:0\n")), 3)) == 0
    assert errors(driver.feed(3, subscribe(id="1", headers="activemq.prefetchSize:-1\n")), 3) == [
        None
    ]


@pytest.mark.parametrize("version", ["1.0", "1.2"])
@pytest.mark.parametrize(
    ("offer", "answer"),
    [
        (None, "0,0"),
        ("0,0", "0,0"),
        ("1,2", "2,1"),
        ("-5,-5", "0,0"),
        ("1000,-1", "0,1000"),
        ("0,20000", "20000,0"),
    ],
)
def test_intervals_come_back_the_other_way_round(
    offer: str | None, answer: str, version: str
) -> None:
    assert connected(offer, version=version)[1] == answer


def test_nobody_waits_for_ever_for_a_first_frame() -> None:
    driver = Driver(settings(configured()))
    driver.open(1)
    assert closed_at(driver, ms(60_000)) == 30_000


@patient
@given(
    st.integers(1, 50),
    st.integers(0, 50),
    st.lists(st.tuples(st.integers(0, 120), st.booleans()), max_size=12),
)
def test_looks_are_computed_as_they_would_be_walked(
    every: int, first: int, heard: list[tuple[int, bool]]
) -> None:
    monitor = InactivityMonitor(0, 1, 0, 0)
    monitor.agreed(0, every, first)
    monitor.last_heard = 0
    # Simulates the broker: each check looks for bytes since the last check, else for a frame since
    # the flag was cleared, else closes.
    events, now = [(0, True)], 0
    end = None
    for gap, is_frame in heard:
        now += gap
        events.append((now, is_frame))
    seen, flag, at = -1, True, first
    told = 0
    while end is None:
        new = [event for event in events if seen < event[0] <= at]
        if new:
            flag = flag or any(is_frame for _, is_frame in new)
        elif flag:
            flag = False
        else:
            end = at
        seen, at = at, at + every
    for instant, is_frame in events[1:]:
        if instant >= end:
            break
        monitor.on_bytes_received(instant, b"x" if is_frame else b"\n")
        told = instant
    assert told <= end
    assert monitor.deadline() == end
