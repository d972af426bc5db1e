"""UNSUBSCRIBE: what it requires, and that a removed subscription delivers nothing more."""

from collections import Counter
from collections.abc import Callable

from brokerproof.suites.api import PATIENCE, Bench, CloseHow, Match, case, listed
from brokerproof.suites.api.stomp import ERROR, Destination, Frame, StompPeer, frame
from brokerproof.suites.steps import amounts
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    QUIET,
    bodies,
    collect,
    expected_arrivals,
    left_in,
    numbered,
    publish_all,
    unsettled_comes_back,
)
from brokerproof.suites.steps.refusals import bystander, refused

UNSUBSCRIBED = {
    "1.0": "STOMP10-UNSUBSCRIBE-02",
    "1.1": "STOMP11-UNSUB-02",
    "1.2": "STOMP12-UNSUB-03",
}
NO_ERROR = {
    "1.0": "STOMP10-READING-ERROR-01",
    "1.1": "STOMP11-READING-ERROR-01",
    "1.2": "STOMP12-READING-ERROR-01",
}
MODE_AUTO = {"1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"}
NEVER_SENT = {"1.0": "STOMP10-SUBSCRIBE-02", **MODE_AUTO}
UNACKNOWLEDGED = {"1.0": "STOMP10-SUBSCRIBE-05", "1.1": "STOMP11-ACK-05", "1.2": "STOMP12-ACK-04"}
UNSUBSCRIBED_FROM_1_1 = {"1.1": "STOMP11-UNSUB-02", "1.2": "STOMP12-UNSUB-03"}
NAMES_SUBSCRIPTION = {
    "1.0": ("STOMP10-UNSUBSCRIBE-01",),
    "1.1": ("STOMP11-UNSUB-01",),
    "1.2": ("STOMP12-UNSUB-01", "STOMP12-FH-05"),
}
KNOWN_ID = {"1.1": "STOMP11-UNSUB-01", "1.2": "STOMP12-UNSUB-02"}
ID_ENDS_IT = "STOMP10-SUBSCRIBE-08"
NAMED_IN_1_0 = "STOMP10-UNSUBSCRIBE-01"


def _more_than(peer: StompPeer, seen: int) -> Callable[[], bool]:
    return lambda: peer.messages_seen > seen


@case(UNSUBSCRIBED)
def test_nothing_comes_after_unsubscribe(target: Bench, version: str) -> None:
    """One connection subscribes to two queues and unsubscribes from one. Messages sent to that
    queue no longer arrive; messages sent to the other still do."""
    gone, kept = target.destination(), target.destination()
    peer, producer = target.stomp(version), target.stomp(version)
    peer.subscribe(gone, "gone")
    peer.subscribe(kept, "kept")
    producer.publish(gone, b"before")
    peer.message(body=b"before")
    peer.request("UNSUBSCRIBE", {"id": "gone"}, proves=UNSUBSCRIBED[version])
    producer.publish(gone, b"after")
    producer.publish(kept, b"still")
    received = bodies(collect(target, peer, 1))
    target.record_finding(
        UNSUBSCRIBED[version],
        received == [b"still"],
        f"after UNSUBSCRIBE, the connection got {listed(received)}; expected 'still' once",
        expectation=expected_arrivals(peer, received, [b"still"]),
    )


@case(UNSUBSCRIBED, NO_ERROR)
def test_the_receipt_of_unsubscribe_ends_a_stream_of_messages(target: Bench, version: str) -> None:
    """While a producer sends without a pause, the consumer unsubscribes, ten times. After the
    RECEIPT of UNSUBSCRIBE no message arrives, and no ERROR for messages in flight."""
    peer, producer = target.stomp(version), target.stomp(version)
    for turn in range(1 if target.virtual else 10):  # a race in a multi-threaded broker
        queue, seen = target.destination(), peer.messages_seen
        peer.subscribe(queue, f"s{turn}")
        for body in numbered(200):
            producer.publish(queue, body, receipt=False)
        arrived = target.wait_until(_more_than(peer, seen), PATIENCE)
        target.control(arrived, f"of 200 messages the first should arrive; {peer.instead()}")
        receipt = peer.next_receipt()
        peer.send("UNSUBSCRIBE", {"id": f"s{turn}", "receipt": receipt})
        producer.settle()
        confirmed = frame("RECEIPT", {"receipt-id": receipt})
        _arrives(target, peer, confirmed)
        target.wait_until(
            lambda: peer.ended is not None or any(map(ERROR.accepts, peer.inbox)), QUIET
        )
        error = peer.take(ERROR)
        if error is None:
            peer.settle()
        inbox, peer.inbox = peer.inbox, []
        behind = inbox[
            next(index for index, received in enumerate(inbox) if confirmed.accepts(received)) :
        ]
        late = [message.body.decode() for message in behind if message.command == "MESSAGE"]
        words = f"{listed(late)} arrived after the RECEIPT for UNSUBSCRIBE"
        target.record_finding(UNSUBSCRIBED[version], not late, words)
        target.record_finding(
            NO_ERROR[version],
            error is None,
            f"a valid UNSUBSCRIBE got {error.brief() if error else 'no ERROR'}",
        )
        if late or error is not None:
            return


