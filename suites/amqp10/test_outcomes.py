"""Outcomes and settlement (2.7.6, 3.3, 3.4), and the default outcome."""

from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.types import plain
from brokerproof.suites.amqp10.outcome_steps import (
    OUTCOMES,
    RECEIVED,
    STATES,
    SYMBOLS,
    after_close,
    failures,
    source,
    supported_states,
)
from brokerproof.suites.amqp10.steps import (
    QUIET,
    again,
    bodies,
    bystander,
    collect,
    fill,
    is_over,
    numbered,
    objection,
    over_habits,
    ready_sender,
    received,
    settled_by_broker,
)
from brokerproof.suites.api import Bench, Where, case, listed, shown
from brokerproof.suites.api.amqp10 import Array, Delivery, Described, Node, Value, frame
from brokerproof.suites.steps import paging

RELEASED_NOT_COUNTED = "AMQP10-OUT-08"
RELEASED_AVAILABLE = "AMQP10-OUT-09"
FAILED_ATTEMPTS = "AMQP10-MSG-09"
DELIVERY_FAILED_COUNTED = "AMQP10-OUT-11"
UNDELIVERABLE_HERE = "AMQP10-OUT-12"
MADE_AVAILABLE = "AMQP10-OUT-20"
ANNOTATIONS_MERGED = "AMQP10-OUT-13"
TERMINAL_STATE_KEPT = "AMQP10-OUT-02"
TERMINAL_STATES = "AMQP10-OUT-01"
ACCEPTED_NOT_RESENT = "AMQP10-TERM-08"
DEFAULT_OUTCOME_APPLIES = "AMQP10-OUT-03"
DEFAULT_OUTCOME = "AMQP10-OUT-17"
OUTCOMES_ARE_SYMBOLS = "AMQP10-OUT-16"
RECEIVED_ON_RESUME_ONLY = "AMQP10-OUT-15"
ACCEPTED_SUPPORTED = "AMQP10-OUT-19"
DISPOSITION_SETTLES = "AMQP10-DISP-03"
DISPOSITION_ROLE = "AMQP10-DISP-01"
DISPOSITION_WITHOUT_LAST = "AMQP10-DISP-02"
DISPOSITION_SPANS_LINKS = "AMQP10-DISP-05"
REJECTED_COUNTED = "AMQP10-OUT-05"
REJECTION_ERROR = "AMQP10-OUT-06"
ACCEPTED_NOT_COUNTED = "AMQP10-OUT-04"


@case(RELEASED_NOT_COUNTED, RELEASED_AVAILABLE, FAILED_ATTEMPTS, needs={"amqp"})
@over_habits(
    examples=60,
    fates=st.lists(st.booleans(), min_size=1, max_size=6),
    times=st.integers(1, 3),
    elsewhere=st.booleans(),
    always=lambda target: [
        {"fates": [True, False, True], "times": 2, "elsewhere": elsewhere, "header": header}
        for elsewhere, header in ((False, {}), (True, {"ttl": 600_000, "priority": 5}))
    ],
    header=st.fixed_dictionaries(
        {}, optional={"ttl": st.just(600_000), "priority": st.just(5), "durable": st.booleans()}
    ),
)
def test_released_messages_can_be_had_again_unchanged(
    target: Bench, fates: list[bool], times: int, elsewhere: bool, header: dict[str, object]
) -> None:
    """A client accepts some messages and releases the rest; all may have a ttl of ten minutes.
    Exactly the released messages are delivered again, on the same link or another, with the same
    bytes and a delivery-count of 0."""
    node, sent = target.node(), numbered(len(fates), 20)
    fill(target, node, sent, header=header or None)
    peer, link, got = received(target, node, len(fates))
    if any(delivery.settled for delivery in got):
        rows = (RELEASED_NOT_COUNTED, RELEASED_AVAILABLE, FAILED_ATTEMPTS)
        target.record_not_applicable(rows, "messages are sent settled: none can be released")
        return
    counts = list(map(failures, got))
    detail = f"the delivery-counts are {listed(counts)} at first"
    target.record_finding(FAILED_ATTEMPTS, not any(counts), detail)
    bare = {delivery.message.body: delivery.message.bare for delivery in got}
    expected = {body for body, fate in zip(sent, fates, strict=True) if fate}
    for _ in range(times):
        order = bodies(got)
        for body, delivery in zip(order, got, strict=True):
            peer.disposition(delivery, "released" if body in expected else "accepted")
        peer, link, got = again(target, peer, link, node, len(expected), elsewhere)
        bodies_received = sorted(bodies(got))
        target.record_finding(
            RELEASED_AVAILABLE,
            bodies_received == sorted(expected),
            f"after the release of {listed(sorted(expected))}, {listed(bodies_received)} arrived on"
            f" {'another' if elsewhere else 'the same'} link",
        )
        if len(got) > 1 and bodies_received == sorted(expected):
            kept = bodies(got) == [body for body in order if body in expected]
            target.record_behaviour("amqp.released", "in-order" if kept else "in-another-order")
        same = all(bare.get(delivery.message.body) == delivery.message.bare for delivery in got)
        detail = f"the bare messages that arrived again are {'unchanged' if same else 'changed'}"
        target.record_finding(RELEASED_AVAILABLE, same, detail)
        counts = list(map(failures, got))
        detail = f"after release, the delivery-counts are {listed(counts)}"
        target.record_finding(RELEASED_NOT_COUNTED, not any(counts), detail)


