"""AMQP 1.0: short conversations in which Artemis 2.56, ActiveMQ 6.3.1, RabbitMQ 3.10 or 4.0, or
Proton 0.37 to 0.40 breaks a sentence of the standard.

Needs nothing but Python, and a broker with SASL PLAIN or ANONYMOUS.

    python3 amqp10_conversations.py NAME HOST:PORT ADDRESS [LOGIN PASSCODE]

``resumed``: a message is sent on a new link with the flag resume, as if to continue a delivery of
an earlier link; a plain message follows. "The receiver MUST ignore resumed deliveries that are not
in its local unsettled map" (2.7.5), so the queue at ADDRESS holds only the plain message.

``handle-max``: a begin sets handle-max to 0, and two attaches follow. "A peer MUST NOT attempt to
attach a link using a handle value outside the range that its partner can handle" (2.7.2), so no
attach of the broker has handle 1.

``handle``: an attach has a handle above the broker's own handle-max. "A peer that
receives a handle outside the supported range MUST close the Connection with the framing-error"
(2.7.2), so a close arrives. This harms Artemis: restart it afterwards.

``open``: an open has no container-id. ``open-max-frame-size``: an open has a max-frame-size of 100.
The broker may end the connection, but "prior to closing a connection, each peer MUST write a close
frame with a code indicating the reason" (2.4.3). ``open-idle-time-out``: an open asks for an
idle-time-out of 1 ms. A broker that is unwilling to support it "SHOULD close the connection with an
error explaining why" (2.4.5).

``property``: an attach requests a source with an unknown distribution-mode. The broker's attach
describes the source as it is (2.6.3), so it does not repeat this mode.

``link-credit``: a receiver grants a link-credit of 2^31, a valid uint. "The sender's link-credit
variable MUST be set according to this formula when flow information is given by the receiver"
(2.6.7), so the only message of the queue arrives.

``drain``: 100 messages of 1,000 bytes are sent and confirmed; a receiver drains 110 credits. "The
Sender MUST advance its delivery-count until link-credit is zero" (2.6.7), and sends what it has
until then, so 100 messages arrive ahead of the flow that answers. On addresses that page Artemis
answers before it has read its pages, which no sentence expressly forbids.

``disposition``: the first delivery of a disposition is above its last. If that is an error, its
condition is on the standard's list (2.8.15), where no symbol has a blank.

Each broker breaks some of them (docs/reference/differential-search.md). ADDRESS is an empty
queue; on RabbitMQ it has the form ``/queue/NAME``. Exits with 0 if the broker complies with the
sentence, with 1 if it breaks it, and with 2 if the script cannot tell.
"""

# ruff: noqa: T201 - it prints for a reader

from __future__ import annotations

import re
import socket
import sys
from collections.abc import Callable, Iterator

PATIENCE_S = 5.0
"""How long an answer may take, in seconds."""
WIDTHS = {4: 0, 5: 1, 6: 2, 7: 4, 8: 8, 9: 16}
"""Size of a value in bytes, by the upper half of its constructor."""
LENGTH_WIDTHS = {0xA: 1, 0xB: 4, 0xC: 1, 0xD: 4, 0xE: 1, 0xF: 4}
"""Size in bytes of the length that precedes such a value."""
DRAINED = 100
"""Messages in the queue that is drained."""
NULL, TRUE, FALSE = b"\x40", b"\x41", b"\x42"
OPEN, BEGIN, ATTACH, FLOW, TRANSFER, DISPOSITION = 0x10, 0x11, 0x12, 0x13, 0x14, 0x15
DETACH, END, CLOSE = 0x16, 0x17, 0x18
SOURCE, TARGET, SASL_INIT, SASL_OUTCOME = 0x28, 0x29, 0x41, 0x44


def uint(value: int) -> bytes:
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
    """Return the fields of a frame's performative without their constructors."""
    at = 11 + {0x45: 1, 0xC0: 3, 0xD0: 9}[frame[11]]
    values = []
    while at < len(frame):
        end = end_of(frame, at)
        values.append(frame[at + 1 + LENGTH_WIDTHS.get(frame[at] >> 4, 0) : end])
        at = end
    return values


def end_of(data: bytes, at: int) -> int:
    """Return the index at which the value that starts at ``at`` ends."""
    if data[at] == 0:  # a descriptor and its value
        return end_of(data, end_of(data, at + 1))
    kind = data[at] >> 4
    if kind in WIDTHS:
        return at + 1 + WIDTHS[kind]
    start = at + 1 + LENGTH_WIDTHS[kind]
    return start + int.from_bytes(data[at + 1 : start])


