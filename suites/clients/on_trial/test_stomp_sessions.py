"""Subscriptions, acknowledgements, transactions and the end of a STOMP client's session."""

from collections.abc import Mapping

import pytest

from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.protocols.stomp import codec
from brokerproof.suites.api import Bench, case, seconds, shown
from brokerproof.suites.api.stomp import Frame, frame

TRIAL = {"stomp-client"}
SUBSCRIBE = {
    "1.0": ("STOMP10-SUBSCRIBE-01",),
    "1.1": ("STOMP11-SUB-01", "STOMP11-SUB-05"),
    "1.2": ("STOMP12-SUB-01", "STOMP12-SUB-05", "STOMP12-FH-04"),
}
ACK_MODE = {"1.0": "STOMP10-SUBSCRIBE-04", "1.1": "STOMP11-SUB-06", "1.2": "STOMP12-SUB-07"}
TWO_IDS = {"1.1": "STOMP11-SUB-05", "1.2": "STOMP12-SUB-06"}
UNSUBSCRIBE = {
    "1.0": ("STOMP10-UNSUBSCRIBE-01",),
    "1.1": ("STOMP11-UNSUB-01",),
    "1.2": ("STOMP12-UNSUB-01", "STOMP12-UNSUB-02", "STOMP12-FH-05"),
}
ACK = {
    "1.0": ("STOMP10-ACK-01",),
    "1.1": ("STOMP11-ACK-01", "STOMP11-ACK-02", "STOMP11-SUB-08"),
    "1.2": ("STOMP12-ACK-01", "STOMP12-FH-06", "STOMP12-SUB-09"),
}
NACK = {"1.1": "STOMP11-NACK-01", "1.2": "STOMP12-NACK-01"}
NACK_SENT = "STOMP12-SUB-12"
TRANSACTION_IN_ACK = {"1.1": "STOMP11-ACK-03", "1.2": "STOMP12-ACK-02"}
TRANSACTION_IN_NACK = {"1.1": "STOMP11-NACK-02", "1.2": "STOMP12-NACK-02"}
BEGIN = {
    "1.0": ("STOMP10-BEGIN-01",),
    "1.1": ("STOMP11-BEGIN-01",),
    "1.2": ("STOMP12-BEGIN-01", "STOMP12-FH-07"),
}
COMMIT = {"1.0": "STOMP10-COMMIT-01", "1.1": "STOMP11-COMMIT-01", "1.2": "STOMP12-COMMIT-01"}
ABORT = {"1.0": "STOMP10-ABORT-01", "1.1": "STOMP11-ABORT-01", "1.2": "STOMP12-ABORT-01"}
NOTHING_BEHIND = {"1.1": "STOMP11-DISC-02", "1.2": "STOMP12-DISC-02"}
GRACEFUL = {"1.1": "STOMP11-DISC-01", "1.2": "STOMP12-DISC-01"}


@case(SUBSCRIBE, ACK_MODE, needs=TRIAL)
@pytest.mark.parametrize("ack", ["auto", "client"])
def test_subscribe_names_place_id_and_mode(target: Bench, version: str, ack: str) -> None:
    """The application's SUBSCRIBE has the destination, from 1.1 on an id, and the requested mode; a
    missing mode means auto.

    One scenario: the requirements describe one frame.
    """
    trial = target.stomp_client(version)
    trial.connect()
    asked = trial.subscribe("/queue/a", ack=ack)
    target.record_finding(
        SUBSCRIBE[version],
        asked.get("destination") == "/queue/a" and (version == "1.0" or bool(asked.get("id"))),
        f"the client sent {asked.brief()}",
    )
    detail = f"the client sent {asked.brief()}"
    target.record_finding(ACK_MODE[version], asked.get("ack", "auto") == ack, detail)


@case(TWO_IDS, needs=TRIAL)
def test_two_subscriptions_have_two_ids(target: Bench, version: str) -> None:
    """If the application subscribes twice to one destination, the SUBSCRIBEs have different ids."""
    trial = target.stomp_client(version)
    trial.connect()
    first, second = trial.subscribe(id="s1"), trial.subscribe(id="s2")
    detail = f"the ids are {first.get('id')!r} and {second.get('id')!r}"
    target.record_finding(TWO_IDS[version], first.get("id") != second.get("id"), detail)


