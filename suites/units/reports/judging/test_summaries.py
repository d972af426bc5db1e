"""Each part of the judges, on small recordings with known results."""

import pickle
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import reduce
from itertools import pairwise
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.trace import events as ev
from brokerproof.reports.judging import connection_lifetimes, windows
from brokerproof.reports.judging.connection_lifetimes import NEVER, ConnectionSummary, SilenceStats
from brokerproof.reports.judging.delivery_bitmaps import BLOCK, LOOSE, DeliveryBitmap
from brokerproof.reports.judging.event_filter import EventFilter
from brokerproof.reports.judging.merge import merged_row
from brokerproof.reports.judging.order import (
    FAR,
    MOST,
    NEAR,
    Inversion,
    OrderSummaries,
    OrderSummary,
)
from brokerproof.reports.judging.recheck_plan import Ranges, RecheckPlan, Suspects
from brokerproof.reports.judging.segment_summary import SegmentSummaries
from brokerproof.reports.judging.summary import (
    CONNECTION,
    CONSUMES,
    DELIVERIES,
    GROUP,
    ORDER,
    QUEUE_USE,
    SUMMARIES,
    WINDOWS,
    QueueUse,
)
from brokerproof.reports.judging.windows import (
    NONE,
    WindowLedger,
    WindowRequest,
    WindowSlice,
    WindowSummary,
)
from brokerproof.suites.units.drivers import model_recordings
from brokerproof.suites.units.reports.judging.test_event_filter import SCOPE, cut
from brokerproof.suites.units.reports.judging.test_segment_summary import GROUND, batch, summed_up

Frame = tuple[bool, str, dict[str, str], int | None]


def said(*frames: Frame, conn: int = 1, begin: int = 1) -> list[ev.Event]:
    """Return STOMP frames of one connection (whether sent, command, headers, the number of a
    message of producer 1)."""
    events: list[ev.Event] = []
    for at, (out, command, headers, number) in enumerate(frames):
        kind = ev.FrameSent if out else ev.FrameReceived
        body = b"" if number is None else b"bp1:%08d:%012d;" % (1, number)
        about = {
            "command": command,
            "headers": tuple(headers.items()),
            "body": body,
            "body_size": len(body),
        }
        events.append(kind(at_ns=ms(begin + at), conn=conn, protocol="STOMP", size=100, **about))
    return events


# --- choice ---------------------------------------------------------------------------------------


def send(number: int, receipt: str = "") -> Frame:
    asked = {"receipt": receipt} if receipt else {}
    return True, "SEND", {"destination": "/queue/a", **asked}, number


def message(number: int, name: str, subscription: str = "s", queue: str = "/queue/a") -> Frame:
    return (
        False,
        "MESSAGE",
        {"destination": queue, "subscription": subscription, "ack": name},
        number,
    )


def ack(name: str, receipt: str = "") -> Frame:
    return True, "ACK", {"id": name, **({"receipt": receipt} if receipt else {})}, None


def receipt(name: str) -> Frame:
    return False, "RECEIPT", {"receipt-id": name}, None


def subscribe(mode: str = "client-individual", name: str = "s") -> Frame:
    return True, "SUBSCRIBE", {"id": name, "destination": "/queue/a", "ack": mode}, None


def looking_for(*numbers: int, conns: Iterable[int] = (1,), **more: Any) -> RecheckPlan:
    group = (*SCOPE, "/queue/a", 1)
    sets = Ranges.of([[(number, number) for number in numbers]])
    return RecheckPlan(
        numbered={group: 0},
        ranges=sets,
        connections=frozenset((*SCOPE, conn) for conn in conns),
        **more,
    )


def chosen(
    again: RecheckPlan, events: list[ev.Event], *cuts: int, only: Iterable[Any] | None = None
) -> list[int]:
    choice = EventFilter(again, 7, only)
    rows = [row for segment in cut(events, cuts) for row in _rows(choice.of(segment))]
    assert all(row["place"] == 7 for row in rows)
    assert all(row["command"] == getattr(events[row["row"]], "command", None) for row in rows)
    return [row["row"] for row in rows]


