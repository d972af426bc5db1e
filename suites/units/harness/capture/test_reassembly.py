"""Streams reassembled from repeated, reordered and lost segments; resets, keep-alives and reused
ports."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.trace import events as ev
from brokerproof.suites.units.drivers.captured_packets import (
    PLANS,
    QUIET,
    Plan,
    Segment,
    Wire,
    frame,
    frames,
    read,
    renumbered,
    session,
    surely,
    without,
)


@given(PLANS, st.sampled_from([48, 1448]), st.randoms(use_true_random=False))
@settings(QUIET, max_examples=15)
def test_order_in_the_file_and_packets_that_come_twice_change_nothing(
    plan: Plan, most: int, random: object
) -> None:
    segments = session(plan, Wire(most=most)).segments
    mixed = [*segments]
    for segment in segments:
        if random.random() < 0.3:  # type: ignore[attr-defined]
            mixed.append(replace(segment, at=segment.at + ms(random.randint(1, 500))))  # type: ignore[attr-defined]
    # The order may differ as much as in a capture by several processors.
    mixed.sort(key=lambda segment: segment.at + ms(random.randint(0, 40)))  # type: ignore[attr-defined]
    assert read(mixed) == read(segments)


@given(PLANS, st.lists(st.integers(0, 400), max_size=30))
@settings(QUIET, max_examples=15)
def test_packets_that_overtake_others_change_no_frame(plan: Plan, swaps: list[int]) -> None:
    segments = [*session(plan, Wire(most=48)).segments]
    for at in swaps:
        if at + 1 < len(segments):
            one, other = segments[at], segments[at + 1]
            segments[at], segments[at + 1] = replace(other, at=one.at), replace(one, at=other.at)
    straight, crooked = read(session(plan, Wire(most=48)).segments), read(segments)
    assert Counter(frames(crooked)) == Counter(frames(straight))
    # An answer that overtook its question does not show how far the broker has read.
    assert {event.command for event in crooked if isinstance(event, ev.OctetsReceivedUnseen)} <= {
        "FAR"
    }
    assert not any(isinstance(event, ev.OctetsSentUnseen) for event in crooked)


@pytest.mark.parametrize("first", [2**32 - 5, 2**32 - 400, 2**31 - 100, 0])
def test_sequence_numbers_wrap(first: int) -> None:
    segments = session(Plan()).segments
    assert read(renumbered(segments, first - 1000)) == read(segments)


def test_a_loss_is_told_with_its_size_and_what_follows_is_read() -> None:
    segments = session(Plan(count=6)).segments
    (at,) = [at for at, segment in enumerate(segments) if b"message-id:3-0" in segment.data]
    events = read(without(segments, {at}))
    (lost,) = [event for event in events if isinstance(event, ev.OctetsReceivedUnseen)]
    assert (lost.size, lost.command, lost.conn) == (len(segments[at].data), "LOST", 2)
    expected = ["0-0", "1-0", "2-0", "4-0", "5-0"]
    assert [dict(message.headers).get("message-id") for message in messages(events)] == expected


def messages(events: Sequence[ev.Event]) -> list[ev.FrameReceived]:
    return [
        event
        for event in events
        if isinstance(event, ev.FrameReceived) and event.command == "MESSAGE"
    ]


def opened() -> tuple[Wire, object]:
    wire = Wire()
    line = wire.line(40001)
    line.open()
    line.client(frame("CONNECT", {"host": "h"}))
    line.broker(frame("CONNECTED", {"version": "1.2"}))
    return wire, line


def ends(events: Sequence[ev.Event]) -> list[tuple[str, CloseHow]]:
    return [
        (type(event).__name__, event.how)
        for event in events
        if isinstance(event, (ev.ConnectionClosed, ev.ConnectionAbandoned))
    ]


@pytest.mark.parametrize(("side", "kind"), [(0, "ConnectionAbandoned"), (1, "ConnectionClosed")])
def test_a_reset_is_told_from_an_end_of_stream(side: int, kind: str) -> None:
    wire, line = opened()
    line.reset(side)  # type: ignore[attr-defined]
    assert ends(read(wire.segments)) == [(kind, CloseHow.RESET)]
    wire, line = opened()
    line.close()  # type: ignore[attr-defined]
    assert ends(read(wire.segments)) == [("ConnectionAbandoned", CloseHow.EOF)]


def test_keep_alives_of_tcp_are_no_signs_of_life() -> None:
    wire, line = opened()
    usual = read(wire.segments)
    numbers = line.numbers  # type: ignore[attr-defined]
    for size in (0, 1):
        probe = Segment(
            wire.now, line.here, line.there, numbers[0] - 1, numbers[1], 16, b"\x00" * size
        )  # type: ignore[attr-defined]
        wire.segments.append(probe)
    found = [event for event in read(wire.segments) if not type(event).__name__.endswith("Unseen")]
    assert found == [event for event in usual if not type(event).__name__.endswith("Unseen")]


def test_a_port_that_is_used_again_is_another_connection() -> None:
    wire = Wire()
    for first in (1000, 900_000):
        wire.first = first
        line = wire.line(40001)
        line.open()
        line.client(frame("CONNECT", {"host": "h"}))
        line.broker(frame("CONNECTED", {"version": "1.2"}))
        line.close()
    events = read(wire.segments)
    assert [event.conn for event in events if isinstance(event, ev.ConnectionOpened)] == [1, 2]
    assert len(ends(events)) == 2


def test_a_clock_that_was_set_back_leaves_no_interval_sure() -> None:
    segments = session(Plan(silent=True)).segments
    set_back = [
        segment if at < 30 else replace(segment, at=segment.at - 3600 * 10**9)
        for at, segment in enumerate(segments)
    ]
    events = read(set_back)
    assert not surely(events)
    assert {event.command for event in events if isinstance(event, ev.OctetsReceivedUnseen)} == {
        "CLOCK"
    }
    assert frames(events) == frames(read(segments))


def test_half_a_capture_in_one_direction_only() -> None:
    segments = [segment for segment in session(Plan()).segments if segment.source[1] == 61613]
    events = read(segments)
    assert [
        event.command for event in events if isinstance(event, ev.FrameReceived) and event.conn == 2
    ][:2] == ["CONNECTED", "RECEIPT"]
    assert not surely(events)
