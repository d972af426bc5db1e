"""Faults of STOMP over WebSocket: the handshake, frames in both directions, and the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from wsproto.frame_protocol import Opcode

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.websocket import framing
from brokerproof.reference_broker.protocols.websocket.connection import State, WebSocketConnection
from brokerproof.reference_broker.protocols.websocket.framing import (
    Broken,
    Closed,
    Data,
    Frames,
    Ping,
)
from brokerproof.reference_broker.protocols.websocket.upgrade import Answer, Upgrade
from brokerproof.suites.mutation.mutant import Group, Reached

websockets = Group("websockets")


# --- the handshake --------------------------------------------------------------------------------


def _answering(parts: Parts, reached: Reached, change: Callable[[bytes], bytes]) -> Parts:
    """``change`` is made to the answer that opens a connection."""

    class Faulty(WebSocketConnection):
        def _answer(self, answer: Answer) -> None:
            if answer.accepted:
                answer = replace(
                    answer, octets=reached.instead(answer.octets, change(answer.octets))
                )
            super()._answer(answer)

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-HS-05")
def accepts_another_key(parts: Parts, reached: Reached) -> Parts:
    """Sec-WebSocket-Accept is of no key that anybody sent."""
    pattern = re.compile(rb"(?i)(sec-websocket-accept: )[^\r]*")
    return _answering(
        parts, reached, lambda octets: pattern.sub(rb"\1s3pPLMBiTxaQ9kYGzzhZRbK+xOo=", octets)
    )


@websockets.mutant("RFC6455-HS-04")
def connection_does_not_name_upgrade(parts: Parts, reached: Reached) -> Parts:
    """The answer has no header Connection."""
    return _answering(
        parts, reached, lambda octets: re.sub(rb"(?i)\r\nconnection: upgrade", b"", octets)
    )


@websockets.mutant("RFC6455-HS-03")
def opened_with_another_status(parts: Parts, reached: Reached) -> Parts:
    """The answer has status 200."""
    return _answering(parts, reached, lambda octets: octets.replace(b" 101 ", b" 200 ", 1))


@websockets.mutant("RFC6455-HS-06 RFC6455-HS-07")
def agrees_to_what_nobody_offered(parts: Parts, reached: Reached) -> Parts:
    """The answer always has the sub-protocol v11.stomp."""
    pattern = re.compile(rb"(?i)\r\nsec-websocket-protocol: [^\r]*")

    def change(octets: bytes) -> bytes:
        head = pattern.sub(b"", octets)
        return head.replace(b"\r\n\r\n", b"\r\nSec-WebSocket-Protocol: v11.stomp\r\n\r\n", 1)

    return _answering(parts, reached, change)


@websockets.mutant("RFC6455-HS-08")
def an_extension_nobody_asked_for(parts: Parts, reached: Reached) -> Parts:
    """The answer has an extension that the client did not list."""
    extra = b"\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"
    return _answering(parts, reached, lambda octets: octets.replace(b"\r\n\r\n", extra, 1))


def _lenient(parts: Parts, reached: Reached, requirement: str) -> Parts:
    class Taking(Upgrade):
        def _check(self, request: Any, headers: Any) -> None:
            try:
                super()._check(request, headers)
            except Exception as problem:
                if getattr(problem, "requirement", "") != requirement or not headers.values(
                    b"sec-websocket-key"
                ):
                    raise
                reached()

    class Faulty(WebSocketConnection):
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            self._upgrade = Taking()

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-HS-02")
def any_version_taken(parts: Parts, reached: Reached) -> Parts:
    """A request for another version is taken for one of 13."""
    return _lenient(parts, reached, "RFC6455-HS-02")


@websockets.mutant("RFC6455-HS-01")
def any_request_taken(parts: Parts, reached: Reached) -> Parts:
    """A request that does not ask for an upgrade, or not by GET, is taken as long as it has a
    key."""
    return _lenient(parts, reached, "RFC6455-HS-01")


# --- frames ---------------------------------------------------------------------------------------


def _sending(parts: Parts, reached: Reached, change: Callable[[bytes], bytes]) -> Parts:
    """``change`` is made to every data frame of ours."""

    class Faulty(WebSocketConnection):
        def outgoing(self, data: bytes) -> bytes:
            right = super().outgoing(data)
            return reached.instead(right, change(right))

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-FRAME-02")
def masks_its_frames(parts: Parts, reached: Reached) -> Parts:
    """Short frames of the server are masked, with a mask of zeros."""

    def change(octets: bytes) -> bytes:
        if octets[1] >= 126:
            return octets
        return octets[:1] + bytes([octets[1] | 0x80]) + bytes(4) + octets[2:]

    return _sending(parts, reached, change)


@websockets.mutant("RFC6455-FRAME-05")
def lengths_in_long_form(parts: Parts, reached: Reached) -> Parts:
    """Short lengths are written with two octets more."""

    def change(octets: bytes) -> bytes:
        return octets if octets[1] >= 126 else octets[:1] + b"\x7e\0" + octets[1:]

    return _sending(parts, reached, change)


@websockets.mutant("RFC6455-FRAME-06")
def a_reserved_bit_set(parts: Parts, reached: Reached) -> Parts:
    """Frames of the server have a reserved bit set."""
    return _sending(parts, reached, lambda octets: bytes([octets[0] | 0x40]) + octets[1:])


@websockets.mutant("ARTEMIS-STOMP-ws-3")
def always_text(parts: Parts, reached: Reached) -> Parts:
    """The server's messages are text where they can be, whatever the acceptor says."""

    class Faulty(WebSocketConnection):
        def outgoing(self, data: bytes) -> bytes:
            right = super().outgoing(data)
            return reached.instead(right, self._frames.message(data, text=True))

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-DATA-01")
def text_that_is_no_utf8(parts: Parts, reached: Reached) -> Parts:
    """On an acceptor for text, octets that are no UTF-8 go out as text all the same."""

    class Faulty(WebSocketConnection):
        def outgoing(self, data: bytes) -> bytes:
            right = super().outgoing(data)
            if not self._text or right[0] & 0x0F != Opcode.BINARY or len(data) > 60_000:
                return right
            return reached.instead(right, framing.encode(Opcode.TEXT, data))

    return replace(parts, web_socket=Faulty)