@case(
    DELIVERY_FAILED_COUNTED,
    FAILED_ATTEMPTS,
    MADE_AVAILABLE,
    needs={"amqp", "amqp-redelivery", "amqp-modified"},
)
@over_habits(
    examples=40,
    failed=st.lists(st.sampled_from([True, False, None]), min_size=1, max_size=5),
    elsewhere=st.booleans(),
    always=lambda target: [{"failed": [True, False], "elsewhere": False}],
)
def test_a_failed_delivery_is_counted(
    target: Bench, failed: list[bool | None], elsewhere: bool
) -> None:
    """A message is returned as modified several times, with delivery-failed true, false or absent.
    It is delivered again, and its delivery-count is the number of times that delivery-failed was
    true."""
    node = target.node()
    fill(target, node, [b"again and again"])
    peer, link, got = received(target, node, 1)
    expected = 0
    for flag in failed:
        peer.disposition(got[0], codec.composite("modified", delivery_failed=flag))
        expected += bool(flag)
        first = peer
        peer, link, got = again(target, peer, link, node, 1, elsewhere)
        target.control(first is peer or not first.deliveries, "a link without credit got it")
        place = "another" if elsewhere else "the same"
        detail = (
            f"after a message was modified with delivery-failed={shown(flag)},"
            f" {listed(bodies(got))} arrived on {place} link"
        )
        target.require(MADE_AVAILABLE, len(got) == 1, detail)
        count = failures(got[0])
        target.record_finding(
            DELIVERY_FAILED_COUNTED if flag else FAILED_ATTEMPTS,
            count == expected,
            f"the delivery-count is {count}; expected {expected}",
        )


@case(
    UNDELIVERABLE_HERE,
    MADE_AVAILABLE,
    RELEASED_AVAILABLE,
    needs={"amqp", "amqp-redelivery", "amqp-modified"},
)
@over_habits(examples=20, count=st.integers(1, 4), refused=st.integers(0, 3), failed=st.booleans())
def test_undeliverable_here_keeps_a_message_from_the_link(
    target: Bench, count: int, refused: int, failed: bool
) -> None:
    """A client returns one message as undeliverable-here and releases the rest. The rest are
    redelivered on that link, that one only on another connection."""
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer, link, got = received(target, node, count)
    refused %= count
    for number, delivery in enumerate(got):
        state = codec.composite("modified", delivery_failed=failed, undeliverable_here=True)
        peer.disposition(delivery, state if number == refused else "released")
    barred = got[refused].message.body
    peer, link, back = again(target, peer, link, node, count - 1)
    others = [body for body in sent if body != barred]
    here = f"on the same link, {listed(bodies(back))} arrived again"
    words = f"message {listed([barred])} was modified with undeliverable-here; {here}"
    target.record_finding(UNDELIVERABLE_HERE, barred not in bodies(back), words)
    words = f"messages {listed(others)} were released; {here}"
    freed = [body for body in bodies(back) if body != barred]
    target.record_finding(RELEASED_AVAILABLE, sorted(freed) == others, words)
    for delivery in back:
        peer.disposition(delivery)
    _, _, elsewhere = again(target, peer, link, node, 1, elsewhere=True)
    if barred in bodies(back):
        target.record_behaviour("amqp.undeliverable-here", "same-link")
    else:
        next_one = "another-link" if bodies(elsewhere) == [barred] else "no-link"
        target.record_behaviour("amqp.undeliverable-here", next_one)
    words = f"another link got {listed(bodies(elsewhere))}; expected {listed([barred])}, which is"
    words += " undeliverable on the first link"
    is_available = barred in bodies(back) or bodies(elsewhere) == [barred]
    target.record_finding(MADE_AVAILABLE, is_available, words)


