"""Faults after the answer that an AMQP 1.0 case waits for: the answer is right, but a later frame
is wrong."""

from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection, State
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.mutant import Group

amqp10_aftermath = Group("amqp10-aftermath")


@amqp10_aftermath.after(Session, "break_link", breaks="AMQP10-LINK-10")
def broken_link_speaks(reached, self, link, problem):
    """A link sends a flow half a second after it was detached with an error."""
    reached()

    def speak(now):
        if self.connection.is_open and not self.is_over:
            self.flow(link)

    self.shared.deadlines.call_at(self.shared.clock.now + seconds(0.5), speak)


@amqp10_aftermath.after(Session, "fail", breaks="AMQP10-SESS-08")
def failed_session_speaks(reached, self, problem):
    """A session that ended with an error sends its flow state half a second later."""
    reached()

    def speak(now):
        if self.connection.is_open:
            self.flow()

    self.shared.deadlines.call_at(self.shared.clock.now + seconds(0.5), speak)


@amqp10_aftermath.after(AmqpConnection, "_open", breaks="AMQP10-CLOSE-01")
def idle_connection_ends_without_close(reached, self, opened, channel):
    """A connection ends without a close three seconds after its open."""

    def end(now):
        if reached(self._state is State.OPENED):
            self._close()

    self.shared.deadlines.call_at(self.shared.clock.now + seconds(3), end)


@amqp10_aftermath.after(AmqpConnection, "_open", breaks="AMQP10-IDLE-01")
def idle_connection_ends_early(reached, self, opened, channel):
    """A connection is closed for silence four seconds after its open instead of the agreed
    thirty."""

    def end(now):
        if reached(self._state is State.OPENED):
            self._refuse(Refusal(refusal.SILENT, "local-idle-timeout expired"))

    self.shared.deadlines.call_at(self.shared.clock.now + seconds(4), end)


@amqp10_aftermath.override(Session, "settle_incoming", breaks="AMQP10-DISP-03")
def settles_again(original, reached, self, delivery_id, state):
    """An accepted delivery is settled again a second later."""
    original(self, delivery_id, state)

    def again(now):
        if reached(self.connection.is_open and not self.is_over and isinstance(state, Accepted)):
            original(self, delivery_id, state)
            self.flush()

    self.shared.deadlines.call_at(self.shared.clock.now + seconds(1), again)


@amqp10_aftermath.override(OutgoingLink, "_send", breaks="AMQP10-CREDIT-09")
def sends_late_without_credit(original, reached, self, id, payload, large):
    """A link without credit sends its last message again two seconds later."""
    original(self, id, payload, large)
    session = self.session

    def again(now):
        if reached(
            not self._stopped and self.credit.credit <= 0 and session.can_send() and large is None
        ):
            number = session.next_delivery_id
            session.next_delivery_id = (number + 1) & 0xFFFFFFFF
            original(self, number, payload, None)

    session.shared.deadlines.call_at(session.shared.clock.now + seconds(2), again)