def _reading(
    parts: Parts, change: Callable[[Frames, Callable[[bytes], Iterator[Any]], bytes], Iterator[Any]]
) -> Parts:
    """``change`` gets the frames, the right way to feed them and the octets, and yields what they
    are taken for."""

    class Reading(Frames):
        def feed(self, data: bytes) -> Iterator[Data | Ping | Closed]:
            return change(self, super().feed, data)

    class Faulty(WebSocketConnection):
        def __init__(self, conn: int, acceptor: Any, shared: Any, inner: Any) -> None:
            super().__init__(conn, acceptor, shared, inner)
            self._frames = Reading(acceptor.web_socket_max_frame_payload_length)

    return replace(parts, web_socket=Faulty)


def _passing_over(parts: Parts, reached: Reached, *codes: int) -> Parts:
    def change(
        frames: Frames, right: Callable[[bytes], Iterator[Any]], data: bytes
    ) -> Iterator[Any]:
        try:
            yield from right(data)
        except Broken as problem:
            if problem.code not in codes:
                raise
            reached()
            frames._messages = type(frames._messages)()

    return _reading(parts, change)


@websockets.mutant(
    "RFC6455-FRAME-01 RFC6455-FRAME-03 RFC6455-FRAME-04 RFC6455-CLOSE-05 RFC6455-CLOSE-07"
)
def broken_frames_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A frame that breaks the protocol is passed over."""
    return _passing_over(parts, reached, 1002)


@websockets.mutant("RFC6455-DATA-02")
def any_text_taken(parts: Parts, reached: Reached) -> Parts:
    """Text that is no UTF-8 is passed over."""
    return _passing_over(parts, reached, 1007)


@websockets.mutant("RFC6455-LIMIT-01 ARTEMIS-STOMP-ws-2")
def frames_of_any_size(parts: Parts, reached: Reached) -> Parts:
    """A frame may be eight times as large as the acceptor says."""

    class Faulty(WebSocketConnection):
        def __init__(self, conn: int, acceptor: Any, shared: Any, inner: Any) -> None:
            super().__init__(conn, acceptor, shared, inner)
            self._frames = Frames(8 * acceptor.web_socket_max_frame_payload_length)
            reached()

    return replace(parts, web_socket=Faulty)


@websockets.mutant("ARTEMIS-STOMP-ws-2")
def frames_of_the_limit_refused(parts: Parts, reached: Reached) -> Parts:
    """A frame must be smaller than the acceptor says."""

    class Faulty(WebSocketConnection):
        def __init__(self, conn: int, acceptor: Any, shared: Any, inner: Any) -> None:
            super().__init__(conn, acceptor, shared, inner)
            self._frames = Frames(acceptor.web_socket_max_frame_payload_length - 1)
            reached()

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-FRAG-01 RFC6455-FRAG-04")
def each_frame_a_line(parts: Parts, reached: Reached) -> Parts:
    """Where a message is cut into frames an end of line is read."""

    last: dict[Frames, bytes] = {}

    def change(
        frames: Frames, right: Callable[[bytes], Iterator[Any]], data: bytes
    ) -> Iterator[Any]:
        for each in right(data):
            if isinstance(each, Data):
                before, last[frames] = last.get(frames, b"\0"), each.payload
                if before[-1:] not in (b"\0", b"\n"):
                    reached()
                    each = Data(b"\n" + each.payload)
            yield each

    return _reading(parts, change)


@websockets.mutant("RFC6455-FRAG-02 RFC6455-CTRL-02")
def pings_not_answered(parts: Parts, reached: Reached) -> Parts:
    """A Ping is not answered."""

    def change(
        frames: Frames, right: Callable[[bytes], Iterator[Any]], data: bytes
    ) -> Iterator[Any]:
        for each in right(data):
            if isinstance(each, Ping):
                reached()
            else:
                yield each

    return _reading(parts, change)


@websockets.mutant("RFC6455-CTRL-04")
def pongs_are_empty(parts: Parts, reached: Reached) -> Parts:
    """A Pong has no application data."""

    def change(
        frames: Frames, right: Callable[[bytes], Iterator[Any]], data: bytes
    ) -> Iterator[Any]:
        for each in right(data):
            yield Ping(reached.instead(each.payload, b"")) if isinstance(each, Ping) else each

    return _reading(parts, change)


# --- the end --------------------------------------------------------------------------------------


@websockets.mutant("RFC6455-CLOSE-01")
def close_not_answered(parts: Parts, reached: Reached) -> Parts:
    """A Close is answered by the end of the connection alone."""

    class Faulty(WebSocketConnection):
        def _put(self, octets: bytes) -> None:
            if octets and octets[0] == 0x88 and self._state is State.OPEN:
                reached()
            else:
                super()._put(octets)

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-CLOSE-04")
def left_open_behind_close(parts: Parts, reached: Reached) -> Parts:
    """After both have sent Close the connection stays open."""

    class Faulty(WebSocketConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            self.receiving = True
            super().receive(now, data)
            self.receiving = False

        def _end(self) -> None:
            if getattr(self, "receiving", False) and self._state is not State.UPGRADING:
                reached()
                self._finish()
            else:
                super()._end()

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-CLOSE-05")
def failed_without_close(parts: Parts, reached: Reached) -> Parts:
    """A connection whose peer broke the protocol ends without a Close."""

    class Faulty(WebSocketConnection):
        def _put(self, octets: bytes) -> None:
            if octets[:1] == b"\x88" and len(octets) > 4:
                reached()
            else:
                super()._put(octets)

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-CLOSE-06")
def close_with_one_octet(parts: Parts, reached: Reached) -> Parts:
    """The Close of the server has a payload of one octet."""

    class Faulty(WebSocketConnection):
        def _put(self, octets: bytes) -> None:
            if octets[:1] == b"\x88":
                octets = reached.instead(octets, b"\x88\x01\x03")
            super()._put(octets)

    return replace(parts, web_socket=Faulty)


@websockets.mutant("RFC6455-CLOSE-03")
def data_behind_close(parts: Parts, reached: Reached) -> Parts:
    """Behind its Close the server sends one more end of line."""

    class Faulty(WebSocketConnection):
        def _put(self, octets: bytes) -> None:
            super()._put(octets)
            if octets[:1] == b"\x88":
                reached()
                super()._put(framing.encode(Opcode.BINARY, b"\n"))

    return replace(parts, web_socket=Faulty)
