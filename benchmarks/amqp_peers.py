"""Producer and consumer of ``amqp_throughput.py``: two processes with raw sockets that do as little
as they can.

They must not be what is measured. Transfers are encoded before the clock starts and written as many
at a time as the broker's credit and window allow. Of what arrives only the numbers are read that
tell credit, window and settlement; no message is decoded. Each job ends with a close that must be
answered, behind exactly as many deliveries as were due: a lost, doubled or refused message fails
the run instead of flattering it.

Both read the same monotonic clock of the host, so the producer's first instant and the consumer's
last can be subtracted.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10 import messages as amqp10_messages
from brokerproof.harness.protocols.amqp10.load_client import numbers

READ = 1 << 20
"""Octets asked of the socket at once."""
BURST = 64
"""Messages written at once at most."""
WIDE = 2**31 - 1

_BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION = 0x11, 0x12, 0x13, 0x14, 0x15
_ENDS = (0x16, 0x17, 0x18)
_ACCEPTED = b"\x00\x53\x24\x45"


@dataclass(frozen=True)
class Job:
    """One run as both peers see it.

    With ``settled`` the producer sends settled messages and the consumer asks for such. ``window``
    is the consumer's credit. With ``backlog`` the consumer attaches only when the producer is done.
    ``patience_s`` is how long nothing may happen before the run counts as failed. Without ``login``
    the peers are ANONYMOUS. ``capability`` is what the terminus at the broker asks for; empty for
    nothing.
    """

    port: int
    address: str
    capability: str
    login: str
    passcode: str
    messages: int
    size: int
    settled: bool
    window: int
    backlog: bool
    patience_s: float


class Failed(Exception):
    """The broker did not do its part; the sentence says what came instead."""


class _Cut(Exception):
    def __init__(self, problem: Exception, messages: int) -> None:
        super().__init__(str(problem))
        self.messages = messages


def _performative(name: str, fields: Mapping[str, Any], /) -> bytes:
    return codec.encode_frame(types.encode(codec.composite(name, fields)))


Found = tuple[int, bytes, int]
"""A frame: the performative's code, its octets, and where its list begins."""


def _cut(data: bytes) -> tuple[list[Found], int]:
    """The frames that are whole, and where the next one begins."""
    found: list[Found] = []
    at = 0
    while len(data) - at >= codec.HEADER_SIZE:
        if data[at : at + 4] == codec.PREFIX:
            at += codec.HEADER_SIZE
            continue
        size = int.from_bytes(data[at : at + 4])
        if len(data) - at < size:
            break
        body = data[at + data[at + 4] * 4 : at + size]
        at += size
        if body:
            code, where = (body[2], 3) if body[1] == 0x53 else (body[9], 10)
            if code in _ENDS:
                raise Failed(
                    f"the broker sent {next(codec.Reader().feed(data[at - size : at]))}"[:300]
                )
            found.append((code, body, where))
    return found, at


