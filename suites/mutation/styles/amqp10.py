"""Legal styles of AMQP 1.0: choices that parts 2 to 5 leave open, made differently from the
reference. Each docstring states the choice and where the text leaves it open."""

import struct
from dataclasses import replace

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.protocols.amqp10 import (
    encoder,
    framing,
    outgoing,
    session,
    terminus,
)
from brokerproof.reference_broker.protocols.amqp10.composite import Composite
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.decoder import decode
from brokerproof.reference_broker.protocols.amqp10.delivery import Batch
from brokerproof.reference_broker.protocols.amqp10.messaging import Modified, Rejected
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import SETTLED, Flow, Transfer
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.amqp10.types import Described, Symbol, Uint, Ulong
from brokerproof.suites.mutation.styles.stranger import amqp10, common, option

END = 2**32 - 2
NEAR_THE_END = dict.fromkeys(
    ("first_transfer_id", "first_delivery_id", "first_delivery_count"), END
)

for name, sentence, options in (
    ("frames_of_512", "The smallest max-frame-size (2.7.1).", {"max_frame_size": 512}),
    ("any_frame", "The highest max-frame-size.", {"max_frame_size": 2**32 - 1}),
    ("odd_frames", "A max-frame-size that is a multiple of nothing.", {"max_frame_size": 1021}),
    ("one_channel", "One session: a channel-max of 0 (2.7.1).", {"channel_max": 0}),
    ("two_channels", "A channel-max of 1.", {"channel_max": 1}),
    ("two_handles", "A handle-max of 1.", {"handle_max": 1}),
    ("odd_messages", "An odd max-message-size (2.7.3).", {"max_message_size": 1_000_003}),
    ("one_handle", "A link per session: a handle-max of 0 (2.7.2).", {"handle_max": 0}),
    ("four", "Few channels and handles.", {"channel_max": 3, "handle_max": 3}),
    ("window_1", "An incoming window of one transfer (2.5.6).", {"incoming_window": 1}),
    ("window_5", "A small incoming window, opened again at half.", {"incoming_window": 5}),
    ("widest_window", "The highest incoming window (2.7.4).", {"incoming_window": 2**32 - 1}),
    ("near_the_end", "Numbers begin where they soon run over (2.5.6, 2.6.7).", NEAR_THE_END),
    ("credit_1", "Producers send one by one (2.6.7).", {"credits": 1, "low_credits": 0}),
    ("eager_credit", "Credit behind each message.", {"credits": 1000, "low_credits": 999}),
    ("no_idle_time_out", "Silent peers are kept for ever (2.4.5).", {"idle_timeout_ms": 0}),
    ("longest_idle_time_out", "Silence of 49 days (2.7.1).", {"idle_timeout_ms": 2**32 - 1}),
    ("short_idle_time_out", "A frame every two seconds.", {"idle_timeout_ms": 4000}),
):
    option(amqp10, AmqpConnection, "amqp", name, sentence, options)
common(amqp10, AmqpConnection)


@amqp10.override(AmqpConnection, "_header", breaks="")
def no_sasl(original, reached, self):
    """There is no SASL layer: its header is answered with the plain one, and the connection ends
    (2.2; 5.3 makes no layer mandatory)."""
    reached()
    self._sasl = reached  # as if the login were over
    return original(self)


@amqp10.mutant("")
def small_transfers(patch, reached):
    """A delivery is cut into transfers of a few bytes. A maximum is not a minimum (2.3, 2.6.14)."""

    @patch.override(outgoing)
    def fits(original, payload, largest):
        return original(payload, 45)

    @patch.override(outgoing)
    def transfers(original, *arguments):
        reached()
        return original(*arguments[:-1], 45)


@amqp10.mutant("")
def outgoing_window_of_one(patch, reached):
    """The broker can send one transfer, and states after each that it can send another (2.5.6)."""
    patch.set(session, "OUTGOING_WINDOW", 1)

    @patch.override(Session)
    def transmit(original, self, data):
        reached()
        original(self, data)
        self.flow()


@amqp10.override(OutgoingLink, "deliver", breaks="")
def flow_after_each_delivery(original, reached, self, entry):
    """The broker states its link state after each delivery; flows may be sent at any time
    (2.6.7)."""
    original(self, entry)
    if self.is_attached and not self.session._pending:
        reached()
        self.session.flow(self)


