"""UNSUBSCRIBE: what it needs, and that nothing more comes from a subscription that is gone."""

from __future__ import annotations

from collections import Counter

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.protocols.conversation import PATIENCE, Match
from brokerproof.harness.protocols.stomp.codec import Frame
from brokerproof.harness.protocols.stomp.raw_peer import ERROR, StompPeer, frame
from brokerproof.suites.steps.queues import QUIET, bodies, collect, numbered, publish_all
from brokerproof.suites.steps.refusals import bystander, refused


@case({"1.0": "STOMP10-UNSUBSCRIBE-02", "1.1": "STOMP11-UNSUB-02", "1.2": "STOMP12-UNSUB-03"})
def test_nothing_comes_after_unsubscribe(target: Bench, version: str) -> None:
    """One connection listens to two queues and takes one subscription back. What is sent to that
    queue afterwards does not come any more; what is sent to the other does."""
    gone, kept = target.destination(), target.destination()
    peer, producer = target.stomp(version), target.stomp(version)
    peer.subscribe(gone, "gone")
    peer.subscribe(kept, "kept")
    producer.publish(gone, b"before")
    peer.message(body=b"before")
    peer.request("UNSUBSCRIBE", {"id": "gone"}, proves=target.cited)
    producer.publish(gone, b"after")
    producer.publish(kept, b"still")
    came = bodies(collect(target, peer, 1))
    target.record_finding(
        target.cited, came == [b"still"], f"after UNSUBSCRIBE the connection got {came!r}"
    )


@case({"1.0": "STOMP10-UNSUBSCRIBE-02", "1.1": "STOMP11-UNSUB-02", "1.2": "STOMP12-UNSUB-03"})
def test_the_receipt_of_unsubscribe_ends_a_stream_of_messages(target: Bench, version: str) -> None:
    """A producer sends without a pause while the consumer takes its subscription back, ten times
    over. Messages may still be on their way before the RECEIPT of UNSUBSCRIBE; behind it there is
    none."""
    peer, producer = target.stomp(version), target.stomp(version)
    for turn in range(1 if target.virtual else 10):  # a race, where there are threads
        queue, seen = target.destination(), peer.messages_seen
        peer.subscribe(queue, f"s{turn}")
        for body in numbered(200):
            producer.publish(queue, body, receipt=False)
        came = target.wait_until(lambda seen=seen: peer.messages_seen > seen, PATIENCE)
        target.control(came, f"of 200 messages the first should come; {peer.instead()}")
        receipt = peer.next_receipt()
        peer.send("UNSUBSCRIBE", {"id": f"s{turn}", "receipt": receipt})
        producer.settle()
        confirmed = frame("RECEIPT", {"receipt-id": receipt})
        _arrives(target, peer, confirmed)
        target.wait_until(
            lambda: peer.ended is not None or any(map(ERROR.accepts, peer.inbox)), QUIET
        )
        error = peer.take(ERROR)
        target.require(
            target.cited,
            error is None,
            f"an UNSUBSCRIBE in good order came to {error and error.brief()}",
        )
        peer.settle()
        inbox, peer.inbox = peer.inbox, []
        behind = inbox[next(index for index, each in enumerate(inbox) if confirmed.accepts(each)) :]
        late = [each.body.decode() for each in behind if each.command == "MESSAGE"]
        target.require(
            target.cited,
            not late,
            f"{len(late)} messages came behind the RECEIPT of UNSUBSCRIBE: {late[:3]}",
        )


def _arrives(target: Bench, peer: StompPeer, wanted: Match[Frame]) -> None:
    """A control, whatever else comes: an ERROR that the UNSUBSCRIBE should not have had is judged
    by the case above."""
    arrived = target.wait_until(lambda: any(map(wanted.accepts, peer.inbox)), PATIENCE)
    target.control(arrived, f"{wanted} should come; {peer.instead()}")


