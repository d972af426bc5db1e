"""A connection of a load that speaks AMQP 1.0: one session, a link for each producer and
consumer."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any

from brokerproof.harness.load.client_connection import ClientConnection, ProducerState
from brokerproof.harness.load.plan import Place
from brokerproof.harness.load.wire_log import RECEIVED, RECORDED_OCTETS, SENT
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.trace.stamp import LENGTH, MARK

_WIDE = 2**31 - 1
_WRAP = 2**32
_CREDIT = 200
"""What a consumer asks for when nobody says."""
_ROOM = 64
"""Octets of a frame that are kept for its performative."""
_BEGIN, _ATTACH, _FLOW, _TRANSFER, _DISPOSITION = 0x11, 0x12, 0x13, 0x14, 0x15
_ACCEPTED = b"\x00\x53\x24\x45"
_HEADER = b"\x00\x53\x70"
_UNSETTLED, _SETTLED, _MIXED = 0, 1, 2


class AmqpLoadConnection(ClientConnection):
    """See :class:`Line`. Handles: the senders', in order, then the consumers'."""

    protocol = "amqp"
    acronym = "AMQP"

    # connecting

    def greet(self) -> None:
        plan = self.host.plan
        self._pending = b""
        self._attached = 0
        self._handles: dict[int, int] = {}
        """Our handle by the broker's."""
        self._credit = dict.fromkeys(range(len(self.senders)), 0)
        """By sender: up to which delivery-count it may send."""
        self._counts = dict.fromkeys(range(len(self.senders)), 0)
        self._window = 0
        """Up to which transfer the session may send."""
        self._outgoing = 0
        self._deliveries = 0
        self._most = 512
        self._base = self._incoming = 0
        """The broker's first transfer, and how many have come."""
        self._awaited: dict[int, tuple[ProducerState, Instant]] = {}
        self._taken = {at: [0, 0, 0] for at in range(len(self.consumers))}
        """By consumer: the sender's first delivery-count, deliveries since, and those for which
        credit was given."""
        self._unfinished: dict[int, int] = {}
        """Deliveries that have begun, by our handle."""
        mechanism = "PLAIN" if plan.login else "ANONYMOUS"
        response = f"\0{plan.login}\0{plan.passcode}".encode() if plan.login else b"brokerproof"
        init = codec.composite("sasl-init", {"mechanism": mechanism, "initial-response": response})
        hidden = codec.composite("sasl-init", {"mechanism": mechanism, "initial-response": b"***"})
        frames = [
            codec.protocol_header(3),
            codec.encode_frame(types.encode(init), type=codec.SASL_FRAME),
        ]
        shown = [frames[0], codec.encode_frame(types.encode(hidden), type=codec.SASL_FRAME)]
        now = self.host.world.now()
        if self.host.tape is not None:
            self.host.tape.frames(
                self._number, SENT, now, self.conn, shown, [len(each) for each in frames]
            )
        self.write(b"".join(frames), now)

    def _opening(self) -> list[bytes]:
        name = f"brokerproof-load-{self.conn}-{self.host.plan.seed:x}"
        beat = self.host.plan.heart_beat // NS_PER_MS
        frames = [
            codec.protocol_header(),
            _performative(
                "open",
                {
                    "container-id": name,
                    "hostname": "localhost",
                    "channel-max": 0,
                    "idle-time-out": 2 * beat,
                },
            ),
            _performative(
                "begin", {"next-outgoing-id": 0, "incoming-window": _WIDE, "outgoing-window": _WIDE}
            ),
        ]
        places = self.host.plan.places
        for handle, sender in enumerate(self.senders):
            frames.append(
                self._attach(
                    f"{name}-p{sender.about.number}",
                    handle,
                    places[sender.about.place],
                    codec.SENDER,
                )
            )
        for handle, consumer in enumerate(self.consumers, len(self.senders)):
            frames.append(
                self._attach(
                    f"{name}-c{consumer.number}", handle, places[consumer.place], codec.RECEIVER
                )
            )
        return frames

    def _attach(self, name: str, handle: int, place: Place, role: bool) -> bytes:
        sending = role == codec.SENDER
        terminus = {"address": place.name, "capabilities": place.capabilities or None}
        settled = not self.host.plan.confirmed if sending else self.host.plan.ack == "auto"
        return _performative(
            "attach",
            {
                "name": name,
                "handle": handle,
                "role": role,
                "snd-settle-mode": _SETTLED if settled else _UNSETTLED if sending else _MIXED,
                "source": codec.composite("source", {} if sending else terminus),
                "target": codec.composite("target", terminus if sending else {}),
                "initial-delivery-count": 0 if sending else None,
            },
        )

    def _say(self, frames: list[bytes], now: Instant, recorded: int = -1) -> None:
        """``recorded``: how many octets of each are recorded; all by default."""
        if self.host.tape is not None:
            kept = frames if recorded < 0 else [each[:recorded] for each in frames]
            self.host.tape.frames(self._number, SENT, now, self.conn, kept, list(map(len, frames)))
        self.write(b"".join(frames), now)

    # sending

    def post(self, sender: ProducerState, count: int, now: Instant) -> int:
        host, handle = self.host, self.senders.index(sender)
        count = min(
            count, self._credit[handle] - self._counts[handle], self._window - self._outgoing
        )
        settled = not host.plan.confirmed
        frames: list[bytes] = []
        posted = 0
        for number in range(sender.next, sender.next + max(0, count)):
            body = host.body(sender.about.number, number, now)
            if (
                frames
                and len(body) > self._most - _ROOM
                and self._window - self._outgoing < len(body) // 64
            ):
                break
            frames += self._transfers(handle, _message(body), settled)
            if not settled:
                self._awaited[(self._deliveries - 1) % _WRAP] = sender, now
            host.tally.sent_octets += len(body)
            posted += 1
        if not posted:
            return 0
        sender.next += posted
        self._counts[handle] += posted
        host.tally.sent += posted
        host.tally.sent_until = now + host.offset
        sender.waiting += 0 if settled else posted
        self._say(frames, now, _ROOM + RECORDED_OCTETS)
        return posted

    def _transfers(self, handle: int, message: bytes, settled: bool) -> list[bytes]:
        """One message, in as many frames as the broker's max-frame-size asks for."""
        number = self._deliveries
        self._deliveries = (number + 1) % _WRAP
        fields = b"\x52%c\x70%b\xa0\x04%b\x43%c" % (
            handle & 0xFF,
            number.to_bytes(4),
            number.to_bytes(4),
            0x41 if settled else 0x42,
        )
        if handle > 0xFF:
            fields = b"\x70" + handle.to_bytes(4) + fields[2:]
        most = self._most - _ROOM
        pieces = (
            [message[at : at + most] for at in range(0, len(message), most)]
            if len(message) > most
            else [message]
        )
        self._outgoing += len(pieces)
        last = len(pieces) - 1
        frames = []
        for at, piece in enumerate(pieces):
            more = b"\x41" if at < last else b""
            body = b"\x00\x53\x14\xc0%c%c%b%b" % (
                len(fields) + len(more) + 1,
                5 + len(more),
                fields,
                more,
            )
            frames.append(
                b"%b\x02\x00\x00\x00%b%b" % ((8 + len(body) + len(piece)).to_bytes(4), body, piece)
            )
        return frames

    # receiving

    def heard(self, at: Instant, data: bytes) -> None:
        if self._pending:
            data = self._pending + data
        frames: list[bytes] = []
        place, size = 0, len(data)
        while size - place >= codec.HEADER_SIZE:
            if data[place : place + 4] == codec.PREFIX:
                end = place + codec.HEADER_SIZE
            else:
                end = place + max(codec.HEADER_SIZE, int.from_bytes(data[place : place + 4]))
                if end > size:
                    break
            frames.append(data[place:end])
            place = end
        self._pending = data[place:]
        if not frames:
            return
        self._take(frames, at)
        self.pump(at)

    def _heard(self, kept: list[bytes], sizes: list[int], at: Instant) -> None:
        """Records frames before anything is said because of them."""
        if kept and self.host.tape is not None:
            self.host.tape.frames(self._number, RECEIVED, at, self.conn, kept, sizes)
        kept.clear()
        sizes.clear()

    def _take(self, frames: list[bytes], at: Instant) -> None:
        settling: list[int] = []
        waits: list[int] = []
        kept: list[bytes] = []
        sizes: list[int] = []
        taped = self.host.tape is not None
        for frame in frames:
            if taped:
                kept.append(frame)
                sizes.append(len(frame))
            if len(frame) == codec.HEADER_SIZE:
                continue  # a protocol header, or a sign of life
            start = frame[4] * 4
            code = (
                frame[start + 2]
                if frame[5] == codec.AMQP_FRAME and frame[start : start + 2] == b"\x00\x53"
                else -1
            )
            if code == _TRANSFER:
                end = self._transfer(frame, start + 3, at, settling, waits)
                if taped:
                    kept[-1] = frame[: end + RECORDED_OCTETS]
            elif code == _DISPOSITION:
                self._disposition(frame, start + 3, at)
            elif code == _FLOW:
                self._flow(numbers(frame, start + 3, 7))
            else:
                self._heard(kept, sizes, at)
                self._rare(frame, at)
            if self.over:
                return
        self._heard(kept, sizes, at)
        tally = self.host.tally
        if waits:
            tally.delivery.note(waits)
            tally.received_until = at + self.host.offset
        answers = self._dispositions(settling)
        tally.settled += len(settling)
        for number, about in self._taken.items():
            credit = self.host.plan.window or _CREDIT
            if self._attached and about[1] - about[2] >= max(1, credit // 2):
                about[2] = about[1]
                answers.append(self._grant(number, credit))
        if answers and not self.over:
            self._say(answers, at)

    def _transfer(
        self, frame: bytes, at: int, now: Instant, settling: list[int], waits: list[int]
    ) -> int:
        """Takes a transfer, whose list is at ``at``; returns where its payload begins."""
        self._incoming += 1
        fields, end = _transfer_fields(frame, at)
        handle = self._handles.get(fields[0], -1)
        if fields[1] >= 0:
            self._unfinished[handle] = fields[1]
            if frame.startswith(_HEADER, end) and numbers(frame, end + 3, 5)[4] > 0:
                self.host.tally.redelivered += 1
            stamp = frame.find(MARK, end, end + 200)
            if stamp >= 0:
                sent = frame[stamp + LENGTH : stamp + LENGTH + 19]
                if len(sent) == 19:
                    waits.append(now + self.host.offset - int(sent))
        tally = self.host.tally
        tally.received_octets += len(frame) - end
        if fields[5] == 1:  # more
            return end
        tally.received += 1
        number = self._unfinished.pop(handle, -1)
        consumer = handle - len(self.senders)
        if consumer in self._taken:
            self._taken[consumer][1] += 1
        if fields[4] != 1 and number >= 0:
            settling.append(number)
        return end

    def _dispositions(self, settling: list[int]) -> list[bytes]:
        if not settling:
            return []
        if self.host.plan.ack == "client-individual":
            return [_accepted(each, each) for each in settling]
        runs: list[list[int]] = []
        for each in settling:
            if runs and each == (runs[-1][1] + 1) % _WRAP:
                runs[-1][1] = each
            else:
                runs.append([each, each])
        return [_accepted(low, high) for low, high in runs]

    def _disposition(self, frame: bytes, at: int, now: Instant) -> None:
        role, first, last, settled = numbers(frame, at, 4)
        if role != 1 or settled != 1:
            return
        tally, accepted = self.host.tally, frame.find(_ACCEPTED[:3], at) >= 0
        took = []
        count = 1 if last < 0 else (last - first) % _WRAP + 1
        for each in range(
            first, first + min(count, len(self._awaited) + 1) if count > 1 else first + 1
        ):
            found = self._awaited.pop(each % _WRAP, None)
            if found is None:
                continue
            sender, since = found
            sender.waiting -= 1
            took.append(now - since)
        tally.confirmation.note(took)
        if accepted:
            tally.confirmed += len(took)
        else:
            tally.refused += len(took)

    def _flow(self, fields: list[int]) -> None:
        seen, room, _, _, handle, count, credit = fields
        self._window = max(0, seen) + room
        ours = self._handles.get(handle, -1)
        if handle >= 0 and ours in self._credit:
            self._credit[ours] = max(0, count) + max(0, credit)

    def _grant(self, number: int, credit: int) -> bytes:
        first, taken, _ = self._taken[number]
        fields = {
            "next-incoming-id": (self._base + self._incoming) % _WRAP,
            "incoming-window": _WIDE,
            "next-outgoing-id": self._outgoing % _WRAP,
            "outgoing-window": _WIDE,
            "handle": len(self.senders) + number,
            "delivery-count": (first + taken) % _WRAP,
            "link-credit": credit,
        }
        return _performative("flow", fields)

    def _rare(self, octets: bytes, now: Instant) -> None:
        frame = next(iter(codec.Reader().feed(octets)), None)
        if not isinstance(frame, codec.Frame):
            self.host.tally.errors[f"no frame that we know: {octets[:40].hex()}"] += 1
            return
        match frame.name:
            case "sasl-outcome":
                if frame.get("code") == 0:
                    self._say(self._opening(), now)
                else:
                    self.failed = f"the broker said {frame.brief()}"
            case "open":
                self._most = min(frame.get("max-frame-size", 2**20), 2**20)
                idle = frame.get("idle-time-out", 0)
                self.silence = idle * NS_PER_MS // 2
            case "begin":
                self._window = frame.get("incoming-window", 0)
                self._base = frame.get("next-outgoing-id", 0)
            case "attach":
                self._agreed(frame, now)
            case "detach" | "end" | "close":
                self._goodbye(frame, now)

    def _agreed(self, frame: codec.Frame, now: Instant) -> None:
        name = str(frame.get("name"))
        role = name.rpartition("-")[2]
        kind, number = role[:1], role[1:]
        if frame.fields.get("target" if kind == "p" else "source") is None:
            self.failed = f"the broker would not attach {name}"  # and tells why by a detach
            return
        wanted = (
            [each.about.number for each in self.senders]
            if kind == "p"
            else [each.number for each in self.consumers]
        )
        at = wanted.index(int(number))
        self._attached += 1
        self._handles[frame.get("handle", 0)] = at if kind == "p" else at + len(self.senders)
        if kind == "c":
            self._taken[at][0] = frame.get("initial-delivery-count", 0)
            self._say([self._grant(at, self.host.plan.window or _CREDIT)], now)
        self.up = self._attached == len(self.senders) + len(self.consumers)

    def _goodbye(self, frame: codec.Frame, now: Instant) -> None:
        if self.leaving and frame.name == "close":
            self.end()
            return
        self.failed = f"the broker said {frame.brief()[:200]}"
        self.host.tally.errors[self.failed] += 1
        self.host.tally.left += 1
        if frame.name == "close":
            self._say([_performative("close", {})], now)
        self.end()

    @property
    def credit(self) -> int:
        """See :class:`Line`."""
        return (
            0 if self.over else sum(limit - self._counts[at] for at, limit in self._credit.items())
        )

    def leave(self) -> None:
        self.leaving = True
        self._say([_performative("close", {})], self.host.world.now())

    def beat(self, now: Instant) -> None:
        self._say([codec.encode_frame(b"")], now)


def _performative(name: str, fields: Mapping[str, Any], /) -> bytes:
    return codec.encode_frame(types.encode(codec.composite(name, fields)))


def _message(body: bytes) -> bytes:
    """A message with one section: data."""
    size = len(body)
    return (
        (b"\x00\x53\x75\xa0%c%b" % (size, body))
        if size < 256
        else b"\x00\x53\x75\xb0" + size.to_bytes(4) + body
    )


def _accepted(low: int, high: int) -> bytes:
    fields = b"\x41" + struct.pack(">BIBI", 0x70, low, 0x70, high) + b"\x41" + _ACCEPTED
    return codec.encode_frame(b"\x00\x53\x15\xc0" + bytes((len(fields) + 1, 5)) + fields)


def numbers(frame: bytes, at: int, count: int) -> list[int]:
    """The first ``count`` fields of the list at ``at``, which are unsigned numbers, booleans or
    null; null and what is missing are -1."""
    found: list[int] = []
    if frame[at] == 0x45:
        return [-1] * count
    have, at = (
        (frame[at + 2], at + 3)
        if frame[at] == 0xC0
        else (int.from_bytes(frame[at + 5 : at + 9]), at + 9)
    )
    for _ in range(min(count, have)):
        kind = frame[at]
        if kind in (0x52, 0x53, 0x50, 0x56):
            found.append(frame[at + 1])
            at += 2
        elif kind == 0x70:
            found.append(int.from_bytes(frame[at + 1 : at + 5]))
            at += 5
        elif kind == 0x60:
            found.append(int.from_bytes(frame[at + 1 : at + 3]))
            at += 3
        else:  # null, true, false, or 0
            found.append({0x40: -1, 0x41: 1}.get(kind, 0))
            at += 1
    return found + [-1] * (count - len(found))


def _transfer_fields(frame: bytes, at: int) -> tuple[list[int], int]:
    """Handle, delivery-id, tag (nothing), message-format, settled, more; -1 is null. And where the
    list ends."""
    if frame[at] == 0xC0:
        have, end, at = frame[at + 2], at + 2 + frame[at + 1], at + 3
    else:
        have, end, at = (
            int.from_bytes(frame[at + 5 : at + 9]),
            at + 5 + int.from_bytes(frame[at + 1 : at + 5]),
            at + 9,
        )
    found: list[int] = []
    for _ in range(min(have, 6)):
        kind = frame[at]
        if kind in (0x52, 0x50, 0x56):
            found.append(frame[at + 1])
            at += 2
        elif kind == 0x70:
            found.append(int.from_bytes(frame[at + 1 : at + 5]))
            at += 5
        elif kind == 0xA0:
            found.append(0)
            at += 2 + frame[at + 1]
        elif kind == 0xB0:
            found.append(0)
            at += 5 + int.from_bytes(frame[at + 1 : at + 5])
        else:
            found.append({0x40: -1, 0x41: 1}.get(kind, 0))
            at += 1
    return found + [-1] * (6 - len(found)), end