@case(ANNOTATIONS_MERGED, needs={"amqp", "amqp-redelivery", "amqp-modified"})
@over_habits(
    examples=20,
    own=st.dictionaries(st.sampled_from(["x-opt-a", "x-opt-b"]), st.text("abc", max_size=3)),
    new=st.dictionaries(
        st.sampled_from(["x-opt-b", "x-opt-c"]), st.text("xyz", min_size=1, max_size=3), min_size=1
    ),
    always=lambda target: [
        {"own": {"x-opt-a": "a", "x-opt-b": "b"}, "new": {"x-opt-b": "y", "x-opt-c": "z"}}
    ],
)
def test_annotations_of_modified_are_merged(
    target: Bench, own: dict[str, str], new: dict[str, str]
) -> None:
    """A message with annotations is returned as modified, with further annotations. It is delivered
    again with both; for a key in both, the new value replaces the old."""
    node = target.node()
    sender = target.amqp()
    link = ready_sender(target, sender, node)
    sender.publish(link, b"annotated", sections={"message_annotations": own} if own else None)
    peer, link, got = received(target, node, 1)
    state = codec.composite("modified", delivery_failed=True, message_annotations=new)
    peer.disposition(got[0], state)
    _, _, back = again(target, peer, link, node, 1)
    target.control(len(back) == 1, f"after modified, {len(back)} arrived again")
    have = back[0].message.map("message-annotations")
    fits = all(have.get(key) == value for key, value in (own | new).items())
    if fits or not new.keys() & have.keys() - own.keys():
        target.record_behaviour("amqp.annotations-of-modified", "merges" if fits else "drops")
    detail = (
        f"message-annotations {shown(own)}, modified with {shown(new)}, arrived again as"
        f" {shown(have)}; expected {shown(own | new)}"
    )
    target.record_finding(ANNOTATIONS_MERGED, fits, detail)


@case(TERMINAL_STATE_KEPT, TERMINAL_STATES, ACCEPTED_NOT_RESENT, needs={"amqp", "amqp-redelivery"})
@over_habits(
    examples=30,
    first=st.sampled_from(["accepted", "released"]),
    then=st.sampled_from([*OUTCOMES, "received"]),
)
def test_a_terminal_state_does_not_change(target: Bench, first: str, then: str) -> None:
    """A client accepts or releases a message, sends another state for the same delivery and closes.
    The first state counts: an accepted message is not redelivered, a released one is."""
    node = target.node()
    fill(target, node, [b"decided", b"bystander"])
    peer, _, got = received(target, node, 2)
    peer.disposition(got[0], first)
    peer.disposition(got[0], RECEIVED if then == "received" else then)
    peer.disposition(got[1], "released")
    back = after_close(target, peer, node, 2 if first == "released" else 1)
    expected = [b"decided", b"bystander"] if first == "released" else [b"bystander"]
    fine = sorted(bodies(back)) == sorted(expected)
    detail = (
        f"a delivery was settled as {first}, then as {then}; {listed(bodies(back))} arrived again;"
        f" expected {listed(expected)}"
    )
    target.record_finding((TERMINAL_STATE_KEPT, TERMINAL_STATES), fine, detail)
    not_resent = first != "accepted" or b"decided" not in bodies(back)
    target.record_finding(ACCEPTED_NOT_RESENT, not_resent, detail)