def _rows(some: pa.RecordBatch | None) -> list[dict[str, Any]]:
    return [] if some is None else some.to_pylist()


def test_of_single_answers_only_those_of_what_is_looked_for_are_read() -> None:
    events = said(
        subscribe(),
        *(message(number, f"t{number}") for number in range(4)),
        *map(ack, ("t2", "t1", "t3", "t0")),
    )
    assert chosen(looking_for(1), events) == [0, 2, 6]
    # An answer to a frame of an earlier batch is unknown.
    assert chosen(looking_for(1), events, 5) == [0, 2, 5, 6, 7, 8]
    assert chosen(looking_for(1), events, 7) == [0, 2, 6, 7, 8]


def test_a_name_that_is_used_twice_and_an_answer_before_its_delivery_are_read() -> None:
    events = said(
        subscribe(), ack("t0"), message(0, "t0"), message(1, "t1"), message(2, "t1"), ack("t1")
    )
    assert chosen(looking_for(9), events) == [0, 1, 5]


def test_names_belong_to_their_connection() -> None:
    one, other = said(message(0, "t"), ack("t")), said(message(1, "t"), ack("t"), conn=2)
    assert chosen(looking_for(1, conns=(1, 2)), [*one, *other]) == [2, 3]


def test_of_answers_that_settle_all_before_the_first_that_reaches_far_enough_is_read() -> None:
    cumulative = {(*SCOPE, 1): frozenset({"s"})}
    frames = [message(number, f"t{number}") for number in range(6)]
    events = said(subscribe("client"), *frames[:3], ack("t1"), ack("t2"), *frames[3:], ack("t4"))
    # The first answers a frame of an earlier batch, message 3 has the delivery that it names, and a
    # later batch may answer the last.
    assert chosen(looking_for(3, cumulative=cumulative), events) == [0, 2, 4, 6, 7, 8, 9]
    assert chosen(looking_for(0, cumulative=cumulative), events) == [0, 1, 2, 4, 8]
    assert chosen(looking_for(3), events) == [0, 6]
    assert chosen(looking_for(3, cumulative={(*SCOPE, 1): frozenset({"other"})}), events) == [0, 6]
    expected = [0, 2, 4, 6, 7, 8, 9]
    assert chosen(looking_for(3, cumulative={(*SCOPE, 1): frozenset({""})}), events) == expected


def test_receipts_are_read_but_of_what_does_not_matter() -> None:
    events = said(
        receipt("r1"),
        send(0, "r0"),
        send(1, "r1"),
        send(2, "r2"),
        receipt("r0"),
        receipt("r1"),
        receipt("r2"),
        receipt("r9"),
    )
    assert chosen(looking_for(1), events) == [0, 2, 5, 7]
    # A receipt may answer a request of an earlier batch, but not after a frame of its own batch.
    assert chosen(looking_for(1), events, 4) == [0, 2, 4, 5, 6, 7]


def test_a_receipt_that_two_frames_ask_for_is_read_if_one_of_them_matters() -> None:
    events = said(send(0, "r"), send(1, "r"), receipt("r"))
    assert chosen(looking_for(1), events) == [1, 2]
    assert chosen(looking_for(2), events) == []


def test_of_a_connection_that_is_read_fully_only_its_own_messages_are_passed_over() -> None:
    events = said(subscribe(), send(0), send(1, "r"), receipt("r"), message(5, "t5"), ack("t5"))
    full = frozenset({(*SCOPE, 1)})
    assert chosen(looking_for(1, full=full), events) == [0, 2, 3, 4, 5]
    assert chosen(looking_for(0, full=full), events) == [0, 1, 3, 4, 5]
    assert chosen(RecheckPlan(everything=True), events) == [0, 1, 2, 3, 4, 5]
    whole = RecheckPlan(whole=frozenset({(*SCOPE, "/queue/a", 1)}), connections=full)
    assert chosen(whole, events) == [0, 1, 2, 3, 4, 5]
    elsewhere = RecheckPlan(whole=frozenset({(*SCOPE, "/queue/b", 1)}), connections=full)
    assert chosen(elsewhere, events) == [0]