@case(UNSUBSCRIBE, needs=TRIAL)
def test_unsubscribe_names_the_subscription(target: Bench, version: str) -> None:
    """The application ends one of two subscriptions. UNSUBSCRIBE has the id of its SUBSCRIBE, or in
    1.0 the destination."""
    trial = target.stomp_client(version)
    trial.connect()
    first = trial.subscribe("/queue/a", id="s1")
    trial.subscribe("/queue/b", id="s2")
    trial.driver.done("unsubscribe", id="s1", destination="/queue/a")
    asked = trial.server.received("UNSUBSCRIBE", proves=UNSUBSCRIBE[version])
    by_id = asked.get("id") is not None and asked.get("id") == first.get("id")
    by_name = version == "1.0" and asked.get("destination") == "/queue/a"
    target.record_finding(
        UNSUBSCRIBE[version], by_id or by_name, f"the client sent {asked.brief()}"
    )


@case(ACK, needs=TRIAL)
def test_ack_names_the_message(target: Bench, version: str) -> None:
    """The application acknowledges two messages that arrive together. Each ACK names its message as
    the version requires: by message-id, in 1.1 with the subscription, in 1.2 by the ack header's
    value.

    One scenario: ACK must be sent, with the right headers.
    """
    trial = target.stomp_client(version)
    trial.connect()
    subscription = trial.subscribe(ack="client")
    naming = [trial.server.message_headers(subscription) for _ in range(2)]
    trial.server.write(
        b"".join(codec.encode("MESSAGE", one, b"x", version=version) for one in naming)
    )
    trial.driver.expect(event_named("message", number=2))
    for number, one in enumerate(naming, 1):
        trial.driver.done("ack", message=number)
        sent = trial.server.received("ACK", proves=ACK[version])
        target.record_finding(
            ACK[version], _names(sent, one, version), f"the client sent {sent.brief()}"
        )


@case(NACK, needs=TRIAL | {"nack"})
def test_nack_names_the_message(target: Bench, version: str) -> None:
    """When the application refuses a message, NACK names it as ACK would."""
    trial = target.stomp_client(version)
    trial.connect()
    naming = trial.server.deliver(trial.subscribe(ack="client"), b"one")
    trial.message()
    trial.driver.done("nack", message=1)
    sent = trial.server.received("NACK", proves=NACK[version])
    target.record_finding(
        NACK[version], _names(sent, naming, version), f"the client sent {sent.brief()}"
    )


@case(NACK_SENT, needs=TRIAL | {"stomp-1.2", "nack"})
def test_what_was_not_processed_is_refused(target: Bench) -> None:
    """In client-individual mode the application refuses one of two messages and acknowledges the
    other. The client sends a NACK and an ACK."""
    trial = target.stomp_client("1.2")
    trial.connect()
    subscription = trial.subscribe(ack="client-individual")
    trial.server.deliver(subscription, b"one")
    naming = trial.server.deliver(subscription, b"two")
    trial.driver.expect(event_named("message", number=2))
    trial.driver.done("ack", message=1)
    trial.server.received("ACK")
    trial.driver.done("nack", message=2)
    refused = trial.server.received("NACK", proves=NACK_SENT)
    target.record_finding(
        NACK_SENT, refused.get("id") == naming["ack"], f"the client sent {refused.brief()}"
    )


@case(TRANSACTION_IN_ACK, TRANSACTION_IN_NACK, needs=TRIAL | {"nack", "transactions"})
def test_settlements_may_be_in_a_transaction(target: Bench, version: str) -> None:
    """In a transaction the application acknowledges one message and refuses another. ACK and NACK
    have the transaction's name."""
    trial = target.stomp_client(version)
    trial.connect()
    subscription = trial.subscribe(ack="client-individual")
    trial.server.deliver(subscription, b"one")
    trial.server.deliver(subscription, b"two")
    trial.driver.expect(event_named("message", number=2))
    trial.driver.done("begin", transaction="t1")
    name = trial.server.received("BEGIN").get("transaction")
    trial.driver.done("ack", message=1, transaction="t1")
    ack = trial.server.received("ACK")
    trial.driver.done("nack", message=2, transaction="t1")
    nack = trial.server.received("NACK")
    detail = f"the client sent {ack.brief()}"
    target.record_finding(TRANSACTION_IN_ACK[version], ack.get("transaction") == name, detail)
    detail = f"the client sent {nack.brief()}"
    target.record_finding(TRANSACTION_IN_NACK[version], nack.get("transaction") == name, detail)