class _Wire:
    """An open connection with one session and one link."""

    def __init__(self, job: Job, sender: bool) -> None:
        self.job = job
        self.socket = socket.create_connection(("127.0.0.1", job.port), timeout=job.patience_s)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._pending = b""
        self._kept: list[Found] = []
        self._authenticate()
        terminus = {
            "address": job.address,
            "capabilities": (job.capability,) if job.capability else None,
        }
        attach = {
            "name": job.address,
            "handle": 0,
            "role": not sender,
            "snd-settle-mode": 1 if job.settled else 0,
            "source": codec.composite("source", {} if sender else terminus),
            "target": codec.composite("target", terminus if sender else {}),
            "initial-delivery-count": 0 if sender else None,
        }
        self.write(
            codec.protocol_header()
            + _performative(
                "open",
                {"container-id": f"bench-{'send' if sender else 'take'}", "hostname": "localhost"},
            )
            + _performative(
                "begin", {"next-outgoing-id": 0, "incoming-window": WIDE, "outgoing-window": WIDE}
            )
            + _performative("attach", attach)
        )

    def _authenticate(self) -> None:
        login = self.job.login
        mechanism = "PLAIN" if login else "ANONYMOUS"
        response = f"\0{login}\0{self.job.passcode}".encode() if login else b"bench"
        init = codec.composite("sasl-init", {"mechanism": mechanism, "initial-response": response})
        self.write(
            codec.protocol_header(3) + codec.encode_frame(types.encode(init), type=codec.SASL_FRAME)
        )
        reader = codec.Reader()
        # What comes behind the outcome is ours: the broker may speak first.
        while b"\x00\x53\x44" not in self._pending:
            self._pending += self.read()
        end = self._pending.index(b"\x00\x53\x44") - codec.HEADER_SIZE
        end += int.from_bytes(self._pending[end : end + 4])
        for each in reader.feed(self._pending[:end]):
            if (
                isinstance(each, codec.Frame)
                and each.name == "sasl-outcome"
                and each.get("code") != 0
            ):
                raise Failed(f"the login was answered with {each.brief()}")
        self._pending = self._pending[end:]

    def read(self) -> bytes:
        """What has arrived, at least one octet."""
        try:
            data = self.socket.recv(READ)
        except TimeoutError:
            raise Failed(f"nothing came for {self.job.patience_s:g} s") from None
        if not data:
            raise Failed("the broker closed the connection")
        return data

    def write(self, data: bytes) -> None:
        try:
            self.socket.sendall(data)
        except TimeoutError:
            raise Failed(f"the broker took nothing for {self.job.patience_s:g} s") from None

    def frames(self) -> list[Found]:
        """Frames that have arrived whole, at least one.

        Raises :class:`Failed` for a detach, an end or a close.
        """
        found, self._kept = self._kept, []
        while not found:
            found, end = _cut(self._pending)
            self._pending = self._pending[end:]
            if not found:
                self._pending += self.read()
        return found

    def answered(self, code: int) -> tuple[bytes, int]:
        """The next frame with that performative; others before it are passed over."""
        while True:
            came = self.frames()
            for number, (found, body, where) in enumerate(came):
                if found == code:
                    self._kept = came[number + 1 :]
                    return body, where

    def leave(self) -> None:
        """Close, and wait for the broker's; what comes before it must be no delivery."""
        self.write(_performative("close", {}))
        data = self._pending
        reader = codec.Reader()
        if any(code == _TRANSFER for code, _, _ in self._kept):
            raise Failed("a delivery came behind the last one")
        while True:
            for each in reader.feed(data):
                name = each.name if isinstance(each, codec.Frame) else ""
                if name == "transfer":
                    raise Failed("a delivery came behind the last one")
                if name == "close":
                    assert isinstance(each, codec.Frame)
                    if each.condition:
                        raise Failed(f"the broker closed with {each.brief()}")
                    self.socket.close()
                    return
            data = self.read()


def _meet(pipe: Connection) -> None:
    pipe.send("ready")
    if pipe.recv() != "go":
        raise Failed("called off")


def _transfers(job: Job) -> list[bytes]:
    """Every transfer, encoded: message-format 0, a tag of four octets, one data section."""
    message = amqp10_messages.message(b"x" * job.size)
    settled = b"\x41" if job.settled else b"\x42"
    frames = []
    for number in range(job.messages):
        fields = (
            b"\x43"
            + struct.pack(">BI", 0x70, number)
            + b"\xa0\x04"
            + number.to_bytes(4)
            + b"\x43"
            + settled
        )
        body = b"\x00\x53\x14\xc0" + bytes((len(fields) + 1, 5)) + fields + message
        frames.append(codec.encode_frame(body))
    return frames


def produce(job: Job, pipe: Connection) -> dict[str, int]:
    """Sends the messages; ``first`` is the instant before the first octet, ``confirmed`` when all
    were settled."""
    wire = _Wire(job, sender=True)
    frames = _transfers(job)
    sent = settled = credit = window = 0
    begin, where = wire.answered(_BEGIN)
    window = numbers(begin, where, 3)[2]
    wire.answered(_ATTACH)
    _meet(pipe)
    first = time.monotonic_ns()
    try:
        while sent < job.messages or (settled < job.messages and not job.settled):
            allowed = min(job.messages, credit, window, sent + BURST)
            if allowed > sent:
                wire.write(b"".join(frames[sent:allowed]))
                sent = allowed
                if job.settled or sent < min(job.messages, credit, window):
                    continue
            for code, body, where in wire.frames():
                if code == _FLOW:
                    seen, room, _, _, handle, count, given = numbers(body, where, 7)
                    window = max(0, seen) + room
                    if handle >= 0:  # else it is about the session alone
                        credit = max(0, count) + given
                elif code == _DISPOSITION:
                    _, low, high, done = numbers(body, where, 4)
                    if not done or _ACCEPTED not in body:
                        raise Failed(f"a message was not accepted but {body.hex()}")
                    settled += max(0, high - low) + 1
    except (Failed, OSError) as problem:
        raise Failed(
            f"{problem} after {sent} of {job.messages} messages, {settled} accepted"
        ) from None
    confirmed = time.monotonic_ns()
    wire.leave()
    return {"first": first, "confirmed": confirmed}