def test_nothing_is_read_of_connections_that_are_not_named() -> None:
    events = [*said(subscribe(), message(0, "t0")), *said(subscribe(), message(1, "t1"), conn=2)]
    assert chosen(looking_for(0, 1, conns=(2,)), events) == [2, 3]
    assert chosen(looking_for(0, 1, conns=(1, 2)), events, only=[(*SCOPE, 1)]) == [0, 1]
    assert chosen(RecheckPlan(), events, only=[(*SCOPE, 2)]) == [2, 3]


def test_what_has_no_stamp_is_known_by_its_body_wherever_it_is_read_fully() -> None:
    events = [
        replace(event, body=b"no stamp", body_size=8) for event in said(send(0), message(1, "t1"))
    ]
    again = RecheckPlan(connections=frozenset({(*SCOPE, 1)}), full=frozenset({(*SCOPE, 1)}))
    (read,) = (EventFilter(again, 0).of(segment) for segment in cut(events, []))
    assert read is not None
    keys = [(row["producer"], row["number"]) for row in read.to_pylist()]
    assert keys[0] == keys[1]
    assert keys[0][0] == -1
    assert keys[0][1] >= 0


# --- lives ----------------------------------------------------------------------------------------


def life_of(events: Sequence[ev.Event], cuts: Sequence[int]) -> dict[int, ConnectionSummary]:
    return {key[6]: group for key, group in summed_up(events, cuts)["connection"].items()}


def test_the_longest_stall_is_the_longest_wait_before_a_receipt() -> None:
    for seed in range(3):
        random = Random(seed)
        at, events, waits, last = 0, [], [(0, NEVER)], NEVER
        for _ in range(40):
            at += random.randrange(1, 50)
            kind = random.choice(["beat", "send", "receipt", "receipt", "message"])
            if kind == "beat":
                events.append(ev.HeartBeatReceived(at_ns=at, conn=1, protocol="STOMP", size=1))
                continue
            frame = {"send": send(0), "receipt": receipt("r"), "message": message(0, "t")}[kind]
            events.append(replace(said(frame)[0], at_ns=at))
            if kind == "receipt" and last != NEVER:
                waits.append((at - last, at))
            last = at
        expected = max(waits, key=lambda wait: wait[0])[0]
        for cuts in ([], [3, 20], sorted(random.sample(range(1, 40), 5))):
            (life,) = life_of(events, cuts).values()
            assert life.stalled[0] == expected
            assert life.stalled in waits
            assert life.work[2] == last
            assert life.work[:2] == next(
                (event.at_ns, event.command == "RECEIPT")
                for event in events
                if not isinstance(event, ev.HeartBeatReceived)
            )


def test_a_life_keeps_what_was_said_first_and_what_ended_it() -> None:
    hello, welcome = {"heart-beat": "10,20"}, {"heart-beat": "30,40"}
    events: list[ev.Event] = [
        ev.ConnectionOpened(at_ns=ms(1), conn=1, protocol="STOMP", acceptor="x"),
        *said((True, "STOMP", hello, None), (False, "CONNECTED", welcome, None), begin=2),
        *said(
            (True, "CONNECT", {}, None),
            (False, "CONNECTED", {}, None),
            (True, "DISCONNECT", {}, None),
            begin=4,
        ),
        *said(
            (False, "ERROR", {"message": "no"}, None),
            (False, "ERROR", {"message": "again"}, None),
            begin=8,
        ),
        ev.ConnectionClosed(at_ns=ms(20), conn=1, how=CloseHow.EOF),
        ev.ConnectionAbandoned(at_ns=ms(21), conn=1, how=CloseHow.EOF),
        ev.OctetsReceivedUnseen(
            at_ns=ms(22), conn=1, protocol="STOMP", command="LOST", size=5, detail=""
        ),
        ev.OctetsSentUnseen(
            at_ns=ms(23), conn=1, protocol="STOMP", command="LOST", size=6, detail=""
        ),
    ]
    for cuts in ([], [1], [4], [8], [2, 6, 9], [10]):
        (life,) = life_of(events, cuts).values()
        assert (life.opened, life.closed, life.closed_by) == (ms(1), ms(20), "broker")
        assert (life.connect_headers, life.connected_headers, life.error) == (hello, welcome, "no")
        assert life.disconnected
        assert life.opaque
        assert life.unseen == {"LOST": (ms(22), 11)}
    (life,) = life_of(events[:3], []).values()
    assert life.closed == NEVER
    assert life.closed_by == ""
    assert life.error is None
    assert life.disconnected is False
    assert life.opaque is False
    assert life.unseen == {}
    assert not life_of([ev.Noted(at_ns=1, detail="x")], [])


