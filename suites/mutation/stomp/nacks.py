"""Faults of NACK."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Version
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.acks import commanded

nacks = Group("nacks")

EXTENT = "STOMP11-NACK-04 STOMP12-NACK-04"
NAMED = "STOMP11-NACK-01 STOMP12-NACK-01"


@nacks.mutant(f"{NAMED} STOMP12-FH-06", recreates="AMQ-3670")
def not_supported(parts: Parts, reached: Reached) -> Parts:
    """NACK is refused as an unknown command."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._grammar.version is not None and b"NACK\n" in data:
                reached()
            super().feed(data)

    grammars = {
        version: replace(grammar, commands=grammar.commands - {"NACK"})
        for version, grammar in parts.grammars.items()
    }
    return replace(parts, grammars=grammars, parser=Faulty)


def _extent(parts: Parts, reached: Reached, asked: AckMode, done: AckMode) -> Parts:
    def nack(session: StompConnection, frame: Frame) -> After:
        key = frame.get("id" if session.version is Version.V1_2 else "message-id") or ""
        delivery = session.deliveries.get(key)
        if delivery is None or delivery.subscription.mode is not asked:
            return parts.commands["NACK"](session, frame)
        subscription = delivery.subscription
        if next(iter(subscription._unsettled.values())) is not delivery:
            reached()
        subscription.mode = done
        try:
            return parts.commands["NACK"](session, frame)
        finally:
            subscription.mode = asked

    return commanded(parts, NACK=nack)


@nacks.mutant(EXTENT)
def client_is_individual(parts: Parts, reached: Reached) -> Parts:
    """In mode client a NACK refuses only the message that it names."""
    return _extent(parts, reached, AckMode.CLIENT, AckMode.CLIENT_INDIVIDUAL)


@nacks.mutant(f"{EXTENT} STOMP11-SUB-11 STOMP12-SUB-13")
def individual_is_cumulative(parts: Parts, reached: Reached) -> Parts:
    """In mode client-individual a NACK refuses all earlier messages too."""
    return _extent(parts, reached, AckMode.CLIENT_INDIVIDUAL, AckMode.CLIENT)


@nacks.mutant(NAMED)
def nameless_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A NACK that names no message is confirmed."""

    def nack(session: StompConnection, frame: Frame) -> After:
        if frame.get("id" if session.version is Version.V1_2 else "message-id") is None:
            reached()
            return None
        return parts.commands["NACK"](session, frame)

    return commanded(parts, NACK=nack)


@nacks.mutant("ARTEMIS-REDELIVERY-back-1 ARTEMIS-STOMP-window-2")
def no_effect(parts: Parts, reached: Reached) -> Parts:
    """NACK is confirmed and the message stays with its consumer."""

    def nack(session: StompConnection, frame: Frame) -> After:
        reached()
        return None

    return commanded(parts, NACK=nack)
