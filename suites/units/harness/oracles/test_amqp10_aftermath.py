"""Allowed and forbidden frames after the last answer on an AMQP 1.0 connection."""

import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import amqp10_aftermath
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    HeartBeatReceived,
    HeartBeatSent,
    LinkFaulted,
    OctetsSent,
)
from brokerproof.suites.units.drivers.amqp_traces import (
    answer,
    begun,
    broker,
    delivery,
    grant,
    opened,
    receiving,
    we,
)


def judged(*events: Event, until: int = 60_000, undisturbed: bool = True) -> list[str]:
    linger = Linger(ms(10), ms(until), ms(1000), 0, undisturbed=undisturbed)
    return [finding.requirement for finding in amqp10_aftermath.judge(events, 1, linger)]


def closed(at: int, how: CloseHow = CloseHow.EOF) -> Event:
    return ConnectionClosed(at_ns=ms(at), conn=1, how=how)


def beat(at: int, *, ours: bool = False) -> Event:
    kind = HeartBeatSent if ours else HeartBeatReceived
    return kind(at_ns=ms(at), conn=1, protocol="AMQP", size=8)


def promised(time_out: int) -> list[Event]:
    """Return an open connection on which the broker requests a frame every ``time_out`` ms."""
    return [
        we("open", container_id="a"),
        broker("open", 1, container_id="b", idle_time_out=time_out),
        we("begin", 2, next_outgoing_id=0, incoming_window=9, outgoing_window=9),
        broker("begin", 3, remote_channel=0, next_outgoing_id=0, incoming_window=9),
    ]


def failing(name: str, at: int = 0, condition: str = "amqp:not-found", **fields: object) -> Event:
    return broker(name, at, error=f"error(condition={condition}, description=no)", **fields)


IDLE = "amqp:resource-limit-exceeded"
SILENT = broker("close", 20_000, error=f"error(condition={IDLE}, description=idle for long)")
FORCED = failing("close", 20_000, "amqp:connection:forced")
RAW = OctetsSent(at_ns=0, conn=1, data=b"?", size=1)
NEXT = we("begin", channel=1, next_outgoing_id=0, incoming_window=9, outgoing_window=9)
BYE = [we("close", 5), broker("close", 6), closed(7)]


@pytest.mark.parametrize(
    "events",
    [
        [*opened(), *BYE],
        [*opened(), failing("close", 5), we("close", 6), closed(7)],
        [*opened(), failing("close", 5), closed(6)],
        [*opened(), closed(6, CloseHow.RESET)],
        [*opened(), ConnectionAbandoned(at_ns=0, conn=1, how=CloseHow.EOF), closed(6)],
        [*opened(), RAW, closed(6)],
        [we("open", container_id="a"), closed(6)],
        [*begun(), broker("end"), NEXT, broker("begin", remote_channel=1), answer(), *BYE],
        [*receiving(), failing("detach", handle=0), we("detach", handle=0), *BYE],
        [*receiving(), failing("detach", handle=0), broker("attach", name="m", handle=0), *BYE],
        [*receiving(), grant(1), delivery(0), *BYE],
        [*promised(30_000), we("disposition", 19_500), FORCED],
        [*promised(30_000), failing("detach", 5, handle=0), failing("end", 6), FORCED],
        [*promised(15_000), SILENT],
        [*promised(15_000), closed(20_000)],
        [*promised(15_000), beat(16_000, ours=True), closed(20_000)],
        [*opened(), closed(20_000)],
        [*promised(15_000), beat(4000, ours=True), SILENT],
        [*opened(), FORCED],
        [*opened(idle_time_out=1000), beat(30_000), beat(59_500)],
        [*opened(idle_time_out=1000), *BYE],
    ],
    ids=lambda events: ", ".join(getattr(event, "command", "") or "-" for event in events[2:]),
)
def test_an_honest_broker_is_not_accused(events: list[Event]) -> None:
    assert judged(*events) == []


