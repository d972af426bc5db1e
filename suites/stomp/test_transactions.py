"""BEGIN, COMMIT, ABORT: sends and acknowledgements take effect together or not at all.

Frames in a transaction ask for no receipt here, because a server may delay the receipt until the
transaction is processed (STOMP12-RCPT-02). The receipt of a later frame shows that they arrived.
"""

from dataclasses import dataclass

import pytest
from hypothesis import strategies as st

from brokerproof.harness.targets.target import Overrides
from brokerproof.suites.api import RECONFIGURABLE, Bench, CloseHow, case, listed, over
from brokerproof.suites.api.stomp import MESSAGE
from brokerproof.suites.steps.queues import (
    INDIVIDUAL,
    QUIET,
    bodies,
    collect,
    commit_is_confirmed,
    expected_arrivals,
    expected_remainder,
    held,
    left_in,
    numbered,
    publish_all,
    undone_by_abort,
)
from brokerproof.suites.steps.refusals import bystander, refused
from brokerproof.suites.stomp.test_send import ODD_DESTINATIONS

BEGIN_NAMES = {"1.0": "STOMP10-BEGIN-01", "1.1": "STOMP11-BEGIN-01", "1.2": "STOMP12-BEGIN-01"}
ONLY_TRANSACTION = {"1.2": "STOMP12-FH-07"}
ATOMIC = {"1.0": "STOMP10-BEGIN-02", "1.1": "STOMP11-BEGIN-02", "1.2": "STOMP12-BEGIN-03"}
COMMIT_NAMES = {"1.0": "STOMP10-COMMIT-01", "1.1": "STOMP11-COMMIT-01", "1.2": "STOMP12-COMMIT-01"}
ABORT_NAMES = {"1.0": "STOMP10-ABORT-01", "1.1": "STOMP11-ABORT-01", "1.2": "STOMP12-ABORT-01"}
NAME_IN_USE_REFUSED = "STOMP12-READING-BEGIN-01"
NAMES_ARE_UNIQUE = "STOMP12-BEGIN-02"
ACK_NAMES_MESSAGE = {"1.0": "STOMP10-ACK-01", "1.1": "STOMP11-ACK-01", "1.2": "STOMP12-ACK-01"}
ACK_IGNORED = "ARTEMIS-STOMP-tx-1"

SENDS = {
    "1.0": ("STOMP10-SEND-03", "STOMP10-BEGIN-02"),
    "1.1": ("STOMP11-SEND-02", "STOMP11-BEGIN-02"),
    "1.2": ("STOMP12-SEND-02", "STOMP12-BEGIN-03"),
}
IMPLICIT_ABORT = {"1.1": "STOMP11-BEGIN-03", "1.2": "STOMP12-BEGIN-04"}
ACKS = {"1.0": "STOMP10-ACK-02", "1.1": "STOMP11-ACK-04", "1.2": "STOMP12-ACK-03"}
COVERS_ONE = {"1.1": "STOMP11-SUB-11", "1.2": "STOMP12-SUB-13"}


@case(SENDS, needs={"transactions"})
def test_what_was_sent_in_a_transaction_appears_with_its_commit(
    target: Bench, version: str
) -> None:
    """Three messages are sent in a transaction. None arrives before COMMIT, although a message sent
    outside does, and all arrive after it."""
    queue, consumer, producer = target.destination(), target.stomp(version), target.stomp(version)
    consumer.subscribe(queue)
    producer.request("BEGIN", {"transaction": producer.transaction})
    for body in numbered(3):
        producer.publish(queue, body, {"transaction": producer.transaction}, receipt=False)
    producer.publish(queue, b"outside")
    consumer.message(body=b"outside")
    consumer.expect_nothing(
        for_=QUIET, of=MESSAGE, proves=SENDS[version], why="COMMIT has not been sent"
    )
    producer.request("COMMIT", {"transaction": producer.transaction})
    received = bodies(collect(target, consumer, 3))
    target.record_finding(
        SENDS[version],
        sorted(received) == numbered(3),
        f"m0, m1, m2 were committed; {listed(received)} arrived",
        expectation=expected_arrivals(consumer, received, numbered(3), "in any order"),
    )


