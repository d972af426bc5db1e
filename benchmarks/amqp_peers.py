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

import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from raw_wire import BURST, Cut, Failed, RawWire, meet, work_through

from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10 import messages as amqp10_messages
from brokerproof.harness.protocols.amqp10.endpoint_state import WIDE, WRAP
from brokerproof.harness.protocols.amqp10.hot_path import (
    ACCEPTED,
    ATTACH,
    BEGIN,
    DISPOSITION,
    FLOW,
    TRANSFER,
    accepted,
    code_of,
    numbers,
    performative,
    split,
    transfer_fields,
    transfers,
)

_ENDS = (0x16, 0x17, 0x18)


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
    durable: bool
    settled: bool
    window: int
    backlog: bool
    patience_s: float


Coded = tuple[int, bytes, int]
"""A frame: the performative's code, its bytes, and where its list begins."""


def _coded(frames: list[bytes]) -> list[Coded]:
    """The performatives among ``frames``. Raises :class:`Failed` for a detach, end or close."""
    coded: list[Coded] = []
    for frame in frames:
        code, fields_at = code_of(frame)
        if code in _ENDS:
            raise Failed(f"the broker sent {next(codec.Reader().feed(frame))}"[:300])
        if code >= 0:
            coded.append((code, frame, fields_at))
    return coded


class _Wire(RawWire):
    """An open connection with one session and one link."""

    def __init__(self, job: Job, sender: bool) -> None:
        super().__init__(job.port, job.patience_s)
        self.job = job
        self._pending = b""
        self._kept: list[Coded] = []
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
            + performative(
                "open",
                {"container-id": f"bench-{'send' if sender else 'take'}", "hostname": "localhost"},
            )
            + performative(
                "begin", {"next-outgoing-id": 0, "incoming-window": WIDE, "outgoing-window": WIDE}
            )
            + performative("attach", attach)
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
        for frame in reader.feed(self._pending[:end]):
            if (
                isinstance(frame, codec.Frame)
                and frame.name == "sasl-outcome"
                and frame.get("code") != 0
            ):
                raise Failed(f"the login was answered with {frame.brief()}")
        self._pending = self._pending[end:]

    def frames(self) -> list[Coded]:
        """Frames that have arrived whole, at least one.

        Raises :class:`Failed` for a detach, an end or a close.
        """
        coded, self._kept = self._kept, []
        while not coded:
            frames, self._pending = split(self._pending)
            coded = _coded(frames)
            if not coded:
                self._pending += self.read()
        return coded

    def answered(self, code: int) -> tuple[bytes, int]:
        """The next frame with that performative; others before it are passed over."""
        while True:
            frames = self.frames()
            for number, (performed, body, where) in enumerate(frames):
                if performed == code:
                    self._kept = frames[number + 1 :]
                    return body, where

    def finish(self) -> None:
        """Close, and wait for the broker's; what comes before it must be no delivery."""
        self.write(performative("close", {}))
        data = self._pending
        reader = codec.Reader()
        if any(code == TRANSFER for code, _, _ in self._kept):
            raise Failed("a delivery came behind the last one")
        while True:
            for frame in reader.feed(data):
                name = frame.name if isinstance(frame, codec.Frame) else ""
                if name == "transfer":
                    raise Failed("a delivery came behind the last one")
                if name == "close":
                    assert isinstance(frame, codec.Frame)
                    if frame.condition:
                        raise Failed(f"the broker closed with {frame.brief()}")
                    self.socket.close()
                    return
            data = self.read()


def _transfers(job: Job) -> list[bytes]:
    """Every transfer, encoded: message-format 0, a tag of four bytes, one data section."""
    header = {"header": {"durable": True}} if job.durable else {}
    message = amqp10_messages.message(b"x" * job.size, **header)
    return [
        frame
        for number in range(job.messages)
        for frame in transfers(0, number, message, job.settled, 2**31)
    ]


