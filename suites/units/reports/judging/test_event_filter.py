"""The filtered part of a recording yields the same facts about the chosen messages as the whole
recording, however it is cut into batches."""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from brokerproof.harness.oracles import recorded_anomalies
from brokerproof.harness.oracles.connection_reader import ConnectionReader, row
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.facts import Delivered, Fact, Overrun, Sent, UnreadableConnection
from brokerproof.reports.judging.columns import Names, columns
from brokerproof.reports.judging.delivery_bitmaps import (
    BLOCK,
    DeliveryBitmap,
    DeliveryBitmaps,
    numbers_of,
)
from brokerproof.reports.judging.event_filter import EventFilter
from brokerproof.reports.judging.order import Inversion, OrderSummary
from brokerproof.reports.judging.recheck import connection_facts, resumed_reader
from brokerproof.reports.judging.recheck_plan import Ranges, RecheckPlan
from brokerproof.reports.judging.windows import WindowLedger
from brokerproof.suites.units.drivers.model_recordings import recordings
from brokerproof.suites.units.reports.judging.test_segment_summary import GROUND, batch, summed_up

SCOPE = ("r", "t", "c", 0)


def cut(events: Sequence[ev.Event], cuts: Sequence[int]) -> list[pa.RecordBatch]:
    whole = batch(events)
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    return [whole.slice(low, high - low) for low, high in pairwise(edges)]


def facts_of(again: RecheckPlan, batches: Sequence[pa.RecordBatch]) -> list[Fact]:
    """Do the steps of the recheck: choose events, group them by connection, read them."""
    choice = EventFilter(again, 0)
    of_connection: dict[int, list[dict[str, Any]]] = defaultdict(list)
    for events_batch in batches:
        for chosen in ((choice.of(events_batch) or None),):
            for event in chosen.to_pylist() if chosen is not None else ():
                of_connection[event["conn"]].append(event)
    return [
        fact
        for conn, rows in of_connection.items()
        for fact in connection_facts(ConnectionReader(conn, GROUND), iter(rows), SCOPE, again)
    ]


@given(recordings(), st.lists(st.integers(1, 300), max_size=6), st.randoms(use_true_random=False))
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_what_is_chosen_tells_the_same_of_what_is_looked_for(
    events: list[ev.Event], cuts: list[int], random: Any
) -> None:
    facts = [
        fact
        for fact in recorded_anomalies.facts(events, GROUND)
        if not isinstance(fact, (Overrun, UnreadableConnection))
    ]
    messages = [fact for fact in facts if isinstance(fact, (Sent, Delivered))]
    wanted_: dict[Any, list[int]] = defaultdict(list)
    for fact in random.sample(messages, min(len(messages), 5)):
        if fact.key.stamped:
            wanted_[*SCOPE, fact.queue, fact.key.producer].append(fact.key.number)
    stamped = all(message.key.stamped for message in messages)
    groups = {(*SCOPE, message.queue, -1) for message in messages} if not stamped else set()
    connections = frozenset((*SCOPE, event.conn) for event in events if event.conn is not None)
    cumulative = {
        (*SCOPE, key[6]): group.cumulative
        for key, group in summed_up(events, cuts)["windows"].items()
        if group.cumulative
    }
    again = RecheckPlan(
        whole=frozenset(groups),
        numbered={group: at for at, group in enumerate(wanted_)},
        ranges=Ranges.of([(number, number) for number in numbers] for numbers in wanted_.values()),
        connections=connections,
        full=connections if groups else frozenset(),
        cumulative=cumulative,
    )

    def matters(fact: Fact) -> bool:
        if not isinstance(fact, (Sent, Delivered)) or not fact.key.stamped:
            return True
        return fact.key.number in wanted_.get((*SCOPE, fact.queue, fact.key.producer), ())

    expected = [fact for fact in facts if matters(fact)]
    assert sorted(map(repr, facts_of(again, cut(events, cuts)))) == sorted(map(repr, expected))


@given(recordings(), st.lists(st.integers(1, 300), max_size=6))
@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
def test_an_overrun_is_told_from_the_part_that_it_lies_in(
    events: list[ev.Event], cuts: list[int]
) -> None:
    edges = sorted({0, *(cut for cut in cuts if cut < len(events)), len(events)})
    found = set()
    unclear = set()
    for key, group in summed_up(events, cuts)["windows"].items():
        account: WindowLedger = group
        if account.ambiguous or account.unsubscribed:
            unclear.add(key[6])
            continue
        for shut in account.closed:
            reading = resumed_reader(key[6], GROUND, shut)
            for place in range(edges[shut.place], edges[shut.place + 1]):
                event = events[place]
                if event.conn == key[6]:
                    found |= {
                        fact
                        for fact in reading.read(row(place, event))
                        if isinstance(fact, Overrun)
                    }
    expected = {
        fact for fact in recorded_anomalies.facts(events, GROUND) if isinstance(fact, Overrun)
    }
    assert found == {fact for fact in expected if fact.conn not in unclear}