class Peer:
    """A client that has logged in."""

    def __init__(self, endpoint: str, login: list[str]) -> None:
        host, _, port = endpoint.rpartition(":")
        self._socket = socket.create_connection((host, int(port)), PATIENCE_S)
        self._data = b""
        self._sent = 0
        self.delivery_count = 0
        self._socket.sendall(b"AMQP\x03\x01\x00\x00")
        mechanism, response = b"ANONYMOUS", NULL
        if login:
            mechanism, response = b"PLAIN", sized(0xB0, "\0".join(["", *login]).encode())
        self.send(SASL_INIT, sized(0xB3, mechanism), response, kind=1)
        if self.wait_for(SASL_OUTCOME) is None:
            sys.exit(2)
        self._socket.sendall(b"AMQP\x00\x01\x00\x00")

    def send(self, code: int, *fields: bytes, payload: bytes = b"", kind: int = 0) -> None:
        """Send a frame on channel 0."""
        self._sent += code == TRANSFER
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

    def wait_for(self, *codes: int) -> bytes | None:
        """Return the next frame with one of these performatives; None if none arrives in time."""
        return next((frame for code, frame in self.frames() if code in codes), None)

    def begin(self, handle_max: int) -> None:
        """Open the connection and begin a session."""
        self.send(OPEN, sized(0xB1, b"counterexample"))
        windows = NULL, uint(0), uint(100), uint(100)
        self.send(BEGIN, *windows, uint(handle_max))
        if (answer := self.wait_for(BEGIN)) is None:
            sys.exit(2)
        self.begun = fields(answer)
        self.next_incoming = int.from_bytes(self.begun[1])

    def attach(
        self, name: bytes, handle: int, receives: bool, address: str, mode: bytes = NULL
    ) -> bytes | None:
        """Attach a link whose source has this distribution-mode; return the broker's attach."""
        self.ask(name, handle, receives, address, mode)
        answer = self.wait_for(ATTACH)
        if answer is not None and receives and len(fields(answer)) > 9:
            self.delivery_count = int.from_bytes(fields(answer)[9])
        return answer

    def ask(
        self, name: bytes, handle: int, receives: bool, address: str, mode: bytes = NULL
    ) -> None:
        place, queue = sized(0xB1, address.encode()), sized(0xB3, b"queue")  # for Artemis
        source, target = composite(SOURCE), composite(TARGET)
        if receives:
            source = composite(SOURCE, place, *[NULL] * 5, mode, *[NULL] * 3, queue)
        else:
            target = composite(TARGET, place, *[NULL] * 5, queue)
        role = TRUE if receives else FALSE
        fields = sized(0xB1, name), uint(handle), role, NULL, NULL, source, target
        self.send(ATTACH, *fields, NULL, NULL, *([] if receives else [uint(0)]))

    def publish(self, address: str, count: int, body: bytes) -> bool:
        """Send messages on link 0; return True if all were confirmed."""
        if self.attach(b"sender", 0, False, address) is None or self.wait_for(FLOW) is None:
            return False
        for number in range(count):
            tag = sized(0xB0, str(number).encode())
            delivery = uint(0), uint(number), tag, uint(0), FALSE
            self.send(TRANSFER, *delivery, payload=message(body))
        confirmed = 0
        for code, frame in self.frames():
            if code == DISPOSITION:
                _, first, last, *_ = (int.from_bytes(field) for field in [*fields(frame), b""])
                confirmed += max(first, last) - first + 1
            if confirmed == count:
                return True
        return False

    def grant(self, credit: int, drain: bytes = FALSE) -> None:
        """Grant credit to link 1."""
        windows = uint(self.next_incoming), uint(1000), uint(self._sent), uint(100)
        self.send(FLOW, *windows, uint(1), uint(self.delivery_count), uint(credit), NULL, drain)


def resumed(peer: Peer, address: str) -> bool | None:
    """True if the resumption of a delivery that never existed is ignored."""
    peer.begin(100)
    if peer.attach(b"sender", 0, False, address) is None or peer.wait_for(FLOW) is None:
        return None
    first = uint(0), uint(0), sized(0xB0, b"0"), uint(0), FALSE
    peer.send(TRANSFER, *first, FALSE, NULL, NULL, TRUE, payload=message(b"resumed"))
    second = uint(0), uint(1), sized(0xB0, b"1"), uint(0), FALSE
    peer.send(TRANSFER, *second, payload=message(b"plain"))
    peer.wait_for(DISPOSITION)
    peer.attach(b"receiver", 1, True, address)
    peer.grant(10)
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