@case(SENDS, needs={"transactions"})
def test_a_large_transaction_appears_whole(target: Bench, version: str) -> None:
    """Two hundred messages are sent to two queues in one transaction. All arrive after COMMIT."""
    queues = [target.destination(), target.destination()]
    consumer, producer = target.stomp(version), target.stomp(version)
    for number, queue in enumerate(queues):
        consumer.subscribe(queue, str(number))
    named = {"transaction": producer.transaction}
    producer.request("BEGIN", named)
    for number, body in enumerate(numbered(200)):
        producer.publish(queues[number % 2], body, named, receipt=False)
    producer.request("COMMIT", {"transaction": producer.transaction})
    received = bodies(collect(target, consumer, 200))
    target.record_finding(
        SENDS[version],
        sorted(received) == sorted(numbered(200)),
        f"{len(received)} of 200 messages of a transaction arrived",
        expectation=expected_arrivals(consumer, received, numbered(200), "in any order"),
    )


@case(ATOMIC, needs={"transactions"})
@pytest.mark.parametrize("odd", [*ODD_DESTINATIONS])
def test_a_transaction_with_an_odd_send_is_whole(target: Bench, version: str, odd: str) -> None:
    """A transaction has three SENDs; the middle one's destination may be invalid. If COMMIT is
    confirmed, the first and the last arrive; otherwise both arrive or neither does."""
    queue, producer = target.destination(), target.stomp(version)
    within = {"transaction": producer.transaction}
    producer.request("BEGIN", within)
    producer.publish(queue, b"first", within, receipt=False)
    producer.send("SEND", {"destination": ODD_DESTINATIONS[odd], **within}, b"odd")
    producer.publish(queue, b"last", within, receipt=False)
    is_confirmed = commit_is_confirmed(target, producer)
    producer.close_socket()
    left = left_in(target, queue, version, 2 if is_confirmed else 0)
    words = "confirmed" if is_confirmed else f"not confirmed ({producer.instead()})"
    detail = f"in a transaction with a SEND to {ODD_DESTINATIONS[odd][:40]!r}, COMMIT was {words};"
    detail += f" {listed(left)} arrived; expected {'both' if is_confirmed else 'both or neither'}"
    target.record_finding(ATOMIC[version], len(left) == 2 or not (left or is_confirmed), detail)


@case(IMPLICIT_ABORT, needs={"transactions"})
@pytest.mark.parametrize("how", ["DISCONNECT", CloseHow.EOF, CloseHow.RESET])
def test_a_transaction_that_is_open_at_the_end_is_aborted(
    target: Bench, version: str, how: str
) -> None:
    """A connection with an open transaction ends by DISCONNECT, EOF or reset. Its messages never
    arrive; those of a committed transaction do."""
    queue, producer, consumer = target.destination(), target.stomp(version), target.stomp(version)
    consumer.subscribe(queue)
    done = {"transaction": f"{producer.transaction}-done"}
    left_open = {"transaction": f"{producer.transaction}-open"}
    producer.request("BEGIN", done)
    producer.publish(queue, b"committed", done, receipt=False)
    producer.request("COMMIT", done)
    producer.request("BEGIN", left_open)
    for body in numbered(3):
        producer.publish(queue, body, left_open, receipt=False)
    producer.settle()
    if how == "DISCONNECT":
        producer.request("DISCONNECT")
        producer.close_socket()
    else:
        producer.close_socket(CloseHow(how))
    consumer.message(body=b"committed")
    target.stomp(version).publish(queue, b"afterwards")
    received = bodies(collect(target, consumer, 1))
    target.record_finding(
        IMPLICIT_ABORT[version],
        received == [b"afterwards"],
        f"{listed(received)} arrived after the end of a connection with an open transaction",
        expectation=expected_arrivals(consumer, received, [b"afterwards"]),
    )


@dataclass(frozen=True)
class Step:
    """One step of a plan: send a message, in a transaction or outside, or end a transaction."""

    act: str
    transaction: int