def _arrives(target: Bench, peer: StompPeer, expected: Match[Frame]) -> None:
    """A control, not a judgement: the case above judges whether UNSUBSCRIBE causes an ERROR."""
    arrived = target.wait_until(lambda: any(map(expected.accepts, peer.inbox)), PATIENCE)
    target.control(arrived, f"{expected} should arrive; {peer.instead()}")


@case(MODE_AUTO)
def test_what_another_subscription_gets_behind_an_unsubscribe_comes_once(
    target: Bench, version: str
) -> None:
    """A connection unsubscribes while messages arrive, several times, and then gets one message
    through the subscription that it keeps, in auto mode. That message is not delivered again."""
    kept, peer, producer = target.destination(), target.stomp(version), target.stomp(version)
    peer.subscribe(kept, "kept")
    turns = numbered(1 if target.virtual else 10)  # a race in a multi-threaded broker
    for turn in turns:
        queue, seen = target.destination(), peer.messages_seen
        peer.subscribe(queue, "gone", receipt=False)
        publish_all(producer, queue, [b"before"] * 20)
        received = target.wait_until(_more_than(peer, seen), PATIENCE)
        target.control(received, f"of 20 messages the first should arrive; {peer.instead()}")
        receipt = peer.next_receipt()
        peer.send("UNSUBSCRIBE", {"id": "gone", "receipt": receipt})
        _arrives(target, peer, frame("RECEIPT", {"receipt-id": receipt}))
        producer.publish(kept, turn)
        _arrives(target, peer, frame("MESSAGE", {"subscription": "kept"}, body=turn))
    by_kept = Counter(
        message.body
        for message in collect(target, peer, 0)
        if message.get("subscription") == "kept"
    )
    twice = sorted(body for body, count in by_kept.items() if count > 1)
    words = f"of {len(turns)} messages, {listed(twice)} arrived more than once"
    target.record_finding(MODE_AUTO[version], not twice, words)


@case(UNSUBSCRIBED_FROM_1_1)
def test_another_subscription_to_the_same_queue_goes_on(target: Bench, version: str) -> None:
    """A connection subscribes twice to one queue and ends one of the subscriptions. The other one
    receives all later messages."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue, "a")
    peer.subscribe(queue, "b")
    peer.request("UNSUBSCRIBE", {"id": "a"})
    sent = numbered(4)
    publish_all(target.stomp(version), queue, sent)
    received = collect(target, peer, len(sent))
    by = {message.get("subscription") for message in received}
    words = f"{listed(sent)} were sent; {listed(bodies(received))} arrived for"
    words += f" {', '.join(sorted(map(str, by)))}"
    fine = bodies(received) == sent and by == {"b"}
    target.record_finding(UNSUBSCRIBED_FROM_1_1[version], fine, words)


@case(NAMES_SUBSCRIPTION)
def test_an_unsubscribe_that_names_no_subscription_is_not_confirmed(
    target: Bench, version: str
) -> None:
    """UNSUBSCRIBE with only a receipt header is not confirmed. With the id it is."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.subscribe(target.destination(), "a")
        peer.subscribe(target.destination(), "b")
        peer.request("UNSUBSCRIBE", {"id": "a"}, proves=NAMES_SUBSCRIPTION[version])
        refused(target, peer, "UNSUBSCRIBE", refuses=NAMES_SUBSCRIPTION[version])


@case(KNOWN_ID)
def test_an_unsubscribe_for_an_unknown_id_is_not_confirmed(target: Bench, version: str) -> None:
    """UNSUBSCRIBE with an id of another connection's subscription is not confirmed, and that
    subscription remains."""
    queue = target.destination()
    with bystander(target, version) as other:
        other.subscribe(queue, "theirs")
        peer = target.stomp(version)
        peer.subscribe(target.destination(), "ours")
        refused(
            target,
            peer,
            "UNSUBSCRIBE",
            {"id": "theirs"},
            refuses=KNOWN_ID[version],
            behaviour="stomp.unsubscribe-of-another",
        )
        other.publish(queue, b"still there")
        other.message(body=b"still there")


