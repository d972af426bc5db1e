"""Acknowledgement, rejection, redelivery and recovery of messages."""

from itertools import cycle

from hypothesis import strategies as st

from brokerproof.suites.amqp091.steps import (
    CHANNEL,
    QUIET,
    Kind,
    arrive,
    bodies,
    drained,
    eventually,
    fill,
    settling,
)
from brokerproof.suites.api import Bench, Target, case, listed, over, shown
from brokerproof.suites.api.amqp091 import method
from brokerproof.suites.steps import amounts

UNKNOWN_TAG = "AMQP091-ACK-01"
TAG_OF_ANOTHER_CHANNEL = "AMQP091-ACK-03"
UNKNOWN_TAG_READING = "AMQP091-READING-ACK-01"
MULTIPLE_ACKS = "AMQP091-ACK-02"
REJECT_REQUEUE = "AMQP091-REJ-01"
NACK = "RABBITMQ-AMQP091-NACK-01"
REDELIVERED_FLAG = "AMQP091-RED-01"
RECOVER_SETS_REDELIVERED = "AMQP091-REC-01"
RECOVERED = "AMQP091-REC-02"
FOR_REDELIVERY = "AMQP091-CHAN-04"
DELIVERED = "AMQP091-QUEUE-13"
REQUEUE_POSITION = "RABBITMQ-AMQP091-NACK-02"

ALIASES = {f"the right one and 2^{power}": 2**power for power in (8, 16, 31, 32, 62, 63)}
"""Distances at which a tag has the same lowest bits as the correct one, for several widths."""
MIDST = ("nothing", "a transaction")
FAULTS = ("never delivered", "twice", "another channel's", "0 alone", *ALIASES)


@case(
    UNKNOWN_TAG,
    TAG_OF_ANOTHER_CHANNEL,
    UNKNOWN_TAG_READING,
    NACK,
    FOR_REDELIVERY,
    needs={"amqp091"},
)
@over(
    examples=12,
    always=lambda target: [
        {"fault": fault, "name": "basic.ack", "multiple": True, "midst": midst, "kind": kind}
        for fault, midst, kind in zip(FAULTS, cycle(MIDST), cycle(Kind.each(target)), strict=False)
    ],
    fault=st.sampled_from(FAULTS),
    name=lambda target: st.sampled_from(
        settling(target, ["basic.ack", "basic.reject", "basic.nack"])
    ),
    multiple=st.booleans(),
    midst=st.sampled_from(MIDST),
    kind=Kind.any,
)
def test_a_tag_that_waits_for_nothing_is_an_error(
    target: Bench, kind: Kind, fault: str, name: str, multiple: bool, midst: str
) -> None:
    """An ack, reject or nack closes the channel with 406 PRECONDITION_FAILED if its tag was never
    delivered, was settled before, is 0 without multiple, belongs to another channel, or equals the
    correct one only in its low bits. It may be multiple or in a transaction. Unacknowledged
    messages of the channel are requeued.

    One scenario: the specification states this for basic.ack with a nonzero tag; each other way to
    settle has its own requirement.
    """
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, left := [b"1", b"2", b"3"])
    if midst == "a transaction":
        peer.call("tx.select", channel=2)
    peer.consume(queue, channel=2)
    tag = [peer.delivery(channel=2) for _ in range(3)][-1]["delivery-tag"]
    channel, proves = 2, UNKNOWN_TAG
    if fault == "never delivered":
        tag += 1
    elif fault in ALIASES:
        tag += ALIASES[fault]
    elif fault == "twice":
        peer.ack(tag, channel=2)
        if midst == "a transaction":
            peer.call("tx.commit", channel=2)
        left = left[:2]
    elif fault == "another channel's":
        channel, proves = 1, TAG_OF_ANOTHER_CHANNEL
    else:
        tag = 0
    if name == "basic.nack":
        proves = NACK
    elif name == "basic.reject" or not tag:
        proves = UNKNOWN_TAG_READING
    # With multiple, some brokers read "twice" and "0 alone" as acknowledging further messages.
    multiple &= fault in ("never delivered", *ALIASES) and name != "basic.reject"
    fields = {"delivery-tag": tag, **({"multiple": True} if multiple else {})}
    peer.send(name, fields, channel=channel)
    peer.refused(CHANNEL, 406, channel=channel, proves=proves)
    if channel == 2:
        eventually(peer, lambda: peer.count(queue) == len(left), within=QUIET * 4)
        got = bodies(drained(peer, queue))
        detail = f"{name} was refused ({fault}); {listed(got)} remained; expected {listed(left)}"
        target.record_finding(FOR_REDELIVERY, sorted(got) == left, detail)


Step = tuple[str, int, bool, bool]
EACH: list[Step] = [("ack", 0, False, False)] * 40
"""Acknowledgements one by one, directly followed by the close of their channel."""


