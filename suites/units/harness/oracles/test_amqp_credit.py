"""The AMQP oracle of link credit, on handmade traces: correct traces pass, and every violation is
found."""

from typing import Any

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp_credit
from brokerproof.harness.protocols.amqp10.fact_reader import Granted, Side, ahead
from brokerproof.harness.trace.events import ConnectionClosed, Event
from brokerproof.suites.units.drivers.amqp_traces import (
    LAST,
    answer,
    broker,
    delivery,
    grant,
    mirrored,
    outcome,
    receiving,
    violations,
    we,
)


@pytest.mark.parametrize(
    ("number", "of", "expected"), [(5, 3, 2), (3, 5, -2), (1, LAST, 2), (LAST, 1, -2), (7, 7, 0)]
)
def test_ahead_runs_over_the_end(number: int, of: int, expected: int) -> None:
    assert ahead(number, of) == expected


def test_a_grant_that_was_taken_back_holds_until_the_other_side_surely_knows() -> None:
    granted = Granted(0, crossing=True)
    granted.grant(1, 10)
    granted.grant(5, 2)
    assert granted.room(4) == 6
    granted.known(6)  # position 5 has been read
    assert granted.room(4) == -2


def test_at_the_side_that_uses_it_a_grant_holds_at_once() -> None:
    granted = Granted(0, crossing=False)
    granted.grant(1, 10)
    granted.grant(5, 2)
    assert granted.room(4) == -2


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
    parts = [
        delivery(0, more=True),
        broker("transfer", handle=0, more=True),
        broker("transfer", handle=0),
    ]
    assert not violations(amqp_credit.credit, [*receiving(), grant(1), *parts])
    assert violations(amqp_credit.credit, [*receiving(), grant(1), *parts, delivery(1)])


def test_an_aborted_delivery_is_over_whatever_it_says_of_more() -> None:
    events = [
        *receiving(),
        grant(1),
        delivery(0, more=True),
        broker("transfer", handle=0, more=True, aborted=True),
    ]
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


def test_behind_an_answer_of_its_session_the_withdrawal_holds() -> None:
    barrier = [
        we("attach", name="m", handle=1, role="receiver"),
        broker("attach", name="m", handle=1, role="sender", initial_delivery_count=0),
    ]
    events = [*receiving(), grant(5), grant(0), *barrier, delivery(0)]
    assert violations(amqp_credit.credit, events) == {amqp_credit.NOT_WITHOUT}


