"""AMQP 1.0: three short conversations in which Artemis 2.56, ActiveMQ 6.3.1 or RabbitMQ 4.0 break a
sentence of the standard.

Needs nothing but Python, and a broker with SASL PLAIN or ANONYMOUS.

    python3 amqp10_conversations.py resumed HOST:PORT ADDRESS [LOGIN PASSCODE]
    python3 amqp10_conversations.py handle-max HOST:PORT ADDRESS [LOGIN PASSCODE]
    python3 amqp10_conversations.py open HOST:PORT ADDRESS [LOGIN PASSCODE]

``resumed``: a message is sent on a new link with the flag resume, as if to go on with a delivery of
an earlier link; a plain message follows. "The receiver MUST ignore resumed deliveries that are not
in its local unsettled map" (2.7.5), so the queue at ADDRESS has the plain message alone.

``handle-max``: a begin says handle-max 0, and two links are asked for. "A peer MUST NOT attempt to
attach a link using a handle value outside the range that its partner can handle" (2.7.2), so no
attach of the broker has handle 1.

``open``: an open has no container-id. The broker may end the connection, but "prior to closing a
connection, each peer MUST write a close frame with a code indicating the reason" (2.4.3).

Exits with 0 if the broker keeps the sentence, with 1 if it breaks it, with 2 if it cannot tell.
"""

# ruff: noqa: T201 - it speaks to whoever runs it

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator

PATIENCE_S = 5.0
"""How long an answer is waited for. Seconds."""
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION, CLOSE = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x18
SOURCE, TARGET, SASL_INIT, SASL_OUTCOME = 0x28, 0x29, 0x41, 0x44


def uint(value: int) -> bytes:
    """Return a uint."""
    return b"\x70" + value.to_bytes(4)


def sized(code: int, data: bytes) -> bytes:
    """Return binary (B0), a string (B1) or a symbol (B3)."""
    return bytes([code]) + len(data).to_bytes(4) + data


def composite(code: int, *fields: bytes) -> bytes:
    """Return a described list."""
    body = len(fields).to_bytes(4) + b"".join(fields)
    return b"\x00\x53" + bytes([code]) + b"\xd0" + len(body).to_bytes(4) + body


def message(body: bytes) -> bytes:
    """Return a message with one data section."""
    return b"\x00\x53\x75" + sized(0xB0, body)


def fields(frame: bytes) -> list[bytes]:
    """Return the fields of a frame's performative, without their constructors."""
    at = 11 + {0x45: 1, 0xC0: 3, 0xD0: 9}[frame[11]]
    values = []
    while at < len(frame):
        width = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8}.get(frame[at] >> 4)
        if frame[at] == 0:  # a composite: what follows is of no interest
            break
        start = at + 1
        if width is None:
            start += 4 if frame[at] >> 4 in (0xB, 0xD, 0xF) else 1
            width = int.from_bytes(frame[at + 1 : start])
        values.append(frame[start : start + width])
        at = start + width
    return values