@case(DEFAULT_OUTCOME_APPLIES, DEFAULT_OUTCOME, needs={"amqp", "amqp-redelivery"})
@over_habits(
    examples=30,
    always=lambda target: [{"asked": "rejected", "how": "none"}],
    asked=st.sampled_from([*STATES, "rejected"]),
    how=st.sampled_from(["none", "received"]),
)
def test_the_default_outcome_applies_where_no_state_is_known(
    target: Bench, asked: str, how: str
) -> None:
    """A receiver asks for a default-outcome and settles a message without an outcome. The
    default-outcome of the broker's attach applies: the message is consumed, redelivered, or
    redelivered as a failed delivery.

    One scenario: the default-outcome of the broker's attach decides the expected answer.
    """
    node = target.node()
    fill(target, node, [b"undecided"])
    peer = target.amqp()
    default_outcome = STATES.get(asked, codec.composite("rejected"))
    requested = source(node, default_outcome=default_outcome, outcomes=sorted(SYMBOLS))
    link = peer.receiver(node, source=requested, credit=1)
    assert link.answer is not None
    default = codec.fields_of(link.answer.fields.get("source")).get("default-outcome")
    kind = codec.name_of(default)
    detail = f"the broker's attach has the default-outcome {kind}"
    target.record_finding(DEFAULT_OUTCOME, default is None or kind in OUTCOMES, detail)
    got = collect(target, peer, link, 1, quiet=0)
    target.control(len(got) == 1, f"{len(got)} messages arrived; {peer.instead()}")
    if kind not in OUTCOMES:
        target.record_not_applicable(
            DEFAULT_OUTCOME_APPLIES, "the broker's attach names no default-outcome"
        )
        return
    fields = {key: plain(value) for key, value in codec.fields_of(default).items()}
    peer.disposition(got[0], None if how == "none" else RECEIVED)
    error = objection(peer)
    objected = error.brief() if error else "no error"
    detail = f"after a settling disposition with state {how}, the broker sent {objected}"
    target.require(DEFAULT_OUTCOME_APPLIES, error is None, detail)
    back = again(
        target, peer, link, node, 0 if kind in ("accepted", "rejected") else 1, elsewhere=True
    )[2]
    gone = kind in ("accepted", "rejected") or fields.get("undeliverable-here", False)
    detail = f"with the default-outcome {kind}, {listed(bodies(back))} arrived again"
    target.record_finding(DEFAULT_OUTCOME_APPLIES, gone is not bool(back), detail)
    if back:
        failed = int(bool(fields.get("delivery-failed", False)))
        count = failures(back[0])
        detail = f"with the default-outcome {kind}({shown(fields)}), the delivery-count is {count}"
        target.record_finding(DEFAULT_OUTCOME_APPLIES, count == failed, detail)


@case(
    TERMINAL_STATES, OUTCOMES_ARE_SYMBOLS, DEFAULT_OUTCOME, RECEIVED_ON_RESUME_ONLY, needs={"amqp"}
)
@over_habits(
    examples=12, asked=st.sets(st.sampled_from(sorted(SYMBOLS))), size=st.sampled_from([1, 3000])
)
def test_a_source_names_outcomes_by_their_symbols(
    target: Bench, asked: set[str], size: int
) -> None:
    """A receiver asks for some outcomes. The broker's source names outcomes by symbols, its
    default-outcome is an outcome, its own dispositions carry outcomes, and its transfers do not
    carry the received state.

    One scenario: the four requirements are read from one attach and one transfer.
    """
    node = target.node()
    peer = target.amqp(max_frame_size=512)
    sender = ready_sender(target, peer, node)
    number = peer.post(sender, bytes(size))
    state = peer.confirmed(sender.session, number, None, proves=TERMINAL_STATES).kind("state")
    detail = f"the broker settled a message with {state}"
    target.record_finding(TERMINAL_STATES, state in OUTCOMES, detail)
    requested = source(node, outcomes=sorted(asked) or None)
    link = peer.receiver(node, source=requested, credit=1)
    assert link.answer is not None
    inside = codec.fields_of(link.answer.fields.get("source"))
    names = inside.get("outcomes")
    named = names.items if isinstance(names, Array) else () if names is None else (names,)
    fine = all(
        isinstance(name, Value) and name.type == "symbol" and name.value in SYMBOLS
        for name in named
    )
    words = f"asked for {shown(sorted(asked))}, got {shown(plain(names) if names else None)}"
    target.record_finding(OUTCOMES_ARE_SYMBOLS, fine, words)
    kind = codec.name_of(inside.get("default-outcome"))
    target.record_behaviour("amqp.default-outcome", kind)
    detail = f"the broker's source has the default-outcome {kind or 'none'}"
    target.record_finding(DEFAULT_OUTCOME, kind in (None, *OUTCOMES), detail)
    got = peer.delivery(link)
    states = [transfer.kind("state") for transfer in got.frames if "state" in transfer.fields]
    detail = f"{len(got.frames)} transfers carry the states {shown(states)}"
    target.record_finding(RECEIVED_ON_RESUME_ONLY, "received" not in states, detail)


