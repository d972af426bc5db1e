"""Faults of OpenWire that only certain histories of a consumer reveal: deliveries that were seen,
partly settled, or returned."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer, Prefetch
from brokerproof.reference_broker.protocols.openwire.transaction import OpenWireTransaction
from brokerproof.suites.mutation.mutant import Group

openwire_histories = Group("openwire-histories", "reference-activemq")

LIMIT, MORE, PULL = "OPENWIRE-PREFETCH-1", "OPENWIRE-PREFETCH-2", "OPENWIRE-PREFETCH-3"
DELIVERED, STANDARD, INDIVIDUAL = "OPENWIRE-MSGACK-1", "OPENWIRE-MSGACK-2", "OPENWIRE-MSGACK-3"


@openwire_histories.override(Prefetch, "acknowledged", breaks=LIMIT)
def what_was_seen_widens_for_ever(original, reached, self, count):
    """The limit's extension for messages that were seen stays when they are acknowledged."""
    reached(self.extension)


@openwire_histories.override(Prefetch, "seen", breaks=DELIVERED)
def what_was_seen_changes_nothing(original, reached, self, count):
    """A DELIVERED makes no room."""
    reached()


@openwire_histories.override(Prefetch, "seen", breaks=LIMIT)
def what_was_seen_takes_the_limit_away(original, reached, self, count):
    """A DELIVERED removes the limit."""
    reached()
    original(self, count + 1000)


@openwire_histories.override(Prefetch, "seen", breaks=DELIVERED)
def several_seen_count_as_one(original, reached, self, count):
    """A DELIVERED extends the limit by one message, however many it covers."""
    original(self, reached.instead(count, min(1, count)))


@openwire_histories.before(OpenWireConsumer, "settle", breaks=DELIVERED)
def one_acknowledgement_ends_all_extensions(reached, self, places, outcome):
    """An acknowledgement of one message takes back the extension for all."""
    if reached(self.prefetch.extension > 1):
        self.prefetch.extension = 1


@openwire_histories.override(OpenWireConsumer, "settle", breaks=f"{STANDARD} {LIMIT}")
def ranges_begin_at_the_oldest(original, reached, self, places, outcome):
    """A STANDARD acknowledgement ends everything up to its last message, whatever its first."""
    low = min((self._places[key] for key in self._out), default=places[0])
    begins = reached.instead(places, (low, places[1])) if places[0] != places[1] else places
    original(self, begins, outcome)


@openwire_histories.override(OpenWireConsumer, "settle", breaks=f"{STANDARD} {MORE}")
def ranges_leave_their_first(original, reached, self, places, outcome):
    """A STANDARD acknowledgement of three or more messages omits the first."""
    covered = list(self._order.between(*places, self._keys))
    if reached(len(covered) > 2):
        places = (covered[1], places[1])
    original(self, places, outcome)


@openwire_histories.override(OpenWireConsumer, "covered", breaks=INDIVIDUAL)
def an_individual_acknowledgement_is_cumulative(original, reached, self, first, last, *, one):
    """An INDIVIDUAL acknowledgement also covers earlier messages."""
    low, high = original(self, first, last, one=one)
    if one:
        low = reached.instead(low, serial_numbers.add(high, 1 - serial_numbers.HALF))
    return low, high


@openwire_histories.before(OpenWireConsumer, "close", breaks=f"{DELIVERED} {STANDARD}")
def what_was_seen_is_lost_with_its_consumer(reached, self, last):
    """Messages that a consumer saw but did not acknowledge are lost when it ends."""
    for key in list(self._out)[: self.prefetch.extension]:
        reached()
        self.queue.settle([self._out.pop(key)], Outcome.ACCEPTED)


@openwire_histories.override(Client, "control_consumer", breaks=f"{LIMIT} {MORE}")
def limits_do_not_change(original, reached, self, fields, request):
    """ConsumerControl has no effect."""
    reached()


@openwire_histories.mutant(MORE)
def commits_bring_nothing(patch, reached):
    """Acknowledgements make no room at their commit."""
    committing = patch.during(OpenWireTransaction, "commit")

    @patch.override(OpenWireConsumer)
    def offer(original, self):
        if not reached(committing):
            original(self)


@openwire_histories.before(OpenWireTransaction, "settle", breaks=f"{STANDARD} {INDIVIDUAL}")
def of_several_acknowledgements_the_last_counts(reached, self, consumer, places):
    """Of the acknowledgements of a transaction only the last counts."""
    if reached(self._acknowledged):
        self._acknowledged.clear()


@openwire_histories.after(OpenWireConsumer, "_keep", breaks=MORE)
def the_tenth_delivery_counts_twice(reached, self, key, entry):
    """One delivery in ten takes the room of two."""
    if reached(self._place % 10 == 0):
        self.prefetch.extension -= 1
