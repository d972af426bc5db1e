"""Faults of limits: one too many, one too few, a wrong measure, or only for input in one piece."""

from unittest import mock

from brokerproof.reference_broker.families.rabbitmq.limited_queue import LimitedQueue
from brokerproof.reference_broker.protocols.amqp091 import errors
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp10 import delivery, outgoing
from brokerproof.reference_broker.protocols.amqp10 import link as links
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.openwire.encoding import CommandParser
from brokerproof.reference_broker.protocols.websocket.framing import Broken, Frames, _LimitedDecoder
from brokerproof.suites.mutation.mutant import Group, breaks

limits = Group("unseen-limits")
limits_amqp091 = Group("unseen-limits-amqp091", original="reference-rabbitmq")
limits_openwire = Group("unseen-limits-openwire", original="reference-activemq")


@limits.mutant("ARTEMIS-STOMP-ws-2 RFC6455-FRAG-01")
def the_limit_is_for_the_message(patch, reached):
    """The limit of a WebSocket frame applies to whole messages: allowed fragments are refused
    together."""
    sizes: dict[Frames, int] = {}

    @patch.override(Frames)
    def feed(original, self, data):
        for event in original(self, data):
            payload = getattr(event, "payload", b"")
            if type(event).__name__ == "Data":
                message_open = self._messages.opcode is not None
                sizes[self] = sizes.get(self, 0) + len(payload)
                if reached(sizes[self] > self._most and message_open):
                    raise Broken(1009, f"a message may have {self._most} bytes")
                if not message_open:
                    sizes[self] = 0
            yield event


@limits.override(_LimitedDecoder, "parse_extended_payload_length")
@breaks("ARTEMIS-STOMP-ws-2 RFC6455-LIMIT-01")
def long_lengths_are_not_limited(original, reached, self, opcode, payload_len):
    """The size of a frame whose length has eight bytes is not checked."""
    if payload_len != 127:
        return original(self, opcode, payload_len)
    most = self._most
    with mock.patch.object(self, "_most", 1 << 63):
        length = original(self, opcode, payload_len)
    reached(length is not None and length > most)
    return length


@limits.override(outgoing, "transfers", breaks="AMQP10-MFS-02")
def later_frames_are_cut_for_handle_zero(
    original, reached, channel, handle, id, tag, settled, payload, largest
):
    """The size of the second and later frames of a delivery is computed for handle 0: on other
    handles they are larger than the peer allows."""
    more, last = (delivery.Transfer(handle=handle, more=more).encode() for more in (True, False))
    of_zero = len(delivery.Transfer(handle=0, more=True).encode())
    left = len(payload)
    opening = delivery._FIRST.size + 1
    pieces = delivery.pieces(payload, largest - opening, largest - delivery.HEADER.size - of_zero)
    for number, piece in enumerate(pieces):
        left -= len(piece)
        if number == 0:
            yield delivery.opening_transfer(
                channel, handle, id, tag, settled, bytes(piece), more=True
            )
            continue
        whole = delivery.frame(channel, b"".join((more if left else last, piece)))
        reached(len(whole) > largest)
        yield whole


@limits.override(links.Link, "__init__", breaks="AMQP10-CHMAX-04")
def links_are_answered_on_their_own_handle(original, reached, self, session, attach, our_handle):
    """A link is answered on the client's handle, even above the client's handle-max."""
    if reached(attach.handle > session._handle_max):
        our_handle = attach.handle
    original(self, session, attach, our_handle)


@limits.override(AmqpConnection, "_session_frame", breaks="AMQP10-CHMAX-03 AMQP10-SESS-02")
def sessions_that_failed_keep_their_channel(
    original, reached, self, performative, channel, body, at
):
    """The channel of a session that the broker ended with an error does not become free: once all
    channels that the peer allows are used up, no session begins."""
    session = self._sessions.get(channel)
    original(self, performative, channel, body, at)
    if reached(session is not None and session._discarding and session.is_over):
        self._channels |= 1 << session.our_channel


@limits.mutant("AMQP10-LINK-15")
def a_message_in_pieces_is_measured_by_them(patch, reached):
    """max-message-size is compared with each transfer of a message, not with all of them
    together."""

    @patch.override(IncomingLink)
    def transfer(original, self, transfer, payload):
        before = 0 if self.arriving is None else self.arriving.size
        largest = self._largest
        if reached(len(payload) <= largest < before + len(payload)):
            largest = before + len(payload)
        with mock.patch.object(self, "_largest", largest):
            original(self, transfer, payload)


@limits_amqp091.mutant("AMQP091-CLOSE-03 AMQP091-TUNE-06 AMQP091-CHAN-02")
def closed_channels_count(patch, reached):
    """Closed channels count against channel-max."""
    opened: dict[Amqp091Connection, int] = {}

    @patch.override(Amqp091Connection)
    def _open_channel(original, self, number, method):
        before = len(self.channels)
        if reached(self._channel_max and opened.get(self, 0) >= self._channel_max):
            raise errors.Refusal(errors.NOT_ALLOWED, "the channel-max is reached")
        original(self, number, method)
        opened[self] = opened.get(self, 0) + len(self.channels) - before


@limits_amqp091.result(LimitedQueue, "_above", breaks="RABBITMQ-AMQP091-LEN-01")
def what_is_out_counts_too(right, self, messages, size):
    """Messages held by a consumer count against x-max-length."""
    length = self.limits.length
    out = length is not None and len(self._ready) + self.unsettled + messages > length
    return right or out


@limits_openwire.override(CommandParser, "next", breaks="OPENWIRE-SIZE-1")
def the_size_field_counts(original, reached, self):
    """The four bytes of the size count against maxFrameSize."""
    if len(self._waiting) < 4:
        return original(self)
    size = int.from_bytes(self._waiting[:4], signed=True)
    reached(self.most - 4 < size <= self.most)
    with mock.patch.object(self, "most", self.most - 4):
        return original(self)


# --- seeded after the properties were repaired ----------------------------------------------------


@limits.override(AmqpConnection, "_session_frame", breaks="AMQP10-CHMAX-03 AMQP10-SESS-02")
def sessions_that_ended_keep_their_channel(
    original, reached, self, performative, channel, body, at
):
    """The channel of a session that the peer ended normally does not become free."""
    session = self._sessions.get(channel)
    original(self, performative, channel, body, at)
    if reached(session is not None and session.is_over and not session._discarding):
        self._channels |= 1 << session.our_channel


@limits.override(links.Link, "__init__", breaks="AMQP10-CHMAX-04")
def handles_begin_at_one(original, reached, self, session, attach, our_handle):
    """The broker's handles begin at 1: that of the last link that the peer allows is one too
    high."""
    reached()
    original(self, session, attach, our_handle + 1)
