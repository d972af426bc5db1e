"""Faults of STOMP over WebSocket: the handshake, frames in both directions, and the end."""

import re
from dataclasses import replace

from wsproto.frame_protocol import Opcode

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.protocols.websocket import framing
from brokerproof.reference_broker.protocols.websocket.connection import State, WebSocketConnection
from brokerproof.reference_broker.protocols.websocket.framing import Broken, Data, Frames, Ping
from brokerproof.reference_broker.protocols.websocket.upgrade import Upgrade
from brokerproof.suites.mutation.mutant import Group, breaks

websockets = Group("websockets")


# --- the handshake --------------------------------------------------------------------------------


def _answering(patch, reached, change):
    """Apply ``change`` to the answer that opens a connection."""

    @patch.override(WebSocketConnection)
    def _answer(original, self, answer):
        if answer.accepted:
            answer = replace(answer, data=reached.instead(answer.data, change(answer.data)))
        original(self, answer)


@websockets.mutant("RFC6455-HS-05")
def accepts_another_key(patch, reached):
    """Sec-WebSocket-Accept does not match the client's key."""
    pattern = re.compile(rb"(?i)(sec-websocket-accept: )[^\r]*")

    _answering(patch, reached, lambda data: pattern.sub(rb"\1s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", data))


@websockets.through(_answering, "RFC6455-HS-04")
def connection_does_not_name_upgrade(data):
    """The answer has no header Connection."""
    return re.sub(rb"(?i)\r\nconnection: upgrade", b"", data)


@websockets.through(_answering, "RFC6455-HS-03")
def opened_with_another_status(data):
    """The answer has status 200."""
    return data.replace(b" 101 ", b" 200 ", 1)


@websockets.mutant("RFC6455-HS-06 RFC6455-HS-07")
def agrees_to_what_nobody_offered(patch, reached):
    """The answer always has the sub-protocol v11.stomp."""
    pattern = re.compile(rb"(?i)\r\nsec-websocket-protocol: [^\r]*")

    def change(data: bytes) -> bytes:
        head = pattern.sub(b"", data)
        return head.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: v11.stomp\r\n\r\n", 1)

    _answering(patch, reached, change)


@websockets.mutant("RFC6455-HS-08")
def an_extension_nobody_asked_for(patch, reached):
    """The answer has an extension that the client did not list."""
    extra = b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"

    _answering(patch, reached, lambda data: data.replace(b"\r\n\r\n", extra, 1))


def _lenient(patch, reached, requirement):
    @patch.override(Upgrade)
    def _check(original, self, request, headers):
        try:
            original(self, request, headers)
        except Exception as problem:
            if getattr(problem, "requirement", "") != requirement or not headers.values(
                b"sec-websocket-key"
            ):
                raise
            reached()


@websockets.variant(_lenient, "RFC6455-HS-02", breaks="RFC6455-HS-02")
def any_version_taken():
    """A request for another version is accepted."""


@websockets.variant(_lenient, "RFC6455-HS-01", breaks="RFC6455-HS-01")
def any_request_taken():
    """A request without Upgrade, or with a method other than GET, is accepted if it has a key."""


# --- frames ---------------------------------------------------------------------------------------


def _sending(patch, reached, change):
    """Apply ``change`` to every data frame sent."""

    @patch.result(WebSocketConnection)
    def outgoing(right, self, data):
        return reached.instead(right, change(right))


@websockets.through(_sending, "RFC6455-FRAME-02")
def masks_its_frames(data):
    """Short frames of the server are masked, with a mask of zeros."""
    return data if data[1] >= 126 else data[:1] + bytes([data[1] | 0x80]) + bytes(4) + data[2:]


@websockets.through(_sending, "RFC6455-FRAME-05")
def lengths_in_long_form(data):
    """Short lengths are written with two more bytes."""
    return data if data[1] >= 126 else data[:1] + b"\x7e\0" + data[1:]


@websockets.through(_sending, "RFC6455-FRAME-06")
def a_reserved_bit_set(data):
    """Frames of the server have a reserved bit set."""
    return bytes([data[0] | 0x40]) + data[1:]


@websockets.result(WebSocketConnection, "outgoing", breaks="ARTEMIS-STOMP-ws-3")
def always_text(right, self, data):
    """The server's messages are text whenever possible, whatever the acceptor says."""
    return self._frames.message(data, text=True)


@websockets.result(WebSocketConnection, "outgoing", breaks="RFC6455-DATA-01")
def text_that_is_no_utf8(right, self, data):
    """On an acceptor for text, even bytes that are not UTF-8 are sent as text."""
    if not self._text or right[0] & 0x0F != Opcode.BINARY or len(data) > 60_000:
        return right
    return framing.encode(Opcode.TEXT, data)