@amqp10.mutant("")
def dispositions_one_by_one(patch, reached):
    """No disposition covers a range (2.7.6: last is optional)."""

    @patch.override(Batch)
    def add(original, self, delivery_id, state):
        reached()
        self._runs.append((delivery_id, delivery_id, state))


@amqp10.override(Composite, "encode", breaks="")
def other_forms(original, reached, self):
    """Descriptors are symbols, lists are long, and absent fields are null (1.3, 1.4)."""
    reached()
    parts = []
    for field in self.FIELDS:
        value = getattr(self, field.attribute)
        parts.append(b"\x40" if value in (None, field.keeps) else field.write(value))
    size = len(b"".join(parts)) + 4
    opening = b"\0" + encoder.symbol(f"amqp:{self.NAME}:list") + b"\xd0"
    return opening + struct.pack(">II", size, len(parts)) + b"".join(parts)


@amqp10.override(Composite, "encode", breaks="")
def stated_defaults(original, reached, self):
    """Fields that have their default value are written, and trailing nulls too (1.4)."""
    reached()
    values = [(field, getattr(self, field.attribute)) for field in self.FIELDS]
    parts = [b"\x40" if value in (None, ()) else field.write(value) for field, value in values]
    return self._OPENING + encoder.compound(0xC0, parts, len(parts))


@amqp10.override(Composite, "encode", breaks="")
def single_values(original, reached, self):
    """Where several symbols may stand, a single one stands without an array (1.4)."""
    parts = []
    for field in self.FIELDS:
        value = getattr(self, field.attribute)
        if field.multiple and value and reached(len(value) == 1):
            parts.append(encoder.symbol(value[0]))
        else:
            parts.append(b"\x40" if value in (None, field.keeps) else field.write(value))
    return self._OPENING + encoder.compound(0xC0, parts, len(parts))


@amqp10.override(Composite, "encode", breaks="")
def wide_encodings(original, reached, self):
    """Numbers, texts, lists, maps and arrays have their longest constructors (1.6)."""
    reached()
    return _wide(decode(original(self))[0])


_NUMBERS = {bool: (0x56, "B"), Uint: (0x70, "I"), Ulong: (0x80, "Q"), int: (0x81, "q")}
_TEXTS = {bytes: 0xB0, str: 0xB1, Symbol: 0xB3}


def _wide(value):
    kind = type(value)
    if kind is Described:
        return b"\0" + _wide(value.descriptor) + _wide(value.value)
    if kind in _NUMBERS:
        code, form = _NUMBERS[kind]
        return struct.pack(f">B{form}", code, value)
    if kind in _TEXTS:
        data = value if kind is bytes else value.encode()
        return struct.pack(">BI", _TEXTS[kind], len(data)) + data
    if kind in (list, dict):
        items = value if kind is list else [item for pair in value.items() for item in pair]
        body = b"".join(map(_wide, items))
        return struct.pack(">BII", 0xD0 + (kind is dict), len(body) + 4, len(items)) + body
    return encoder.encode(value)


@amqp10.override(Session, "send", breaks="")
def asks_for_echoes(original, reached, self, performative):
    """Each flow of the broker asks for an answer, which it does not wait for (2.7.4)."""
    if isinstance(performative, Flow):
        reached()
        performative.echo = True
    original(self, performative)


@amqp10.mutant("")
def outcomes_in_reverse(patch, reached):
    """Outcomes that are ready together are sent one by one, the last first (2.6.12)."""

    @patch.override(Batch)
    def take(original, self):
        runs = self._runs
        self._runs = [
            (number % 2**32, number % 2**32, state)
            for first, last, state in runs
            for number in range(first, first + (last - first) % 2**32 + 1)
        ][::-1]
        reached(len(self._runs) > 1)
        return original(self)


@amqp10.mutant("")
def long_delivery_tags(patch, reached):
    """A delivery-tag has 32 bytes, and a transfer states all its fields (2.7.5, 2.8.7)."""
    _transfers(patch, reached, lambda tag, piece, more: (b'\xff\0\n"' * 7 + tag, [(piece, more)]))


@amqp10.mutant("")
def empty_transfers(patch, reached):
    """Transfers without payload precede and follow each delivery's (2.6.14)."""
    _transfers(
        patch, reached, lambda tag, piece, more: (tag, [(b"", True), (piece, True), (b"", more)])
    )