def test_the_first_gap_that_is_longest_counts_and_lies_between_parts_too() -> None:
    assert SilenceStats(1, 5, 3, 4).merge(SilenceStats(8, 9, 1, 9)) == SilenceStats(1, 9, 3, 4)
    assert SilenceStats(1, 5, 2, 4).merge(SilenceStats(8, 9, 1, 9)) == SilenceStats(1, 9, 3, 8)
    assert SilenceStats(1, 5, 2, 4).merge(SilenceStats(6, 19, 9, 15)) == SilenceStats(1, 19, 9, 15)
    assert SilenceStats().merge(SilenceStats(8, 9, 1, 9)) == SilenceStats(8, 9, 1, 9)
    assert SilenceStats(8, 9, 1, 9).merge(SilenceStats()) == SilenceStats(8, 9, 1, 9)
    assert reduce(
        ConnectionSummary.merge,
        [
            ConnectionSummary(received=SilenceStats(1, 5, 2, 4)),
            ConnectionSummary(),
            ConnectionSummary(received=SilenceStats(8, 9, 1, 9)),
        ],
    ).received == SilenceStats(1, 9, 3, 8)
    expected = {"A": (2, 3), "B": (9, 9)}
    assert connection_lifetimes.merge_unseen({"A": (3, 1)}, {"A": (2, 2), "B": (9, 9)}) == expected


# --- order ----------------------------------------------------------------------------------------


def test_what_fell_is_told_one_by_one_with_the_greatest_before_it() -> None:
    numbers = [5, 6, 3, 7, 7, 2 + NEAR, 9]
    assert rise_of(numbers, []) == OrderSummary(
        3, 2 + NEAR, (Inversion(3, 6, True), Inversion(7, 7, True), Inversion(9, 2 + NEAR, True))
    )
    assert rise_of([0, 5 + NEAR, 4], []).inversions == (Inversion(4, 5 + NEAR, False),)
    for cuts in ([3], [2], [1, 4], [5]):
        found = rise_of(numbers, cuts)
        assert (found.least, found.greatest, found.needs_recheck) == (3, 2 + NEAR, True)
        # A recording in parts has wider ranges: each still includes the number that fell and the
        # greatest before it.
        for low, high, _ in ((3, 6, 0), (7, 7, 0), (9, 2 + NEAR, 0)):
            assert any(
                inversion.low <= low and high <= inversion.high for inversion in found.inversions
            )
    assert not rise_of([1, 2, 9], [1, 2]).needs_recheck


def test_of_too_many_falls_only_their_bounds_are_told() -> None:
    inversions = rise_of([10_000, *range(MOST + 1, 0, -1)], []).inversions
    assert inversions == (Inversion(1, 10_000, True),)
    assert len(rise_of([10_000, *range(MOST, 0, -1)], []).inversions) == MOST
    assert OrderSummary() == OrderSummary(FAR, -1, ())


def rise_of(numbers: Sequence[int], cuts: Sequence[int]) -> OrderSummary:
    events = said(*(message(number, f"t{at}") for at, number in enumerate(numbers)))
    ((_, group),) = summed_up(events, cuts)[ORDER].items() if cuts else _whole(events)
    rise: OrderSummary = group
    return rise if not cuts else group


