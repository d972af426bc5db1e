"""Transactions (part 4): declare, discharge, and the posts and outcomes in between."""

from collections.abc import Mapping

import pytest
from hypothesis import strategies as st

from brokerproof.harness.protocols.amqp10 import codec, messages
from brokerproof.suites.amqp10.steps import (
    QUIET,
    again,
    bodies,
    bystander,
    collect,
    fill,
    granted,
    numbered,
    over_habits,
    reaction,
)
from brokerproof.suites.amqp10.transaction_steps import (
    OUTCOMES,
    SEEN_AGAIN,
    TROUBLE,
    control,
    disposition_of,
    holding,
    is_rejected,
    plain_id,
    post,
    waiting,
    within,
)
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, case, listed, over, shown
from brokerproof.suites.api.amqp10 import AmqpPeer, Described, either, frame

DECLARE_ANSWERED = "AMQP10-TXN-01"
ROLLBACK_SUCCEEDS = "AMQP10-TXN-05"
POST_INVISIBLE_BEFORE_COMMIT = "AMQP10-TXN-06"
PROVISIONAL_OUTCOME = "AMQP10-TXN-07"
RETIRED_ON_COMMIT = "AMQP10-TXN-09"
KEPT_ON_ROLLBACK = "AMQP10-TXN-10"
DEFAULT_OUTCOME_ON_ROLLBACK = "AMQP10-TXN-13"
CONTROL_SESSION_ENDED = "AMQP10-READING-TXN-01"
CONTROL_LINK_CLOSED = "AMQP10-TXN-14"
DISCHARGE_FAILS = "AMQP10-TXN-04"
DECLARE_FAILS = "AMQP10-TXN-03"
SETTLED_DECLARE = "AMQP10-TXN-02"
DISCHARGE_OF_INCOMPLETE_DELIVERY = "AMQP10-TXN-08"
OUTCOME_IN_SECOND_TRANSACTION = "AMQP10-READING-TXN-02"
TRANSACTIONAL_ACQUISITION = "AMQP10-TXN-12"
FAILED_SETTLED_POST = "AMQP10-TXN-15"

UNKNOWN = b"brokerproof-no-such-id"
BOTH_ENDS = ((False, True), (True, False))


@case(DECLARE_ANSWERED, ROLLBACK_SUCCEEDS, needs={"amqp", "amqp-transactions"})
@over_habits(
    examples=10,
    always=lambda target: [{"count": 1, "fail": False, "pieces": 2}],
    count=st.integers(1, 3),
    fail=st.booleans(),
    pieces=st.integers(1, 3),
)
def test_a_declare_is_answered_with_an_id(
    target: Bench, count: int, fail: bool, pieces: int
) -> None:
    """A client declares transactions on one link, each declare in up to three transfers. Each is
    answered with declared and a unique id, and each transaction can be discharged."""
    peer = target.amqp()
    coordinator = control(target, peer)
    ids = []
    for _ in range(count):
        answer = coordinator.answered(coordinator.say("declare", pieces=pieces), DECLARE_ANSWERED)
        state = answer.part("state")
        target.require(
            DECLARE_ANSWERED,
            answer.kind("state") == "declared" and bool(state.get("txn-id")),
            f"a declare in {pieces} transfers: {answer.brief()}",
        )
        ids.append(bytes(state["txn-id"]))
    detail = f"{count} transactions have the ids {shown(ids)}"
    target.record_finding(DECLARE_ANSWERED, len(set(ids)) == count, detail)
    for number, id in enumerate(ids):
        how = fail or number == 0
        answer = coordinator.answered(coordinator.say("discharge", txn_id=id, fail=how))
        target.record_finding(
            ROLLBACK_SUCCEEDS,
            answer.kind("state") == "accepted" or not how,
            f"discharge with fail={shown(how)} was answered with {answer.brief()}",
        )