@case({"1.1": "STOMP11-SUB-07", "1.2": "STOMP12-SUB-08"})
def test_what_another_subscription_gets_behind_an_unsubscribe_comes_once(
    target: Bench, version: str
) -> None:
    """A connection takes subscriptions back while their messages come, and after each of them one
    message goes to the subscription that it keeps. In mode auto that counts as received when it was
    sent, so it does not come again."""
    kept, peer, producer = target.destination(), target.stomp(version), target.stomp(version)
    peer.subscribe(kept, "kept")
    turns = numbered(1 if target.virtual else 10)  # a race, where there are threads
    for turn in turns:
        queue, seen = target.destination(), peer.messages_seen
        peer.subscribe(queue, "gone", receipt=False)
        publish_all(producer, queue, [b"before"] * 20)
        came = target.wait_until(lambda seen=seen: peer.messages_seen > seen, PATIENCE)
        target.control(came, f"of 20 messages the first should come; {peer.instead()}")
        receipt = peer.next_receipt()
        peer.send("UNSUBSCRIBE", {"id": "gone", "receipt": receipt})
        _arrives(target, peer, frame("RECEIPT", {"receipt-id": receipt}))
        producer.publish(kept, turn)
        _arrives(target, peer, frame("MESSAGE", {"subscription": "kept"}, body=turn))
    by_kept = Counter(
        each.body for each in collect(target, peer, 0) if each.get("subscription") == "kept"
    )
    twice = sorted(body for body, count in by_kept.items() if count > 1)
    target.record_finding(
        target.cited, not twice, f"of {len(turns)} messages these came more than once: {twice!r}"
    )


@case({"1.1": "STOMP11-UNSUB-02", "1.2": "STOMP12-UNSUB-03"})
def test_another_subscription_to_the_same_queue_goes_on(target: Bench, version: str) -> None:
    """A connection subscribes twice to one queue and takes one of the two back. Everything that is
    sent afterwards comes by the other."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue, "a")
    peer.subscribe(queue, "b")
    peer.request("UNSUBSCRIBE", {"id": "a"})
    sent = numbered(4)
    publish_all(target.stomp(version), queue, sent)
    came = collect(target, peer, len(sent))
    by = {each.get("subscription") for each in came}
    target.record_finding(
        target.cited,
        bodies(came) == sent and by == {"b"},
        f"sent {sent!r}; came {bodies(came)!r} by {by}",
    )


@case(
    {
        "1.0": "STOMP10-UNSUBSCRIBE-01",
        "1.1": "STOMP11-UNSUB-01",
        "1.2": ("STOMP12-UNSUB-01", "STOMP12-FH-05"),
    }
)
def test_an_unsubscribe_that_names_no_subscription_is_not_confirmed(
    target: Bench, version: str
) -> None:
    """UNSUBSCRIBE comes with no header but receipt. It says not which subscription to remove, so it
    must not be confirmed. With the id alone it is, before."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.subscribe(target.destination(), "a")
        peer.subscribe(target.destination(), "b")
        peer.request("UNSUBSCRIBE", {"id": "a"}, proves=target.cited)
        refused(target, peer, "UNSUBSCRIBE", refuses=target.cited)


@case({"1.1": "STOMP11-UNSUB-01", "1.2": "STOMP12-UNSUB-02"})
def test_an_unsubscribe_for_an_unknown_id_is_not_confirmed(target: Bench, version: str) -> None:
    """UNSUBSCRIBE has an id that no subscription of this connection has, though one of another
    connection does. It must not be confirmed, and the other connection's subscription stays."""
    queue = target.destination()
    with bystander(target, version) as other:
        other.subscribe(queue, "theirs")
        peer = target.stomp(version)
        peer.subscribe(target.destination(), "ours")
        refused(target, peer, "UNSUBSCRIBE", {"id": "theirs"}, refuses=target.cited)
        other.publish(queue, b"still there")
        other.message(body=b"still there")


@case("STOMP10-SUBSCRIBE-08", "STOMP10-UNSUBSCRIBE-01")
def test_a_subscription_of_1_0_ends_by_its_id(target: Bench) -> None:
    """In 1.0 a SUBSCRIBE may have an id. UNSUBSCRIBE with that id ends the subscription."""
    queue, peer = target.destination(), target.stomp("1.0")
    peer.subscribe(queue, "mine")
    peer.publish(queue, b"before")
    peer.message(body=b"before")
    peer.request("UNSUBSCRIBE", {"id": "mine"}, proves=target.cited)
    peer.publish(queue, b"after")
    came = bodies(collect(target, peer, 0))
    target.record_finding(target.cited, not came, f"after UNSUBSCRIBE by id came {came!r}")


@case("STOMP10-UNSUBSCRIBE-01")
def test_a_subscription_of_1_0_ends_by_its_destination(target: Bench) -> None:
    """In 1.0 a SUBSCRIBE has no id. UNSUBSCRIBE with its destination ends the subscription."""
    queue, peer = target.destination(), target.stomp("1.0")
    peer.request("SUBSCRIBE", (("destination", queue.name), *queue.subscribe_headers))
    peer.publish(queue, b"before")
    peer.message(body=b"before")
    peer.request("UNSUBSCRIBE", {"destination": queue.name}, proves=target.cited)
    peer.publish(queue, b"after")
    came = bodies(collect(target, peer, 0))
    target.record_finding(target.cited, not came, f"after UNSUBSCRIBE by destination came {came!r}")
