"""The AMQP oracles on traces made by hand: what is right passes, and every kind of violation is seen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from harness.oracles import amqp_credit, amqp_deliveries, amqp_liveness, amqp_windows
from harness.oracles.amqp_trace import Granted, Side, ahead
from harness.trace.events import (
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    Noted,
)
from harness.verdicts.finding import Finding, combine
from harness.words import CloseHow, Seen, ms

Oracle = Callable[..., list[Finding]]
LAST = 2**32 - 1


def said(kind: type[FrameSent] | type[FrameReceived], name: str, at: int, fields: dict[str, Any]) -> Event:
    texts = {
        key.replace("_", "-"): str(value).lower() if isinstance(value, bool) else str(value)
        for key, value in fields.items()
    }
    size = int(texts.pop("size", "40"))
    headers = (("channel", texts.pop("channel", "0")), *texts.items())
    return kind(at_ns=ms(at), conn=1, protocol="AMQP", command=name, headers=headers, size=size)


def we(name: str, at: int = 0, /, **fields: Any) -> Event:
    return said(FrameSent, name, at, fields)


def broker(name: str, at: int = 0, /, **fields: Any) -> Event:
    return said(FrameReceived, name, at, fields)


def opened(**ours: Any) -> list[Event]:
    return [we("open", container_id="a", **ours), broker("open", container_id="b")]


def begun(*, window: int = 100, ours: int = 0, theirs: int = 0) -> list[Event]:
    return [
        *opened(),
        we("begin", next_outgoing_id=ours, incoming_window=window, outgoing_window=9),
        broker("begin", remote_channel=0, next_outgoing_id=theirs, incoming_window=window, outgoing_window=9),
    ]


def receiving(initial: int = 0, *, window: int = 100, theirs: int = 0) -> list[Event]:
    """The broker sends to us on handle 0 (ours and its own)."""
    return [
        *begun(window=window, theirs=theirs),
        we("attach", name="l", handle=0, role="receiver"),
        broker("attach", name="l", handle=0, role="sender", initial_delivery_count=initial),
    ]


def grant(credit: int, count: int | None = 0, **fields: Any) -> Event:
    told = {} if count is None else {"delivery_count": count}
    flow = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 9}
    return we("flow", **{**flow, "handle": 0, "link_credit": credit, **told, **fields})


def answer(**fields: Any) -> Event:
    flow = {"next_incoming_id": 0, "incoming_window": 100, "next_outgoing_id": 0, "outgoing_window": 9}
    return broker("flow", **{**flow, **fields})


def delivery(number: int, **fields: Any) -> Event:
    first = {"delivery_id": number, "delivery_tag": f"0x{number:08x}", "message_format": 0}
    return broker("transfer", **{"handle": 0, **first, **fields})


def outcome(oracle: Oracle, events: Sequence[Event], side: Side = Side.BROKER, **more: Any) -> dict[str, Seen]:
    return {each.requirement: each.seen for each in combine(oracle(events, 1, side, **more))}


def violations(oracle: Oracle, events: Sequence[Event], side: Side = Side.BROKER, **more: Any) -> set[str]:
    return {each for each, seen in outcome(oracle, events, side, **more).items() if seen is Seen.VIOLATED}


def mirrored(events: Sequence[Event]) -> list[Event]:
    """The same conversation with the sides exchanged."""
    turned: list[Event] = []
    for each in events:
        if isinstance(each, (FrameSent, FrameReceived)):
            kind = FrameReceived if isinstance(each, FrameSent) else FrameSent
            turned.append(
                kind(
                    at_ns=each.at_ns,
                    conn=each.conn,
                    protocol=each.protocol,
                    command=each.command,
                    headers=each.headers,
                    size=each.size,
                )
            )
        else:
            turned.append(each)
    return turned


# --- serial numbers and grants ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "of", "expected"), [(5, 3, 2), (3, 5, -2), (1, LAST, 2), (LAST, 1, -2), (7, 7, 0)])
def test_ahead_runs_over_the_end(number: int, of: int, expected: int) -> None:
    assert ahead(number, of) == expected


def test_a_grant_that_was_taken_back_holds_until_the_other_side_surely_knows() -> None:
    granted = Granted(0, crossing=True)
    granted.grant(1, 10)
    granted.grant(5, 2)
    assert granted.room(4) == 6
    granted.known(6)  # position 5 was read
    assert granted.room(4) == -2


def test_at_the_side_that_uses_it_a_grant_holds_at_once() -> None:
    granted = Granted(0, crossing=False)
    granted.grant(1, 10)
    granted.grant(5, 2)
    assert granted.room(4) == -2


# --- credit ----------------------------------------------------------------------------------------------------------


def test_deliveries_within_the_credit_hold() -> None:
    events = [*receiving(), grant(2), delivery(0), delivery(1)]
    assert outcome(amqp_credit.credit, events) == {amqp_credit.NOT_WITHOUT: Seen.HELD}


def test_no_delivery_is_no_evidence() -> None:
    assert outcome(amqp_credit.credit, receiving()) == {amqp_credit.NOT_WITHOUT: Seen.NEVER_REACHED}


@pytest.mark.parametrize("initial", [0, LAST, LAST - 1, 2**31 - 1])
def test_one_delivery_too_many_is_seen_wherever_the_count_began(initial: int) -> None:
    enough = [*receiving(initial), grant(2, initial), delivery(0), delivery(1)]
    assert not violations(amqp_credit.credit, enough)
    assert violations(amqp_credit.credit, [*enough, delivery(2)]) == {amqp_credit.NOT_WITHOUT}


def test_credit_counts_deliveries_and_not_frames() -> None:
    parts = [delivery(0, more=True), broker("transfer", handle=0, more=True), broker("transfer", handle=0)]
    assert not violations(amqp_credit.credit, [*receiving(), grant(1), *parts])
    assert violations(amqp_credit.credit, [*receiving(), grant(1), *parts, delivery(1)])


def test_an_aborted_delivery_is_over_whatever_it_says_of_more() -> None:
    events = [*receiving(), grant(1), delivery(0, more=True), broker("transfer", handle=0, more=True, aborted=True)]
    assert violations(amqp_credit.credit, [*events, delivery(1)]) == {amqp_credit.NOT_WITHOUT}


def test_a_delivery_before_any_credit_is_seen() -> None:
    expected = {amqp_credit.FIRST, amqp_credit.NOT_WITHOUT}
    assert violations(amqp_credit.credit, [*receiving(), delivery(0)]) == expected


def test_a_flow_without_delivery_count_counts_from_the_initial_one() -> None:
    events = [*receiving(7), grant(1, None), delivery(0)]
    assert not violations(amqp_credit.credit, events)
    assert violations(amqp_credit.credit, [*events, delivery(1)])


def test_what_crossed_a_withdrawal_is_not_held_against_the_broker() -> None:
    events = [*receiving(), grant(5), grant(0), delivery(0), delivery(1)]
    assert not violations(amqp_credit.credit, events)


def test_after_a_barrier_the_withdrawal_holds() -> None:
    barrier = [
        we("begin", channel=1, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        broker("begin", channel=1, remote_channel=1, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
    ]
    events = [*receiving(), grant(5), grant(0), *barrier, delivery(0)]
    assert violations(amqp_credit.credit, events) == {amqp_credit.NOT_WITHOUT}


def test_our_own_side_is_judged_by_what_had_arrived() -> None:
    events = mirrored([*receiving(), grant(5), grant(1), delivery(0)])
    assert not violations(amqp_credit.credit, events, Side.OURS)
    assert violations(amqp_credit.credit, [*events, *mirrored([delivery(1)])], Side.OURS) == {amqp_credit.NOT_WITHOUT}


def test_links_of_one_name_in_both_directions_are_two() -> None:
    both = [
        *receiving(),
        we("attach", name="l", handle=1, role="sender", initial_delivery_count=0),
        broker("attach", name="l", handle=1, role="receiver"),
        grant(1),
    ]
    assert not violations(amqp_credit.credit, [*both, delivery(0)])
    ours = [*both, we("transfer", handle=1, delivery_id=0)]
    assert violations(amqp_credit.credit, ours, Side.OURS) == {amqp_credit.FIRST, amqp_credit.NOT_WITHOUT}
    assert outcome(amqp_credit.credit, ours) == {amqp_credit.NOT_WITHOUT: Seen.NEVER_REACHED}


# --- what a sender's flow tells --------------------------------------------------------------------------------------


def told(count: int, left: int, **fields: Any) -> Event:
    return answer(handle=0, delivery_count=count, link_credit=left, **fields)


def test_a_truthful_flow_holds() -> None:
    expected = {amqp_credit.COUNT: Seen.HELD, amqp_credit.FORMULA: Seen.HELD}
    assert outcome(amqp_credit.counts, [*receiving(), grant(5), delivery(0), told(1, 4)]) == expected


@pytest.mark.parametrize(
    ("flow", "requirement"),
    [
        (told(0, 4), amqp_credit.COUNT),
        (told(2, 3), amqp_credit.COUNT),
        (told(6, 0), amqp_credit.COUNT),
        (answer(handle=0, link_credit=4), amqp_credit.COUNT),
        (told(1, 5), amqp_credit.FORMULA),
    ],
    ids=["behind", "ahead without a drain", "beyond the limit", "no delivery-count", "too much credit"],
)
def test_an_untruthful_flow_is_seen(flow: Event, requirement: str) -> None:
    assert violations(amqp_credit.counts, [*receiving(), grant(5), delivery(0), flow]) == {requirement}


def test_a_flow_beyond_the_limit_is_seen_in_a_drain_too() -> None:
    events = [*receiving(), grant(5, drain=True)]
    assert not violations(amqp_credit.counts, [*events, told(5, 0)])
    assert violations(amqp_credit.counts, [*events, told(6, 0)]) == {amqp_credit.COUNT}


# --- drain -----------------------------------------------------------------------------------------------------------


def test_a_drain_is_answered_by_giving_back_or_by_using_up() -> None:
    held = {amqp_credit.DRAIN: Seen.HELD}
    assert outcome(amqp_credit.drains, [*receiving(), grant(3, drain=True), told(3, 0)]) == held
    assert outcome(amqp_credit.drains, [*receiving(), grant(2, drain=True), delivery(0), delivery(1)]) == held
    assert outcome(amqp_credit.drains, [*receiving(LAST), grant(3, LAST, drain=True), delivery(0), told(2, 0)]) == held


@pytest.mark.parametrize(
    "after", [[], [delivery(0)], [told(2, 1)], [told(0, 3)]], ids=["nothing", "one of three", "short", "not advanced"]
)
def test_a_drain_without_its_answer_is_seen(after: list[Event]) -> None:
    assert violations(amqp_credit.drains, [*receiving(), grant(3, drain=True), *after]) == {amqp_credit.DRAIN}


def test_a_drain_that_is_taken_back_or_cut_off_asks_for_nothing() -> None:
    never = {amqp_credit.DRAIN: Seen.NEVER_REACHED}
    start = [*receiving(), grant(3, drain=True)]
    assert outcome(amqp_credit.drains, [*start, grant(3, drain=False)]) == never
    assert outcome(amqp_credit.drains, [*start, broker("detach", handle=0)]) == never
    assert outcome(amqp_credit.drains, [*start, ConnectionClosed(at_ns=1, conn=1, how=CloseHow.EOF)]) == never


# --- windows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", [0, LAST, LAST - 1])
def test_transfers_beyond_the_window_of_begin_are_seen(start: int) -> None:
    events = [
        *receiving(window=2, theirs=start),
        grant(9, incoming_window=2, next_incoming_id=start),
        delivery(0),
        delivery(1),
    ]
    assert outcome(amqp_windows.windows, events) == {amqp_windows.RESPECTED: Seen.HELD}
    assert violations(amqp_windows.windows, [*events, delivery(2)]) == {amqp_windows.RESPECTED}


def test_every_frame_of_a_delivery_takes_one_of_the_window() -> None:
    parts = [delivery(0, more=True), broker("transfer", handle=0, more=True), broker("transfer", handle=0)]
    events = [*receiving(window=2), grant(9, incoming_window=2), *parts]
    assert violations(amqp_windows.windows, events) == {amqp_windows.RESPECTED}


def test_a_flow_opens_the_window_again() -> None:
    events = [*receiving(window=1), grant(9, incoming_window=1), delivery(0)]
    more = grant(9, 1, next_incoming_id=1, incoming_window=1)
    assert not violations(amqp_windows.windows, [*events, more, delivery(1)])
    assert violations(amqp_windows.windows, [*events, more, delivery(1), delivery(2)]) == {amqp_windows.RESPECTED}


def test_a_flow_without_next_incoming_id_counts_from_the_begin() -> None:
    flow = we(
        "flow", incoming_window=1, next_outgoing_id=0, outgoing_window=9, handle=0, link_credit=9, delivery_count=0
    )
    events = [*receiving(window=0, theirs=40), flow, delivery(0)]
    assert not violations(amqp_windows.windows, events)
    assert violations(amqp_windows.windows, [*events, delivery(1)]) == {amqp_windows.RESPECTED}


def test_a_window_that_shrank_on_the_way_is_not_held_against_the_broker() -> None:
    events = [*receiving(window=5), grant(9, incoming_window=5), grant(9, incoming_window=0), delivery(0)]
    assert not violations(amqp_windows.windows, events)


def test_flows_that_tell_the_ids_as_they_are_hold() -> None:
    events = [*receiving(), grant(9), delivery(0), answer(next_outgoing_id=1)]
    expected = dict.fromkeys((amqp_windows.PRESENT, amqp_windows.OUTGOING, amqp_windows.INCOMING), Seen.HELD)
    assert outcome(amqp_windows.ids, events) == expected


@pytest.mark.parametrize(
    ("flows", "requirement"),
    [
        ([answer(next_outgoing_id=0)], amqp_windows.OUTGOING),
        ([answer(next_outgoing_id=2)], amqp_windows.OUTGOING),
        ([answer(next_outgoing_id=1, next_incoming_id=1)], amqp_windows.INCOMING),
        (
            [answer(next_outgoing_id=1, next_incoming_id=0), answer(next_outgoing_id=1, next_incoming_id=LAST)],
            amqp_windows.INCOMING,
        ),
        ([broker("flow", next_incoming_id=0, next_outgoing_id=1, outgoing_window=1)], amqp_windows.PRESENT),
        ([broker("flow", incoming_window=1, next_outgoing_id=1, outgoing_window=1)], amqp_windows.WHEN_BEGUN),
    ],
    ids=["outgoing behind", "outgoing ahead", "incoming ahead", "incoming falls", "no window", "no next-incoming-id"],
)
def test_flows_that_tell_ids_otherwise_are_seen(flows: list[Event], requirement: str) -> None:
    assert violations(amqp_windows.ids, [*receiving(), grant(9), delivery(0), *flows]) == {requirement}


def test_a_next_incoming_id_before_the_others_begin_is_seen() -> None:
    events = [
        *opened(),
        broker("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        answer(next_incoming_id=0),
    ]
    assert violations(amqp_windows.ids, events) == {amqp_windows.WHEN_BEGUN}


# --- deliveries ------------------------------------------------------------------------------------------------------


def test_deliveries_named_well_hold() -> None:
    events = [*receiving(), delivery(LAST), delivery(0, more=True), broker("transfer", handle=0, delivery_id=0)]
    found = outcome(amqp_deliveries.delivery_ids, events)
    assert set(found.values()) == {Seen.HELD}
    assert amqp_deliveries.SAME_ID in found
    assert amqp_deliveries.IN_ORDER in found


@pytest.mark.parametrize(
    ("transfers", "requirement"),
    [
        ([broker("transfer", handle=0, delivery_tag="0x01", message_format=0)], amqp_deliveries.HAS_ID),
        ([broker("transfer", handle=0, delivery_id=0, message_format=0)], amqp_deliveries.HAS_TAG),
        ([broker("transfer", handle=0, delivery_id=0, delivery_tag="0x01")], amqp_deliveries.HAS_FORMAT),
        ([delivery(0, delivery_tag="0x" + "00" * 33)], amqp_deliveries.TAG_LENGTH),
        ([delivery(0, delivery_tag="0x01"), delivery(1, delivery_tag="0x01")], amqp_deliveries.OWN_TAG),
        ([delivery(0, more=True), broker("transfer", handle=0, delivery_id=1)], amqp_deliveries.SAME_ID),
        ([delivery(0), delivery(2)], amqp_deliveries.IN_ORDER),
        ([delivery(1), delivery(0)], amqp_deliveries.IN_ORDER),
        ([delivery(1), delivery(1, delivery_tag="0x09")], amqp_deliveries.IN_ORDER),
    ],
    ids=["no id", "no tag", "no format", "long tag", "tag twice", "other id", "a gap", "backwards", "twice"],
)
def test_deliveries_named_badly_are_seen(transfers: list[Event], requirement: str) -> None:
    assert violations(amqp_deliveries.delivery_ids, [*receiving(), *transfers]) == {requirement}


def test_a_tag_may_come_again_once_both_sides_settled() -> None:
    ours = we("disposition", role="receiver", first=0, settled=True, state="accepted()")
    theirs = broker("disposition", role="sender", first=0, settled=True, state="accepted()")
    again = delivery(1, delivery_tag="0x00000000")
    assert not violations(amqp_deliveries.delivery_ids, [*receiving(), delivery(0), ours, theirs, again])
    assert not violations(amqp_deliveries.delivery_ids, [*receiving(), delivery(0, settled=True), again])
    assert violations(amqp_deliveries.delivery_ids, [*receiving(), delivery(0), again]) == {amqp_deliveries.OWN_TAG}


# --- settlement ------------------------------------------------------------------------------------------------------


def sending(count: int, first: int = 0) -> list[Event]:
    """We have sent ``count`` deliveries to the broker."""
    numbers = [(first + each) % 2**32 for each in range(count)]
    return mirrored([*receiving(), grant(count), *(delivery(each) for each in numbers)])


def settled(first: int, last: int | None = None, state: str = "accepted()", **fields: Any) -> Event:
    span = {} if last is None else {"last": last}
    return broker(
        "disposition", **{"role": "receiver", "first": first, **span, "settled": True, "state": state, **fields}
    )


def test_settling_each_once_holds() -> None:
    found = outcome(amqp_deliveries.settlement, [*sending(3, LAST), settled(LAST, 0), settled(1)])
    assert found == {amqp_deliveries.DIRECTION: Seen.HELD, amqp_deliveries.ONCE: Seen.HELD}


def test_a_state_first_and_settling_later_holds() -> None:
    events = [*sending(1), settled(0, settled=False), settled(0)]
    assert not violations(amqp_deliveries.settlement, events)


@pytest.mark.parametrize(
    ("dispositions", "requirement"),
    [
        ([settled(7)], amqp_deliveries.DIRECTION),
        ([settled(0, role="sender")], amqp_deliveries.DIRECTION),
        ([settled(0), settled(0)], amqp_deliveries.ONCE),
        ([settled(0, settled=False), settled(0, state="rejected()")], amqp_deliveries.TERMINAL),
    ],
    ids=["unknown", "wrong direction", "twice", "another outcome"],
)
def test_settling_wrongly_is_seen(dispositions: list[Event], requirement: str) -> None:
    assert requirement in violations(amqp_deliveries.settlement, [*sending(2), *dispositions])


def test_no_disposition_is_no_evidence() -> None:
    assert outcome(amqp_deliveries.settlement, sending(1)) == {amqp_deliveries.ONCE: Seen.NEVER_REACHED}


# --- idle time-out ---------------------------------------------------------------------------------------------------


def beats(*instants: int) -> list[Event]:
    return [HeartBeatReceived(at_ns=ms(at), conn=1, protocol="AMQP", size=8) for at in instants]


def trace_until(at: int) -> Event:
    return Noted(at_ns=ms(at), detail="the end")


def test_signs_of_life_in_time_hold() -> None:
    events = [*opened(idle_time_out=1000), *beats(500, 1500), broker("flow", 2400), trace_until(3400)]
    assert outcome(amqp_liveness.idle, events) == {amqp_liveness.SILENCE: Seen.HELD}


@pytest.mark.parametrize(
    "events",
    [[*beats(500, 1501)], [*beats(900, 1900)], [], [we("flow", 500), we("flow", 1500)]],
    ids=["one late", "none at the end", "none at all", "only ours"],
)
def test_silence_is_seen(events: list[Event]) -> None:
    trace = [*opened(idle_time_out=1000), *events, trace_until(2901)]
    assert violations(amqp_liveness.idle, trace) == {amqp_liveness.SILENCE}
    assert not violations(amqp_liveness.idle, trace, slack=ms(2000))


@pytest.mark.parametrize("asked", [{}, {"idle_time_out": 0}], ids=["absent", "0"])
def test_nobody_asked_for_signs_of_life(asked: dict[str, int]) -> None:
    events = [*opened(**asked), trace_until(99_999)]
    assert outcome(amqp_liveness.idle, events) == {amqp_liveness.SILENCE: Seen.NEVER_REACHED}


def test_silence_after_the_end_is_none() -> None:
    ended = ConnectionClosed(at_ns=ms(900), conn=1, how=CloseHow.EOF)
    assert not violations(amqp_liveness.idle, [*opened(idle_time_out=1000), ended, trace_until(9000)])
    closed = broker("close", 900)
    assert not violations(amqp_liveness.idle, [*opened(idle_time_out=1000), closed, trace_until(9000)])


# --- what comes first and last, and limits ---------------------------------------------------------------------------


def test_open_first_and_close_last_hold() -> None:
    events = [broker("protocol-header", id=0), *opened(), *beats(1), broker("close", 2)]
    assert set(outcome(amqp_liveness.order, events).values()) == {Seen.HELD}


@pytest.mark.parametrize(
    ("events", "requirement"),
    [
        ([broker("begin", next_outgoing_id=0)], amqp_liveness.FIRST),
        ([*beats(0), broker("open")], amqp_liveness.NO_BEAT_BEFORE),
        ([broker("open"), broker("close"), broker("flow")], amqp_liveness.LAST),
        ([broker("open"), broker("close"), *beats(3)], amqp_liveness.NO_BEAT_AFTER),
    ],
    ids=["begin first", "a beat first", "flow last", "a beat last"],
)
def test_a_wrong_order_is_seen(events: list[Event], requirement: str) -> None:
    assert violations(amqp_liveness.order, events) == {requirement}


def test_our_own_beats_are_not_the_brokers() -> None:
    events = [HeartBeatSent(at_ns=0, conn=1, protocol="AMQP", size=8), *opened()]
    assert not violations(amqp_liveness.order, events)
    assert violations(amqp_liveness.order, events, Side.OURS) == {amqp_liveness.NO_BEAT_BEFORE}


def limited(**begin: Any) -> list[Event]:
    return [
        *opened(max_frame_size=600, channel_max=1),
        we("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1, **begin),
        broker("begin", remote_channel=0, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
    ]


@pytest.mark.parametrize(
    ("event", "requirement"),
    [
        (broker("flow", size=601), amqp_liveness.FRAME_SIZE),
        (broker("flow", channel=2), amqp_liveness.CHANNEL),
        (broker("attach", name="l", handle=8, role="sender"), amqp_liveness.HANDLE),
    ],
    ids=["size", "channel", "handle"],
)
def test_limits_that_are_passed_are_seen(event: Event, requirement: str) -> None:
    assert violations(amqp_liveness.limits, [*limited(handle_max=7), event]) == {requirement}


@pytest.mark.parametrize(
    "event",
    [broker("flow", size=600), broker("flow", channel=1), broker("attach", name="l", handle=7, role="sender")],
    ids=["size", "channel", "handle"],
)
def test_limits_that_are_reached_hold(event: Event) -> None:
    assert not violations(amqp_liveness.limits, [*limited(handle_max=7), event])


def test_other_connections_are_none_of_ours() -> None:
    events = [*receiving(), delivery(0)]
    assert amqp_credit.credit(events, 2) == [
        Finding(amqp_credit.NOT_WITHOUT, Seen.NEVER_REACHED, "no delivery was sent")
    ]