@case(ID_ENDS_IT, NAMED_IN_1_0)
def test_a_subscription_of_1_0_ends_by_its_id(target: Bench) -> None:
    """A 1.0 SUBSCRIBE has an id: UNSUBSCRIBE with that id ends the subscription."""
    queue, peer = target.destination(), target.stomp("1.0")
    peer.subscribe(queue, "mine")
    _judge_end(target, peer, queue, {"id": "mine"}, (ID_ENDS_IT, NAMED_IN_1_0))


def _judge_end(
    target: Bench, peer: StompPeer, queue: Destination, by: dict[str, str], ids: tuple[str, ...]
) -> None:
    peer.publish(queue, b"before")
    peer.message(body=b"before")
    peer.request("UNSUBSCRIBE", by, proves=ids)
    peer.publish(queue, b"after")
    received = bodies(collect(target, peer, 0))
    words = f"after UNSUBSCRIBE by {next(iter(by))}, {listed(received)} arrived"
    expectation = expected_arrivals(peer, received, ())
    target.record_finding(ids, not received, words, expectation=expectation)


@case(NAMED_IN_1_0)
def test_a_subscription_of_1_0_ends_by_its_destination(target: Bench) -> None:
    """A 1.0 SUBSCRIBE has no id: UNSUBSCRIBE with its destination ends the subscription."""
    queue, peer = target.destination(), target.stomp("1.0")
    peer.request("SUBSCRIBE", (("destination", queue.name), *queue.subscribe_headers))
    _judge_end(target, peer, queue, {"destination": queue.name}, (NAMED_IN_1_0,))


@case(UNSUBSCRIBED, needs={"queue-semantics"})
def test_nothing_that_comes_back_follows_the_receipt(target: Bench, version: str) -> None:
    """A subscription that holds messages is ended by UNSUBSCRIBE with a receipt. The messages
    return to the queue, and none of them arrives after the RECEIPT."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.subscribe(queue, ack="client")
    publish_all(target.stomp(version), queue, numbered(3))
    held = collect(target, consumer, 3)
    target.control(len(held) == 3, f"three messages were sent; {len(held)} arrived")
    seen = consumer.messages_seen
    consumer.request("UNSUBSCRIBE", {"id": "0"})
    target.wait_until(_more_than(consumer, seen), QUIET)
    late = consumer.messages_seen - seen
    words = f"messages after the RECEIPT for UNSUBSCRIBE: {late}; expected 0"
    target.record_finding(UNSUBSCRIBED[version], late == 0, words)


@case(NEVER_SENT, UNACKNOWLEDGED, needs={"anycast"})
@amounts.over_amounts(examples=2)
def test_what_a_short_subscription_never_got_remains(
    target: Bench, version: str, position: int
) -> None:
    """Any number of messages wait in a queue; SUBSCRIBE, in each mode, and UNSUBSCRIBE arrive in
    one write. The next consumer gets each message that this subscription did not get. Where a
    broker does not redeliver messages held at UNSUBSCRIBE, only mode auto is judged."""
    returns = unsettled_comes_back(target, version, INDIVIDUAL[version], leaves=True)
    if not returns:
        words = "a message that was held at UNSUBSCRIBE reached no other consumer"
        target.record_not_applicable(UNACKNOWLEDGED[version], words)
    sent = numbered(amounts.at(target, position, least=1, most=600))
    target.used_amount("messages that wait for a short subscription", len(sent))
    for ack in dict.fromkeys(("auto", "client", INDIVIDUAL[version]) if returns else ("auto",)):
        queue, peer = target.destination(), target.stomp(version)
        publish_all(target.stomp(version), queue, sent)
        receipt = peer.next_receipt()
        with peer.in_one_write():
            peer.subscribe(queue, ack=ack, receipt=False)
            peer.send("UNSUBSCRIBE", {"id": "0", "receipt": receipt})
        _arrives(target, peer, frame("RECEIPT", {"receipt-id": receipt}))
        got = set(bodies(collect(target, peer, 0)))
        peer.close_socket(CloseHow.RESET)
        left = left_in(target, queue, version, len(sent) - len(got))
        lost = [body for body in sent if body not in got and body not in left]
        target.record_finding(
            (NEVER_SENT if ack == "auto" else UNACKNOWLEDGED)[version],
            not lost,
            f"of {len(sent)} messages in mode {ack}, {len(got)} reached the subscription before"
            f" UNSUBSCRIBE and {len(left)} the next consumer; neither got {listed(lost)}",
        )