@case(BEGIN, COMMIT, ABORT, needs=TRIAL | {"transactions"})
def test_transactions_are_named(target: Bench, version: str) -> None:
    """The application begins two transactions, sends in one, commits it and aborts the other. Every
    frame has the name of its transaction.

    One scenario: the requirements concern the same transactions.
    """
    trial = target.stomp_client(version)
    trial.connect()
    names = []
    for name in ("t1", "t2"):
        trial.driver.done("begin", transaction=name)
        begun = trial.server.received("BEGIN", proves=BEGIN[version])
        names.append(begun.get("transaction"))
        target.record_finding(BEGIN[version], bool(names[-1]), f"the client sent {begun.brief()}")
    trial.driver.done("send", destination="/queue/a", body="x", transaction="t1")
    sent = trial.server.received("SEND")
    words = f"the transactions are {shown(names)}; the client sent {sent.brief()}"
    target.record_finding(BEGIN[version], sent.get("transaction") == names[0] != names[1], words)
    trial.driver.done("commit", transaction="t1")
    commit = trial.server.received("COMMIT", proves=COMMIT[version])
    trial.driver.done("abort", transaction="t2")
    abort = trial.server.received("ABORT", proves=ABORT[version])
    detail = f"the client sent {commit.brief()}"
    target.record_finding(COMMIT[version], commit.get("transaction") == names[0], detail)
    detail = f"the client sent {abort.brief()}"
    target.record_finding(ABORT[version], abort.get("transaction") == names[1], detail)


@case(NOTHING_BEHIND, needs=TRIAL)
def test_nothing_is_sent_behind_disconnect(target: Bench, version: str) -> None:
    """The application disconnects, one more message arrives, and the server delays the RECEIPT. No
    frame of the client follows its DISCONNECT."""
    trial = target.stomp_client(version)
    trial.connect()
    subscription = trial.subscribe()
    trial.driver.do("disconnect")
    left = trial.server.expect(frame("DISCONNECT"))
    trial.server.deliver(subscription, b"late")
    target.wait_until(lambda: trial.server.ended is not None, seconds(1))
    trial.server.answer_receipt(left)
    target.wait_until(lambda: trial.server.ended is not None, seconds(1))
    behind = trial.server.frames[trial.server.frames.index(left) + 1 :]
    words = ", ".join(frame.brief() for frame in behind) or "nothing"
    words = f"after DISCONNECT, the client sent {words}"
    target.record_finding(NOTHING_BEHIND[version], not behind, words)


@case(GRACEFUL, needs=TRIAL)
def test_a_client_waits_for_the_receipt_of_disconnect(target: Bench, version: str) -> None:
    """When the application disconnects, DISCONNECT asks for a receipt, and the client closes only
    once it has received that RECEIPT."""
    trial = target.stomp_client(version)
    trial.connect()
    trial.driver.do("disconnect")
    left = trial.server.expect(frame("DISCONNECT"))
    early = target.wait_until(lambda: trial.server.ended is not None, seconds(1))
    trial.server.answer_receipt(left)
    asks = left.get("receipt") is not None
    target.record_finding(
        GRACEFUL[version],
        asks and not early,
        f"DISCONNECT asks for {'a' if asks else 'no'} receipt; the client"
        f" {'closed without waiting' if early else 'waited'}",
    )


def _names(sent: Frame, naming: Mapping[str, str], version: str) -> bool:
    """True if an ACK or NACK identifies the MESSAGE ``naming`` as its version requires."""
    if version == "1.2":
        return sent.get("id") == naming["ack"]
    by_subscription = version == "1.0" or sent.get("subscription") == naming["subscription"]
    return sent.get("message-id") == naming["message-id"] and by_subscription
