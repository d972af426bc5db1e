"""Judgements from captured packets: faults are found, and missing packets never cause a false
report."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.enums import Vantage
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.facts import Key, Sent
from brokerproof.reports.judging import amqp
from brokerproof.suites.units.drivers.captured_packets import (
    GROUND,
    PLANS,
    QUIET,
    Plan,
    Segment,
    Wire,
    amqp091_session,
    amqp_session,
    core_session,
    frame,
    frames,
    read,
    session,
    surely,
    without,
)


def test_a_session_is_told_as_its_client_would_have_recorded_it() -> None:
    events = read(session(Plan(count=1)).segments)
    consumer = [event for event in events if event.conn == 2]
    assert [(type(event).__name__, getattr(event, "command", "")) for event in consumer] == [
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
    (connect,) = [event for event in read(wire.segments) if isinstance(event, ev.FrameSent)]
    assert connect.at_ns == last.at > begin


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
    return (
        f"message {number} of producer 7 was confirmed but never delivered,"
        " although a later one of its producer was"
    )


def test_faults_are_found_in_whole_captures() -> None:
    kinds = {
        "lost": Plan(lose=1),
        "revived": Plan(double=1),
        "overrun": Plan(overrun=True),
        "silent": Plan(silent=True),
    }
    for kind, plan in kinds.items():
        assert {kind_ for kind_, _ in surely(read(session(plan).segments))} == {kind}
    assert not surely(read(session(Plan()).segments))


def asked_earlier(segments: Sequence[Segment]) -> list[Segment]:
    """Return the packets as captured 20 ms away from the broker."""
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
    assert {(anomaly.kind, anomaly.uncertain) for anomaly in found} == {("silent", True)}
    again = recorded_anomalies.find_anomalies(
        read(asked_earlier(session(Plan(double=1)).segments)), GROUND
    )
    assert {(anomaly.kind, anomaly.uncertain) for anomaly in again} == {("revived", False)}


def test_what_came_before_a_loss_is_judged_and_what_came_after_is_uncertain() -> None:
    segments = session(Plan(count=6, double=1)).segments
    late = [at for at, segment in enumerate(segments) if b"message-id:5-0" in segment.data]
    early = [at for at, segment in enumerate(segments) if b"message-id:0-0" in segment.data]
    assert {kind for kind, _ in surely(read(without(segments, set(late))))} == {"revived"}
    found = read(without(segments, set(early)))
    assert not surely(found)
    assert {anomaly.kind for anomaly in recorded_anomalies.find_anomalies(found, GROUND)} >= {
        "revived"
    }


def test_without_every_connection_a_message_that_never_came_is_uncertain() -> None:
    events = read(session(Plan(lose=1)).segments)
    (wrong,) = recorded_anomalies.find_anomalies(events, GROUND, whole=False)
    assert (wrong.kind, wrong.uncertain) == ("lost", True)


# --- AMQP 1.0 -------------------------------------------------------------------------------------


def of_amqp(events: Sequence[ev.Event]) -> set[tuple[str, str]]:
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
    transfers = [at for at, segment in enumerate(segments) if b"\x00\x53\x14" in segment.data]
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
                "3 deliveries are unacknowledged; the prefetch allows 2",
                "4 deliveries are unacknowledged; the prefetch allows 2",
            },
        ),
        ({"again": True}, {"a delivery has the tag 1 again"}),
        ({"silent": True}, {"longest silence: 10812 ms; expected at most 1000 ms"}),
    ],
)
def test_faults_of_amqp_0_9_1_are_found(faults: dict[str, bool], wrong: set[str]) -> None:
    events = read(amqp091_session(**faults).segments)
    assert {what for _, what in of_amqp(events)} == wrong
    expected = {"AMQP091"}
    assert {event.protocol for event in events if isinstance(event, ev.FrameReceived)} == expected


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
    assert {event.protocol for event in told} == {"CORE"}
    expected = ["magic", "create-session", "create-session-response"]
    assert [frame.command for frame in told][:3] == expected
    assert sum(isinstance(event, ev.HeartBeatReceived) for event in events) == 3
    (sent,) = (fact for fact in recorded_anomalies.facts(events) if isinstance(fact, Sent))
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