steps = st.lists(
    st.builds(
        Step, st.sampled_from(["send", "send", "send", "commit", "abort"]), st.integers(0, 2)
    ),
    min_size=1,
    max_size=14,
)


@case(ATOMIC, COMMIT_NAMES, ABORT_NAMES, needs={"transactions"})
@over(examples=60, plan=steps)
def test_transactions_side_by_side_keep_apart(
    target: Bench, version: str, plan: list[Step]
) -> None:
    """Messages are sent in two transactions and outside them, in any order, and transactions are
    committed and aborted. Exactly the committed messages and those outside arrive, each once."""
    requirements = (ATOMIC[version], COMMIT_NAMES[version], ABORT_NAMES[version])
    queue, consumer, producer = target.destination(), target.stomp(version), target.stomp(version)
    consumer.subscribe(queue)
    names: dict[int, str] = {}
    pending: dict[int, list[bytes]] = {}
    visible: list[bytes] = []
    for number, step in enumerate(plan):
        body = f"m{number}".encode()
        if step.transaction == 0:
            producer.publish(queue, body)
            visible.append(body)
            continue
        if step.transaction not in names:
            names[step.transaction] = f"{producer.transaction}-{number}"
            pending[step.transaction] = []
            producer.request("BEGIN", {"transaction": names[step.transaction]})
        if step.act == "send":
            producer.publish(queue, body, {"transaction": names[step.transaction]}, receipt=False)
            pending[step.transaction].append(body)
            continue
        producer.request(
            step.act.upper(), {"transaction": names.pop(step.transaction)}, proves=requirements
        )
        if step.act == "commit":
            visible += pending.pop(step.transaction)
    producer.publish(queue, b"end")
    received = bodies(collect(target, consumer, len(visible) + 1))
    target.record_finding(
        requirements,
        sorted(received) == sorted([*visible, b"end"]),
        f"the consumer got {listed(received)}; expected {listed([*visible, b'end'])}",
        expectation=expected_arrivals(consumer, received, [*visible, b"end"], "in any order"),
    )


FRAMES = {"BEGIN": BEGIN_NAMES, "COMMIT": COMMIT_NAMES, "ABORT": ABORT_NAMES}


@case(BEGIN_NAMES, COMMIT_NAMES, ABORT_NAMES, ONLY_TRANSACTION, needs={"transactions"})
def test_a_transaction_frame_without_a_name_is_not_confirmed(target: Bench, version: str) -> None:
    """BEGIN, COMMIT and ABORT without the transaction header are not confirmed. With only that
    header each is confirmed first. One scenario: the same rule holds for all three frames."""
    alone = (ONLY_TRANSACTION[version],) if version in ONLY_TRANSACTION else ()
    peer = target.stomp(version)
    for command in ("COMMIT", "ABORT"):
        named = {"transaction": f"{peer.transaction}-{command}"}
        peer.request("BEGIN", named, proves=(BEGIN_NAMES[version], *alone))
        peer.request(command, named, proves=(FRAMES[command][version], *alone))
    for command, names in FRAMES.items():
        with bystander(target, version):
            offender = target.stomp(version)
            offender.request("BEGIN", {"transaction": offender.transaction})
            refused(target, offender, command, refuses=(names[version], *alone))


@case(COMMIT_NAMES, ABORT_NAMES, needs={"transactions"})
def test_a_transaction_that_is_not_open_cannot_be_ended(target: Bench, version: str) -> None:
    """COMMIT and ABORT of a transaction that is unknown, has ended, or is open on another
    connection are not confirmed."""
    for command, names in (("COMMIT", COMMIT_NAMES), ("ABORT", ABORT_NAMES)):
        for which in ("never begun", "over", "theirs"):
            with bystander(target, version) as other:
                theirs = {"transaction": other.transaction}
                other.request("BEGIN", theirs)
                peer = target.stomp(version)
                over = {"transaction": peer.transaction}
                peer.request("BEGIN", over)
                peer.request(command, over)
                never_begun = {"transaction": f"{peer.transaction}-never"}
                headers = {"never begun": never_begun, "over": over, "theirs": theirs}[which]
                refused(target, peer, command, headers, refuses=names[version])
                other.request("COMMIT", theirs)