def _transfers(patch, reached, change):
    """Send deliveries as ``change`` returns: their delivery-tag, and pieces with their more."""
    room = 100

    @patch.override(outgoing)
    def fits(original, payload, largest):
        return False

    @patch.override(outgoing)
    def transfers(original, channel, handle, id, tag, settled, payload, largest):
        reached()
        for start in range(0, len(payload) or 1, largest - room):
            piece = payload[start : start + largest - room]
            own, pieces = change(tag, piece, start + largest - room < len(payload))
            for part, more in pieces:
                fields = {"delivery_id": id, "delivery_tag": own, "message_format": 0}
                sent = Transfer(handle=handle, settled=settled, more=more, **fields)
                yield framing.frame(channel, sent.encode() + part)


@amqp10.mutant("")
def annotated(patch, reached):
    """The broker adds annotations of its own to each message, and states its whole header (3.2)."""
    own = Described(Ulong(0x71), {Symbol("x-opt-own"): "é" * 200, Symbol("x-more"): [1, None]})
    also = Described(Ulong(0x72), {Symbol("x-opt-hops"): Uint(1), Symbol("x-opt-none"): None})

    @patch.override(outgoing)
    def encoded(original, entry, now):
        data = original(entry, now)
        end = 5 + data[4]
        if data[end : end + 3] in (b"\0\x53\x71", b"\0\x53\x72"):
            return data
        reached()
        return data[:end] + encoder.encode(own) + encoder.encode(also) + data[end:]


@amqp10.override(terminus, "dynamic_name", breaks="")
def odd_names_of_nodes(original, reached, container, link, number):
    """Names of dynamic nodes are long and have spaces, signs and letters beyond ASCII (3.5.3)."""
    reached()
    return original(container, link, number) + " é:/%?&=\\\n" + "~" * 300


@amqp10.override(Session, "__init__", breaks="")
def own_numbers(original, reached, self, connection, begun, channel, ours):
    """Channels and handles are not those of the peer (2.5.1, 2.6.2)."""
    if connection._peer_channel_max == 65535:
        reached()
        ours ^= 64
    original(self, connection, begun, channel, ours)
    self._handles = 500 if self._handle_max > 1000 else 0


@amqp10.override(AmqpConnection, "send", breaks="")
def padded_frames(original, reached, self, data):
    """Small frames have an extended header, and empty frames follow them (2.3.1, 2.4.5)."""
    kind, end = data[5:6], int.from_bytes(data[:4])
    if kind != b"\0" or data[:4] == b"AMQP" or end > 500:
        original(self, data)
        return
    reached()
    empty = framing.EMPTY * (data[8:11] != b"\0\x53\x18")  # nothing follows close
    wider = (end + 4).to_bytes(4) + b"\x03" + data[5:8] + b"more" + data[8:end] + empty
    original(self, wider)
    if data[end:]:
        self.send(data[end:])


@amqp10.override(Session, "flush", breaks="")
def late_outcomes(original, reached, self):
    """Outcomes are sent 30 ms late (2.6.12 names no time), or never if the session ends before."""
    if self._batch:
        reached()
        later = self.shared.clock.now + ms(30)
        self.shared.deadlines.call_at(later, lambda now: self.is_over or original(self))


def _default_outcome(patch, reached, outcome):
    @patch.override(OutgoingLink)
    def __init__(original, self, *arguments):
        reached()
        original(self, *arguments)
        self.default_outcome = outcome


@amqp10.variant(_default_outcome, Modified(delivery_failed=True), breaks="")
def modified_by_default():
    """A delivery settled without an outcome, or never, counts as a failed attempt (3.5.3)."""


@amqp10.variant(_default_outcome, Rejected(), breaks="")
def rejected_by_default():
    """A delivery settled without an outcome, or never, is rejected (3.5.3 names it)."""


@amqp10.override(OutgoingLink, "__init__", breaks="")
def always_settled(original, reached, self, session, attach, our_handle):
    """The broker sends settled messages and says so in its attach (2.7.3: a receiver's wish is a
    SHOULD)."""
    reached()
    original(self, session, replace(attach, snd_settle_mode=SETTLED), our_handle)