@case(ACCEPTED_SUPPORTED, needs={"amqp", "amqp-redelivery"})
def test_accepted_is_supported_where_nothing_was_named(target: Bench) -> None:
    """A receiver's source has neither outcomes nor default-outcome. The receiver accepts one of two
    messages, releases the other, and closes; the accepted message is not redelivered."""
    node = target.node()
    fill(target, node, [b"one", b"two"])
    peer, _, got = received(target, node, 2)
    peer.disposition(got[0])
    peer.disposition(got[1], "released")
    back = bodies(after_close(target, peer, node, 1))
    fine = back == [got[1].message.body]
    detail = f"'one' was accepted; {listed(back)} arrived again"
    target.record_finding(ACCEPTED_SUPPORTED, fine, detail)


@case(DISPOSITION_SETTLES, TERMINAL_STATE_KEPT, needs={"amqp", "amqp-redelivery"})
@over_habits(
    always=lambda target: [
        {"state": state, "again_state": True} for state in supported_states(target)
    ],
    examples=20,
    state=lambda target: st.sampled_from(supported_states(target)),
    again_state=st.booleans(),
)
def test_an_outcome_may_be_told_first_and_settled_later(
    target: Bench, state: str, again_state: bool
) -> None:
    """A client sends an outcome unsettled, and settles later with the same state or none, unless
    the broker has already settled. The connection stays open. After the client has closed, an
    accepted message is consumed; any other message is in the queue exactly once."""
    node = target.node()
    fill(target, node, [b"in two steps"])
    peer, link, got = received(target, node, 1)
    peer.disposition(got[0], STATES[state], settled=False)
    if peer.watch_for(settled_by_broker(link, got[0]), within=QUIET) is None:
        peer.disposition(got[0], STATES[state] if again_state else None)
    fine = not target.wait_until(lambda: is_over(peer), QUIET)
    later = "with the same state" if again_state else "without a state"
    detail = f"after a delivery was {state} and settled later {later}: {peer.instead()}"
    target.record_finding(DISPOSITION_SETTLES, fine, detail)
    gone = state == "accepted"
    back = after_close(target, peer, node, 0 if gone else 1)
    detail = f"after a delivery was {state}, {listed(bodies(back))} arrived again"
    target.record_finding(TERMINAL_STATE_KEPT, len(back) == (not gone), detail)


