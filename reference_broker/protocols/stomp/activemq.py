"""A STOMP connection by ActiveMQ's rules: answers to SEND may be late, an ERROR for lack of space
does not end the connection, and silence is checked once per interval.

A SEND with a receipt that finds no space does not delay later frames: its RECEIPT or ERROR is sent
once the message has been added or has failed. Without a receipt, the connection is not read until
there is space (:mod:`brokerproof.reference_broker.families.activemq.producer_flow`); if the message
fails, an ERROR without receipt-id is sent, and reading continues.

Any other mistake ends the connection, unless ``stomp_errors_close`` is switched off. In that case,
as in release 6.3.1, only bytes that are not a frame and mistakes before CONNECTED end it.
"""

from functools import partial

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.families.activemq.producer_flow import (
    NoSpace,
    PendingSend,
    ProducerFlow,
    SendOutcome,
)
from brokerproof.reference_broker.kernel.address_book import NoRoute
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import After, new_message, withheld
from brokerproof.reference_broker.protocols.stomp.connection import State, StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeats, MirroredHeartBeats
from brokerproof.reference_broker.protocols.stomp.refusal import Fault, Refusal
from brokerproof.reference_broker.settings.acceptor import Acceptor


class ActiveMqStompConnection(StompConnection):
    """A STOMP connection by ActiveMQ's rules. ``submit`` is called by ``commands.py``."""

    def __init__(
        self, conn: int, acceptor: Acceptor, shared: BrokerContext, now: Instant, flow: ProducerFlow
    ) -> None:
        super().__init__(conn, acceptor, shared, now, HeartBeats(MirroredHeartBeats))
        self._flow = flow
        self._again = False
        self._stalled: tuple[Frame, PendingSend] | None = None

    # --- SEND -------------------------------------------------------------------------------------

    def submit(self, frame: Frame, envelope: Envelope, transaction: Transaction | None) -> After:
        """Handle a SEND now, or when there is space. Raises :class:`Refusal`."""
        message = new_message(self, envelope, frame.body)
        observe = self.shared.outbox.observe
        address = message.route.address
        sending = PendingSend(
            message,
            address,
            message.durable,
            answered=frame.get("receipt") is not None,
            publish=partial(self._publish, message, transaction),
            settled=partial(self._settled, frame),
            is_live=lambda: transaction is None or transaction in self.transactions.values(),
            transaction=transaction,
        )
        try:
            fate = self._flow.send(sending)
        except NoSpace as problem:
            self._tell_no_space(frame, problem)
            return withheld
        except NoRoute as problem:
            raise Refusal(refusal.SEND_FAILED, self.version, str(problem)) from None
        if fate is SendOutcome.TAKEN:
            return None
        if fate is SendOutcome.STALLED:
            self._stalled = frame, sending
            observe(
                self.conn, "ACTIVEMQ-PFC-8", f"no space at {address}: the connection is not read"
            )
        else:
            observe(self.conn, "ACTIVEMQ-PFC-3", f"no space at {address}: the receipt is withheld")
        return withheld

    def _publish(self, message: Message, transaction: Transaction | None) -> None:
        router = self.shared.router
        if transaction is None:
            router.publish(message)
        else:
            router.get_or_create(message.route.address, message.route.routing)
            transaction.send(message, router.charge_transaction(message))

    def _settled(self, frame: Frame, problem: NoSpace | None) -> None:
        """Answer a SEND that had to wait and then succeeded, or failed with ``problem``."""
        if not self.is_open:
            return
        receipt = frame.get("receipt")
        if problem is not None:
            self._tell_no_space(frame, problem)
        elif receipt is not None:
            self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
        if self._stalled is not None and self._stalled[0] is frame:
            self._stalled = None
            self._read_again(PauseReason.ROOM)

    def _tell_no_space(self, frame: Frame, problem: NoSpace) -> None:
        """Report that there is no space. The send may be retried, so the session continues
        (ACTIVEMQ-PFC-9)."""
        self.tell(
            Refusal(refusal.NO_SPACE, self.version, str(problem), receipt=frame.get("receipt")),
            frame,
        )

    # --- input ------------------------------------------------------------------------------------

    def _read(self, now: Instant, data: bytes | None, frame: Frame | None = None) -> None:
        super()._read(now, data, frame)
        while self._again:
            self._again = False
            super()._read(now, None)

    def _blocks(self, frame: Frame) -> bool:
        if self._stalled is not None:
            if not self.blocked:
                self._stop(PauseReason.ROOM)
            return True
        return super()._blocks(frame)

    def _on_handshake_timeout(self, now: Instant) -> None:
        self._close_without_a_word(refusal.TOO_SLOW)

    def _on_silence(self) -> None:
        self._close_without_a_word(refusal.NO_BEATS)

    def _close_without_a_word(self, fault: Fault) -> None:
        self.shared.outbox.observe(
            self.conn, fault.requirement(self.version), f"{fault.message}: closed without a word"
        )
        self.close()

    def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
        if frame is None or self._state is not State.SESSION or self.acceptor.stomp.errors_close:
            super()._refuse(problem, frame)
            return
        self.tell(problem, frame)
        self._again = True

    def _end(self) -> None:
        stalled, self._stalled = self._stalled, None
        if stalled is not None:
            self._flow.left(stalled[1])
        super()._end()