def _whole(events: list[ev.Event]) -> list[tuple[Any, OrderSummary]]:
    segment = SegmentSummaries(GROUND)
    segment.update(batch(events))
    return [(None, pickle.loads(row["summary"])) for row in segment.rows(0) if row["kind"] == ORDER]


def test_marked_and_unstamped_deliveries_have_no_order() -> None:
    order = OrderSummaries()
    assert list(order.summaries()) == []
    marked = said(*(message(number, f"t{number}") for number in (4, 2)))
    marked[1] = replace(marked[1], headers=(*marked[1].headers, ("redelivered", "true")))
    assert [rise for _, rise in _whole(marked)] == [OrderSummary(4, 4)]


# --- bitmaps, merging, the recheck plan -----------------------------------------------------------


def row_of(kind: str, place: int, summary: object, **more: Any) -> dict[str, Any]:
    named = dict.fromkeys(SUMMARIES.names) | {"kind": kind, "place": place, "block": 0, **more}
    return {**named, "summary": pickle.dumps(summary)}


def merge(*rows: dict[str, Any]) -> dict[str, Any]:
    return merged_row(tuple(rows[0][name] for name in GROUP), iter(rows))


def test_a_merged_bitmap_keeps_what_certainly_arrived_and_a_clean_one_nothing_more() -> None:
    some, rest = DeliveryBitmap(sent=0b1011, got=0b0001), DeliveryBitmap(got=0b1010)
    fine = merge(row_of(DELIVERIES, 0, some, block=2), row_of(DELIVERIES, 1, rest, block=2))
    assert fine["needs_recheck"] is False
    assert fine["delivered"] == 2 * BLOCK + 3
    assert fine["summary"] == b""
    odd = merge(row_of(DELIVERIES, 0, replace(some, one_copy=True), block=2))
    assert (odd["needs_recheck"], odd["delivered"]) == (True, 2 * BLOCK)
    assert pickle.loads(odd["summary"]).missing == 0b1010
    loose = merge(row_of(DELIVERIES, 0, DeliveryBitmap(1, 0, 1, 0, 1), block=LOOSE))
    assert (loose["needs_recheck"], loose["delivered"]) == (True, -1)
    assert merge(row_of(DELIVERIES, 0, DeliveryBitmap(sent=1)))["delivered"] == -1
    assert merge(row_of(DELIVERIES, 0, DeliveryBitmap(sent=1, resent=1, got=1)))["delivered"] == -1


def test_connections_and_windows_are_kept_though_they_are_clean() -> None:
    assert (
        pickle.loads(merge(row_of(CONNECTION, 0, ConnectionSummary(opened=5)))["summary"]).opened
        == 5
    )
    assert isinstance(
        pickle.loads(merge(row_of(WINDOWS, 0, WindowSummary()))["summary"]), WindowLedger
    )
    rises = merge(row_of(ORDER, 0, OrderSummary(1, 5)), row_of(ORDER, 1, OrderSummary(4, 9)))
    assert rises["needs_recheck"]
    assert pickle.loads(rises["summary"]).inversions == (Inversion(4, 5, all_between=True),)
    assert not merge(row_of(QUEUE_USE, 0, QueueUse()))["needs_recheck"]