def test_ranges_hold_their_numbers_and_no_others() -> None:
    ranges = Ranges.of([[(5, 9), (7, 8), (20, 20)], [], [(0, 3)]])
    group = np.array([0, 0, 0, 0, 0, 1, 2, 2, -1, 0])
    number = np.array([4, 5, 9, 10, 20, 5, 0, 4, 5, -1])
    told = [False, True, True, False, True, False, True, False, False, False]
    assert ranges.contains(group, number).tolist() == told


@settings(deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3 * BLOCK), st.booleans()), max_size=60), st.integers(0, 60)
)
def test_books_know_which_numbers_are_odd(messages: list[tuple[int, bool]], at: int) -> None:
    events: list[ev.Event] = []
    for number, sent in messages:
        body = b"bp1:%08d:%012d;" % (1, number)
        kind, command = (ev.FrameSent, "SEND") if sent else (ev.FrameReceived, "MESSAGE")
        headers = (("destination", "/queue/a"), ("subscription", "s"), ("ack", f"t{number}"))
        size = {"body": body, "body_size": len(body), "size": 100}
        events.append(
            kind(at_ns=0, conn=1, protocol="STOMP", command=command, headers=headers, **size)
        )
    found: dict[int, list[DeliveryBitmap]] = defaultdict(list)
    for part in cut(events, [at]) if events else []:
        names = Names.none()
        books = DeliveryBitmaps(names)
        books.update(columns(part, names))
        for (_, _, _, block), book in books.summaries():
            found[block].append(book)
    told = {block: reduce(DeliveryBitmap.merge, parts) for block, parts in found.items()}
    sends, gots = ([number for number, sent in messages if sent is side] for side in (True, False))
    missing = {send for send in sends if send not in gots}
    again = {
        number for number in (*sends, *gots) if sends.count(number) > 1 or gots.count(number) > 1
    }
    got = {number for block, book in told.items() for number in numbers_of(block, book.missing)}
    assert got == missing
    assert {
        number for block, book in told.items() for number in numbers_of(block, book.suspicious)
    } == again | (set(gots) - set(sends))


def test_a_fall_between_two_parts_is_told_with_all_between() -> None:
    whole = (
        OrderSummary(3, 9)
        .merge(OrderSummary(12, 20, (Inversion(12, 14, all_between=False),)))
        .merge(OrderSummary(8, 30))
    )
    assert whole == OrderSummary(
        3, 30, (Inversion(12, 14, all_between=False), Inversion(8, 20, all_between=True))
    )
    assert whole.needs_recheck
    assert not OrderSummary(3, 9).merge(OrderSummary(10, 12)).needs_recheck


def on_a_topic(*got: tuple[int, int], anycast: bool = False) -> dict[str, list[bool]]:
    """Return which summaries are clean if a producer sent messages 0 to 3 to a topic and
    connections received these numbers."""
    kind = (("destination-type", "ANYCAST"),) if anycast else ()
    frames = [(ev.FrameSent, "SEND", 1, number, kind) for number in range(4)]
    frames += [
        (ev.FrameReceived, "MESSAGE", conn, number, (("subscription", "s"),))
        for conn, number in got
    ]
    events: list[ev.Event] = [
        event(
            **{
                "at_ns": at,
                "conn": conn,
                "protocol": "STOMP",
                "command": command,
                "size": 100,
                "body_size": 26,
            },
            **{
                "headers": (("destination", "/topic/a"), *more),
                "body": b"bp1:%08d:%012d;" % (1, number),
            },
        )
        for at, (event, command, conn, number, more) in enumerate(frames)
    ]
    found = summed_up(events, [3, 6])
    return {
        what: [not group.needs_recheck for group in found[what].values()]
        for what in ("deliveries", "order")
    }


def test_a_topic_gives_each_subscription_a_copy_and_needs_no_recheck() -> None:
    twice = [(conn, number) for number in range(4) for conn in (2, 3)]
    assert on_a_topic(*twice) == {"deliveries": [True], "order": [True, True]}
    assert on_a_topic(*twice[:5]) == {"deliveries": [True], "order": [True, True]}
    assert on_a_topic(*twice, anycast=True)["deliveries"] == [False]
    assert on_a_topic(*twice, (2, 9))["deliveries"] == [False]
    assert on_a_topic(*twice, (3, 3))["order"] == [True, False]