class Peer:
    """A client that has logged in."""

    def __init__(self, endpoint: str, login: list[str]) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._data = b""
        self._socket.sendall(b"AMQP\x03\x01\x00\x00")
        mechanism, response = b"ANONYMOUS", NULL
        if login:
            mechanism, response = b"PLAIN", sized(0xB0, "\0".join(["", *login]).encode())
        self.send(SASL_INIT, sized(0xB3, mechanism), response, kind=1)
        if self.wait_for(SASL_OUTCOME) is None:
            sys.exit(2)
        self._socket.sendall(b"AMQP\x00\x01\x00\x00")

    def send(self, code: int, *fields: bytes, payload: bytes = b"", kind: int = 0) -> None:
        """Send one frame on channel 0."""
        body = composite(code, *fields) + payload
        self._socket.sendall((len(body) + 8).to_bytes(4) + bytes([2, kind, 0, 0]) + body)

    def frames(self) -> Iterator[tuple[int, bytes]]:
        """Yield frames, each with the code of its performative, until silence or the end."""
        try:
            while True:
                while len(self._data) < 8 or len(self._data) < self._size():
                    received = self._socket.recv(65536)
                    if not received:
                        return
                    self._data += received
                size = self._size()
                frame, self._data = self._data[:size], self._data[size:]
                if frame[:4] != b"AMQP" and size > 8:
                    yield frame[10], frame
        except OSError:
            return

    def _size(self) -> int:
        return 8 if self._data[:4] == b"AMQP" else int.from_bytes(self._data[:4])

    def wait_for(self, code: int) -> bytes | None:
        """Return the next frame with this performative, None if none arrives."""
        return next((frame for other, frame in self.frames() if other == code), None)

    def begin(self, handle_max: int) -> None:
        """Open the connection and begin a session."""
        self.send(OPEN, sized(0xB1, b"counterexample"))
        windows = NULL, uint(0), uint(100), uint(100)
        self.send(BEGIN, *windows, uint(handle_max))
        if (answer := self.wait_for(BEGIN)) is None:
            sys.exit(2)
        self.next_incoming = int.from_bytes(fields(answer)[1])

    def attach(self, name: bytes, handle: int, receives: bool, address: str) -> bytes | None:
        """Attach a link; return the answer."""
        place, queue = sized(0xB1, address.encode()), sized(0xB3, b"queue")  # for Artemis
        source = composite(SOURCE, place, *[NULL] * 9, queue) if receives else composite(SOURCE)
        target = composite(TARGET) if receives else composite(TARGET, place, *[NULL] * 5, queue)
        role = TRUE if receives else FALSE
        fields = sized(0xB1, name), uint(handle), role, NULL, NULL, source, target
        self.send(ATTACH, *fields, NULL, NULL, *([] if receives else [uint(0)]))
        return self.wait_for(ATTACH)


def resumed(peer: Peer, address: str) -> bool | None:
    """True if a resumed delivery that never was is ignored."""
    peer.begin(100)
    if peer.attach(b"sender", 0, False, address) is None or peer.wait_for(FLOW) is None:
        return None
    first = uint(0), uint(0), sized(0xB0, b"0"), uint(0), FALSE
    peer.send(TRANSFER, *first, FALSE, NULL, NULL, TRUE, payload=message(b"resumed"))
    second = uint(0), uint(1), sized(0xB0, b"1"), uint(0), FALSE
    peer.send(TRANSFER, *second, payload=message(b"plain"))
    peer.wait_for(DISPOSITION)
    peer.attach(b"receiver", 1, True, address)
    windows = uint(peer.next_incoming), uint(100), uint(2), uint(100)
    peer.send(FLOW, *windows, uint(1), NULL, uint(10))
    bodies = b"".join(frame for code, frame in peer.frames() if code == TRANSFER)
    print(f"resumed arrived: {b'resumed' in bodies}, plain arrived: {b'plain' in bodies}")
    return None if b"plain" not in bodies else b"resumed" not in bodies


def handle_max(peer: Peer, address: str) -> bool | None:
    """True if the broker attaches no handle above the client's handle-max."""
    peer.begin(0)
    first = peer.attach(b"first", 0, False, address)
    if first is None:
        return None
    second = peer.attach(b"second", 1, False, address)
    if second is None:
        print("the second link was not attached")
        return True
    handle = int.from_bytes(fields(second)[1])
    print(f"the second link was attached with handle {handle}")
    return handle == 0


def bad_open(peer: Peer, address: str) -> bool | None:
    """True if the broker writes close before it ends the connection."""
    peer.send(OPEN, NULL)
    closed = peer.wait_for(CLOSE) is not None
    print("close was written" if closed else "the connection ended, or nothing came")
    return closed


def main() -> int:
    """Run one of the conversations; return what to exit with."""
    checks = {"resumed": resumed, "handle-max": handle_max, "open": bad_open}
    name, endpoint, address, *login = sys.argv[1:]
    kept = checks[name](Peer(endpoint, login), address)
    return 2 if kept is None else int(not kept)


if __name__ == "__main__":
    sys.exit(main())
