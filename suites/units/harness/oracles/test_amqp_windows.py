"""The AMQP oracle of session windows, on handmade traces: correct traces pass, and every violation
is found."""

import pytest

from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp_windows
from brokerproof.harness.trace.events import Event
from brokerproof.suites.units.drivers.amqp_traces import (
    LAST,
    answer,
    broker,
    delivery,
    grant,
    opened,
    outcome,
    receiving,
    violations,
    we,
)


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
    parts = [
        delivery(0, more=True),
        broker("transfer", handle=0, more=True),
        broker("transfer", handle=0),
    ]
    events = [*receiving(window=2), grant(9, incoming_window=2), *parts]
    assert violations(amqp_windows.windows, events) == {amqp_windows.RESPECTED}


def test_a_flow_opens_the_window_again() -> None:
    events = [*receiving(window=1), grant(9, incoming_window=1), delivery(0)]
    more = grant(9, 1, next_incoming_id=1, incoming_window=1)
    assert not violations(amqp_windows.windows, [*events, more, delivery(1)])
    assert violations(amqp_windows.windows, [*events, more, delivery(1), delivery(2)]) == {
        amqp_windows.RESPECTED
    }


def test_a_flow_without_next_incoming_id_counts_from_the_begin() -> None:
    flow = we(
        "flow",
        incoming_window=1,
        next_outgoing_id=0,
        outgoing_window=9,
        handle=0,
        link_credit=9,
        delivery_count=0,
    )
    events = [*receiving(window=0, theirs=40), flow, delivery(0)]
    assert not violations(amqp_windows.windows, events)
    assert violations(amqp_windows.windows, [*events, delivery(1)]) == {amqp_windows.RESPECTED}


def test_a_window_that_shrank_on_the_way_is_not_held_against_the_broker() -> None:
    events = [
        *receiving(window=5),
        grant(9, incoming_window=5),
        grant(9, incoming_window=0),
        delivery(0),
    ]
    assert not violations(amqp_windows.windows, events)


def test_flows_that_tell_the_ids_as_they_are_hold() -> None:
    events = [*receiving(), grant(9), delivery(0), answer(next_outgoing_id=1)]
    expected = dict.fromkeys(
        (amqp_windows.PRESENT, amqp_windows.OUTGOING, amqp_windows.INCOMING), Seen.HELD
    )
    assert outcome(amqp_windows.ids, events) == expected


@pytest.mark.parametrize(
    ("flows", "requirement"),
    [
        ([answer(next_outgoing_id=0)], amqp_windows.OUTGOING),
        ([answer(next_outgoing_id=2)], amqp_windows.OUTGOING),
        ([answer(next_outgoing_id=1, next_incoming_id=1)], amqp_windows.INCOMING),
        (
            [
                answer(next_outgoing_id=1, next_incoming_id=0),
                answer(next_outgoing_id=1, next_incoming_id=LAST),
            ],
            amqp_windows.INCOMING,
        ),
        (
            [broker("flow", next_incoming_id=0, next_outgoing_id=1, outgoing_window=1)],
            amqp_windows.PRESENT,
        ),
        (
            [broker("flow", incoming_window=1, next_outgoing_id=1, outgoing_window=1)],
            amqp_windows.WHEN_BEGUN,
        ),
    ],
    ids=[
        "outgoing behind",
        "outgoing ahead",
        "incoming ahead",
        "incoming falls",
        "no window",
        "no next-incoming-id",
    ],
)
def test_flows_that_tell_ids_otherwise_are_seen(flows: list[Event], requirement: str) -> None:
    expected = {requirement}
    assert violations(amqp_windows.ids, [*receiving(), grant(9), delivery(0), *flows]) == expected


def test_a_next_incoming_id_may_follow_what_was_stated_half_way_round() -> None:
    jumps = [
        we("flow", next_outgoing_id=stated, incoming_window=9, outgoing_window=9)
        for stated in (1, 2**31)
    ]
    events = [*receiving(), grant(9), answer(next_incoming_id=0), *jumps]
    assert not violations(amqp_windows.ids, [*events, answer(next_incoming_id=2**31)])
    assert violations(amqp_windows.ids, [*events, answer(next_incoming_id=2**31 + 1)])


def test_a_next_incoming_id_counts_what_was_accepted() -> None:
    one = [we("transfer", handle=0, delivery_id=0, more=True), we("transfer", handle=0)]
    accepted = broker("disposition", role="receiver", first=0, state="accepted")
    events = [*receiving(), *one, answer(next_incoming_id=1)]
    assert not violations(amqp_windows.ids, [*events, accepted, answer(next_incoming_id=2)])
    assert violations(amqp_windows.ids, [*events, accepted, answer(next_incoming_id=1)])


def test_a_next_incoming_id_before_the_others_begin_is_seen() -> None:
    events = [
        *opened(),
        broker("begin", next_outgoing_id=0, incoming_window=1, outgoing_window=1),
        answer(next_incoming_id=0),
    ]
    assert violations(amqp_windows.ids, events) == {amqp_windows.WHEN_BEGUN}