def handle(peer: Peer, address: str) -> bool | None:
    """True if the broker closes the connection for a handle above its handle-max."""
    peer.begin(100)
    most = int.from_bytes(peer.begun[4]) if len(peer.begun) > 4 and peer.begun[4] else 2**32 - 1
    if most == 2**32 - 1:
        print("the broker allows every handle")
        return None
    peer.ask(b"sender", most + 1, False, address)
    closed = peer.wait_for(CLOSE) is not None
    print(f"after handle {most + 1} {'a close' if closed else 'no close'} arrived")
    return closed


def property_of_nobody(peer: Peer, address: str) -> bool | None:
    """True if the broker does not repeat an unknown distribution-mode."""
    peer.begin(100)
    if peer.attach(b"plain", 0, True, address) is None:
        return None
    unknown = b"vnd:nobody-has-this"
    answer = peer.attach(b"receiver", 1, True, address, sized(0xB3, unknown)) or b""
    print(f"the broker's attach {'repeats' if unknown in answer else 'omits'} the mode")
    return unknown not in answer


def link_credit(peer: Peer, address: str) -> bool | None:
    """True if a credit of 2^31 is honoured or refused."""
    peer.begin(100)
    if not peer.publish(address, 1, b"one"):
        return None
    peer.attach(b"receiver", 1, True, address)
    peer.grant(2**31)
    if peer.wait_for(TRANSFER, DETACH, END, CLOSE) is not None:
        print("the message arrived, or the credit was refused")
        return True
    peer.grant(10)
    later = peer.wait_for(TRANSFER) is not None
    print(
        f"a credit of 2^31 brought nothing, a credit of 10 {'the message' if later else 'nothing'}"
    )
    return False if later else None


def drain(peer: Peer, address: str) -> bool | None:
    """True if all messages arrive before the flow that answers a drain."""
    peer.begin(100)
    if not peer.publish(address, DRAINED, b"x" * 1000):
        return None
    peer.attach(b"receiver", 1, True, address)
    peer.grant(DRAINED + 10, TRUE)
    arrived = 0
    for code, frame in peer.frames():
        if code in (DETACH, END, CLOSE):
            print(f"{arrived} messages arrived, and an error: {frame!r}")
            return False
        arrived += code == TRANSFER
        if code == FLOW and is_drained(fields(frame)):
            break
    print(f"{arrived} of {DRAINED} messages arrived ahead of the answer to the drain")
    return arrived == DRAINED


def is_drained(flow: list[bytes]) -> bool:
    """True if a flow says that the second link has no credit left."""
    return len(flow) > 6 and int.from_bytes(flow[4]) == 1 and int.from_bytes(flow[6]) == 0


def disposition(peer: Peer, address: str) -> bool | None:
    """True if a disposition whose first is above its last causes no error whose condition contains
    a blank."""
    peer.begin(100)
    peer.send(DISPOSITION, TRUE, uint(1), uint(0), TRUE)
    error = re.search(rb"amqp:[a-z:-]+( [a-z]+)?", peer.wait_for(END, CLOSE) or b"")
    print(f"the condition is {error[0].decode()}" if error else "no error of amqp: arrived")
    return error is None or error[1] is None


def bad_open(*fields: bytes) -> Callable[[Peer, str], bool | None]:
    """Return the check that an open with ``fields`` is answered before the connection ends."""

    def check(peer: Peer, address: str) -> bool | None:
        peer.send(OPEN, *fields)
        answer = peer.wait_for(OPEN, CLOSE)
        print("the open was answered" if answer else "the connection ended, or nothing arrived")
        return answer is not None

    return check


def main() -> int:
    """Run one of the conversations; return the exit code."""
    ours = sized(0xB1, b"counterexample")
    checks: dict[str, Callable[[Peer, str], bool | None]] = {
        "resumed": resumed,
        "handle-max": handle_max,
        "handle": handle,
        "open": bad_open(NULL),
        "open-idle-time-out": bad_open(ours, NULL, NULL, NULL, uint(1)),
        "open-max-frame-size": bad_open(ours, NULL, uint(100)),
        "property": property_of_nobody,
        "link-credit": link_credit,
        "drain": drain,
        "disposition": disposition,
    }
    name, endpoint, address, *login = sys.argv[1:]
    kept = checks[name](Peer(endpoint, login), address)
    return 2 if kept is None else int(not kept)


if __name__ == "__main__":
    sys.exit(main())
