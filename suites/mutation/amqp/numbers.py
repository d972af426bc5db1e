"""Faults in numbers that AMQP 1.0 clients send: signs, widths, zeros and overflowing sums."""

from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.mutant import Group

amqp_numbers = Group("amqp-numbers")

SILENT, CUT = "AMQP10-SESS-03", "AMQP10-CLOSE-01"
CREDIT, WINDOW = "AMQP10-CREDIT-03", "AMQP10-WIN-07"


def signed(number: int, bits: int = 32) -> int:
    """Return ``number``, which has this many bits, read as a signed number."""
    return number - 2**bits if number >= 2 ** (bits - 1) else number


@amqp_numbers.before(Session, "_flow", breaks=WINDOW)
def incoming_window_with_a_sign(reached, self, flow):
    """An incoming-window of 2^31 or more is read as negative, and nothing is sent."""
    flow.incoming_window = reached.instead(flow.incoming_window, signed(flow.incoming_window))


@amqp_numbers.before(Session, "_flow", breaks=WINDOW)
def incoming_window_in_16_bits(reached, self, flow):
    """Only 16 bits of an incoming-window count: 65536 is read as 0."""
    flow.incoming_window = reached.instead(flow.incoming_window, flow.incoming_window % 2**16)


@amqp_numbers.before(OutgoingLink, "flow", breaks=CREDIT)
def credit_with_a_sign(reached, self, flow):
    """A link-credit of 2^31 or more is read as none."""
    if flow.link_credit is not None:
        flow.link_credit = reached.instead(flow.link_credit, max(0, signed(flow.link_credit)))


@amqp_numbers.skips(Session, "settle_incoming", breaks=SILENT)
def late_deliveries_never_settled(self, delivery_id, state):
    """A delivery with an id of 2^31 or more is accepted, but its sender gets no disposition."""
    return delivery_id >= 2**31


@amqp_numbers.skips(IncomingLink, "refill", breaks=SILENT)
def no_credit_behind_high_counts(self):
    """A sender whose initial-delivery-count is 2^31 or more never gets credit."""
    return self.credit.count >= 2**31


@amqp_numbers.skips(AmqpConnection, "_begin", breaks=SILENT)
def channel_max_of_zero_allows_nothing(self, begun, channel):
    """A channel-max of 0 is read as no channel at all: begin is not answered."""
    return not self._peer_channel_max


@amqp_numbers.override(AmqpConnection, "_open", breaks="AMQP10-IDLE-18 AMQP10-IDLE-09")
def long_time_outs_end_the_socket(original, reached, self, opened, channel):
    """An idle-time-out of 2^31 ms or more ends the socket without a close."""
    if reached(opened.idle_time_out is not None and opened.idle_time_out >= 2**31):
        self._close()
    else:
        original(self, opened, channel)


@amqp_numbers.skips(Session, "_attach", breaks="AMQP10-SESS-03 AMQP10-CHMAX-05")
def high_handles_ignored(self, attach):
    """An attach with a handle of 2^31 or more is not answered."""
    return attach.handle >= 2**31


@amqp_numbers.override(Session, "_disposition", breaks=CUT)
def far_sections_end_the_socket(original, reached, self, disposition):
    """A section-offset of 2^63 or more ends the socket without a close."""
    if reached(getattr(disposition.state, "section_offset", 0) >= 2**63):
        self.connection._close()
    else:
        original(self, disposition)


@amqp_numbers.override(IncomingLink, "_take", breaks=SILENT)
def odd_priorities_dropped(original, reached, self, message, send):
    """A message whose priority is above 127 is accepted and dropped."""
    return ACCEPTED if reached(message.prefix[-1] > 127) else original(self, message, send)


@amqp_numbers.override(IncomingLink, "_take", breaks=SILENT)
def expiry_overflows(original, reached, self, message, send):
    """The expiry is kept in 64-bit nanoseconds. A distant time overflows into the past, and the
    message is accepted and dropped."""
    if reached(message.ttl is not None and message.ttl >= 2**32 - 2):
        return ACCEPTED
    return original(self, message, send)
