"""Faults of transactions whose outcomes belong to links that have closed."""

from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.suites.mutation.mutant import Group

closed_links = Group("amqp-closed-links")

RETIRED, RETURNED = "AMQP10-TXN-09", "AMQP10-TXN-13"


def _of_closed_links(transaction):
    """Return the deliveries of ``transaction`` whose links have closed."""
    return [delivery for delivery in transaction._outcomes if delivery.link._stopped]


def _with(transaction, deliveries, outcome):
    """Replace the outcomes of ``deliveries``."""
    for delivery in deliveries:
        transaction._outcomes[delivery] = outcome, True


def _of(link):
    """Yield each transaction that has outcomes of ``link``, and the deliveries concerned."""
    for transaction in link.session.connection.transactions.values():
        deliveries = [delivery for delivery in transaction._outcomes if delivery.link is link]
        if deliveries:
            yield transaction, deliveries


@closed_links.before(LiveTransaction, "commit", breaks=RETIRED)
def committed_outcomes_give_way_to_the_default(reached, self):
    """A commit applies the default-outcome to deliveries whose link has closed."""
    for delivery in _of_closed_links(self):
        reached()
        _with(self, [delivery], delivery.link.default_outcome)


@closed_links.override(LiveTransaction, "roll_back", breaks=RETURNED)
def rolled_back_outcomes_apply(original, reached, self):
    """A rollback applies the outcomes of deliveries whose link has closed."""
    queues = []
    for delivery in _of_closed_links(self):
        reached()
        outcome, _ = self._outcomes.pop(delivery)
        delivery.link.apply([delivery], outcome)
        queues.append(delivery.link.queue)
    return [*original(self), *queues]


@closed_links.before(LiveTransaction, "roll_back", breaks=RETURNED)
def a_rollback_forgets_closed_links(reached, self):
    """A rollback does not return deliveries whose link has closed."""
    for delivery in _of_closed_links(self):
        reached()
        del self._outcomes[delivery]


@closed_links.before(LiveTransaction, "roll_back", breaks=RETURNED)
def a_rollback_returns_the_first_of_a_closed_link(reached, self):
    """A rollback returns one delivery of closed links, and loses the others."""
    for delivery in _of_closed_links(self)[1:]:
        reached()
        del self._outcomes[delivery]


@closed_links.before(OutgoingLink, "give_back", breaks=RETIRED)
def closing_returns_what_was_accepted(reached, self):
    """A closing link withdraws its outcomes in open transactions."""
    for transaction, deliveries in _of(self):
        for delivery in deliveries:
            reached()
            del transaction._outcomes[delivery]
            delivery.transaction = None
            self.apply([delivery], self.default_outcome)


@closed_links.before(OutgoingLink, "give_back", breaks=RETURNED)
def closing_commits_what_was_accepted(reached, self):
    """A closing link applies its outcomes in open transactions immediately."""
    for transaction, deliveries in _of(self):
        for delivery in deliveries:
            reached()
            del transaction._outcomes[delivery]
            delivery.transaction = None
            self.apply([delivery], Accepted())