@case(
    DISPOSITION_ROLE,
    DISPOSITION_WITHOUT_LAST,
    DISPOSITION_SETTLES,
    DISPOSITION_SPANS_LINKS,
    needs={"amqp", "amqp-redelivery"},
)
@over_habits(
    examples=60,
    always=lambda target: [
        {"counts": (4, 2), "cut": 1, "width": 3, "last": last, "gaps": {2}}
        for last in (True, False)
    ],
    counts=st.tuples(st.integers(1, 5), st.integers(0, 5)),
    cut=st.integers(0, 9),
    width=st.integers(0, 9),
    last=st.booleans(),
    gaps=st.sets(st.integers(0, 9)),
)
def test_a_range_covers_what_it_names_and_no_more(
    target: Bench, counts: tuple[int, int], cut: int, width: int, last: bool, gaps: set[int]
) -> None:
    """A client holds messages of one or two links of a session and as many in another session, and
    has sent messages with the same delivery-ids. It accepts some deliveries one by one and then a
    range around them with one disposition (or one delivery, without last), releases the rest and
    closes. Exactly the rest and all messages of the other session are redelivered; the messages
    that it sent are unaffected.

    One scenario: the four requirements describe one disposition.
    """
    nodes, total = (target.node(), target.node(), target.node()), sum(counts)
    sent = (
        *(numbered(counts[0]), [b"b" + body for body in numbered(counts[1])]),
        [b"c" + body for body in numbered(total)],
    )
    for node, node_bodies in zip(nodes, sent, strict=True):
        fill(target, node, node_bodies)
    peer = target.amqp()
    held: list[Delivery] = []
    for node, count in zip(nodes, counts, strict=False):
        if count:
            held += collect(target, peer, peer.receiver(node, credit=count), count, quiet=0)
    assert peer.opened is not None
    session = peer.begin(1) if peer.opened.get("channel-max", 1) else peer.session
    beside = peer.receiver(nodes[2], session=session, credit=total)
    theirs = collect(target, peer, beside, total, quiet=0)
    target.control(len(held) == len(theirs) == total, f"{len(held)} of {total} messages arrived")
    own = target.node()
    producer = ready_sender(target, peer, own, total)
    for number in range(total):
        peer.publish(producer, b"own %d" % number)
    cut %= total
    end = min(total - 1, cut + width) if last else cut
    target.control(
        [delivery.id for delivery in held] == [(held[0].id + n) % 2**32 for n in range(total)],
        "ids are not in a row",
    )
    for at in sorted(at for at in gaps if cut < at < end):
        peer.disposition(held[at], "accepted")
    peer.disposition(held[cut].id, "accepted", last=held[end].id if last else None)
    others = [*held[:cut], *held[end + 1 :]]
    others += theirs
    for delivery in others:
        peer.disposition(delivery, "released")
    peer.settle()
    peer.close()
    expected = sorted(bodies(others))
    other = target.amqp()
    back: list[bytes] = []
    for node, node_bodies in reversed(list(zip(nodes, sent, strict=True))):
        link = other.receiver(node, credit=total + 10)
        back += bodies(collect(target, other, link, sum(body in expected for body in node_bodies)))
    without = "" if last else " by a disposition without last"
    what = f"deliveries {cut} to {end} of {total} were accepted{without}"
    judged = [DISPOSITION_SETTLES] if last else [DISPOSITION_SETTLES, DISPOSITION_WITHOUT_LAST]
    if cut < counts[0] <= end:
        judged.append(DISPOSITION_SPANS_LINKS)
    detail = f"{what}; of the {len(expected)} others, {len(back)} arrived again"
    target.record_finding(tuple(judged), sorted(back) == expected, detail)
    mine = collect(target, other, other.receiver(own, credit=total + 10), total)
    detail = f"{len(mine)} of {total} messages that the client sent itself could be received"
    target.record_finding(DISPOSITION_ROLE, len(mine) == total, detail)


@case(DISPOSITION_SETTLES, TERMINAL_STATE_KEPT, needs={"amqp", "amqp-redelivery"})
@over_habits(
    examples=12, first=st.sampled_from([7, 1000, 2**31, 2**32 - 1]), width=st.integers(0, 3)
)
def test_a_disposition_for_nothing_held_changes_nothing(
    target: Bench, first: int, width: int
) -> None:
    """A disposition names deliveries that the client does not hold. The broker ignores it, or ends
    the session with an error, and a message that the client does hold can be received again;
    another connection still works."""
    with bystander(target):
        node = target.node()
        fill(target, node, [b"held"])
        peer, link, got = received(target, node, 1)
        start = (got[0].id + first) % 2**32
        room = (got[0].id - start - 1) % 2**32
        peer.disposition(
            start, "accepted", last=(start + min(width, room)) % 2**32, channel=link.session.channel
        )
        if not target.wait_until(lambda: is_over(peer), QUIET):
            peer.disposition(got[0], "released")
            peer.settle()
            peer.close_socket()
        other = target.amqp()
        deliveries = collect(target, other, other.receiver(node, credit=1), 1)
        target.record_finding(
            (DISPOSITION_SETTLES, TERMINAL_STATE_KEPT),
            bodies(deliveries) == [b"held"],
            f"'held' was held; {listed(bodies(deliveries))} arrived",
        )