def test_an_answer_of_another_session_says_nothing_of_a_withdrawal() -> None:
    answer = [
        we("begin", channel=1, next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        broker(
            "begin",
            channel=1,
            remote_channel=1,
            next_outgoing_id=0,
            incoming_window=1,
            outgoing_window=1,
        ),
    ]
    events = [*receiving(), grant(5), grant(0), *answer, delivery(0)]
    assert not violations(amqp_credit.credit, events)


def test_our_own_side_is_judged_by_what_had_arrived() -> None:
    events = mirrored([*receiving(), grant(5), grant(1), delivery(0)])
    assert not violations(amqp_credit.credit, events, Side.OURS)
    assert violations(amqp_credit.credit, [*events, *mirrored([delivery(1)])], Side.OURS) == {
        amqp_credit.NOT_WITHOUT
    }


def test_links_of_one_name_in_both_directions_are_two() -> None:
    both = [
        *receiving(),
        we("attach", name="l", handle=1, role="sender", initial_delivery_count=0),
        broker("attach", name="l", handle=1, role="receiver"),
        grant(1),
    ]
    assert not violations(amqp_credit.credit, [*both, delivery(0)])
    ours = [*both, we("transfer", handle=1, delivery_id=0)]
    assert violations(amqp_credit.credit, ours, Side.OURS) == {
        amqp_credit.FIRST,
        amqp_credit.NOT_WITHOUT,
    }
    assert outcome(amqp_credit.credit, ours) == {amqp_credit.NOT_WITHOUT: Seen.NEVER_REACHED}


def told(count: int, left: int, **fields: Any) -> Event:
    return answer(handle=0, delivery_count=count, link_credit=left, **fields)


def test_a_truthful_flow_holds() -> None:
    expected = {amqp_credit.COUNT: Seen.HELD, amqp_credit.FORMULA: Seen.HELD}
    found = outcome(amqp_credit.counts, [*receiving(), grant(5), delivery(0), told(1, 4)])
    assert found == expected


@pytest.mark.parametrize(
    ("flow", "requirement"),
    [
        (told(0, 4), amqp_credit.COUNT),
        (told(2, 3), amqp_credit.COUNT),
        (told(6, 0), amqp_credit.COUNT),
        (answer(handle=0, link_credit=4), amqp_credit.COUNT),
        (told(1, 5), amqp_credit.FORMULA),
    ],
    ids=[
        "behind",
        "ahead without a drain",
        "beyond the limit",
        "no delivery-count",
        "too much credit",
    ],
)
def test_an_untruthful_flow_is_seen(flow: Event, requirement: str) -> None:
    expected = {requirement}
    assert violations(amqp_credit.counts, [*receiving(), grant(5), delivery(0), flow]) == expected


def test_a_delivery_counts_from_its_first_transfer_or_from_its_last() -> None:
    events = [*receiving(), grant(5), delivery(0), delivery(1, more=True)]
    assert not violations(amqp_credit.counts, [*events, told(1, 4)])
    assert not violations(amqp_credit.counts, [*events, told(2, 3)])
    assert violations(amqp_credit.counts, [*events, told(0, 5)]) == {amqp_credit.COUNT}


def test_from_a_count_that_the_sender_never_had_no_credit_is_derived() -> None:
    for stated in (2**31 - 1, 2**31, LAST - 5):
        events = [*receiving(), grant(10, stated), told(0, (stated + 10) % 2**32)]
        assert not violations(amqp_credit.counts, events)
        assert not violations(amqp_credit.credit, [*events, delivery(0)])
    assert violations(amqp_credit.counts, [*receiving(), grant(10, 0), told(0, 11)])


def test_deliveries_beyond_the_credit_are_counted_truly() -> None:
    events = [*receiving(), grant(1), delivery(0), delivery(1), told(2, 0)]
    assert violations(amqp_credit.credit, events) == {amqp_credit.NOT_WITHOUT}
    assert not violations(amqp_credit.counts, events)


def test_a_flow_beyond_the_limit_is_seen_in_a_drain_too() -> None:
    events = [*receiving(), grant(5, drain=True)]
    assert not violations(amqp_credit.counts, [*events, told(5, 0)])
    assert violations(amqp_credit.counts, [*events, told(6, 0)]) == {amqp_credit.COUNT}


def test_a_drain_is_answered_by_giving_back_or_by_using_up() -> None:
    held = {amqp_credit.DRAIN: Seen.HELD}
    assert outcome(amqp_credit.drains, [*receiving(), grant(3, drain=True), told(3, 0)]) == held
    assert (
        outcome(amqp_credit.drains, [*receiving(), grant(2, drain=True), delivery(0), delivery(1)])
        == held
    )
    assert (
        outcome(
            amqp_credit.drains,
            [*receiving(LAST), grant(3, LAST, drain=True), delivery(0), told(2, 0)],
        )
        == held
    )


@pytest.mark.parametrize(
    "after",
    [[], [delivery(0)], [told(2, 1)], [told(0, 3)]],
    ids=["nothing", "one of three", "short", "not advanced"],
)
def test_a_drain_without_its_answer_is_seen(after: list[Event]) -> None:
    assert violations(amqp_credit.drains, [*receiving(), grant(3, drain=True), *after]) == {
        amqp_credit.DRAIN
    }


def test_a_drain_that_is_taken_back_or_cut_off_asks_for_nothing() -> None:
    never = {amqp_credit.DRAIN: Seen.NEVER_REACHED}
    start = [*receiving(), grant(3, drain=True)]
    assert outcome(amqp_credit.drains, [*start, grant(3, drain=False)]) == never
    assert outcome(amqp_credit.drains, [*start, broker("detach", handle=0)]) == never
    assert (
        outcome(amqp_credit.drains, [*start, ConnectionClosed(at_ns=1, conn=1, how=CloseHow.EOF)])
        == never
    )
