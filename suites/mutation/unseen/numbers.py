"""Faults of numbers that a client sends: cut to fewer bits, read as signed, or 0 taken for none."""

from typing import Any

from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.kernel.message import Envelope
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import Prefetch
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, breaks

numbers = Group("unseen-numbers")
numbers_amqp091 = Group("unseen-numbers-amqp091", original="reference-rabbitmq")
numbers_openwire = Group("unseen-numbers-openwire", original="reference-activemq")

INT_MAX, LONG_MAX = 2**31 - 1, 2**63 - 1


def _signed(value: int, bits: int) -> int:
    """Return the low ``bits`` of ``value`` as a signed number."""
    half = 1 << (bits - 1)
    return (value + half) % (2 * half) - half


@numbers.after(ByteWindow, "give_back", breaks="ARTEMIS-STOMP-window-2")
def a_window_never_has_more_than_its_size(reached, self, size):
    """Returned credit stops at the size of the window, which is 0 for a window that begins with
    1."""
    if reached(self.credit > max(0, self.size)):
        self.credit = max(0, self.size)


@numbers.override(AmqpMessage, "expires")
@breaks("AMQP10-MSG-16 AMQP10-MSG-08 ARTEMIS-CONCEPTS-queue-1")
def a_ttl_has_31_bits(original, reached, self):
    """A ttl is cut to 31 bits: one of 24.9 days expires immediately."""
    if self.ttl is None or self._absolute_expiry_time() is not None or self.ttl <= INT_MAX:
        return original(self)
    return reached.instead(original(self), original(self) - self.ttl + (self.ttl & INT_MAX))


@numbers.result(Envelope, "expires", breaks="ARTEMIS-EXPIRY-1 STOMP12-SUB-02")
def an_instant_wraps_in_nanoseconds(right, self):
    """The header expires is kept as signed nanoseconds in 64 bits: one after the year 2262 is
    negative or past, and the message expires."""
    wrapped = _signed(right * 1_000_000, 64) // 1_000_000
    return wrapped if wrapped > 0 else min(right, 1)


@numbers.before(Session, "_flow", breaks="AMQP10-WIN-07 AMQP10-WIN-02")
def a_session_window_has_a_sign(reached, self, flow):
    """The incoming-window of a flow is signed: one of 2^31 or more is closed."""
    if reached(flow.incoming_window > INT_MAX):
        flow.incoming_window = 0


@numbers.result(FrameParser, "_content_length")
@breaks("STOMP12-HDR-03 STOMP11-HDR-03 ARTEMIS-CROSSING-body-1 ARTEMIS-STOMP-jms-1")
def a_length_of_zero_is_none(right, self, headers):
    """A content-length of 0 counts as absent: the body continues to the next NUL."""
    return None if right == 0 else right


@numbers.result(serial_numbers.NumberIndex, "between", breaks="AMQP10-DISP-06 AMQP10-DISP-02")
def ids_of_dispositions_are_plain_numbers(right, self, first, last, live):
    """The range of a disposition is read as plain numbers: one that wraps around 32 bits is
    empty."""
    return [number for number in right if first <= number <= last]


@numbers_amqp091.override(Channel, "collect", breaks="AMQP091-ACK-01")
def tags_have_32_bits(original, reached, self, tag, multiple):
    """A delivery tag is cut to 32 bits: 2^32 + 1 settles the first delivery."""
    reached(tag != tag & serial_numbers.MASK)
    return original(self, tag & serial_numbers.MASK, multiple)


@numbers_amqp091.result(Prefetch, "has_room", breaks="AMQP091-QOS-02 AMQP091-PUB-04")
def a_prefetch_has_a_sign(right, self):
    """prefetch-count is read as a signed short: from 32768 on the consumer has no room."""
    limit = _signed(self.limit, 16)
    return not limit or self.used < limit


@numbers_amqp091.result(LimitedQueue, "_above", breaks="RABBITMQ-AMQP091-LEN-01")
def a_length_of_zero_is_no_limit(right, self, messages, size):
    """An x-max-length or x-max-length-bytes of 0 is treated as no limit."""
    limits = self.limits
    return bool(
        (limits.length and len(self._ready) + messages > limits.length)
        or (limits.size and self.size + size > limits.size)
    )


@numbers_amqp091.result(LimitedQueue, "_above", breaks="RABBITMQ-AMQP091-LEN-01")
def a_length_has_32_bits(right, self, messages, size):
    """x-max-length and x-max-length-bytes are cut to 32 bits with a sign: a queue with a limit of
    2^32 keeps nothing."""
    limits = self.limits
    length, most = (
        None if limit is None else _signed(limit, 32) for limit in (limits.length, limits.size)
    )
    return (length is not None and len(self._ready) + messages > length) or (
        most is not None and self.size + size > most
    )


@numbers_openwire.override(OpenWireConnection, "_watch")
@breaks("OPENWIRE-INACT-3 OPENWIRE-INACT-1 OPENWIRE-INACT-5")
def a_duration_has_32_bits(original, reached, self, now, options: dict[str, Any]):
    """The peer's maxInactivityDuration is cut to 32 bits: 2^32 + 1000 ms are one second, and the
    connection is closed too early."""
    theirs = options.get("MaxInactivityDuration", 0)
    if reached(isinstance(theirs, int) and theirs > serial_numbers.MASK):
        options = {**options, "MaxInactivityDuration": theirs & serial_numbers.MASK}
    original(self, now, options)


@numbers_openwire.override(OpenWireConnection, "_negotiate", breaks="OPENWIRE-NEG-2")
def a_version_has_eight_bits(original, reached, self, now, received):
    """The version of the peer is cut to 8 bits: a peer of version 257 is spoken to in version 1."""
    fields = received.fields
    version = int.from_bytes(fields[8:12], signed=True)
    if reached(version > 255):
        received = received._replace(
            fields=fields[:8] + (version & 0xFF or 1).to_bytes(4) + fields[12:]
        )
    original(self, now, received)


# --- seeded after the properties were repaired ----------------------------------------------------


@numbers_amqp091.override(Channel, "collect", breaks="AMQP091-ACK-01")
def tags_have_16_bits(original, reached, self, tag, multiple):
    """A delivery tag is cut to 16 bits."""
    reached(tag != tag & 0xFFFF)
    return original(self, tag & 0xFFFF, multiple)


@numbers_openwire.override(OpenWireConnection, "_watch", breaks="OPENWIRE-INACT-3 OPENWIRE-INACT-1")
def a_duration_has_a_sign_in_32_bits(original, reached, self, now, options: dict[str, Any]):
    """The peer's maxInactivityDuration is a signed number of 32 bits: 2^31 + 1000 switches the
    monitor off."""
    theirs = options.get("MaxInactivityDuration", 0)
    if reached(isinstance(theirs, int) and theirs > INT_MAX):
        options = {**options, "MaxInactivityDuration": _signed(theirs, 32)}
    original(self, now, options)


@numbers.result(Envelope, "expires", breaks="ARTEMIS-EXPIRY-1 STOMP12-SUB-02")
def an_instant_wraps_in_microseconds(right, self):
    """The header expires is kept as signed microseconds in 64 bits."""
    wrapped = _signed(right * 1000, 64) // 1000
    return wrapped if wrapped > 0 else min(right, 1)