@case(POST_INVISIBLE_BEFORE_COMMIT, PROVISIONAL_OUTCOME, needs=SEEN_AGAIN)
@over(
    examples=40,
    count=st.integers(1, 4),
    fail=st.booleans(),
    settled=st.booleans(),
    besides=st.booleans(),
)
def test_messages_posted_in_a_transaction_come_with_its_success(
    target: Bench, count: int, fail: bool, settled: bool, besides: bool
) -> None:
    """A client posts messages in a transaction, and in some examples one outside it. The
    provisional outcome carries the txn-id. The transaction's messages cannot be received before the
    discharge. After a commit all can be received, after a rollback none."""
    node = target.node()
    peer = target.amqp()
    coordinator, link = control(target, peer), peer.sender(node)
    id = coordinator.declare()
    sent = numbered(count)
    numbers = [post(target, peer, link, id, body, settled=settled) for body in sent]
    outside = [b"outside"] if besides else []
    for body in outside:
        peer.publish(link, body)
    for number in [] if settled else numbers:
        answer = disposition_of(peer, link, number)
        state = None if answer is None else answer.part("state")
        fine = (
            answer is not None
            and answer.kind("state") == "transactional-state"
            and state is not None
        )
        fine = fine and state is not None and bytes(state["txn-id"]) == id
        detail = f"a post in {shown(id)} got {reaction(peer, answer)}"
        target.record_finding(PROVISIONAL_OUTCOME, fine, detail)
    peer.settle()
    early = waiting(target, node, len(outside))
    words = f"before the discharge, {listed(early)} could be received; expected {listed(outside)}"
    target.record_finding(POST_INVISIBLE_BEFORE_COMMIT, early == outside, words)
    coordinator.discharge(id, fail)
    expected = outside + ([] if fail else sent)
    late = waiting(target, node, len(expected))
    target.record_finding(
        POST_INVISIBLE_BEFORE_COMMIT,
        sorted(late) == sorted(expected),
        f"after the {'rollback' if fail else 'commit'}, {listed(late)} could be received; expected"
        f" {listed(expected)}",
    )
    if settled:
        target.record_not_applicable(PROVISIONAL_OUTCOME, "the posts were settled")


@case(RETIRED_ON_COMMIT, KEPT_ON_ROLLBACK, needs=SEEN_AGAIN)
@over_habits(
    examples=40,
    always=lambda target: [{"fates": [1, 2, 0], "fails": fails} for fails in BOTH_ENDS],
    fates=st.lists(st.sampled_from([0, 1, 2]), min_size=1, max_size=5),
    fails=st.tuples(st.booleans(), st.booleans()),
)
def test_outcomes_in_a_transaction_apply_with_its_success(
    target: Bench, fates: list[int], fails: tuple[bool, bool]
) -> None:
    """A receiver accepts some of its messages, unsettled, each in one of two transactions. Messages
    of a committed transaction are consumed; those of a rolled-back one are still held. The receiver
    releases all that it holds and closes; these messages can be received again."""
    node, sent = target.node(), numbered(len(fates))
    fill(target, node, sent)
    peer, _, got = holding(target, node, len(fates))
    coordinator = control(target, peer)
    ids = [coordinator.declare() for _ in fails]
    for delivery, fate in zip(got, fates, strict=True):
        if fate:
            peer.disposition(delivery, within(ids[fate - 1], "accepted"), settled=False)
    peer.settle()
    early = waiting(target, node, 0)
    words = f"before the discharge, another consumer got {listed(early)} of the held messages"
    target.record_finding((RETIRED_ON_COMMIT, KEPT_ON_ROLLBACK), not early, words)
    for id, fail in zip(ids, fails, strict=True):
        coordinator.discharge(id, fail)
    if any(fails):
        early = waiting(target, node, 0)
        target.record_finding(
            KEPT_ON_ROLLBACK,
            not early,
            f"after a rollback, another consumer got {listed(early)} before the receiver let go",
        )
    kept = [held for held, fate in zip(got, fates, strict=True) if not fate or fails[fate - 1]]
    for delivery in kept:
        peer.disposition(delivery, "released")
    peer.settle()
    peer.close()
    late = waiting(target, node, len(kept))
    target.record_finding(
        (RETIRED_ON_COMMIT, KEPT_ON_ROLLBACK),
        sorted(late) == sorted(bodies(kept)),
        f"messages accepted in transactions {shown(fates)} (0: in none); discharges with"
        f" fail={shown(fails)}: {listed(late)} arrived; expected {listed(bodies(kept))}",
    )


BARRED = "undeliverable here"
RETURNING: Mapping[str, str | Described] = {
    "released": "released",
    "failed": codec.composite("modified", delivery_failed=True),
    BARRED: codec.composite("modified", undeliverable_here=True),
}
"""Outcomes after which a message can be received again."""