def steps_on(target: Target) -> st.SearchStrategy[list[Step]]:
    """The settlements that the broker offers."""
    ways = settling(target, ["ack", "ack", "nack", "reject", "requeue"])
    step = st.tuples(st.sampled_from(ways), st.integers(0, 9), st.booleans(), st.booleans())
    return st.lists(step, max_size=6)


@case(MULTIPLE_ACKS, REJECT_REQUEUE, NACK, REQUEUE_POSITION, needs={"amqp091"})
@over(
    examples=60,
    always=lambda target: [
        *(
            {"count": 60, "steps": EACH, "transacts": False, "kind": kind}
            for kind in Kind.each(target)
        ),
        *(
            {"count": 3, "steps": steps, "transacts": transacts, "kind": Kind(mode=2)}
            for way in settling(target, ["ack", "nack", "reject", "requeue"])
            for steps in ([(way, 1, True, False)], [(way, 0, True, True)] * 2)
            for transacts in (False, True)
        ),
    ],
    count=st.integers(1, 10),
    steps=steps_on,
    transacts=st.booleans(),
    kind=Kind.any,
)
def test_acknowledgements_reach_as_far_as_they_say(
    target: Bench, kind: Kind, count: int, steps: list[Step], transacts: bool
) -> None:
    """Delivered messages are acknowledged, rejected or requeued, in a transaction or not: one by
    one, up to a tag (multiple), or all (tag 0), even if no message is left. After the channel
    closes, perhaps right after them, the queue holds exactly the requeued and the unacknowledged
    messages, oldest first.

    One scenario: ack, nack and reject share one model of the remaining messages.
    """
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"%d" % at for at in range(count)])
    tags = {}
    for at in range(count):
        tags[peer.get(queue, channel=2)["delivery-tag"]] = at
    waiting, back = dict(tags), set()
    settled: dict[str, set[int]] = {}
    if transacts:
        peer.call("tx.select", channel=2)
    for what, pick, multiple, all_of_it in steps:
        if not waiting and not (what in ("ack", "nack") and multiple and all_of_it):
            break
        tag = list(waiting)[pick % len(waiting)] if waiting else 0
        name = "basic.ack" if what == "ack" else "basic.nack"
        if what == "reject" or (what == "requeue" and not settling(target.target, ["nack"])):
            name = "basic.reject"
        multiple = multiple and name != "basic.reject"
        chosen = (
            [waiting_tag for waiting_tag in waiting if waiting_tag <= tag or all_of_it]
            if multiple
            else [tag]
        )
        fields = {"delivery-tag": 0 if multiple and all_of_it else tag}
        if name != "basic.reject":
            fields["multiple"] = multiple
        if name != "basic.ack":
            fields["requeue"] = what == "requeue"
        peer.send(name, fields, channel=2)
        reached = {waiting.pop(settled_tag) for settled_tag in chosen}
        settled[name] = settled.get(name, set()) | reached
        if what == "requeue":
            back |= reached
    end = "tx.commit" if transacts else "basic.qos"
    if len(steps) % 2 or transacts:
        peer.call(end, channel=2, proves=NACK if "basic.nack" in settled else MULTIPLE_ACKS)
    peer.close_channel(2)
    left = sorted(back | set(waiting.values()))
    eventually(peer, lambda: peer.count(queue) == len(left), within=QUIET * 4)
    received = [int(body) for body in bodies(drained(peer, queue))]
    words = f"{listed(received)} returned; expected {listed(left)}"
    detail = f"of {count} messages of a {kind} queue, {words}; the client sent {shown(steps)}"
    rejected = settled.get("basic.reject", set())
    if "basic.nack" in settled:  # it may have covered too much or too little
        judged = {NACK: set(range(count))}
    elif "basic.ack" in settled and rejected:
        judged = {MULTIPLE_ACKS: set(range(count)) - rejected, REJECT_REQUEUE: rejected}
    else:
        judged = {REJECT_REQUEUE if rejected else MULTIPLE_ACKS: set(range(count))}
    in_order = sorted(received)
    for rule, about in judged.items():
        held = [at for at in in_order if at in about] == [at for at in left if at in about]
        target.record_finding(rule, held, detail)
    if kind.keeps_places:
        target.record_finding(REQUEUE_POSITION, received == in_order, detail)