def consume(job: Job, pipe: Connection) -> dict[str, int]:
    """Receives the messages; ``last`` is the instant at which the last one was there whole."""
    if job.backlog:
        _meet(pipe)
    wire = _Wire(job, sender=False)
    begin, where = wire.answered(_BEGIN)
    base = numbers(begin, where, 2)[1]
    attach, _ = wire.answered(_ATTACH)
    count = _initial_delivery_count(attach)
    wire.write(_flow(base, count, job.window))
    if not job.backlog:
        _meet(pipe)
    began = time.monotonic_ns()
    try:
        last, octets = _taken(wire, base, count)
    except _Cut as cut:
        raise Failed(f"{cut} after {cut.messages} of {job.messages} messages") from None
    if octets < job.messages * job.size:
        raise Failed(
            f"{job.messages} messages had {octets} octets, which is less than their bodies"
        )
    return {"began": began, "last": last, "octets": octets}


def _initial_delivery_count(attach: bytes) -> int:
    what, _ = types.decode(attach, 0)
    found = codec.fields_of(what).get("initial-delivery-count")
    return 0 if found is None else int(types.plain(found))


def _flow(incoming: int, count: int, credit: int) -> bytes:
    fields = {
        "next-incoming-id": incoming % 2**32,
        "incoming-window": WIDE,
        "next-outgoing-id": 0,
        "outgoing-window": WIDE,
        "handle": 0,
        "delivery-count": count % 2**32,
        "link-credit": credit,
    }
    return _performative("flow", fields)


def _accepted(low: int, high: int) -> bytes:
    fields = b"\x41" + struct.pack(">BIBI", 0x70, low, 0x70, high) + b"\x41" + _ACCEPTED
    return codec.encode_frame(b"\x00\x53\x15\xc0" + bytes((len(fields) + 1, 5)) + fields)


def _taken(wire: _Wire, base: int, count: int) -> tuple[int, int]:
    """The instant of the last message, and the octets of all."""
    job = wire.job
    taken = transfers = octets = asked = last = 0
    accepted: int | None = None
    try:
        while taken < job.messages:
            newest, unsettled = None, False
            for code, body, where in wire.frames():
                if code != _TRANSFER:
                    continue
                transfers += 1
                octets += len(body)
                fields = _fields(body, where)
                if fields.id is not None:
                    newest = fields.id
                    accepted = newest if accepted is None else accepted
                unsettled = unsettled or not fields.settled
                taken += not fields.more
            last = time.monotonic_ns()
            if unsettled and newest is not None and accepted is not None:
                wire.write(_accepted(accepted, newest))
            accepted = None if newest is None else (newest + 1) % 2**32
            if taken - asked >= job.window // 2:
                asked = taken
                wire.write(_flow(base + transfers, count + taken, job.window))
    except (Failed, OSError) as problem:
        raise _Cut(problem, taken) from None
    if taken > job.messages:
        raise Failed(f"{taken} messages came where {job.messages} were due")
    wire.leave()
    return last, octets


@dataclass(slots=True)
class _Fields:
    id: int | None
    settled: bool
    more: bool


def _fields(body: bytes, at: int) -> _Fields:
    """What matters of a transfer: delivery-id, settled, more."""
    if body[at] == 0xC0:
        count, at = body[at + 2], at + 3
    else:
        count, at = int.from_bytes(body[at + 5 : at + 9]), at + 9
    found: list[int | None] = []
    for _ in range(min(count, 6)):
        kind = body[at]
        if kind in (0x52, 0x53, 0x50):
            found.append(body[at + 1])
            at += 2
        elif kind == 0x70:
            found.append(int.from_bytes(body[at + 1 : at + 5]))
            at += 5
        elif kind == 0xA0:
            found.append(None)
            at += 2 + body[at + 1]
        elif kind == 0x43:
            found.append(0)
            at += 1
        else:  # null, true or false
            found.append({0x41: 1, 0x42: 0}.get(kind))
            at += 1
    found += [None] * (6 - len(found))
    return _Fields(found[1], bool(found[4]), bool(found[5]))


def work(pipe: Connection) -> None:
    """A peer's life: takes ``(role, job)`` from the pipe, answers with the result or with the
    reason why there is none."""
    while (task := pipe.recv()) is not None:
        role, job = task
        try:
            pipe.send({"produce": produce, "consume": consume}[role](job, pipe))
        except (Failed, OSError) as problem:
            pipe.send(f"{role}r: {problem}")