@case(RETIRED_ON_COMMIT, needs={"amqp", "amqp-transactions", "amqp-redelivery", "amqp-modified"})
@over_habits(
    examples=6,
    always=lambda target: [
        {"outcome": outcome, "settled": settled}
        for outcome in RETURNING
        for settled in (True, False)
    ],
    outcome=st.sampled_from(list(RETURNING)),
    settled=st.booleans(),
)
def test_a_message_is_returned_in_a_transaction(target: Bench, outcome: str, settled: bool) -> None:
    """In a transaction that is then discharged, a receiver returns a message as released, failed or
    undeliverable-here. The message can be received again by the same link, or only by another one
    if it was undeliverable-here. A failed delivery raises its delivery-count."""
    node = target.node()
    fill(target, node, [b"returned"])
    peer, link, (delivery,) = holding(target, node, 1)
    coordinator = control(target, peer)
    id = coordinator.declare()
    peer.disposition(delivery, within(id, RETURNING[outcome]), settled=settled)
    coordinator.discharge(id, fail=False)
    barred = outcome == BARRED
    peer, link, got = again(target, peer, link, node, 0 if barred else 1)
    here = bodies(got)
    if barred:
        got = again(target, peer, link, node, 1, elsewhere=True)[2]
    counts = [delivery.message.fields("header").get("delivery-count", 0) for delivery in got]
    target.record_finding(
        RETIRED_ON_COMMIT,
        counts == [int(outcome == "failed")] and bool(here) is not barred,
        f"after a message was {outcome} in a transaction, {listed(here)} arrived again on its link;"
        f" the delivery-counts {'elsewhere' if barred else 'there'} are {shown(counts)}",
    )


@case(DEFAULT_OUTCOME_ON_ROLLBACK, KEPT_ON_ROLLBACK, needs=SEEN_AGAIN)
@over_habits(examples=8, count=st.integers(1, 3))
def test_settled_outcomes_of_a_rollback_give_way_to_the_default(target: Bench, count: int) -> None:
    """A receiver accepts messages, settled, in a transaction that is rolled back. It asked for the
    default-outcome released, and the broker's attach names released or modified. The messages can
    be received again, on the same link or another."""
    node, sent = target.node(), numbered(count)
    fill(target, node, sent)
    peer = target.amqp()
    source = {
        "address": node.address,
        "capabilities": node.capabilities or None,
        "default-outcome": codec.composite("released"),
        "outcomes": OUTCOMES,
    }
    link = peer.receiver(node, source=codec.composite("source", source), credit=count)
    assert link.answer is not None
    answered = codec.fields_of(link.answer.fields.get("source"))
    default = codec.name_of(answered.get("default-outcome"))
    got = collect(target, peer, link, count, quiet=0)
    target.control(len(got) == count, f"{len(got)} of {count} messages arrived")
    coordinator = control(target, peer)
    id = coordinator.declare()
    for delivery in got:
        peer.disposition(delivery, within(id, "accepted"))
    coordinator.discharge(id, fail=True)
    if default not in ("released", "modified"):
        target.record_not_applicable(
            (DEFAULT_OUTCOME_ON_ROLLBACK, KEPT_ON_ROLLBACK),
            f"the broker's attach has the default-outcome {default}",
        )
        return
    late = waiting(target, node, count)
    if not late:
        peer.flow(link, link_credit=count)
        late = bodies(collect(target, peer, link, count))
    target.record_finding(
        (DEFAULT_OUTCOME_ON_ROLLBACK, KEPT_ON_ROLLBACK),
        sorted(late) == sent,
        f"after the rollback, {listed(late)} could be received; expected {listed(sent)}",
    )


@case(CONTROL_LINK_CLOSED, needs=SEEN_AGAIN)
@pytest.mark.parametrize("retire", [False, True], ids=["posted", "posted and accepted"])
@pytest.mark.parametrize("how", ["detach", "wrong discharge", "link error", "close", "eof", "cut"])
def test_a_transaction_ends_with_its_link(target: Bench, how: str, retire: bool) -> None:
    """A transaction has a post, and in some examples an accepted message. Its control link or
    connection ends without a discharge, or after only a discharge of an unknown transaction; in
    some examples the broker ends the link because of a request that no coordinator understands. The
    transaction is rolled back: the post is in no queue, and the other message can be received
    again."""
    _rolled_back_by_end(target, how, retire, CONTROL_LINK_CLOSED)


@case(CONTROL_SESSION_ENDED, needs=SEEN_AGAIN)
@pytest.mark.parametrize("retire", [False, True], ids=["posted", "posted and accepted"])
def test_a_transaction_ends_with_the_session_of_its_link(target: Bench, retire: bool) -> None:
    """The session of a control link ends without a discharge. Its transaction, with a post and in
    some examples an accepted message, is rolled back, as when the link ends."""
    _rolled_back_by_end(target, "end", retire, CONTROL_SESSION_ENDED)