@case(NAMES_ARE_UNIQUE, NAME_IN_USE_REFUSED, needs={"transactions"})
def test_a_name_in_use_begins_no_second_transaction(target: Bench) -> None:
    """BEGIN with the name of an open transaction is not confirmed. Another name is accepted first,
    and so is the same name on another connection."""
    with bystander(target, "1.2") as other:
        peer = target.stomp("1.2")
        same = {"transaction": peer.transaction}
        peer.request("BEGIN", same)
        peer.request("BEGIN", {"transaction": f"{peer.transaction}-another"})
        other.request("BEGIN", same, proves=NAMES_ARE_UNIQUE)
        refused(
            target,
            peer,
            "BEGIN",
            same,
            refuses=NAME_IN_USE_REFUSED,
            behaviour="stomp.transaction-in-use",
        )


@case(ACKS, needs={"transactions"})
@pytest.mark.parametrize("end", ["ABORT", "DISCONNECT", "the end of the connection"])
def test_an_ack_in_a_transaction_is_undone_with_it(target: Bench, version: str, end: str) -> None:
    """A message is acknowledged in a transaction that is aborted, or open when the client
    disconnects or its connection is lost. The next consumer gets the message."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.publish(queue, b"one")
    message = held(target, consumer, queue, 1, INDIVIDUAL[version])[0]
    consumer.request("BEGIN", {"transaction": consumer.transaction})
    consumer.ack(message, {"transaction": consumer.transaction})
    consumer.settle()
    if end == "ABORT":
        consumer.request("ABORT", {"transaction": consumer.transaction})
    elif end == "DISCONNECT":
        consumer.request("DISCONNECT")
    again = consumer.take_messages()  # a server may deliver it again immediately
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 1)
    effect = "undone" if again or left else "stays"
    target.record_behaviour("stomp.ack-in-aborted-transaction", effect)
    target.record_finding(
        ACKS[version],
        left == [b"one"],
        f"after an ACK in a transaction that ended with {end},"
        f" {'the message arrived again at once, and ' if again else ''}the next consumer"
        f" got {listed(left)}; expected 'one'",
        expectation=expected_remainder([b"one"]),
    )


@case(ATOMIC, COVERS_ONE, ACK_NAMES_MESSAGE, needs={"transactions"})
@over(
    examples=30,
    always=lambda target: [{"plan": [0, 1], "done": [True, False], "individual": False}],
    plan=st.lists(st.integers(0, 1), min_size=1, max_size=4),
    done=st.lists(st.booleans(), min_size=2, max_size=2),
    individual=st.booleans(),
)
def test_acknowledgements_in_transactions_side_by_side_keep_apart(
    target: Bench, version: str, plan: list[int], done: list[bool], individual: bool
) -> None:
    """A message is acknowledged, then further ones in order, each in one of two open transactions.
    One transaction ends, then the other, and the connection is lost. Messages acknowledged in a
    committed transaction, or in none, are consumed; later ones acknowledged in an aborted
    transaction are not. As a control, ABORT must first undo a single ACK."""
    mode = INDIVIDUAL[version] if individual else "client"
    if not undone_by_abort(target, version, mode):
        target.record_not_applicable(target.cited, "an ACK is not part of its transaction")
        return
    queue, consumer = target.destination(), target.stomp(version)
    before, *sent = numbered(1 + len(plan))
    publish_all(target.stomp(version), queue, [before, *sent])
    first, *messages = held(target, consumer, queue, 1 + len(plan), mode)
    consumer.ack(first)
    names = [{"transaction": f"{consumer.transaction}-{which}"} for which in (0, 1)]
    for name in names:
        consumer.request("BEGIN", name)
    for message, which in zip(messages, plan, strict=True):
        consumer.ack(message, names[which])
    for name, commit in zip(names, done, strict=True):
        consumer.request("COMMIT" if commit else "ABORT", name)
    consumer.close_socket(CloseHow.RESET)
    gone = [body for body, which in zip(sent, plan, strict=True) if done[which]]
    # In client mode the last committed ACK may cover messages that an earlier ABORT returned.
    behind = sent[sent.index(gone[-1]) :] if gone and mode == "client" else sent
    kept = [body for body in behind if body not in gone]
    left = left_in(target, queue, version, len(kept))
    detail = (
        f"ack mode {mode}; acknowledged: {listed(gone)} in a committed transaction,"
        f" {listed(body for body in sent if body not in gone)} in an aborted one; the next"
        f" consumer got {listed(left)}"
    )
    again = f"{listed([before])} was acknowledged alone; the next consumer got {listed(left)}"
    target.require(ACK_NAMES_MESSAGE[version], before not in left, again)
    if mode != "client":
        earlier = set(sent[: sent.index(gone[-1])]) if gone else set()
        missing = set(kept) - set(left)
        # An ACK that covers earlier messages breaks its mode, but no transaction.
        covers_one = not missing or missing != earlier - set(gone)
        if not target.record_finding(COVERS_ONE[version], covers_one, detail):
            return
    holds = not set(gone) & set(left) and set(kept) <= set(left)
    target.record_finding(ATOMIC[version], holds, detail)


@case(ACK_NAMES_MESSAGE, needs={"transactions"})
def test_what_an_abort_gave_back_can_be_acknowledged(target: Bench, version: str) -> None:
    """A message is acknowledged in an aborted transaction and delivered again. An ACK with the
    headers of the new MESSAGE is confirmed and consumes it."""
    queue, consumer = target.destination(), target.stomp(version)
    consumer.publish(queue, b"one")
    message = held(target, consumer, queue, 1, INDIVIDUAL[version])[0]
    consumer.request("BEGIN", {"transaction": consumer.transaction})
    consumer.ack(message, {"transaction": consumer.transaction})
    consumer.request("ABORT", {"transaction": consumer.transaction})
    again = collect(target, consumer, 0)
    if not again:
        consumer.close_socket(CloseHow.RESET)
        consumer = target.stomp(version)
        consumer.subscribe(queue, ack=INDIVIDUAL[version])
        again = collect(target, consumer, 0)
    if not again:
        target.record_not_applicable(
            ACK_NAMES_MESSAGE[version],
            "the message that was acknowledged in an aborted transaction did not arrive again",
        )
        return
    consumer.request("ACK", consumer.naming(again[0]), proves=ACK_NAMES_MESSAGE[version])
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, version, 0)
    target.record_finding(
        ACK_NAMES_MESSAGE[version],
        not left,
        f"a message returned by ABORT was acknowledged; the next consumer got {listed(left)}",
        expectation=expected_remainder(()),
    )


@case(ACK_IGNORED, needs={"transactions", "ack-outside-transactions"})
@pytest.mark.parametrize("end", ["COMMIT", "ABORT"])
def test_an_ack_in_a_transaction_is_ignored_as_documented(target: Bench, end: str) -> None:
    """A message is acknowledged in a transaction and the connection is lost, with or without
    COMMIT. The vendor documents that such an ACK is ignored, so the next consumer gets the
    message."""
    if RECONFIGURABLE in target.capabilities:
        overrides: Overrides = {"broker": {"stomp_transactional_acks_ignored": True}}
        target = Bench(
            target.target,
            target.cited,
            label=target.label,
            overrides=overrides,
            example_record=target.example_record,
        )
    queue, consumer = target.destination(), target.stomp("1.2")
    consumer.publish(queue, b"one")
    message = held(target, consumer, queue, 1, "client-individual")[0]
    consumer.request("BEGIN", {"transaction": consumer.transaction})
    consumer.ack(message, {"transaction": consumer.transaction})
    consumer.request(end, {"transaction": consumer.transaction})
    consumer.close_socket(CloseHow.RESET)
    left = left_in(target, queue, "1.2", 1)
    target.record_finding(
        ACK_IGNORED,
        left == [b"one"],
        f"after an ACK in a transaction and {end}, the next consumer got {listed(left)};"
        " expected 'one'",
        expectation=expected_remainder([b"one"]),
    )