@case(REDELIVERED_FLAG, RECOVER_SETS_REDELIVERED, RECOVERED, REQUEUE_POSITION, needs={"amqp091"})
@over(
    examples=20,
    always=lambda target: [
        {"position": position, "back": {1, 2, 4}, "way": "recover", "step": 2, "kind": Kind()}
        for position in (amounts.FEW, 0)
    ],
    position=st.integers(0, amounts.POSITIONS),
    back=st.sets(st.integers(0, 7), min_size=1),
    way=lambda target: st.sampled_from(settling(target, ["nack", "reject", "recover"])),
    step=st.sampled_from([2, 3, amounts.POSITIONS]),
    kind=Kind.any,
)
def test_what_is_requeued_comes_in_its_old_place(
    target: Bench, kind: Kind, position: int, back: set[int], way: str, step: int
) -> None:
    """Some delivered messages are rejected; then any number are requeued by basic.nack,
    basic.reject or basic.recover. The requeued ones are delivered again in their order, before
    later messages, with redelivered set; later messages do not have it set. One scenario: the
    requirements describe one redelivery."""
    count = amounts.at(target, position, least=8, most=400)
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    fill(peer, queue, [b"%d" % at for at in range(count)])
    taken = {at: peer.get(queue, channel=2)["delivery-tag"] for at in range(count - 1)}
    chosen = [number for number in taken if number % 8 in back] or [0]
    target.used_amount("requeued messages", len(chosen))
    for at, tag in taken.items():
        if at not in chosen:
            peer.ack(tag, channel=2)
    peer.settle(channel=2)
    name = f"basic.{way.replace('recover', 'reject')}"
    for at in reversed(chosen[1::step] if way == "recover" else chosen):
        peer.send(name, {"delivery-tag": taken[at], "requeue": True}, channel=2)
    if way == "recover":  # the rest
        peer.call("basic.recover", {"requeue": True}, channel=2)
    peer.settle(channel=2)
    expected = [*chosen, *range(len(taken), count)]
    eventually(peer, lambda: peer.count(queue) == len(expected), within=QUIET * 4)
    again = drained(peer, queue)
    received = [int(body) for body in bodies(again)]
    words = f"after {way} of {listed(chosen)} of {count} messages, {listed(received)} arrived"
    if way == "recover":
        target.record_finding(RECOVERED, {*chosen} <= {*received}, words)
    words += f"; expected {listed(expected)}"
    if kind.keeps_places:
        target.record_finding(REQUEUE_POSITION, received == expected, words)
    others = list(range(len(taken), count))
    place = {tuple(expected): "old-place", (*others, *chosen): "end"}.get(tuple(received), "other")
    if others and kind.keeps_places:
        target.record_behaviour("amqp091.requeued", place)
    flags = {int(delivery.body): delivery["redelivered"] for delivery in again}
    proves = (REDELIVERED_FLAG, RECOVER_SETS_REDELIVERED) if way == "recover" else REDELIVERED_FLAG
    words = f"after {way} of {listed(chosen)}, the redelivered flags are {shown(flags)}"
    target.record_finding(proves, all(flags[at] is (at in chosen) for at in flags), words)


@case(REJECT_REQUEUE, needs={"amqp091"})
@over(examples=4, kind=Kind.any)
def test_what_one_rejects_another_gets(target: Bench, kind: Kind) -> None:
    """A consumer with a prefetch of 1 requeues its message by basic.reject. It and a second
    consumer together receive every message."""
    peer = target.amqp091(channels=3)
    queue = kind.queue(target, peer)
    peer.call("basic.qos", {"prefetch-count": 1}, channel=2)
    peer.consume(queue, channel=2)
    for at in range(3):
        peer.publish(b"%d" % at, queue)
    peer.settle()
    first = peer.delivery(channel=2)
    peer.consume(queue, channel=3)
    beside = bodies(arrive(peer, 2, channel=3))
    peer.send("basic.reject", {"delivery-tag": first["delivery-tag"], "requeue": True}, channel=2)
    peer.call("basic.cancel", {"consumer-tag": "nobody"}, channel=2)
    again = peer.expect(method("basic.deliver"), proves=REJECT_REQUEUE)
    received = {*beside, *bodies([again])}
    words = f"{listed(sorted(received))} arrived again or at the other consumer; expected 0, 1, 2"
    target.record_finding(REJECT_REQUEUE, received == {b"0", b"1", b"2"}, words)


@case(DELIVERED, needs={"amqp091"})
@over(
    examples=6,
    always=lambda target: [
        {"kind": kind, "tags": ["a", "a", "b", "a"]} for kind in Kind.each(target)
    ],
    kind=Kind.any,
    tags=st.lists(st.sampled_from(["a", "b"]), min_size=2, max_size=5),
)
def test_consumers_follow_each_other_on_a_channel(
    target: Bench, kind: Kind, tags: list[str]
) -> None:
    """Consumers of a queue begin and end on one channel, some with the tag of an earlier one, and
    acknowledge nothing. Each gets the messages published while it exists."""
    peer = target.amqp091(channels=2)
    queue = kind.queue(target, peer)
    peer.call("basic.qos", {"prefetch-count": 100}, channel=2)
    for turn, tag in enumerate(tags):
        peer.consume(queue, tag, channel=2)
        sent = [b"%d-%d" % (turn, at) for at in range(2)]
        for body in sent:
            peer.publish(body, queue)
        got = bodies(arrive(peer, 2, channel=2))
        words = (
            f"consumer {turn + 1} of {len(tags)} in turn (tags {listed(tags)}) got {listed(got)}"
        )
        target.record_finding(DELIVERED, got == sent, f"{words}; expected {listed(sent)}")
        peer.call("basic.cancel", {"consumer-tag": tag}, channel=2, proves=DELIVERED)