def test_a_missing_message_is_looked_for_only_below_what_came() -> None:
    def ranges(
        came: int, *inversions: Inversion, **blocks: DeliveryBitmap
    ) -> list[tuple[int, int]]:
        numbers = Suspects()
        numbers.blocks = {int(name[1:]): book for name, book in blocks.items()}
        numbers.inversions = list(inversions)
        return sorted(numbers.ranges(came))

    lacking = DeliveryBitmap(sent=0b11111, got=0b00001, one_copy=True)
    assert ranges(2, b0=lacking) == [(1, 1), (2, 2), (2, 2)]
    assert ranges(-1, b0=lacking) == []
    assert ranges(0, b0=lacking) == []
    assert ranges(BLOCK + 3, b0=lacking) == [(1, 1), (2, 2), (3, 3), (4, 4), (BLOCK + 3, BLOCK + 3)]
    assert ranges(3, b2=lacking) == []
    assert ranges(2 * BLOCK + 1, b2=lacking) == [(2 * BLOCK + 1, 2 * BLOCK + 1)] * 2
    assert ranges(-1, b0=DeliveryBitmap(sent=0b1, got=0b110, regot=0b100)) == [(1, 1), (2, 2)]
    assert ranges(-1, Inversion(3, 9, False)) == [(3, 3), (9, 9)]
    assert ranges(-1, Inversion(3, 9, True)) == [(3, 9)]
    assert ranges(-1, Inversion(3, 9, False), b0=DeliveryBitmap(sent=1 << 9, resent=1 << 9)) == [
        (3, 9),
        (9, 9),
    ]
    assert ranges(-1, Inversion(3, 9, False), b0=DeliveryBitmap(sent=1 << 8, resent=1 << 8)) == [
        (3, 3),
        (8, 8),
        (9, 9),
    ]


def test_wanted_has_what_it_names() -> None:
    group, other = (*SCOPE, "a", 1), (*SCOPE, "b", 1)
    again = RecheckPlan(whole=frozenset({other}), numbered={group: 0}, ranges=Ranges.of([[(3, 5)]]))
    assert [again.includes(group, number) for number in (2, 3, 5, 6)] == [False, True, True, False]
    assert again.includes(other, 99)
    assert not again.includes((*SCOPE, "c", 1), 3)
    assert RecheckPlan(everything=True).includes((*SCOPE, "c", 1), 3)
    assert not Ranges.of([]).contains(np.array([0]), np.array([1])).any()


def test_a_stretch_tells_who_has_to_do_with_which_queue() -> None:
    events = [
        *said((True, "SUBSCRIBE", {"id": "s", "destination": "/queue/b"}, None), send(3)),
        *said(message(3, "t", queue="/queue/c"), conn=2, begin=9),
    ]
    segment = SegmentSummaries(GROUND)
    segment.update(batch(events))
    touches = {
        (row["queue"], row["producer"], row["conn"])
        for row in segment.rows(5)
        if row["kind"] == QUEUE_USE
    }
    assert touches == {("/queue/b", CONSUMES, 1), ("/queue/a", 1, 1), ("/queue/c", CONSUMES, 2)}
    rows = list(segment.rows(5))
    assert {row["place"] for row in rows} == {5}
    assert {row["conn"] for row in rows if row["kind"] == "connection"} == {1, 2}
    ((_, scope),) = summed_up(events, [])["scope_protocols"].items()
    assert not scope.needs_recheck
    unseen = ev.OctetsReceivedUnseen(
        at_ns=ms(30), conn=1, protocol="STOMP", command="LOST", size=5, detail=""
    )
    for blind in (ev.OctetsSent(at_ns=ms(30), conn=1, data=b"?", size=1), unseen):
        ((_, scope),) = summed_up([*events, blind], [])["scope_protocols"].items()
        assert scope.needs_recheck
    ended = replace(unseen, command="ENDS")
    ((_, scope),) = summed_up([*events, ended], [])["scope_protocols"].items()
    assert not scope.needs_recheck


# --- windows --------------------------------------------------------------------------------------


def overrun(pieces: Sequence[WindowSummary]) -> bool:
    return reduce(WindowLedger.merge, pieces, WindowLedger()).needs_recheck