def _rolled_back_by_end(target: Bench, how: str, retire: bool, judged: str) -> None:
    """Open a transaction, end its control link by ``how``, and judge what remains."""
    node, other = target.node(), target.node()
    fill(target, node, [b"held"])
    peer, _, got = holding(target, node, 1)
    link = peer.sender(other)
    coordinator = control(target, peer)
    id = coordinator.declare()
    disposition_of(peer, link, post(target, peer, link, id, b"posted"))
    if retire:
        peer.disposition(got[0], within(id, "accepted"), settled=False)
    peer.settle()
    match how:
        case "detach" | "wrong discharge":
            if how != "detach":
                coordinator.await_answer(coordinator.say("discharge", txn_id=UNKNOWN, fail=False))
            peer.detach(coordinator.link)
            _cannot_be_discharged(target, peer, id, how, judged)
            peer.close()
        case "link error":
            granted(target, peer, coordinator.link)
            peer.transfer(coordinator.link, messages.message(b"no request"), settled=True)
            peer.watch_for(TROUBLE, within=QUIET)
            peer.detach(coordinator.link, answered=False)
            target.advance(QUIET)
            peer.close_socket()
        case "end":
            peer.end()
            _cannot_be_discharged(target, peer, id, how, judged)
        case "close":
            peer.close()
        case _:
            peer.close_socket(CloseHow.EOF if how == "eof" else CloseHow.RESET)
    available = waiting(target, node, 1)
    posted = waiting(target, other, 0)
    accepted = f"it was {'' if retire else 'not '}accepted"
    words = f"after {how}, {listed(available)} could be received; expected 'held'; {accepted}"
    target.record_finding(judged, available == [b"held"], words)
    detail = f"of the messages posted before {how}, {listed(posted)} could be received"
    target.record_finding(judged, not posted, detail)


def _cannot_be_discharged(target: Bench, peer: AmqpPeer, id: bytes, how: str, judged: str) -> None:
    """Judge whether another control link on the same connection cannot commit the transaction."""
    coordinator = control(target, peer, 1)
    number = coordinator.say("discharge", txn_id=id, fail=False)
    coordinator.await_answer(number)
    answer = coordinator.link.session.outcomes.get(number)
    target.require(
        judged,
        answer is None or answer.kind("state") != "accepted",
        f"after the {how} of its control link, another control link committed the transaction",
    )


WRONG = {
    "never": "a discharge of an unknown transaction",
    "discharged": "a second discharge",
    "global": "a declare with a global-id",
}


@case(DISCHARGE_FAILS, DECLARE_FAILS, needs={"amqp", "amqp-transactions"})
@over(examples=12, kind=st.sampled_from([*WRONG]), fail=st.booleans())
def test_what_cannot_be_done_is_rejected(target: Bench, kind: str, fail: bool) -> None:
    """A discharge with an unknown or already discharged id is rejected with
    amqp:transaction:unknown-id. A declare that asks for a global transaction, which its client must
    not do, is rejected with an error, or the broker ends the link, session or connection with one.
    A correct declare still succeeds on whatever is still open."""
    with bystander(target):
        peer = target.amqp()
        coordinator = control(target, peer)
        id = coordinator.declare()
        coordinator.discharge(id, fail=False)
        if kind == "global":
            number = coordinator.say("declare", global_id=codec.composite("accepted"))
        else:
            number = coordinator.say(
                "discharge", txn_id=UNKNOWN if kind == "never" else id, fail=fail
            )
        coordinator.await_answer(number)
        outcome_frame = coordinator.link.session.outcomes.get(number)
        observed = reaction(peer, outcome_frame)
        error = None if outcome_frame is None else outcome_frame.part("state").get("error")
        fine = (
            outcome_frame is not None
            and outcome_frame.kind("state") == "rejected"
            and error is not None
        )
        expected = "rejected with amqp:transaction:unknown-id"
        if kind != "global":
            fine = fine and "amqp:transaction:unknown-id" in str(error)
        else:
            expected = "rejected, or ended, with an error"
            ended = peer.take(TROUBLE)
            if ended is not None:
                fine, observed = ended.condition is not None, f"got {ended.brief()}"
        what = WRONG[kind]
        detail = f"after {what}: {observed}; expected {expected}"
        target.record_finding(DECLARE_FAILS if kind == "global" else DISCHARGE_FAILS, fine, detail)
        if outcome_frame is not None:
            declared = bool(coordinator.declare())
            words = f"after {what}, a declare was {'' if declared else 'not '}answered"
            target.record_finding((DECLARE_FAILS, DISCHARGE_FAILS), declared, words)


