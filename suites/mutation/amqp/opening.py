"""Faults at the beginning of AMQP 1.0 connections: protocol headers, SASL frames, and the first
frame."""

from unittest import mock

from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection, State
from brokerproof.reference_broker.protocols.amqp10.framing import SASL, frame
from brokerproof.reference_broker.protocols.amqp10.performatives import End
from brokerproof.reference_broker.protocols.amqp10.sasl_exchange import SaslExchange
from brokerproof.suites.mutation.mutant import Group

amqp_opening = Group("amqp-opening")

REFUSED = "AMQP10-VER-08 AMQP10-VER-11 AMQP10-VER-12"
PADDING = bytes(520)


# --- protocol headers -----------------------------------------------------------------------------


def _answering(patch, reached, change):
    """Apply ``change`` to the header that answers a refused one; None drops the header."""

    @patch.override(AmqpConnection)
    def _header(original, self):
        held = []
        with mock.patch.object(self, "send", held.append):
            accepted = original(self)
        for data in held:
            answer = change(data) if self._state is State.CLOSED else data
            reached(answer != data)
            if answer is not None:
                self.send(answer)
        return accepted


@amqp_opening.variant(_answering, lambda data: None, breaks=REFUSED)
def refused_headers_are_not_answered():
    """A refused header is answered only by the end of the TCP connection."""


@amqp_opening.through(_answering, "AMQP10-VER-09")
def refused_headers_are_answered_with_an_older_version(data):
    """A refused header is answered with version 0.9.0, which is not supported."""
    return data[:5] + b"\0\x09\0"


@amqp_opening.override(AmqpConnection, "_close", breaks=f"{REFUSED} AMQP10-VER-03")
def refused_headers_leave_the_connection_open(original, reached, self):
    """The connection stays open after the answer to a refused header."""
    if reached(self._state is State.HEADER):
        self._state = State.CLOSING
        self._cancel_deadlines()
    else:
        original(self)


@amqp_opening.override(AmqpConnection, "send", breaks="AMQP10-VER-01 AMQP10-VER-07")
def headers_are_in_small_letters(original, reached, self, data):
    """The name of the protocol in the broker's headers is in lower case."""
    original(self, b"amqp" + bytes(data[4:]) if reached(data[:4] == b"AMQP") else data)


# --- SASL frames ----------------------------------------------------------------------------------


def _sasl(patch, reached, change):
    """Change the broker's SASL frames by ``change``."""

    @patch.override(AmqpConnection)
    def send(original, self, data):
        if reached(data[:4] != b"AMQP" and data[5] == SASL):
            data = change(bytes(data[8:]))
        original(self, data)


@amqp_opening.through(_sasl, "AMQP10-SASL-03")
def sasl_frames_have_a_channel(body):
    """The broker's SASL frames have a channel."""
    return frame(7, body, SASL)


@amqp_opening.mutant("AMQP10-SASL-03 AMQP10-SASL-04")
def sasl_frames_are_too_large(patch, reached):
    """The broker's SASL frames have an extended header of 520 bytes."""
    doff = 2 + len(PADDING) // 4

    def change(body: bytes) -> bytes:
        size = doff * 4 + len(body)
        return size.to_bytes(4) + bytes((doff, SASL, 0, 0)) + PADDING + body

    _sasl(patch, reached, change)


@amqp_opening.through(_sasl, "AMQP10-SASL-05")
def something_follows_a_sasl_body(body):
    """An extra byte follows the body of the broker's SASL frames."""
    return frame(0, body + b"\x40", SASL)


@amqp_opening.override(SaslExchange, "answer", breaks="AMQP10-SASL-02")
def a_login_may_have_any_type(original, reached, self, type, body):
    """The type of a SASL frame is not checked."""
    return original(self, reached.instead(type, SASL), body)


@amqp_opening.override(SaslExchange, "answer", breaks="AMQP10-SASL-06")
def empty_sasl_frames_are_passed_over(original, reached, self, type, body):
    """An empty SASL frame is ignored."""
    return b"" if reached(not body) else original(self, type, body)


@amqp_opening.override(AmqpConnection, "_frame", breaks="AMQP10-SASL-12 AMQP10-OPEN-06")
def what_is_read_with_a_login_is_lost(original, reached, self, type, channel, body):
    """Bytes that arrive together with a login are dropped when the login succeeds."""
    before = self._state
    original(self, type, channel, body)
    behind = self._parser.peek(2**20) if before is not self._state is State.HEADER else b""
    if reached(behind):
        self._parser.take(len(behind))


# --- the first frame ------------------------------------------------------------------------------


@amqp_opening.before(AmqpConnection, "_send_open", breaks="AMQP10-OPEN-01 AMQP10-OPEN-02")
def something_comes_before_open(reached, self):
    """An end is sent before the broker's open."""
    reached()
    self.send(frame(0, End().encode()))
