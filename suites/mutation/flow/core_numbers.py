"""Faults in numbers that CORE clients send: signs, widths, and unexpected values."""

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.connection import CoreConnection
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.core.encoding import Fields
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.session import Session
from brokerproof.reference_broker.protocols.core.session_producers import SessionProducers
from brokerproof.suites.mutation.mutant import Group

core_numbers = Group("core-numbers")

ARRIVES, GRANTED, LIVES = (
    "ARTEMIS-CONCEPTS-queue-1",
    "ARTEMIS-FLOW-producer-1",
    "ARTEMIS-TTL-core-1",
)
SENT, ACKNOWLEDGED = "ARTEMIS-SENDS-send-1", "ARTEMIS-SENDS-ack-1"
COMMITTED = "ARTEMIS-SENDS-tx-1"


@core_numbers.skips(CoreConsumer, "deliver", breaks=ARRIVES)
def odd_priorities_have_no_list(self, entry):
    """A message with a priority outside 0 to 9 is confirmed but never delivered."""
    return not 0 <= entry.message._fields.priority <= 9


@core_numbers.skips(CoreConsumer, "deliver", breaks=ARRIVES)
def messages_from_before_1970_are_lost(self, entry):
    """A message with a negative timestamp is never delivered."""
    return entry.message._fields.timestamp < 0


@core_numbers.skips(CoreConsumer, "deliver", breaks=ARRIVES)
def unknown_types_are_lost(self, entry):
    """A message of a type above 6 is never delivered."""
    return entry.message._fields.type > 6


@core_numbers.override(CoreConsumer, "__init__", breaks=ARRIVES)
def ids_of_consumers_lose_their_upper_half(original, reached, self, session, id, *rest):
    """A delivery names its consumer by the lower 32 bits."""
    original(self, session, reached.instead(id, (id + 2**31) % 2**32 - 2**31), *rest)


@core_numbers.skips(Session, "_forced", breaks=ARRIVES)
def negative_sequences_are_not_answered(self, consumer, sequence):
    """A force-delivery with a negative sequence is not answered."""
    return sequence < 0


@core_numbers.after(SessionProducers, "publish", breaks=SENT)
def sends_without_a_correlation_are_not_answered(reached, self, fields, response):
    """A send whose correlation is -1 is not answered."""
    if reached(response.correlation == -1):
        response.answer = False


@core_numbers.after(SessionProducers, "publish", breaks=SENT)
def unknown_senders_are_not_answered(reached, self, fields, response):
    """A send of a producer with a negative number is not answered."""
    if reached(fields.left and fields.int32() < 0):
        response.answer = False


@core_numbers.after(Session, "commit", breaks=COMMITTED)
def large_correlations_of_commits_are_not_answered(reached, self, fields, response):
    """A commit whose correlation has more than 32 bits is executed but not answered."""
    if reached(response.correlation is not None and abs(response.correlation) > 2**32):
        response.answer = False


@core_numbers.override(Session, "_acknowledge", breaks=ACKNOWLEDGED)
def unknown_messages_are_acknowledged_without_a_word(
    original, reached, self, fields, response, **how
):
    """An acknowledgement of a negative message number is neither answered nor refused."""
    ahead = Fields(fields.buffer, fields.at)
    ahead.int64()
    if ahead.int64() < 0:
        reached()
    else:
        original(self, fields, response, **how)


@core_numbers.override(Grants, "request", breaks=GRANTED)
def large_requests_are_halved(original, reached, self, credits):
    """Half of a request for more than 2^30 bytes is granted."""
    original(self, reached.instead(credits, credits // 2) if credits > 2**30 else credits)


@core_numbers.skips(Grants, "request", breaks=GRANTED)
def a_byte_is_not_granted(self, credits):
    """A request for a single byte is not granted."""
    return credits == 1


@core_numbers.override(CoreConnection, "_on_liveness_packet", breaks=LIVES)
def deadlines_overflow(original, reached, self, now, type, fields, data):
    """The end of a TTL is a signed 64-bit number: distant ends overflow into the past."""
    ahead = Fields(data)
    original(self, now, type, fields, data)
    if reached(type == codes.PING and ahead.int64() > 2**63 - 2**32):
        self._liveness.ttl = ms(0)
        self._silence_check.move(self._liveness.deadline())


@core_numbers.override(CoreConnection, "_on_liveness_packet", breaks=LIVES)
def ttls_lose_their_upper_half(original, reached, self, now, type, fields, data):
    """Only 32 bits of a TTL count: 2^32 ms counts as no TTL."""
    if type == codes.PING:
        ttl_ms = Fields(data).int64()
        cut = (ttl_ms + 2**31) % 2**32 - 2**31
        reached.instead(ttl_ms, cut)
        fields = Fields(data[:0] + cut.to_bytes(8, signed=True))
    original(self, now, type, fields, data)