@case(SETTLED_DECLARE, needs={"amqp", "amqp-transactions"})
def test_a_settled_declare_ends_the_link(target: Bench) -> None:
    """A settled declare cannot get an id, so the coordinator should detach with an error."""
    with bystander(target):
        peer = target.amqp()
        coordinator = control(target, peer)
        coordinator.say("declare", settled=True)
        answer = peer.watch_for(TROUBLE)
        observed = reaction(peer, answer)
        fine = answer is not None and answer.name == "detach" and answer.condition is not None
        target.record_finding(
            SETTLED_DECLARE, fine, f"after a settled declare: {observed}; expected detach"
        )


@case(DISCHARGE_FAILS, RETIRED_ON_COMMIT, needs=SEEN_AGAIN)
@over(examples=4, settled=st.booleans())
def test_an_outcome_in_an_unknown_transaction_does_not_apply(target: Bench, settled: bool) -> None:
    """A held message is accepted in an unknown transaction. The answer is an error; once the client
    has closed, the message can be received again. Another connection still works."""
    with bystander(target):
        node = target.node()
        fill(target, node, [b"held"])
        peer, _, got = holding(target, node, 1)
        peer.disposition(got[0], within(UNKNOWN, "accepted"), settled=settled)
        answer = peer.watch_for(TROUBLE)
        observed = reaction(peer, answer)
        condition = None if answer is None else answer.condition
        detail = f"after an outcome in an unknown transaction: {observed}; expected an error"
        target.record_finding(DISCHARGE_FAILS, condition is not None, detail)
        peer.close_socket()
        back = waiting(target, node, 1)
        words = f"after an outcome in an unknown transaction, {listed(back)} could be received"
        target.record_finding(RETIRED_ON_COMMIT, back == [b"held"], words)


@case(DISCHARGE_FAILS, POST_INVISIBLE_BEFORE_COMMIT, needs=SEEN_AGAIN)
@over(examples=4, settled=st.booleans())
def test_a_post_in_an_unknown_transaction_is_not_taken(target: Bench, settled: bool) -> None:
    """A message is posted in an unknown transaction. If it is unsettled, the answer is an error or
    a rejection; the message is in no queue. Another connection still works."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        link = peer.sender(node)
        number = post(target, peer, link, UNKNOWN, b"posted", settled=settled)
        target.wait_until(
            lambda: (
                is_rejected(peer, link, number)
                or peer.ended is not None
                or any(map(TROUBLE.accepts, peer.inbox))
            ),
            QUIET if settled else PATIENCE,
        )
        trouble = peer.take(TROUBLE)
        fine = (
            settled
            or is_rejected(peer, link, number)
            or (trouble is not None and trouble.condition is not None)
        )
        observed = reaction(peer, trouble)
        what = f"a post in an unknown transaction (settled={shown(settled)})"
        detail = f"after {what}: {observed}; expected an error"
        target.record_finding(DISCHARGE_FAILS, fine, detail)
        peer.close_socket()
        posted = waiting(target, node, 0)
        words = f"after {what}, {listed(posted)} could be received"
        target.record_finding(POST_INVISIBLE_BEFORE_COMMIT, not posted, words)


@case(DISCHARGE_OF_INCOMPLETE_DELIVERY, needs={"amqp", "amqp-transactions"})
def test_a_discharge_before_the_last_transfer_ends_the_link(target: Bench) -> None:
    """A transaction is discharged while a message posted in it lacks its last transfer. The control
    link ends with amqp:transaction:rollback."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        coordinator, link = control(target, peer), peer.sender(node)
        id = coordinator.declare()
        granted(target, peer, link)
        payload = messages.message(b"in two parts")
        peer.transfer(link, payload[:5], state=within(id), more=True)
        number = coordinator.say("discharge", txn_id=id, fail=False)
        coordinator.await_answer(number)
        answer = peer.take(TROUBLE)
        outcome_frame = coordinator.link.session.outcomes.get(number)
        observed = answer.brief() if answer else reaction(peer, outcome_frame)
        fine = (
            answer is not None
            and answer.name == "detach"
            and answer.condition == "amqp:transaction:rollback"
        )
        words = f"after a discharge before the last transfer: {observed}"
        detail = f"{words}; expected detach (amqp:transaction:rollback)"
        target.record_finding(DISCHARGE_OF_INCOMPLETE_DELIVERY, fine, detail)


