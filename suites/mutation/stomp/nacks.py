"""Faults of NACK."""

from dataclasses import replace
from unittest import mock

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS, withheld
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks

nacks = Group("nacks")

EXTENT = "STOMP11-NACK-04 STOMP12-NACK-04"


@nacks.mutant("STOMP11-NACK-01 STOMP12-NACK-01 STOMP12-FH-06", recreates="AMQ-3670")
def not_supported(patch, reached):
    """NACK is refused as an unknown command."""
    for version, grammar in GRAMMARS.items():
        patch.set(GRAMMARS, version, replace(grammar, commands=grammar.commands - {"NACK"}))

    @patch.before(FrameParser)
    def feed(self, data):
        reached(self._grammar.version is not None and b"NACK\n" in data)


def _extent(patch, reached, asked, done):
    @patch.override(COMMANDS, "NACK")
    def nack(original, session, frame):
        key = frame.get("id" if session.version is Version.V1_2 else "message-id") or ""
        delivery = session.deliveries.get(key)
        if delivery is None or delivery.subscription.mode is not asked:
            return original(session, frame)
        subscription = delivery.subscription
        reached(next(iter(subscription._unsettled.values())) is not delivery)
        with mock.patch.object(subscription, "mode", done):
            return original(session, frame)


@nacks.variant(_extent, AckMode.CLIENT, AckMode.CLIENT_INDIVIDUAL, breaks=EXTENT)
def client_is_individual():
    """In mode client a NACK refuses only the message that it names."""


@nacks.variant(_extent, AckMode.CLIENT_INDIVIDUAL, AckMode.CLIENT)
@breaks("STOMP11-NACK-04 STOMP12-NACK-04 STOMP11-SUB-11 STOMP12-SUB-13")
def individual_is_cumulative():
    """In mode client-individual a NACK refuses all earlier messages too."""


@nacks.override(COMMANDS, "NACK", breaks="ARTEMIS-REDELIVERY-back-1 ARTEMIS-STOMP-window-2")
def no_effect(original, reached, session, frame):
    """NACK is confirmed and the message stays with its consumer."""
    reached()
    return


def _refused_and_committed(patch, reached, command):
    @patch.override(COMMANDS, command)
    def settle(original, session, frame):
        named = session.deliveries.get(frame.get("id") or frame.get("message-id"))
        within = session.transactions.get(frame.get("transaction"))
        if named is None or within is None:
            return original(session, frame)
        right = frame.get("subscription") in (None, named.subscription.id)
        if not reached(command == "NACK" or not right):
            return original(session, frame)
        within.settle(named.subscription.queue, named.subscription.take(named), Outcome.ACCEPTED)
        session.tell(Refusal(refusal.NACK_UNKNOWN, session.version, "refused"), frame)
        return withheld


@nacks.variant(_refused_and_committed, "NACK")
@breaks("STOMP11-NACK-01 STOMP12-NACK-01 STOMP11-ACK-05 STOMP12-ACK-04")
def refused_in_a_transaction_and_committed():
    """A NACK in a transaction gets ERROR, and COMMIT acknowledges all that it covers."""


@nacks.variant(_refused_and_committed, "ACK", breaks="STOMP11-ACK-05 STOMP12-ACK-04")
def refused_ack_committed():
    """An ACK that names another subscription gets ERROR, and COMMIT applies it."""