@case(REJECTED_COUNTED, REJECTION_ERROR, needs={"amqp", "dead-letters"})
@over_habits(examples=10, where=paging.places_of_all, error=st.booleans())
def test_a_rejected_message_is_kept_with_its_error(
    target: Bench, where: Where, error: bool
) -> None:
    """A message, in memory or paged, is rejected, with an error or without. It moves to the
    dead-letter address, with its delivery-count raised and the error in its
    delivery-annotations."""
    node = target.node()
    body = node.address.encode()
    dead_letters = Node(str(target.profile.parameters["dead_letter_node"]), node.capabilities)
    consumer = target.amqp()
    # Artemis drops dead letters if no queue is bound to the dead-letter address; a queue that a
    # consumer creates there remains.
    consumer.receiver(dead_letters)
    producer = target.amqp()
    link = ready_sender(target, producer, node)
    # ActiveMQ keeps no dead letters of non-durable messages.
    producer.publish(link, body, sections={"header": {"durable": True}})
    peer, _, got = received(target, node, 1)
    state = codec.composite(
        "rejected", error=("amqp:decode-error", "unreadable") if error else None
    )
    peer.disposition(got[0], state)
    peer.settle()
    browser = consumer.receiver(
        dead_letters, source=source(dead_letters, distribution_mode="copy"), credit=100_000
    )
    delivery = consumer.delivery(browser, body=body)
    count, detail = failures(delivery), "after a rejection, the delivery-count is"
    raised = count == failures(got[0]) + 1
    target.record_finding(
        REJECTED_COUNTED, raised, f"{detail} {count}; expected {failures(got[0]) + 1}"
    )
    annotation = delivery.message.first("delivery-annotations")
    entries = (
        dict(annotation.value) if isinstance(annotation, Value) and annotation.type == "map" else {}
    )
    rejected = next((value for key, value in entries.items() if plain(key) == "rejected"), None)
    if not error:
        target.record_not_applicable(REJECTION_ERROR, "no error was given")
        return
    condition = (
        codec.fields_of(rejected).get("condition") if isinstance(rejected, Described) else None
    )
    reported = None if condition is None else plain(condition)
    keys = shown([plain(key) for key in entries])
    words = f"the dead letter has the delivery-annotations {keys} with the error {shown(reported)}"
    target.record_finding(REJECTION_ERROR, reported == "amqp:decode-error", words)


@case(ACCEPTED_NOT_COUNTED, ACCEPTED_NOT_RESENT, needs={"amqp", "amqp-copy"})
@over_habits(examples=10, count=st.integers(1, 3))
def test_an_accepted_copy_is_not_sent_again_and_not_counted(target: Bench, count: int) -> None:
    """A link of distribution-mode copy accepts its copies. The broker does not send them again on
    that link, and a later consumer gets the messages with an unchanged delivery-count."""
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer = target.amqp()
    link = peer.receiver(node, source=source(node, distribution_mode="copy"), credit=count)
    got = collect(target, peer, link, count, quiet=0)
    detail = f"copies of {listed(bodies(got))} arrived; expected {listed(sent)}"
    target.control(bodies(got) == sent, detail)
    for delivery in got:
        peer.disposition(delivery, "accepted")
    peer.settle()
    peer.flow(link, link_credit=count + 10)
    more = collect(target, peer, link, 0)
    words = f"after accepted, {listed(bodies(more))} arrived again on the copying link"
    target.record_finding(ACCEPTED_NOT_RESENT, not more, words)
    peer.expect_nothing(
        for_=QUIET,
        of=frame("transfer", link=link),
        proves=ACCEPTED_NOT_RESENT,
        why="all copies were accepted",
    )
    _, _, taken = received(target, node, count)
    counts = list(map(failures, taken))
    detail = f"after accepted, the delivery-counts are {listed(counts)}"
    target.record_finding(ACCEPTED_NOT_COUNTED, not any(counts), detail)