@case(OUTCOME_IN_SECOND_TRANSACTION, needs=SEEN_AGAIN)
def test_an_outcome_in_a_second_transaction_ends_the_link(target: Bench) -> None:
    """A message is accepted, unsettled, in one transaction and then in another while the first is
    still open. The control link ends with amqp:transaction:rollback; another connection still
    works."""
    with bystander(target):
        node = target.node()
        fill(target, node, [b"held"])
        peer, _, got = holding(target, node, 1)
        coordinator = control(target, peer)
        first, second = coordinator.declare(), coordinator.declare()
        peer.disposition(got[0], within(first, "accepted"), settled=False)
        # A broker that reads both dispositions together may see only the state of the second.
        peer.settle()
        peer.disposition(got[0], within(second, "accepted"), settled=False)
        answer = peer.watch_for(TROUBLE)
        observed = reaction(peer, answer)
        fine = (
            answer is not None
            and answer.name == "detach"
            and answer.condition == "amqp:transaction:rollback"
        )
        words = f"after outcomes for one delivery in two transactions: {observed}"
        detail = f"{words}; expected detach (amqp:transaction:rollback)"
        target.record_finding(OUTCOME_IN_SECOND_TRANSACTION, fine, detail)


@case(TRANSACTIONAL_ACQUISITION, needs={"amqp", "amqp-transactions"})
def test_acquisition_in_a_transaction_is_done_or_refused(target: Bench) -> None:
    """A receiver's flow has a txn-id in its properties. The broker's deliveries carry that
    transactional-state, or the broker ends the link with not-implemented."""
    with bystander(target):
        node = target.node()
        fill(target, node, [b"one"])
        peer = target.amqp()
        coordinator = control(target, peer)
        id = coordinator.declare()
        link = peer.receiver(node)
        peer.flow(link, link_credit=1, properties={"txn-id": id})
        answer = peer.watch_for(either(TROUBLE, frame("transfer", link=link)))
        observed = reaction(peer, answer)
        state = {} if answer is None else answer.part("state")
        acquired = answer is not None and answer.name == "transfer" and plain_id(state) == id
        refused = (
            answer is not None
            and answer.name == "detach"
            and answer.condition == "amqp:not-implemented"
        )
        words = f"after a flow with a txn-id: {observed}; expected a transfer in the transaction"
        detail = f"{words} or detach (amqp:not-implemented)"
        target.record_finding(TRANSACTIONAL_ACQUISITION, acquired or refused, detail)


@case(FAILED_SETTLED_POST, needs=SEEN_AGAIN)
def test_a_settled_post_that_fails_dooms_its_transaction(target: Bench) -> None:
    """In a transaction, a producer without an address posts a settled message that has no address
    either. The discharge fails, or the broker ends the link, session or connection first; the
    transaction's other post is in no queue."""
    with bystander(target):
        node = target.node()
        peer = target.amqp()
        coordinator, link = control(target, peer), peer.sender(node)
        id = coordinator.declare()
        post(target, peer, link, id, b"good", settled=True)
        post(target, peer, peer.sender(None), id, b"to nobody", settled=True)
        target.wait_until(
            lambda: peer.ended is not None or any(map(TROUBLE.accepts, peer.inbox)), QUIET
        )
        observed = peer.instead()
        trouble = peer.take(TROUBLE) or peer.ended
        if trouble is None:
            number = coordinator.say("discharge", txn_id=id, fail=False)
            coordinator.await_answer(number)
            outcome_frame = coordinator.link.session.outcomes.get(number)
            observed = reaction(peer, outcome_frame)
            target.record_finding(
                FAILED_SETTLED_POST,
                outcome_frame is None or outcome_frame.kind("state") != "accepted",
                f"after the discharge of a failed transaction: {observed}; expected an error",
            )
        else:
            target.record_held(
                FAILED_SETTLED_POST,
                trouble,
                f"the broker ended the transaction before the discharge: {observed}",
            )
            peer.close_socket()
        target.advance(QUIET)
        available = waiting(target, node, 0)
        words = f"of the failed transaction's messages, {listed(available)} could be received"
        target.record_finding(FAILED_SETTLED_POST, b"good" not in available, words)