@pytest.mark.parametrize(
    ("events", "requirement"),
    [
        ([*begun(), broker("end"), answer()], amqp10_aftermath.BEHIND_END),
        ([*begun(), failing("end"), broker("end")], amqp10_aftermath.BEHIND_END),
        (
            [*receiving(), failing("detach", handle=0), answer(handle=0, delivery_count=0)],
            amqp10_aftermath.BEHIND_ERROR,
        ),
        (
            [*receiving(), failing("detach", handle=0), broker("detach", handle=0)],
            amqp10_aftermath.BEHIND_ERROR,
        ),
        (
            [*receiving(), broker("detach", handle=0), answer(handle=0, delivery_count=0)],
            amqp10_aftermath.BEHIND_DETACH,
        ),
        ([*opened(), we("close", 5), closed(6)], amqp10_aftermath.CLOSE_FIRST),
        ([*promised(30_000), closed(20_000)], amqp10_aftermath.CLOSE_FIRST),
        ([*opened(), broker("close"), beat(9)], "AMQP10-IDLE-15"),
        ([*promised(30_000), SILENT], amqp10_aftermath.TIME_OUT_RESTARTED),
        ([*promised(30_000), FORCED], amqp10_aftermath.CLOSED_FOR_NOTHING),
        ([*promised(15_000), beat(9000, ours=True), SILENT], "AMQP10-IDLE-01"),
        ([*opened(idle_time_out=1000), beat(30_000)], "AMQP10-IDLE-20"),
        ([*receiving(), grant(1), delivery(0), delivery(1)], "AMQP10-CREDIT-09"),
        (
            [*receiving(), grant(9), delivery(0), delivery(1, delivery_tag="0x00000000")],
            "AMQP10-XFER-06",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_breaks_a_rule_is_seen(events: list[Event], requirement: str) -> None:
    assert judged(*events) == [requirement]


@pytest.mark.parametrize(
    "event", [SILENT, FORCED, closed(20_000)], ids=["silence", "error", "without a word"]
)
def test_an_end_is_judged_on_an_undisturbed_link_alone(event: Event) -> None:
    fault = LinkFaulted(at_ns=ms(4), conn=1, detail="the client stops reading")
    assert len(judged(*promised(30_000), event)) == 1
    assert judged(*promised(30_000), fault, event, undisturbed=False) == []


def test_a_delivery_under_way_is_a_reason() -> None:
    unsettled = [
        *promised(30_000),
        we("attach", 4, name="l", handle=0, role="receiver"),
        broker("attach", 4, name="l", handle=0, role="sender", initial_delivery_count=0),
        we("flow", 5, handle=0, link_credit=5, delivery_count=0, incoming_window=9),
        broker("transfer", 6, handle=0, delivery_id=0, delivery_tag="0x00", message_format=0),
    ]
    settled = we("disposition", 7, role="receiver", first=0, settled=True)
    assert judged(*unsettled, FORCED) == []
    assert judged(*unsettled, settled, FORCED) == [amqp10_aftermath.CLOSED_FOR_NOTHING]


def test_a_wrong_open_is_a_reason() -> None:
    begin = promised(30_000)[:2]
    assert judged(*begin, failing("close", 2, "amqp:invalid-field")) == []


def test_a_tag_returns_once_the_receiver_has_settled_it() -> None:
    events = [
        *receiving(),
        grant(9),
        delivery(0),
        we("disposition", role="receiver", first=0, settled=True),
        delivery(1, delivery_tag="0x00000000"),
    ]
    assert judged(*events) == []


@pytest.mark.parametrize("credit", [2**31, 2**32 - 1])
def test_more_credit_than_serial_numbers_compare_is_plenty(credit: int) -> None:
    shown = answer(handle=0, delivery_count=1, link_credit=credit - 1, next_outgoing_id=1)
    assert judged(*receiving(), grant(credit), delivery(0), shown) == []


def test_a_flow_sets_where_the_transfers_of_its_sender_are() -> None:
    told = we("flow", next_incoming_id=0, incoming_window=9, next_outgoing_id=7, outgoing_window=9)
    assert judged(*begun(), told, answer(next_incoming_id=7)) == []
    assert judged(*begun(), answer(next_incoming_id=7)) == ["AMQP10-WIN-05"]


def test_the_intervals_are_those_of_both_opens() -> None:
    events = [we("open", idle_time_out=700), broker("open", idle_time_out=900)]
    assert amqp10_aftermath.intervals(events, 1) == (ms(900), ms(700))
    assert amqp10_aftermath.intervals(opened(), 1) == (0, 0)
