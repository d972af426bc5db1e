"""The AMQP oracle of deliveries and settlement, on handmade traces: each violation is found."""

from typing import Any

import pytest

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import amqp_credit, amqp_liveness
from brokerproof.harness.oracles import amqp_deliveries as oracle
from brokerproof.harness.protocols.amqp10.fact_reader import Side
from brokerproof.harness.trace.events import Event, HeartBeatReceived, HeartBeatSent
from brokerproof.suites.units.drivers.amqp_traces import (
    LAST,
    broker,
    delivery,
    grant,
    mirrored,
    opened,
    outcome,
    receiving,
    violations,
    we,
)


def test_deliveries_named_well_hold() -> None:
    events = [
        *receiving(),
        delivery(LAST),
        delivery(0, more=True),
        broker("transfer", handle=0, delivery_id=0),
    ]
    found = outcome(oracle.delivery_ids, events)
    assert set(found.values()) == {Seen.HELD}
    assert oracle.SAME_ID in found
    assert oracle.IN_ORDER in found


@pytest.mark.parametrize(
    ("transfers", "requirement"),
    [
        ([broker("transfer", handle=0, delivery_tag="0x01", message_format=0)], oracle.HAS_ID),
        ([broker("transfer", handle=0, delivery_id=0, message_format=0)], oracle.HAS_TAG),
        ([broker("transfer", handle=0, delivery_id=0, delivery_tag="0x01")], oracle.HAS_FORMAT),
        ([delivery(0, delivery_tag="0x" + "00" * 33)], oracle.TAG_LENGTH),
        ([delivery(0, delivery_tag="0x01"), delivery(1, delivery_tag="0x01")], oracle.OWN_TAG),
        ([delivery(0, more=True), broker("transfer", handle=0, delivery_id=1)], oracle.SAME_ID),
        ([delivery(0), delivery(2)], oracle.IN_ORDER),
        ([delivery(1), delivery(0)], oracle.IN_ORDER),
        ([delivery(1), delivery(1, delivery_tag="0x09")], oracle.IN_ORDER),
    ],
    ids=[
        "no id",
        "no tag",
        "no format",
        "long tag",
        "tag twice",
        "other id",
        "a gap",
        "backwards",
        "twice",
    ],
)
def test_deliveries_named_badly_are_seen(transfers: list[Event], requirement: str) -> None:
    assert violations(oracle.delivery_ids, [*receiving(), *transfers]) == {requirement}


def test_a_tag_may_come_again_once_both_sides_settled() -> None:
    ours = we("disposition", role="receiver", first=0, settled=True, state="accepted()")
    theirs = broker("disposition", role="sender", first=0, settled=True, state="accepted()")
    again = delivery(1, delivery_tag="0x00000000")
    assert not violations(oracle.delivery_ids, [*receiving(), delivery(0), ours, theirs, again])
    assert not violations(oracle.delivery_ids, [*receiving(), delivery(0, settled=True), again])
    assert violations(oracle.delivery_ids, [*receiving(), delivery(0), again]) == {oracle.OWN_TAG}


def sending(count: int, first: int = 0) -> list[Event]:
    numbers = [(first + number) % 2**32 for number in range(count)]
    return mirrored([*receiving(), grant(count), *(delivery(number) for number in numbers)])


def settled(first: int, last: int | None = None, state: str = "accepted()", **fields: Any) -> Event:
    span = {} if last is None else {"last": last}
    return broker(
        "disposition",
        **{"role": "receiver", "first": first, **span, "settled": True, "state": state, **fields},
    )


def test_settling_each_once_holds() -> None:
    found = outcome(oracle.settlement, [*sending(3, LAST), settled(LAST, 0), settled(1)])
    assert found == {oracle.DIRECTION: Seen.HELD, oracle.ONCE: Seen.HELD}


def test_a_state_first_and_settling_later_holds() -> None:
    events = [*sending(1), settled(0, settled=False), settled(0)]
    assert not violations(oracle.settlement, events)


@pytest.mark.parametrize(
    ("dispositions", "requirement"),
    [
        ([settled(7)], oracle.DIRECTION),
        ([settled(0, role="sender")], oracle.DIRECTION),
        ([settled(0), settled(0)], oracle.ONCE),
        ([settled(0, settled=False), settled(0, state="rejected()")], oracle.TERMINAL),
    ],
    ids=["unknown", "wrong direction", "twice", "another outcome"],
)
def test_settling_wrongly_is_seen(dispositions: list[Event], requirement: str) -> None:
    assert requirement in violations(oracle.settlement, [*sending(2), *dispositions])


@pytest.mark.parametrize(
    "transfer",
    [
        we("transfer", delivery_id=0, delivery_tag="0x01"),
        we("transfer", handle=0, delivery_tag="0x01"),
    ],
)
def test_what_a_defective_transfer_is_read_as_is_no_violation(transfer: Event) -> None:
    settled = broker("disposition", role="receiver", first=0, settled=True, state="accepted()")
    assert violations(oracle.settlement, [*receiving(), transfer, settled]) == set()
    [accused] = violations(oracle.settlement, [*receiving(), settled])
    assert accused == oracle.DIRECTION


@pytest.mark.parametrize(
    ("mode", "transfers", "violated"),
    [
        ("0", [{}, {"settled": "true"}], {oracle.NONE_SETTLED}),
        ("0", [{"more": True}, {}], set()),
        ("0", [{"settled": "true", "aborted": "true"}], set()),
        ("1", [{"settled": "true"}, {}], {oracle.ALL_SETTLED}),
        ("1", [{"more": True}, {"settled": "true"}], set()),
        ("2", [{"settled": "true"}, {}], set()),
    ],
)
def test_the_agreed_settle_mode_is_kept(
    mode: str, transfers: list[dict[str, Any]], violated: set[str]
) -> None:
    attach = broker("attach", name="l", handle=0, role="sender", snd_settle_mode=mode)
    events = [*receiving()[:-1], attach, *(delivery(0, **fields) for fields in transfers)]
    assert {*violations(oracle.settle_modes, events)} == violated


def test_no_disposition_is_no_evidence() -> None:
    assert outcome(oracle.settlement, sending(1)) == {oracle.ONCE: Seen.NEVER_REACHED}


def beats(*instants: int) -> list[Event]:
    return [HeartBeatReceived(at_ns=ms(at), conn=1, protocol="AMQP", size=8) for at in instants]


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
    [
        broker("flow", size=600),
        broker("flow", channel=1),
        broker("attach", name="l", handle=7, role="sender"),
    ],
    ids=["size", "channel", "handle"],
)
def test_limits_that_are_reached_hold(event: Event) -> None:
    assert not violations(amqp_liveness.limits, [*limited(handle_max=7), event])


def test_other_connections_are_none_of_ours() -> None:
    events = [*receiving(), delivery(0)]
    assert amqp_credit.credit(events, 2) == [
        Finding(amqp_credit.NOT_WITHOUT, Seen.NEVER_REACHED, "no delivery was sent")
    ]
