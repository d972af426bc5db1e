"""SASL frames on one connection (5.3), and the answers to them."""

from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.composite import Composite
from brokerproof.reference_broker.protocols.amqp10.framing import SASL, decoded, frame
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    SaslChallenge,
    SaslInit,
    SaslMechanisms,
    SaslOutcome,
    SaslResponse,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.sasl import ANONYMOUS, EXTERNAL, OK, SaslServer
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings

_FRAMES: dict[int, type[Composite]] = {kind.CODE: kind for kind in (SaslInit, SaslResponse)}


def offered_to(has_certificate: bool, acceptor: Acceptor, settings: Settings) -> tuple[str, ...]:
    """Return the mechanisms that a peer may choose from."""
    useless = {ANONYMOUS} if settings.security_enabled else set[str]()
    if not has_certificate:
        useless.add(EXTERNAL)
    return tuple(name for name in acceptor.amqp.sasl_mechanisms if name not in useless)


class SaslExchange:
    """One login. ``user`` is None until it succeeds."""

    def __init__(self, offered: tuple[str, ...], settings: Settings, external: str | None) -> None:
        self.user: str | None = None
        self._server = SaslServer(offered, settings.users, settings.security_enabled, external)
        self._challenged = False

    def mechanisms(self) -> bytes:
        offered = tuple(map(Symbol, self._server.offered))
        return frame(0, SaslMechanisms(sasl_server_mechanisms=offered).encode(), SASL)

    def answer(self, type: int, body: bytes) -> bytes:
        """Return the answer to this frame. Raises :class:`Refusal`, also for a failed login."""
        if type != SASL:
            raise Refusal(
                refusal.BAD_FRAME_TYPE, f"got a frame of type {type}, expected type {SASL}"
            )
        if not body:
            raise Refusal(refusal.EMPTY_SASL_FRAME, "a SASL frame is empty")
        received, end = decoded(body, _FRAMES)
        if end != len(body):
            raise Refusal(refusal.BAD_SASL_FRAME, "extra bytes follow the SASL body in its frame")
        match received:
            case SaslInit(mechanism=mechanism, initial_response=initial) if not self._challenged:
                reached = self._server.start(mechanism, initial)
            case SaslResponse(response=response) if self._challenged:
                reached = self._server.respond(response)
            case _:
                raise Refusal(
                    refusal.BAD_SASL_FRAME, "expected sasl-init, or the response to a challenge"
                )
        if isinstance(reached, bytes):
            self._challenged = True
            return frame(0, SaslChallenge(challenge=reached).encode(), SASL)
        if reached.code != OK:
            raise Refusal(refusal.LOGIN_FAILED, f"SASL: {reached.detail}")
        self.user = reached.user
        return frame(0, SaslOutcome(code=OK).encode(), SASL)
