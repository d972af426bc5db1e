"""Prefetch limits: how many unacknowledged messages a consumer may have."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.openwire.raw_peer import INDIVIDUAL, STANDARD
from brokerproof.suites.api import PATIENCE, Bench, case, listed, ms, over
from brokerproof.suites.api.openwire import dispatch
from brokerproof.suites.openwire.steps import OPENWIRE, QUIET, fresh_queue, number_of, publish, take

PREFETCH_LIMIT = "OPENWIRE-PREFETCH-1"
PREFETCH_USED = "OPENWIRE-PREFETCH-2"
MESSAGE_PULL = "OPENWIRE-PREFETCH-3"


@case(PREFETCH_LIMIT, PREFETCH_USED, needs={OPENWIRE})
@over(
    examples=24,
    always=lambda target: [
        {"limit": 1, "waiting": 3, "cumulative": True},
        {"limit": 4, "waiting": 9, "cumulative": False},
    ],
    limit=st.integers(1, 8),
    waiting=st.integers(1, 20),
    cumulative=st.booleans(),
)
def test_no_more_than_the_limit_is_out(
    target: Bench, limit: int, waiting: int, cumulative: bool
) -> None:
    """A consumer repeatedly acknowledges half of its messages, one by one or cumulatively, until
    the queue is empty. It never has more messages than its prefetch limit, and exactly that many
    while others wait."""
    peer, place = target.openwire(), fresh_queue(target)
    publish(peer, place, waiting)
    consumer = peer.open_consumer(place, prefetch=limit)
    held, seen = take(target, peer, min(limit, waiting), consumer), 0
    while held:
        left = waiting - seen
        target.judge_count(PREFETCH_LIMIT, "messages out", len(held), (0, limit), "messages")
        target.judge_count(
            PREFETCH_USED,
            "messages out while some wait",
            len(held),
            (min(limit, left), None),
            "messages",
        )
        order = [number_of(dispatched) for dispatched in held]
        detail = f"the messages {listed(order)} arrived after {seen}"
        target.control(order == list(range(seen, seen + len(held))), detail)
        done = (len(held) + 1) // 2
        if cumulative:
            peer.ack(held[done - 1], type=STANDARD, first=held[0], count=done)
        else:
            for dispatched in held[:done]:
                peer.ack(dispatched, type=INDIVIDUAL)
        seen += done
        held = held[done:]
        held += take(target, peer, min(limit, waiting - seen) - len(held), consumer)
    target.control(seen == waiting, f"{seen} of {waiting} messages arrived")


@case(MESSAGE_PULL, needs={OPENWIRE})
@over(examples=6, always=lambda target: [{"pulls": 3}], pulls=st.integers(1, 5))
def test_without_a_limit_each_message_is_pulled(target: Bench, pulls: int) -> None:
    """A consumer has a limit of 0. Nothing is dispatched until it pulls; each pull gets one
    message."""
    peer, place = target.openwire(), fresh_queue(target)
    publish(peer, place, pulls + 2)
    consumer = peer.open_consumer(place, prefetch=0)
    peer.expect_nothing(for_=QUIET, proves=MESSAGE_PULL, why="nothing was pulled")
    for number in range(pulls):
        peer.send("MessagePull", {"consumerId": consumer, "destination": place, "timeout": 0})
        dispatched = peer.expect(dispatch(consumer), within=PATIENCE, proves=MESSAGE_PULL)
        target.record_finding(
            MESSAGE_PULL,
            number_of(dispatched) == number,
            f"pull {number} returned {dispatched.brief()}",
        )
        peer.expect_nothing(for_=QUIET, proves=MESSAGE_PULL, why="one was pulled, and arrived")
        peer.ack(dispatched)
    peer.expect_nothing(for_=QUIET, proves=MESSAGE_PULL, why="nothing more was pulled")


@case(MESSAGE_PULL, needs={OPENWIRE})
@over(
    examples=8,
    always=lambda target: [{"timeouts": [-1, 200]}, {"timeouts": [200, -1]}],
    timeouts=st.lists(st.sampled_from([-1, 1, 200]), min_size=1, max_size=4),
)
def test_a_pull_that_ended_brings_nothing_later(target: Bench, timeouts: list[int]) -> None:
    """A consumer with a limit of 0 pulls from an empty queue, several times, with or without a time
    limit. Each pull ends with a dispatch without a message. Messages published later are not
    pushed; each further pull gets one."""
    peer, place = target.openwire(), fresh_queue(target)
    consumer = peer.open_consumer(place, prefetch=0)
    pull = {"consumerId": consumer, "destination": place}
    for timeout in timeouts:
        peer.send("MessagePull", {**pull, "timeout": timeout})
        ended = peer.expect(dispatch(consumer), within=PATIENCE)
        target.control(ended["message"] is None, f"an empty queue gave {ended.brief()}")
    publish(target.openwire(), place, 3)
    why = f"the pulls with timeouts of {listed(timeouts)} ms are over"
    peer.expect_nothing(for_=QUIET, proves=MESSAGE_PULL, why=why)
    for _ in range(2):
        peer.send("MessagePull", {**pull, "timeout": 0})
        peer.ack(peer.expect(dispatch(consumer), within=PATIENCE, proves=MESSAGE_PULL))
        peer.expect_nothing(for_=QUIET, proves=MESSAGE_PULL, why="one was pulled, and arrived")


@case(MESSAGE_PULL, needs={OPENWIRE})
def test_a_pull_that_got_a_message_does_not_end_the_next(target: Bench) -> None:
    """A message answers a pull with a timeout of one second. The next pull has a timeout of five
    seconds and does not end early."""
    peer, place = target.openwire(), fresh_queue(target)
    consumer = peer.open_consumer(place, prefetch=0)
    pull = {"consumerId": consumer, "destination": place}
    peer.send("MessagePull", {**pull, "timeout": 1000})
    peer.settle()
    publish(target.openwire(), place, 1)
    arrived = peer.expect(dispatch(consumer), within=PATIENCE)
    target.control(arrived["message"] is not None, "the message should end the pull of a second")
    peer.ack(arrived)
    peer.send("MessagePull", {**pull, "timeout": 5000})
    why = "a pull of 5 s began, after one of 1 s that got a message"
    peer.expect_nothing(for_=ms(2000), proves=MESSAGE_PULL, why=why)
