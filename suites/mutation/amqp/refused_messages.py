"""Faults after a message was refused: in its delivery, its link, or its credit."""

from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.messaging import Rejected
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.mutant import Group

refused_messages = Group("amqp-refused-messages")

SETTLED, CREDIT = "AMQP10-XFER-14", "ARTEMIS-FLOW-amqp-1"


@refused_messages.skips(Session, "settle_incoming", breaks=SETTLED)
def a_refused_message_is_not_answered(self, delivery_id, state):
    """A rejection is not sent."""
    return isinstance(state, Rejected)


@refused_messages.mutant(SETTLED)
def a_second_refusal_is_not_answered(patch, reached):
    """Of two rejections in a session, the second is not sent."""
    refusing: set[Session] = set()

    @patch.override(Session)
    def settle_incoming(original, self, delivery_id, state):
        if isinstance(state, Rejected):
            if reached(self in refusing):
                return
            refusing.add(self)
        original(self, delivery_id, state)


@refused_messages.mutant(SETTLED)
def nothing_is_answered_behind_a_refusal(patch, reached):
    """After a rejection no delivery of the session is settled."""
    refusing: set[Session] = set()

    @patch.override(Session)
    def settle_incoming(original, self, delivery_id, state):
        if reached(self in refusing):
            return
        if isinstance(state, Rejected):
            refusing.add(self)
        original(self, delivery_id, state)


def _refused(patch):
    """Count the refused messages of each link."""
    counts: dict[IncomingLink, int] = {}

    @patch.before(IncomingLink)
    def _not_taken(self, condition, description):
        counts[self] = counts.get(self, 0) + 1

    return counts


@refused_messages.mutant(CREDIT)
def a_refusal_ends_the_refilling(patch, reached):
    """A link with a refused message gets no more credit."""
    counts = _refused(patch)

    @patch.override(IncomingLink)
    def refill(original, self):
        if not reached(counts.get(self)):
            original(self)


@refused_messages.mutant(CREDIT)
def many_refusals_end_the_refilling(patch, reached):
    """A link with a dozen refused messages gets no more credit."""
    counts = _refused(patch)

    @patch.override(IncomingLink)
    def refill(original, self):
        if not reached(counts.get(self, 0) >= 12):
            original(self)