def test_a_window_is_shut_when_as_much_is_held_as_it_has() -> None:
    def account(mode: str, window: int | None, piece: WindowSlice, held: int = 0) -> bool:
        asked = {"s": WindowRequest(mode, window, "octets", "q")}
        before = WindowSummary(requests=asked, held={"s": [("t", held, False)]} if held else {})
        return overrun([before, WindowSummary(slices={(0, "s"): piece})])

    one = "client-individual"
    assert [account(one, window, WindowSlice(individual=100)) for window in (99, 100, 101)] == [
        True,
        True,
        False,
    ]
    found = [account(one, window, WindowSlice(individual=100), held=50) for window in (150, 151)]
    assert found == [True, False]
    assert [account(one, window, WindowSlice(individual=0)) for window in (0, 1, -1, None)] == [
        False,
        False,
        False,
        False,
    ]
    assert account(one, 0, WindowSlice(individual=1))
    assert not account("auto", 10, WindowSlice(individual=100))
    got = [account("client", window, WindowSlice(before_ack=100), held=50) for window in (150, 151)]
    assert got == [True, False]
    assert [
        account("client", window, WindowSlice(after_ack=100), held=50) for window in (100, 101)
    ] == [True, False]
    assert not account("client", 1, WindowSlice())
    assert not account(one, 1, WindowSlice(before_ack=NONE))


@pytest.mark.parametrize(("mode", "left"), [("client", 60), ("client-individual", 90)])
def test_an_answer_to_an_earlier_part_settles_what_it_names(mode: str, left: int) -> None:
    held = {"s": [("t0", 30, False), ("t1", 50, False), ("t2", 60, False)]}
    for window in (40 + left, 41 + left):
        before = WindowSummary(
            requests={"s": WindowRequest(mode, window, "octets", "q")}, held=held
        )
        later = WindowSummary(
            slices={(1, "s"): WindowSlice(individual=40, before_ack=40)}, unmatched=["t1"]
        )
        assert overrun([before, later]) is (window == 40 + left)
        later = WindowSummary(
            slices={(1, "s"): WindowSlice(individual=40, before_ack=40)}, unmatched=["else"]
        )
        assert overrun([before, later])


def account_of(frames: Sequence[Frame], *cuts: int) -> WindowLedger:
    ((_, group),) = summed_up(said(*frames), cuts)["windows"].items()
    told: WindowLedger = group
    return told


def test_what_parts_cannot_tell_asks_for_all_of_the_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(windows, "MOST_SLICES", 5)
    plain = [subscribe(), message(0, "t0"), message(1, "t1"), ack("t1"), ack("t0")]
    for cuts in ((), (2,), (1, 3)):
        account = account_of(plain, *cuts)
        assert account.ambiguous is False
        assert account.unsubscribed is False
        assert account.needs_recheck is False
    again = [subscribe(), message(0, "t0"), message(1, "t0")]
    assert account_of(again).ambiguous
    assert account_of([subscribe(), message(0, "t0"), subscribe()]).ambiguous
    assert account_of([subscribe(), message(0, "t0"), subscribe()], 1).ambiguous
    assert account_of([subscribe(name=""), message(0, "t0", "x")]).ambiguous
    leaving = [*plain, (True, "UNSUBSCRIBE", {"id": "s"}, None)]
    assert [account_of(leaving, *cuts).unsubscribed for cuts in ((), (3,))] == [True, True]
    few, many = ([*plain[:1], *(ack(f"x{number}") for number in range(count))] for count in (5, 6))
    assert not account_of(few).ambiguous
    assert account_of(many).ambiguous
    assert account_of([subscribe("client"), message(0, "t0")]).cumulative == {"s"}
    assert account_of(plain).cumulative == set()


def test_pieces_of_one_part_are_those_that_its_unknown_answers_divide() -> None:
    events = model_recordings.recording(2, "overrun", 120)
    edges = [0, 60, 130, len(events)]
    parts: dict[int, list[WindowSummary]] = defaultdict(list)
    for begin, end in pairwise(edges):
        segment = SegmentSummaries(GROUND)
        segment.update(batch(events[begin:end]))
        for row in segment.rows(0):
            if row["kind"] == "windows":
                parts[row["conn"]].append(pickle.loads(row["summary"]))
    shut = {conn for conn, some in parts.items() if overrun(some)}
    assert shut == {
        anomaly.conn
        for anomaly in recorded_anomalies.find_anomalies(events, GROUND)
        if anomaly.kind == "overrun"
    }
    for part in (part for some in parts.values() for part in some):
        assert all(place <= len(part.unmatched) for place, _ in part.slices)
