"""A load connection over STOMP 1.2."""

import re
from typing import NamedTuple

from brokerproof.harness.load.client_connection import (
    ClientConnection,
    DriverContext,
    ProducerState,
)
from brokerproof.harness.load.plan import Consumer
from brokerproof.harness.load.wire_log import EOL, RECEIVED, RECORDED_BYTES, SENT
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.trace.stamp import LENGTH, MARK

_ACK = re.compile(rb"\nack:([^\n\r]*)")
_SUBSCRIPTION = re.compile(rb"\nsubscription:([^\n\r]*)")
_RECEIPT = re.compile(rb"\nreceipt-id:([^\n\r]*)")
_BEAT = re.compile(rb"\nheart-beat:([0-9]+),([0-9]+)")
_EOLS = (b"\n", b"\r")
_REDELIVERED = b"\nredelivered:true"


class _Took(NamedTuple):
    """The frames of one read: which to record, which to answer, and which to process one by one."""

    kept: list[bytes]
    answers: list[bytes]
    rare: list[bytes]


class StompLoadConnection(ClientConnection):
    protocol = "stomp"
    acronym = "STOMP"

    def __init__(
        self,
        host: DriverContext,
        number: int,
        senders: list[ProducerState],
        consumers: list[Consumer],
    ) -> None:
        super().__init__(host, number, senders, consumers)
        self._heads = {
            sender.about.number: codec.encode("SEND", self._send_headers(sender))[:-2]
            for sender in senders
        }
        """The beginning of each producer's SEND frame; content-length and receipt follow."""

    def _send_headers(self, sender: ProducerState) -> list[tuple[str, str]]:
        place = self.host.plan.places[sender.about.place]
        return [("destination", place.name), *place.send]

    def greet(self) -> None:
        plan = self.host.plan
        self._pending = b""
        self._awaited: dict[bytes, tuple[ProducerState, Instant]] = {}
        self._asked: set[bytes] = set()
        beat = plan.heart_beat // NS_PER_MS
        headers = {"accept-version": "1.2", "host": plan.host, "heart-beat": f"{beat},{beat}"}
        if plan.login:
            headers |= {"login": plan.login, "passcode": plan.passcode}
        frame = codec.encode("CONNECT", headers)[:-1]
        now = self.host.world.now()
        if self.host.tape is not None:
            hidden = (
                frame.replace(b"\npasscode:" + plan.passcode.encode(), b"\npasscode:***")
                if plan.login
                else frame
            )
            self.host.tape.frames(self._number, SENT, now, self.conn, [hidden], [len(frame)])
        self.write(frame + b"\0", now)

    def _say(
        self,
        frames: list[bytes],
        now: Instant,
        kept: list[bytes] | None = None,
        sizes: list[int] | None = None,
    ) -> None:
        """Write frames, given without their NUL. ``kept`` is the part to record."""
        if self.host.tape is not None:
            self.host.tape.frames(self._number, SENT, now, self.conn, kept or frames, sizes)
        frames.append(b"")
        self.write(b"\0".join(frames), now)

    def _frame(self, command: str, headers: dict[str, str]) -> bytes:
        return codec.encode(command, headers)[:-1]

    def _connected(self, frame: bytes, now: Instant) -> None:
        agreed = _BEAT.search(frame)
        interval = int(agreed[2]) if agreed else 0
        self.silence = max(interval * NS_PER_MS, self.host.plan.heart_beat) // 2 if interval else 0
        plan = self.host.plan
        frames = []
        for consumer in self.consumers:
            place = plan.places[consumer.place]
            receipt = f"subscribed-{consumer.number}"
            headers = {
                "id": str(consumer.number),
                "destination": place.name,
                **dict(place.subscribe),
                "ack": plan.ack,
            }
            if plan.window and plan.window_header and plan.ack != "auto":
                headers[plan.window_header] = str(plan.window)
            frames.append(self._frame("SUBSCRIBE", {**headers, "receipt": receipt}))
            self._asked.add(receipt.encode())
        if frames:
            self._say(frames, now)
        self.up = not self._asked

    def post(self, sender: ProducerState, count: int, now: Instant) -> int:
        host, head, number = self.host, self._heads[sender.about.number], sender.about.number
        confirmed, awaited, taped = host.plan.confirmed, self._awaited, host.tape is not None
        frames: list[bytes] = []
        kept: list[bytes] = []
        length = 0
        for index in range(sender.next, sender.next + count):
            body = host.body(number, index, now)
            size = len(body)
            if confirmed:
                receipt = b"%d.%d" % (number, index)
                awaited[receipt] = sender, now
                frame = b"%bcontent-length:%d\nreceipt:%b\n\n%b" % (head, size, receipt, body)
            else:
                frame = b"%bcontent-length:%d\n\n%b" % (head, size, body)
            frames.append(frame)
            length += size
            if taped:
                kept.append(frame[: len(frame) - size + RECORDED_BYTES])
        host.tally.sent_octets += length
        sender.next += count
        host.tally.sent += count
        host.tally.sent_until = now + host.offset
        if confirmed:
            sender.waiting += count
        self._say(frames, now, kept, list(map(len, frames)) if taped else None)
        return count

    def on_bytes_received(self, at: Instant, data: bytes) -> None:
        frames = (self._pending + data if self._pending else data).split(b"\0")
        self._pending = frames.pop()
        if self._pending and not self._pending.strip(b"\r\n"):
            self._beats(at, len(self._pending))
            self._pending = b""
        if not frames:
            return
        if frames[0][:1] in _EOLS or frames[-1][:1] in _EOLS or b"\0\n" in data or b"\0\r" in data:
            frames, sizes = self._without_eols(frames, at)
        else:
            sizes = []
        took = self._take(frames, at)
        if self.host.tape is not None:
            self.host.tape.frames(
                self._number, RECEIVED, at, self.conn, took.kept, sizes or map(len, frames)
            )
        if took.answers:
            self._say(took.answers, at)
        for frame in took.rare:
            self._rare(frame, at)
        self.pump(at)

    def _without_eols(self, frames: list[bytes], at: Instant) -> tuple[list[bytes], list[int]]:
        """Return the frames without the ends of line before them. The first end of line after a NUL
        belongs to the previous frame; any others are heartbeats."""
        plain: list[bytes] = []
        sizes: list[int] = []
        for frame in frames:
            bare = frame.lstrip(b"\r\n")
            blank = len(frame) - len(bare)
            if blank and sizes:
                sizes[-1] += EOL
                blank -= 1 + frame.startswith(b"\r\n")
            if blank > 0:
                self._beats(at, blank)
            plain.append(bare)
            sizes.append(len(bare))
        return plain, sizes

    def _beats(self, at: Instant, size: int) -> None:
        if self.host.tape is not None:
            self.host.tape.frames(self._number, RECEIVED, at, self.conn, [b""], [size])

    def _take(self, frames: list[bytes], at: Instant) -> _Took:
        tally, mode, taped = self.host.tally, self.host.plan.ack, self.host.tape is not None
        now = at + self.host.offset
        acks: list[bytes] = []
        latest: dict[bytes, bytes] = {}
        waits: list[int] = []
        kept: list[bytes] = []
        rare: list[bytes] = []
        for frame in frames:
            kind = frame[:4]
            if kind == b"MESS":
                end = frame.find(b"\n\n") + 2
                if taped:
                    kept.append(frame[: end + RECORDED_BYTES])
                tally.received += 1
                tally.received_octets += len(frame) - end
                if frame.startswith(MARK, end):
                    waits.append(now - int(frame[end + LENGTH : end + LENGTH + 19]))
                if frame.find(_REDELIVERED, 0, end) >= 0:
                    tally.redelivered += 1
                if mode == "auto":
                    continue
                token = _ACK.search(frame, 0, end)
                if token is None:
                    tally.errors["a MESSAGE has no ack header"] += 1
                elif mode == "client":
                    name = _SUBSCRIPTION.search(frame, 0, end)
                    latest[name[1] if name else b""] = token[1]
                    tally.settled += 1
                else:
                    acks.append(b"ACK\nid:%b\n\n" % token[1])
                continue
            if taped:
                kept.append(frame)
            if kind != b"RECE" or not self._receipt(frame, at):
                rare.append(frame)
        if waits:
            tally.delivery.record(waits)
            tally.received_until = now
        tally.settled += len(acks)
        acks += [b"ACK\nid:%b\n\n" % ack_id for ack_id in latest.values()]
        return _Took(kept, acks, rare)

    def _receipt(self, frame: bytes, at: Instant) -> bool:
        match = _RECEIPT.search(frame)
        awaited = self._awaited.pop(match[1], None) if match else None
        if awaited is None:
            return False
        sender, since = awaited
        sender.waiting -= 1
        self.host.tally.confirmed += 1
        self.host.tally.confirmation.record((at - since,))
        return True

    def _agreed(self, frame: bytes) -> None:
        match = _RECEIPT.search(frame)
        name = match[1] if match else b""
        if name in self._asked:
            self._asked.discard(name)
            if self.leaving and name == b"goodbye":
                self.end()
            elif not self._asked:
                self.up = True
        else:
            self.host.tally.errors["a RECEIPT has an unknown receipt-id"] += 1

    def _rare(self, frame: bytes, at: Instant) -> None:
        if frame.startswith(b"CONNECTED"):
            self._connected(frame, at)
            return
        if frame.startswith(b"RECEIPT"):
            self._agreed(frame)
            return
        head = frame.partition(b"\n\n")[0].decode("utf-8", "replace").replace("\n", " ")
        self.failed = f"the broker sent {head[:200]}"
        if not frame.startswith(b"ERROR"):
            self.host.tally.errors[f"unknown frame: {head[:80]!r}"] += 1

    def disconnect(self) -> None:
        self.leaving = True
        self._asked.add(b"goodbye")
        self._say([self._frame("DISCONNECT", {"receipt": "goodbye"})], self.host.world.now())

    def beat(self, now: Instant) -> None:
        if self.host.tape is not None:
            self.host.tape.frames(self._number, SENT, now, self.conn, [b""], [1])
        self.write(b"\n", now)
