"""Captured packets become the trace that a live recording would have had, whatever happened to them
on the way to the file."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.enums import CloseHow, Vantage
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import connection_lifetimes, recording
from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.facts import Key, Sent
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.reports.judging import amqp
from brokerproof.suites.units.drivers.captured import (
    COOKED,
    COOKED2,
    LOOPBACK,
    RAW,
    Plan,
    Segment,
    Wire,
    amqp091_session,
    amqp_session,
    core_session,
    events_of,
    frame,
    pcap,
    pcapng,
    renumbered,
    session,
    without,
    written,
)

GROUND = Expectations("artemis", {"consumer-window-size": "octets"}, 10_240, 2.0, 2000, queues=True)
QUIET = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large]
)
PLANS = st.builds(
    Plan,
    count=st.integers(1, 7),
    size=st.sampled_from([0, 40, 300]),
    lose=st.none() | st.integers(0, 5),
    double=st.none() | st.integers(0, 5),
    overrun=st.booleans(),
    silent=st.booleans(),
)


def read(segments: Sequence[Segment], snap: int = 65535) -> list[ev.Event]:
    """The events of packets in this order."""
    with TemporaryDirectory() as folder:
        return events_of(written(Path(folder) / "x.pcap", segments, snap=snap))


def surely(events: Sequence[ev.Event]) -> set[tuple[str, str]]:
    """What a broker is accused of without a doubt."""
    found = [*recording.find_anomalies(events, GROUND)]
    for life in connection_lifetimes.lifetimes(events).values():
        found += connection_lifetimes.find_anomalies(life, GROUND)
    return {(each.kind, each.what) for each in found if not each.uncertain}


def frames(events: Sequence[ev.Event]) -> list[tuple[int | None, str, bool, int]]:
    """Frames and beats by connection, in order."""
    told = [
        (
            event.conn,
            getattr(event, "command", "beat"),
            isinstance(event, (ev.FrameSent, ev.HeartBeatSent)),
            event.size,
        )
        for event in events
        if isinstance(
            event, (ev.FrameSent, ev.FrameReceived, ev.HeartBeatSent, ev.HeartBeatReceived)
        )
    ]
    return sorted(told, key=lambda each: each[0] or 0)


def test_a_session_is_told_as_its_client_would_have_recorded_it() -> None:
    events = read(session(Plan(count=1)).segments)
    consumer = [event for event in events if event.conn == 2]
    assert [(type(each).__name__, getattr(each, "command", "")) for each in consumer] == [
        ("ConnectionOpened", ""),
        ("FrameSent", "CONNECT"),
        ("FrameReceived", "CONNECTED"),
        ("FrameSent", "SUBSCRIBE"),
        ("FrameReceived", "RECEIPT"),
        ("FrameReceived", "MESSAGE"),
        ("FrameSent", "ACK"),
        ("FrameReceived", "RECEIPT"),
        ("FrameSent", "UNSUBSCRIBE"),
        ("FrameReceived", "RECEIPT"),
        ("FrameSent", "DISCONNECT"),
        ("FrameReceived", "RECEIPT"),
        ("ConnectionAbandoned", ""),
    ]
    subscribe, message = consumer[3], consumer[5]
    assert isinstance(subscribe, ev.FrameSent)
    assert isinstance(message, ev.FrameReceived)
    assert dict(subscribe.headers)["destination"] == "/queue/a:b", "headers are unescaped"
    assert message.body_size == 326
    assert {event.vantage for event in events} == {Vantage.CAPTURE}
    opened = consumer[0]
    assert isinstance(opened, ev.ConnectionOpened)
    assert (opened.acceptor, opened.remote) == ("10.0.0.1:61613", "10.0.0.2:40002")


def test_instants_are_those_of_the_packet_that_completed_a_frame() -> None:
    wire = Wire(most=10)
    line = wire.line(40001)
    line.open()
    begin = wire.now
    line.client(frame("CONNECT", {"host": "h"}))
    last = wire.segments[-2]
    (connect,) = [each for each in read(wire.segments) if isinstance(each, ev.FrameSent)]
    assert connect.at_ns == last.at > begin


@pytest.mark.parametrize("link", [COOKED, COOKED2, LOOPBACK, RAW])
def test_every_link_layer_tells_the_same(tmp_path: Path, link: int) -> None:
    segments = session(Plan()).segments
    usual = events_of(written(tmp_path / "usual.pcap", segments))
    assert events_of(written(tmp_path / "other.pcap", segments, link=link)) == usual


def test_tags_compression_and_pcapng_tell_the_same(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    usual = events_of(written(tmp_path / "usual.pcap", segments))
    (tmp_path / "tagged.pcap").write_bytes(
        pcap([(segment.at, segment.octets(tag=True)) for segment in segments])
    )
    (tmp_path / "small.pcap.gz").write_bytes(gzip.compress((tmp_path / "usual.pcap").read_bytes()))
    assert events_of(tmp_path / "tagged.pcap") == events_of(tmp_path / "small.pcap.gz") == usual
    # Microseconds as a floating point number are what dpkt writes.
    (tmp_path / "new.pcapng").write_bytes(
        pcapng([(segment.at, segment.octets()) for segment in segments])
    )
    again = events_of(tmp_path / "new.pcapng")
    assert frames(again) == frames(usual)
    assert max(abs(one.at_ns - other.at_ns) for one, other in zip(again, usual, strict=True)) < ms(
        1
    )


def test_a_connection_goes_on_in_the_next_file(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    whole = events_of(written(tmp_path / "whole.pcap", segments))
    parts = [
        written(tmp_path / f"{at}.pcap", segments[at::3][:0] or segments[at * 20 : at * 20 + 20])
        for at in range(9)
    ]
    assert events_of(*parts[::-1]) == whole


def test_over_ipv6_and_with_extension_headers(tmp_path: Path) -> None:
    def moved(each: Segment) -> Segment:
        return replace(
            each,
            source=(b"\xfd" + bytes(11) + each.source[0], each.source[1]),
            target=(b"\xfd" + bytes(11) + each.target[0], each.target[1]),
        )

    segments = [moved(segment) for segment in session(Plan()).segments]
    six = events_of(written(tmp_path / "six.pcap", segments))
    assert frames(six) == frames(read(session(Plan()).segments))
    extended = []
    for each in segments:
        octets = each.octets()
        # A hop-by-hop header of eight octets that pads.
        head, rest = octets[:54], octets[54:]
        size = int.from_bytes(head[18:20]) + 8
        extended.append(
            (
                each.at,
                head[:18]
                + size.to_bytes(2)
                + b"\x00"
                + head[21:]
                + b"\x06\x00\x01\x04"
                + bytes(4)
                + rest,
            )
        )
    (tmp_path / "extended.pcap").write_bytes(pcap(extended))
    assert events_of(tmp_path / "extended.pcap") == six


def test_fragments_are_put_together(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    packets = []
    for number, each in enumerate(segments):
        octets = each.octets()
        link, head, rest = octets[:14], octets[14:34], octets[34:]
        if len(rest) <= 64:
            packets.append((each.at, octets))
            continue
        for offset in range(0, len(rest), 64):
            part = rest[offset : offset + 64]
            flag = 0x2000 if offset + 64 < len(rest) else 0
            packets.append(
                (
                    each.at,
                    link + head[:2] + (20 + len(part)).to_bytes(2) + number.to_bytes(2)
                    + (flag | offset // 8).to_bytes(2) + head[8:] + part,
                )
            )  # fmt: skip
    (tmp_path / "x.pcap").write_bytes(pcap(packets))
    assert events_of(tmp_path / "x.pcap") == read(segments)


# --- what the network and the capture do ----------------------------------------------------------


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
    # The file's order is within what a capture of several processors does.
    mixed.sort(key=lambda each: each.at + ms(random.randint(0, 40)))  # type: ignore[attr-defined]
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
    # How far the broker is, an answer that overtook its question does not tell.
    assert {each.command for each in crooked if isinstance(each, ev.OctetsReceivedUnseen)} <= {
        "FAR"
    }
    assert not any(isinstance(each, ev.OctetsSentUnseen) for each in crooked)


@pytest.mark.parametrize("first", [2**32 - 5, 2**32 - 400, 2**31 - 100, 0])
def test_sequence_numbers_wrap(first: int) -> None:
    segments = session(Plan()).segments
    assert read(renumbered(segments, first - 1000)) == read(segments)


@given(PLANS, st.sampled_from([48, 1448]), st.sets(st.integers(0, 250), max_size=12), st.booleans())
@settings(QUIET, max_examples=30)
def test_what_was_not_captured_accuses_nobody(
    plan: Plan, most: int, lost: set[int], in_a_row: bool
) -> None:
    segments = session(plan, Wire(most=most)).segments
    if in_a_row and lost:
        lost = set(range(min(lost), min(lost) + len(lost)))
    seen = read(without(segments, lost))
    assert surely(seen) <= surely(read(segments))


@given(PLANS, st.integers(0, 250), st.integers(0, 250))
@settings(QUIET, max_examples=20)
def test_a_capture_of_a_part_accuses_nobody(plan: Plan, begin: int, length: int) -> None:
    segments = session(plan, Wire(most=100)).segments
    assert surely(read(segments[begin : begin + length])) <= surely(read(segments))


@given(PLANS, st.integers(60, 400))
@settings(QUIET, max_examples=15)
def test_packets_cut_short_accuse_nobody(plan: Plan, snap: int) -> None:
    segments = session(plan).segments
    assert surely(read(segments, snap)) <= surely(read(segments))


def test_a_body_that_was_cut_off_hides_nothing_else() -> None:
    segments = session(Plan(size=900, lose=2)).segments
    whole, cut = read(segments), read(segments, snap=400)
    assert frames(cut) == frames(whole)
    assert surely(cut) == surely(whole) == {("lost", recording_text(2))}


def recording_text(number: int) -> str:
    """The words about a message that was lost."""
    return (
        f"message {number} of producer 7 was confirmed and never delivered, and a later one of its"
        " producer was"
    )


def test_faults_are_found_in_whole_captures() -> None:
    kinds = {
        "lost": Plan(lose=1),
        "revived": Plan(double=1),
        "overrun": Plan(overrun=True),
        "silent": Plan(silent=True),
    }
    for kind, plan in kinds.items():
        assert {each for each, _ in surely(read(session(plan).segments))} == {kind}
    assert not surely(read(session(Plan()).segments))


def asked_earlier(segments: Sequence[Segment]) -> list[Segment]:
    """The packets as they pass 20 ms away from the broker."""
    return [
        replace(segment, at=segment.at - ms(20)) if segment.flags == 2 else segment
        for segment in segments
    ]


def test_a_silence_that_may_be_the_networks_is_uncertain() -> None:
    silent = session(Plan(silent=True)).segments
    assert {kind for kind, _ in surely(read(silent))} == {"silent"}
    events = read(asked_earlier(silent))
    assert not surely(events)
    found = [
        anomaly
        for life in connection_lifetimes.lifetimes(events).values()
        for anomaly in connection_lifetimes.find_anomalies(life, GROUND)
    ]
    assert {(each.kind, each.uncertain) for each in found} == {("silent", True)}
    again = recording.find_anomalies(read(asked_earlier(session(Plan(double=1)).segments)), GROUND)
    assert {(each.kind, each.uncertain) for each in again} == {("revived", False)}


def test_what_came_before_a_loss_is_judged_and_what_came_after_is_uncertain() -> None:
    segments = session(Plan(count=6, double=1)).segments
    late = [at for at, each in enumerate(segments) if b"message-id:5-0" in each.data]
    early = [at for at, each in enumerate(segments) if b"message-id:0-0" in each.data]
    assert {kind for kind, _ in surely(read(without(segments, set(late))))} == {"revived"}
    found = read(without(segments, set(early)))
    assert not surely(found)
    assert {anomaly.kind for anomaly in recording.find_anomalies(found, GROUND)} >= {"revived"}


def test_a_loss_is_told_with_its_size_and_what_follows_is_read() -> None:
    segments = session(Plan(count=6)).segments
    (at,) = [at for at, each in enumerate(segments) if b"message-id:3-0" in each.data]
    events = read(without(segments, {at}))
    (lost,) = [event for event in events if isinstance(event, ev.OctetsReceivedUnseen)]
    assert (lost.size, lost.command, lost.conn) == (len(segments[at].data), "LOST", 2)
    assert [dict(message.headers).get("message-id") for message in messages(events)] == [
        "0-0",
        "1-0",
        "2-0",
        "4-0",
        "5-0",
    ]


def messages(events: Sequence[ev.Event]) -> list[ev.FrameReceived]:
    """The MESSAGEs."""
    return [
        event
        for event in events
        if isinstance(event, ev.FrameReceived) and event.command == "MESSAGE"
    ]


def test_without_every_connection_a_message_that_never_came_is_uncertain() -> None:
    events = read(session(Plan(lose=1)).segments)
    (wrong,) = recording.find_anomalies(events, GROUND, whole=False)
    assert (wrong.kind, wrong.uncertain) == ("lost", True)


# --- the edges of TCP -----------------------------------------------------------------------------


def opened() -> tuple[Wire, object]:
    """A connection on which CONNECT and CONNECTED have passed."""
    wire = Wire()
    line = wire.line(40001)
    line.open()
    line.client(frame("CONNECT", {"host": "h"}))
    line.broker(frame("CONNECTED", {"version": "1.2"}))
    return wire, line


def ends(events: Sequence[ev.Event]) -> list[tuple[str, CloseHow]]:
    """How connections ended."""
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
    assert [each for each in read(wire.segments) if not type(each).__name__.endswith("Unseen")] == [
        each for each in usual if not type(each).__name__.endswith("Unseen")
    ]


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
        each if at < 30 else replace(each, at=each.at - 3600 * 10**9)
        for at, each in enumerate(segments)
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


# --- what is no capture ---------------------------------------------------------------------------


def test_what_is_no_capture_is_refused_in_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "x.pcap").write_bytes(b"hello")
    with pytest.raises(UnreadableTrace, match=r"x\.pcap: neither pcap nor pcapng"):
        events_of(tmp_path / "x.pcap")


def test_a_file_that_was_cut_off_is_read_as_far_as_it_goes(tmp_path: Path) -> None:
    segments = session(Plan()).segments
    octets = written(tmp_path / "x.pcap", segments).read_bytes()
    (tmp_path / "x.pcap").write_bytes(octets[:-10])
    assert frames(events_of(tmp_path / "x.pcap")) == frames(read(segments))
    (tmp_path / "x.pcap").write_bytes(octets[:30])
    assert events_of(tmp_path / "x.pcap") == []


# --- AMQP 1.0 -------------------------------------------------------------------------------------


def of_amqp(events: Sequence[ev.Event]) -> set[tuple[str, str]]:
    """What a broker is accused of without a doubt on the only connection."""
    return {
        (wrong.kind, wrong.what)
        for wrong, _ in amqp.connection_anomalies(events, 1)
        if not wrong.uncertain
    }


@pytest.mark.parametrize(
    ("faults", "kinds"),
    [({}, set()), ({"over": True}, {"over the credit"}), ({"silent": True}, {"silent"})],
)
def test_faults_of_amqp_are_found(faults: dict[str, bool], kinds: set[str]) -> None:
    events = read(amqp_session(**faults).segments)
    assert {kind for kind, _ in of_amqp(events)} == kinds
    assert {event.protocol for event in events if isinstance(event, ev.FrameReceived)} == {"AMQP"}
    assert not kinds or not of_amqp(read(asked_earlier(amqp_session(silent=True).segments)))


@given(st.booleans(), st.booleans(), st.sets(st.integers(0, 60), max_size=6), st.integers(0, 40))
@settings(QUIET, max_examples=30)
def test_what_was_not_captured_of_amqp_accuses_nobody(
    over: bool, silent: bool, lost: set[int], begin: int
) -> None:
    segments = amqp_session(over=over, silent=silent).segments
    whole = of_amqp(read(segments))
    assert of_amqp(read(without(segments, lost))) <= whole
    assert of_amqp(read(segments[begin:])) <= whole


def test_amqp_is_read_on_behind_a_loss() -> None:
    segments = amqp_session().segments
    transfers = [at for at, each in enumerate(segments) if b"\x00\x53\x14" in each.data]
    events = read(without(segments, {transfers[1]}))
    names = [event.command for event in events if isinstance(event, ev.FrameReceived)]
    assert names.count("transfer") == 2
    assert names[-1] == "close"
    (gap,) = [event for event in events if isinstance(event, ev.OctetsReceivedUnseen)]
    assert (gap.command, gap.size) == ("LOST", len(segments[transfers[1]].data))


# --- AMQP 0-9-1 -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "wrong"),
    [
        ({}, set()),
        (
            {"over": True},
            {
                "3 deliveries wait, of 2 that the prefetch allows",
                "4 deliveries wait, of 2 that the prefetch allows",
            },
        ),
        ({"again": True}, {"a delivery has the tag 1"}),
        ({"silent": True}, {"its longest silence was 10812 ms, of 1000 allowed"}),
    ],
)
def test_faults_of_amqp_0_9_1_are_found(faults: dict[str, bool], wrong: set[str]) -> None:
    events = read(amqp091_session(**faults).segments)
    assert {what for _, what in of_amqp(events)} == wrong
    assert {event.protocol for event in events if isinstance(event, ev.FrameReceived)} == {
        "AMQP091"
    }


@given(st.booleans(), st.booleans(), st.sets(st.integers(0, 60), max_size=6), st.integers(0, 40))
@settings(QUIET, max_examples=20)
def test_what_was_not_captured_of_amqp_0_9_1_accuses_nobody(
    over: bool, silent: bool, lost: set[int], begin: int
) -> None:
    segments = amqp091_session(over=over, silent=silent).segments
    whole = of_amqp(read(segments))
    assert of_amqp(read(without(segments, lost))) <= whole
    assert of_amqp(read(segments[begin:])) <= whole


# --- CORE -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("faults", "kinds"),
    [({}, set()), ({"over": True}, {"over the credit"}), ({"unasked": True}, {"granted unasked"})],
)
def test_faults_of_core_are_found(faults: dict[str, bool], kinds: set[str]) -> None:
    events = read(core_session(**faults).segments)
    assert {kind for kind, _ in of_amqp(events)} == kinds
    told = [event for event in events if isinstance(event, (ev.FrameSent, ev.FrameReceived))]
    assert {each.protocol for each in told} == {"CORE"}
    assert [each.command for each in told][:3] == [
        "magic",
        "create-session",
        "create-session-response",
    ]
    assert sum(isinstance(event, ev.HeartBeatReceived) for event in events) == 3
    (sent,) = (fact for fact in recording.facts(events) if isinstance(fact, Sent))
    assert (sent.key, sent.confirmed) == (Key(1, 0), True)


@given(st.booleans(), st.booleans(), st.sets(st.integers(0, 40), max_size=5), st.integers(0, 25))
@settings(QUIET, max_examples=20)
def test_what_was_not_captured_of_core_accuses_nobody(
    over: bool, unasked: bool, lost: set[int], begin: int
) -> None:
    segments = core_session(over=over, unasked=unasked).segments
    whole = of_amqp(read(segments))
    assert of_amqp(read(without(segments, lost))) <= whole
    assert of_amqp(read(segments[begin:])) <= whole


def test_core_is_recognised_from_the_middle() -> None:
    events = read(core_session().segments[10:])
    assert {event.command for event in events if isinstance(event, ev.FrameReceived)} >= {"receive"}
    assert any(
        isinstance(event, ev.OctetsReceivedUnseen) and event.command == "BEGUN" for event in events
    )