def _passing_over(patch, reached, *codes):
    @patch.override(Frames)
    def feed(original, self, data):
        try:
            yield from original(self, data)
        except Broken as problem:
            if problem.code not in codes:
                raise
            reached()
            self._messages = type(self._messages)()


@websockets.variant(_passing_over, 1002)
@breaks("RFC6455-FRAME-01 RFC6455-FRAME-03 RFC6455-FRAME-04 RFC6455-CLOSE-05 RFC6455-CLOSE-07")
def broken_frames_passed_over():
    """A frame that breaks the protocol is ignored."""


@websockets.variant(_passing_over, 1007, breaks="RFC6455-DATA-02")
def any_text_taken():
    """Text that is not UTF-8 is accepted."""


@websockets.after(WebSocketConnection, "__init__", breaks="RFC6455-LIMIT-01 ARTEMIS-STOMP-ws-2")
def frames_of_any_size(reached, self, conn, acceptor, shared, inner):
    """A frame may be eight times as large as the acceptor says."""
    self._frames = Frames(8 * acceptor.web_socket.max_frame_payload_length)
    reached()


@websockets.after(WebSocketConnection, "__init__", breaks="ARTEMIS-STOMP-ws-2")
def frames_of_the_limit_refused(reached, self, conn, acceptor, shared, inner):
    """A frame must be smaller than the acceptor says."""
    self._frames = Frames(acceptor.web_socket.max_frame_payload_length - 1)
    reached()


@websockets.mutant("RFC6455-FRAG-01 RFC6455-FRAG-04")
def each_frame_a_line(patch, reached):
    """An end of line is inserted between the frames of a message."""
    last: dict[Frames, bytes] = {}

    @patch.override(Frames)
    def feed(original, self, data):
        for frame in original(self, data):
            if isinstance(frame, Data):
                before, last[self] = last.get(self, b"\0"), frame.payload
                if reached(before[-1:] not in (b"\0", b"\n")):
                    frame = Data(b"\n" + frame.payload)
            yield frame


@websockets.override(Frames, "feed", breaks="RFC6455-FRAG-02 RFC6455-CTRL-02")
def pings_not_answered(original, reached, self, data):
    """A Ping is not answered."""
    for frame in original(self, data):
        if not reached(isinstance(frame, Ping)):
            yield frame


@websockets.override(Frames, "feed", breaks="RFC6455-CTRL-04")
def pongs_are_empty(original, reached, self, data):
    """A Pong has no application data."""
    for frame in original(self, data):
        yield Ping(reached.instead(frame.payload, b"")) if isinstance(frame, Ping) else frame


@websockets.override(Frames, "feed", breaks="STOMP11-HB-08 STOMP12-HB-08")
def line_ends_are_no_sign_of_life(original, reached, self, data):
    """A client that sends nothing but heartbeats is considered silent (AMQ-5155)."""
    for event in original(self, data):
        if not reached(isinstance(event, Data) and not event.payload.strip(b"\r\n")):
            yield event


@websockets.before(WebSocketConnection, "receive", breaks="STOMP11-HB-06 STOMP12-HB-06")
def quiet_for_half_a_minute(reached, self, now, data):
    """A connection on which nothing arrived for 30 seconds is closed (AMQ-9432)."""
    if reached(now - getattr(self, "heard", now) > ms(30_000)):
        self._end()
    self.heard = now


# --- the end --------------------------------------------------------------------------------------


@websockets.skips(WebSocketConnection, "_put", breaks="RFC6455-CLOSE-01")
def close_not_answered(self, data):
    """A Close is answered only by the end of the connection."""
    return data and data[0] == 0x88 and self._state is State.OPEN


@websockets.mutant("RFC6455-CLOSE-04")
def left_open_behind_close(patch, reached):
    """After both have sent Close the connection stays open."""

    receiving = patch.during(WebSocketConnection, "receive")

    @patch.override(WebSocketConnection)
    def _end(original, self):
        if reached(receiving and self._state is not State.UPGRADING):
            self._finish()
        else:
            original(self)


@websockets.skips(WebSocketConnection, "_put", breaks="RFC6455-CLOSE-05")
def failed_without_close(self, data):
    """A connection whose peer broke the protocol ends without a Close."""
    return data[:1] == b"\x88" and len(data) > 4


@websockets.override(WebSocketConnection, "_put", breaks="RFC6455-CLOSE-06")
def close_with_one_byte(original, reached, self, data):
    """The Close of the server has a payload of one byte."""
    if data[:1] == b"\x88":
        data = reached.instead(data, b"\x88\x01\x03")
    original(self, data)


@websockets.override(WebSocketConnection, "_put", breaks="RFC6455-CLOSE-03")
def data_behind_close(original, reached, self, data):
    """After its Close the server sends one more end of line."""
    original(self, data)
    if reached(data[:1] == b"\x88"):
        original(self, framing.encode(Opcode.BINARY, b"\n"))