def produce(job: Job, pipe: Connection) -> dict[str, int]:
    """Send the messages; ``first`` is the instant before the first byte, ``confirmed`` when all
    were settled."""
    wire = _Wire(job, sender=True)
    frames = _transfers(job)
    sent = settled = credit = window = 0
    begin, where = wire.answered(BEGIN)
    window = numbers(begin, where, 3)[2]
    wire.answered(ATTACH)
    meet(pipe)
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
                if code == FLOW:
                    seen, room, _, _, handle, count, given = numbers(body, where, 7)
                    window = max(0, seen) + room
                    if handle >= 0:  # else it is about the session alone
                        credit = max(0, count) + given
                elif code == DISPOSITION:
                    _, low, high, done = numbers(body, where, 4)
                    if not done or ACCEPTED not in body:
                        raise Failed(f"a message was not accepted but {body.hex()}")
                    settled += max(0, high - low) + 1
    except (Failed, OSError) as problem:
        raise Failed(
            f"{problem} after {sent} of {job.messages} messages, {settled} accepted"
        ) from None
    confirmed = time.monotonic_ns()
    wire.finish()
    return {"first": first, "confirmed": confirmed}


def consume(job: Job, pipe: Connection) -> dict[str, int]:
    """Receives the messages; ``last`` is the instant at which the last one was there whole."""
    if job.backlog:
        meet(pipe)
    wire = _Wire(job, sender=False)
    begin, where = wire.answered(BEGIN)
    base = numbers(begin, where, 2)[1]
    attach, _ = wire.answered(ATTACH)
    count = _initial_delivery_count(attach)
    wire.write(_flow(base, count, job.window))
    if not job.backlog:
        meet(pipe)
    began = time.monotonic_ns()
    try:
        last, size = _taken(wire, base, count)
    except Cut as cut:
        raise Failed(f"{cut} after {cut.messages} of {job.messages} messages") from None
    if size < job.messages * job.size:
        raise Failed(f"{job.messages} messages had {size} bytes, which is less than their bodies")
    return {"began": began, "last": last, "octets": size}


def _initial_delivery_count(attach: bytes) -> int:
    what, _ = types.decode(attach, attach[4] * 4)
    count = codec.fields_of(what).get("initial-delivery-count")
    return 0 if count is None else int(types.plain(count))


def _flow(incoming: int, count: int, credit: int) -> bytes:
    fields = {
        "next-incoming-id": incoming % WRAP,
        "incoming-window": WIDE,
        "next-outgoing-id": 0,
        "outgoing-window": WIDE,
        "handle": 0,
        "delivery-count": count % WRAP,
        "link-credit": credit,
    }
    return performative("flow", fields)


def _taken(wire: _Wire, base: int, count: int) -> tuple[int, int]:
    """The instant of the last message, and the bytes of all."""
    job = wire.job
    taken = transfers = size = asked = last = 0
    oldest: int | None = None
    try:
        while taken < job.messages:
            newest, unsettled = None, False
            for code, body, where in wire.frames():
                if code != TRANSFER:
                    continue
                transfers += 1
                size += len(body) - codec.HEADER_SIZE
                fields, _ = transfer_fields(body, where)
                if fields[1] >= 0:
                    newest = fields[1]
                    oldest = newest if oldest is None else oldest
                unsettled = unsettled or fields[4] != 1
                taken += fields[5] != 1
            last = time.monotonic_ns()
            if unsettled and newest is not None and oldest is not None:
                wire.write(accepted(oldest, newest))
            oldest = None if newest is None else (newest + 1) % WRAP
            if taken - asked >= job.window // 2:
                asked = taken
                wire.write(_flow(base + transfers, count + taken, job.window))
    except (Failed, OSError) as problem:
        raise Cut(problem, taken) from None
    if taken > job.messages:
        raise Failed(f"{taken} messages came where {job.messages} were due")
    wire.finish()
    return last, size


def work(pipe: Connection) -> None:
    """A peer's life (:func:`raw_wire.work_through`)."""
    work_through(pipe, {"produce": produce, "consume": consume})
