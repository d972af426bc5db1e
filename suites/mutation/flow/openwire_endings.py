"""Faults of OpenWire that occur when something ends: a pull, a transaction, a browse, or a
consumer."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.openwire.transaction import OpenWireTransaction
from brokerproof.suites.mutation.mutant import Group

openwire_endings = Group("openwire-endings", "reference-activemq")

LIMIT, PULL = "OPENWIRE-PREFETCH-1", "OPENWIRE-PREFETCH-3"
POISON, COUNTS = "OPENWIRE-MSGACK-4", "OPENWIRE-TX-1"
RESENT, BROWSED = "OPENWIRE-REDELIVERY-1", "OPENWIRE-BROWSE-1"


@openwire_endings.override(OpenWireConsumer, "nothing", breaks=PULL, recreates="ARTEMIS-3110")
def a_pull_that_ended_brings_what_comes_later(original, reached, self):
    """A pull that ended without a message still has its credit."""
    before = self.prefetch.pulled
    original(self)
    self.prefetch.pulled = reached.instead(0, before)


@openwire_endings.after(OpenWireConsumer, "settle", recreates="ARTEMIS-3646", breaks=LIMIT)
def a_poison_ack_widens_the_limit(reached, self, places, outcome):
    """A POISON ack makes room for two messages."""
    if reached(outcome is Outcome.REJECTED):
        self.prefetch.limit += 1


@openwire_endings.override(OpenWireConsumer, "settle", breaks=POISON)
def a_poison_message_comes_back(original, reached, self, places, outcome):
    """A message with a POISON ack returns to its queue."""
    poison = reached(outcome is Outcome.REJECTED)
    original(self, places, Outcome.RELEASED if poison else outcome)


@openwire_endings.skips(OpenWireConsumer, "settle", breaks=BROWSED, recreates="ARTEMIS-2650")
def a_browser_is_shown_no_more_than_its_limit(self, places, outcome):
    """A browser's acknowledgements make no room."""
    return self.browses


@openwire_endings.after(OpenWireConsumer, "show", breaks=BROWSED)
def a_browser_takes_what_it_sees(reached, self, entry):
    """A browsed message is removed from the queue."""
    reached()
    self.queue._ready.remove(entry)


@openwire_endings.skips(OpenWireConsumer, "_finish", breaks=BROWSED)
def a_browse_has_no_end(self):
    """A browse never ends."""
    return True


@openwire_endings.override(OpenWireConsumer, "close", breaks=RESENT, recreates="ARTEMIS-4418")
def nobody_saw_anything(original, reached, self, last):
    """When a consumer ends, none of its messages count as seen."""
    original(self, reached.instead(last, -1))


@openwire_endings.override(OpenWireConsumer, "close", breaks=RESENT)
def everything_was_seen(original, reached, self, last):
    """When a consumer ends, all its messages count as seen."""
    original(self, reached.instead(last, None))


@openwire_endings.before(Client, "end", breaks=COUNTS, recreates="ARTEMIS-3240")
def a_lost_connection_commits(reached, self, last=None):
    """A lost connection commits the acknowledgements of its open transactions."""
    for transaction in self._transactions.values():
        for consumer, places in transaction._acknowledged:
            reached()
            consumer.settle(places, Outcome.ACCEPTED)
        transaction._acknowledged.clear()


@openwire_endings.before(OpenWireTransaction, "roll_back", breaks=COUNTS)
def acknowledgements_outlive_a_rollback(reached, self):
    """A rollback applies acknowledgements."""
    for consumer, places in self._acknowledged:
        reached()
        consumer.settle(places, Outcome.ACCEPTED)


@openwire_endings.before(OpenWireTransaction, "roll_back", breaks=COUNTS)
def messages_outlive_a_rollback(reached, self):
    """A rollback publishes messages."""
    for message, _ in self.sends._sends:
        reached()
        self._router.publish(message)


@openwire_endings.after(OpenWireTransaction, "settle", breaks=COUNTS, recreates="AMQ-6824")
def acknowledgements_make_room_at_once(reached, self, consumer, places):
    """An acknowledgement makes room before its transaction is committed."""
    reached()
    consumer.prefetch.seen(1)


@openwire_endings.override(Client, "pull", breaks=PULL)
def a_pull_ends_with_the_one_before(original, reached, self, fields, request):
    """A pull ends when the consumer's earlier pull, which received a message, would have ended."""
    before = {consumer: deadline.at for consumer, deadline in self._pulls.items()}
    original(self, fields, request)
    for consumer, at in before.items():
        reached()
        self._pulls[consumer].move(at)
