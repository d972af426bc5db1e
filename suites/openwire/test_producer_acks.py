"""ProducerAcks report to a producer with a window how many of its bytes were accepted."""

from hypothesis import strategies as st

from brokerproof.harness.oracles.openwire_acks import acks, producers
from brokerproof.suites.api import PATIENCE, Bench, case, over
from brokerproof.suites.api.openwire import OpenWirePeer, Structure, command, topic
from brokerproof.suites.openwire.steps import OPENWIRE, QUIET, fresh_queue
from brokerproof.suites.steps.traces import judge_trace

PRODUCER_ACKS = "OPENWIRE-ACK-1"
ACKS_FOR_WINDOWS_ONLY = "OPENWIRE-ACK-2"
SIZES = st.one_of(st.integers(0, 3), st.integers(0, 5000))


def _place(target: Bench, is_topic: bool) -> Structure:
    return topic(target.fresh_name()) if is_topic else fresh_queue(target)


def _told(target: Bench, peer: OpenWirePeer) -> bool:
    """Wait until the ProducerAcks cover everything sent, and slightly longer."""

    def all_taken() -> bool:
        producer_states, wrong = producers(target.events, peer.conn)
        return bool(wrong) or all(
            producer.taken >= producer.sent
            for producer in producer_states.values()
            if producer.window > 0
        )

    done = target.wait_until(all_taken, PATIENCE)
    target.advance(QUIET)
    peer.settle()
    return done


@case(PRODUCER_ACKS, ACKS_FOR_WINDOWS_ONLY, needs={OPENWIRE})
@over(
    examples=40,
    always=lambda target: [
        {"window": 1, "sizes": [0, 1, 5000], "persistent": False, "is_topic": False}
    ],
    window=st.sampled_from([1, 1024, 1025, 65536, 2**31 - 1]),
    sizes=st.lists(SIZES, min_size=1, max_size=8),
    persistent=st.booleans(),
    is_topic=st.booleans(),
)
def test_all_that_was_sent_is_told(
    target: Bench, window: int, sizes: list[int], persistent: bool, is_topic: bool
) -> None:
    """A producer with a window sends messages of all sizes without requesting responses. The
    ProducerAcks add up to the size of the messages, and never exceed it."""
    peer, place = target.openwire(), _place(target, is_topic)
    producer = peer.open_producer(place, window=window)
    for number, size in enumerate(sizes):
        properties = {"number": number, "more": "x" * size} if number % 2 else None
        peer.publish(
            peer.message(producer, place, b"x" * size, persistent=persistent, properties=properties)
        )
    _told(target, peer)
    judge_trace(target, peer, acks)


@case(PRODUCER_ACKS, ACKS_FOR_WINDOWS_ONLY, needs={OPENWIRE})
@over(
    examples=30,
    always=lambda target: [
        {"sends": [(0, True), (0, False), (1, True), (1, False), (2, False), (2, True)]}
    ],
    sends=st.lists(st.tuples(st.integers(0, 2), st.booleans()), min_size=1, max_size=12),
)
def test_each_producer_is_told_of_its_own(target: Bench, sends: list[tuple[int, bool]]) -> None:
    """Three producers of one connection send in turn, the first without a window. Each of the other
    two gets ProducerAcks for its own messages; a message that requests a response gets the response
    instead."""
    peer, place = target.openwire(), fresh_queue(target)
    made = [peer.open_producer(place, window=window) for window in (0, 4096, 10**6)]
    for who, response in sends:
        number = peer.publish(peer.message(made[who], place, b"x" * (100 * who)), response=response)
        if response:
            peer.answered(number, proves=ACKS_FOR_WINDOWS_ONLY)
    _told(target, peer)
    judge_trace(target, peer, acks)
    others = [reply.brief() for reply in peer.inbox if reply.name != "ProducerAck"]
    words = f"besides ProducerAcks, {'; '.join(others) or 'nothing'} arrived"
    target.record_finding(ACKS_FOR_WINDOWS_ONLY, not others, words)
    target.record_finding(PRODUCER_ACKS, peer.ended is None, f"afterwards: {peer.instead()}")


@case(ACKS_FOR_WINDOWS_ONLY, needs={OPENWIRE})
def test_a_window_that_has_closed_is_not_told_of(target: Bench) -> None:
    """A producer with a window gets its ProducerAck and is removed. A second one without a window
    sends, and gets no ProducerAck."""
    peer, place = target.openwire(), fresh_queue(target)
    first = peer.open_producer(place, window=2048)
    peer.publish(peer.message(first, place, b"one"))
    peer.expect(command("ProducerAck", producerId=first))
    peer.remove(first)
    second = peer.open_producer(place)
    for _ in range(3):
        peer.publish(peer.message(second, place, b"two"))
    peer.settle()
    peer.expect_nothing(
        for_=QUIET,
        of=command("ProducerAck"),
        proves=ACKS_FOR_WINDOWS_ONLY,
        why="the one with a window has ended",
    )
    judge_trace(target, peer, acks)
