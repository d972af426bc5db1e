"""Local transactions, whose sends and acknowledgements take effect with the commit."""

from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.raw_peer import INDIVIDUAL
from brokerproof.suites.api import Bench, CloseHow, case, listed, over, shown
from brokerproof.suites.api.openwire import Structure
from brokerproof.suites.openwire.steps import (
    COMMIT,
    OPENWIRE,
    ROLLBACK,
    begin,
    fresh_queue,
    number_of,
    publish,
    take,
    transact,
)

COUNTS = "OPENWIRE-TX-1"
ENDS = {"commit": COMMIT, "rollback": ROLLBACK}
UNITS = st.lists(st.tuples(st.sampled_from(list(ENDS)), st.integers(0, 3)), min_size=1, max_size=5)


@case(COUNTS, needs={OPENWIRE})
@over(
    examples=16,
    always=lambda target: [
        {"limit": 4, "units": [("rollback", 2), ("commit", 2), ("rollback", 3)], "each": each}
        for each in (False, True)
    ],
    limit=st.integers(1, 5),
    units=UNITS,
    each=st.booleans(),
)
def test_what_is_done_in_a_transaction_counts_with_its_commit(
    target: Bench, limit: int, units: list[tuple[str, int]], each: bool
) -> None:
    """In successive transactions a consumer acknowledges its oldest messages, as a range or one by
    one, and sends one elsewhere. Each transaction is committed or rolled back; the last is open
    when the connection is lost. Before a transaction ends, nothing of it is visible. After a commit
    its message arrives and the consumer gets further messages; after a rollback neither happens.
    The next consumer gets all messages that no commit acknowledged. One scenario: sends and
    acknowledgements belong to one transaction."""
    place, elsewhere = fresh_queue(target), fresh_queue(target)
    peer, other = target.openwire(), target.openwire()
    left = list(range(limit + 3 * len(units) + 3))
    publish(other, place, len(left))
    watcher = other.open_consumer(elsewhere)
    consumer, producer = peer.open_consumer(place, prefetch=limit), peer.open_producer(elsewhere)
    held = take(target, peer, limit, consumer)
    target.control(len(held) == limit, f"{limit} messages should arrive; {len(held)} did")
    for number, (end, count) in enumerate([*units, ("loss", limit)]):
        done = held[:count]
        words = f"transaction {number} acknowledges {listed(numbers(done))} and sends one"
        transaction = begin(peer, number)
        sent: dict[str, Any] = {"properties": {"number": number}, "transactionId": transaction}
        peer.answered(peer.publish(peer.message(producer, elsewhere, **sent), response=True))
        for one in done if each else ():
            peer.ack(one, type=INDIVIDUAL, proves=COUNTS, transactionId=transaction)
        if done and not each:
            within: dict[str, Any] = {"count": len(done), "transactionId": transaction}
            peer.ack(done[-1], first=done[0], proves=COUNTS, **within)
        arrived = take(target, peer, 0, consumer)
        # The broker replaces a message that is acknowledged alone immediately (release 6.3.1).
        early = numbers(arrived if not each else []) + numbers(take(target, other, 0, watcher))
        detail = f"{words}: before its end, {listed(early)} arrived"
        target.record_finding(COUNTS, not early, detail)
        held += arrived
        if end == "loss":
            break
        transact(peer, transaction, ENDS[end])
        got = numbers(take(target, other, int(end == "commit"), watcher))
        detail = f"{words}: after its {end}, {listed(got)} arrived elsewhere"
        target.record_finding(COUNTS, got == [number] * (end == "commit"), detail)
        if end == "commit":
            left = [message for message in left if message not in numbers(done)]
            held = held[len(done) :]
        held += take(target, peer, limit - len(held), consumer)
        detail = f"{words}: after its {end}, the consumer holds {len(held)} of at most {limit}"
        target.record_finding(COUNTS, each or len(held) == limit, detail)
    peer.close_socket(CloseHow.RESET)
    heir = target.openwire()
    rest = numbers(take(target, heir, len(left), heir.open_consumer(place)))
    detail = f"{shown(units)}, then a loss: {listed(rest)} arrived; expected {listed(left)}"
    target.record_finding(COUNTS, sorted(rest) == left, detail)


def numbers(dispatched: list[Structure]) -> list[int]:
    return [number_of(one) for one in dispatched]
