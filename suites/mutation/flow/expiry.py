"""Faults of expiry: messages never expire, or only some do."""

from unittest import mock

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.suites.mutation.mutant import Group

expiry = Group("expiry")

TTL, INSTANT = "AMQP10-MSG-16", "ARTEMIS-EXPIRY-1"


@expiry.result(AmqpMessage, "expires", breaks=f"{TTL} {INSTANT}")
def a_ttl_is_not_counted(right, self):
    """A ttl is passed on but has no effect."""
    return self._absolute_expiry_time() or 0


@expiry.result(AmqpMessage, "expires", breaks=f"{TTL} {INSTANT}")
def a_ttl_is_in_seconds(right, self):
    """A ttl is read as seconds."""
    if self.ttl is None or self._absolute_expiry_time() is not None:
        return right
    return self.arrived // NS_PER_MS + 1000 * self.ttl


@expiry.result(AmqpMessage, "_absolute_expiry_time", breaks=INSTANT)
def an_absolute_expiry_time_is_not_looked_at(right, self):
    """absolute-expiry-time is passed on but has no effect."""
    return


@expiry.result(Message, "expires", breaks=INSTANT)
def the_header_expires_is_not_looked_at(right, self):
    """The header expires of SEND is passed on but has no effect."""
    return 0


@expiry.override(Queue, "hand", breaks=TTL)
def what_came_back_lives_for_ever(original, reached, self, consumer, entry):
    """A message returned by a consumer no longer expires."""
    reached(entry.deliveries and self._has_expired(entry.message))
    with mock.patch.object(self, "clock", None if entry.deliveries else self.clock):
        original(self, consumer, entry)


@expiry.mutant(f"{TTL} {INSTANT}")
def every_second_one_is_delivered(patch, reached):
    """The second of two consecutive expired messages is delivered."""
    dropped: dict[Queue, bool] = {}

    @patch.result(Queue)
    def _has_expired(expired, self, message):
        if reached(expired and dropped.get(self)):
            expired = False
        dropped[self] = expired
        return expired


@expiry.mutant(TTL)
def what_was_paged_lives_for_ever(patch, reached):
    """A message that was on a page does not expire."""
    paged: set[Message] = set()

    @patch.before(Queue)
    def append_paged(self, message, source_entry, charge):
        paged.add(message)

    @patch.result(Queue)
    def _has_expired(expired, self, message):
        return expired if message not in paged else reached.instead(expired, False)
