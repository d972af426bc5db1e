"""A load connection over AMQP 1.0, with one session and a link for each producer and consumer.

Its state is an :class:`brokerproof.harness.protocols.amqp10.endpoint_state.Endpoint`. Transfers,
flows and dispositions use :mod:`brokerproof.harness.protocols.amqp10.hot_path`, which updates the
same state. Measured: with the general codec and state, a message costs nine times as much."""

from brokerproof.harness.load.client_connection import ClientConnection, ProducerState
from brokerproof.harness.load.plan import Place
from brokerproof.harness.load.wire_log import RECEIVED, RECORDED_BYTES, SENT
from brokerproof.harness.model.time import NS_PER_MS, Instant
from brokerproof.harness.protocols.amqp10 import codec, hot_path, types
from brokerproof.harness.protocols.amqp10.endpoint_state import WRAP, Endpoint, Link, Session
from brokerproof.harness.protocols.amqp10.hot_path import numbers, performative
from brokerproof.harness.trace.stamp import LENGTH, MARK

_CREDIT = 200
"""The credit of a consumer if the plan does not state it."""
_HEADER = b"\x00\x53\x70"
_UNSETTLED, _SETTLED, _MIXED = 0, 1, 2


class AmqpLoadConnection(ClientConnection):
    """A :class:`ClientConnection`. The first handles belong to the senders, in order, the next to
    the consumers."""

    protocol = "amqp"
    acronym = "AMQP"

    # connecting

    def greet(self) -> None:
        plan = self.host.plan
        self._pending = b""
        self._attached = 0
        self._endpoint = Endpoint()
        self._session: Session
        self._links: list[Link] = []
        """The links by our handle."""
        self._most = 512
        self._awaited: dict[int, tuple[ProducerState, Instant]] = {}
        self._unfinished: dict[int, int] = {}
        """The incomplete deliveries by the broker's handle."""
        now, mechanism = self.host.world.now(), plan.sasl
        if mechanism == codec.NO_SASL:
            self._say(self._opening(), now)
            return
        is_plain = mechanism == "PLAIN"
        response = f"\0{plan.login}\0{plan.passcode}".encode() if is_plain else b"brokerproof"
        init = codec.composite("sasl-init", {"mechanism": mechanism, "initial-response": response})
        hidden = codec.composite("sasl-init", {"mechanism": mechanism, "initial-response": b"***"})
        frames = [
            codec.protocol_header(3),
            codec.encode_frame(types.encode(init), type=codec.SASL_FRAME),
        ]
        shown = [frames[0], codec.encode_frame(types.encode(hidden), type=codec.SASL_FRAME)]
        if self.host.tape is not None:
            self.host.tape.frames(
                self._number, SENT, now, self.conn, shown, [len(frame) for frame in frames]
            )
        self.write(b"".join(frames), now)

    def _opening(self) -> list[bytes]:
        name = f"brokerproof-load-{self.conn}-{self.host.plan.seed:x}"
        heartbeat_ms = self.host.plan.heart_beat // NS_PER_MS
        self._session, begin = self._endpoint.begin(0, {})
        frames = [
            codec.protocol_header(),
            performative(
                "open",
                {
                    "container-id": name,
                    "hostname": "localhost",
                    "channel-max": 0,
                    "idle-time-out": 2 * heartbeat_ms,
                },
            ),
            performative("begin", begin),
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
        fields = {
            "name": name,
            "handle": handle,
            "role": role,
            "snd-settle-mode": _SETTLED if settled else _UNSETTLED if sending else _MIXED,
            "source": codec.composite("source", {} if sending else terminus),
            "target": codec.composite("target", terminus if sending else {}),
            "initial-delivery-count": 0 if sending else None,
        }
        self._links.append(self._session.attaching(fields))
        return performative("attach", fields)

    def _say(self, frames: list[bytes], now: Instant, recorded: int = -1) -> None:
        """Write frames. ``recorded`` has the number of bytes of each frame to record (default:
        all)."""
        if self.host.tape is not None:
            kept = frames if recorded < 0 else [frame[:recorded] for frame in frames]
            self.host.tape.frames(self._number, SENT, now, self.conn, kept, list(map(len, frames)))
        self.write(b"".join(frames), now)

    # sending

    def post(self, sender: ProducerState, count: int, now: Instant) -> int:
        host, session = self.host, self._session
        link = self._links[self.senders.index(sender)]
        count = min(count, link.credit, session.remote_incoming_window)
        settled = not host.plan.confirmed
        frames: list[bytes] = []
        posted = 0
        for number in range(sender.next, sender.next + max(0, count)):
            body = host.body(sender.about.number, number, now)
            if (
                frames
                and len(body) > self._most - hot_path.ROOM
                and session.remote_incoming_window < len(body) // hot_path.ROOM
            ):
                break
            delivery = session.next_delivery_id
            message = hot_path.data_message(body)
            pieces = hot_path.transfers(link.handle, delivery, message, settled, self._most)
            session.next_delivery_id = (delivery + 1) % WRAP
            session.remote_incoming_window -= len(pieces)
            session.next_outgoing_id = (session.next_outgoing_id + len(pieces)) % WRAP
            frames += pieces
            if not settled:
                self._awaited[delivery] = sender, now
            host.tally.sent_octets += len(body)
            posted += 1
        if not posted:
            return 0
        sender.next += posted
        link.delivery_count = (link.delivery_count + posted) % WRAP
        link.credit -= posted
        host.tally.sent += posted
        host.tally.sent_until = now + host.offset
        sender.waiting += 0 if settled else posted
        self._say(frames, now, hot_path.ROOM + RECORDED_BYTES)
        return posted

    # receiving

    def on_bytes_received(self, at: Instant, data: bytes) -> None:
        if self._pending:
            data = self._pending + data
        frames, self._pending = hot_path.split(data)
        if not frames:
            return
        self._take(frames, at)
        self.pump(at)

    def _heard(self, kept: list[bytes], sizes: list[int], at: Instant) -> None:
        """Record frames before any reaction to them."""
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
                continue  # a protocol header, or a heartbeat
            code, fields_at = hot_path.code_of(frame)
            if code == hot_path.TRANSFER:
                end = self._transfer(frame, fields_at, at, settling, waits)
                if taped:
                    kept[-1] = frame[: end + RECORDED_BYTES]
            elif code == hot_path.DISPOSITION:
                self._disposition(frame, fields_at, at)
            elif code == hot_path.FLOW:
                self._flow(numbers(frame, fields_at, 7))
            else:
                self._heard(kept, sizes, at)
                self._rare(frame, at)
            if self.over:
                return
        self._heard(kept, sizes, at)
        tally = self.host.tally
        if waits:
            tally.delivery.record(waits)
            tally.received_until = at + self.host.offset
        answers = self._dispositions(settling)
        tally.settled += len(settling)
        credit = self.host.plan.window or _CREDIT
        for link in self._links[len(self.senders) :]:
            if link.attached and credit - link.credit >= max(1, credit // 2):
                answers.append(self._grant(link, credit))
        if answers and not self.over:
            self._say(answers, at)

    def _transfer(
        self, frame: bytes, at: int, now: Instant, settling: list[int], waits: list[int]
    ) -> int:
        """Process a transfer whose list begins at ``at``; return where the payload begins."""
        session = self._session
        session.next_incoming_id = ((session.next_incoming_id or 0) + 1) % WRAP
        fields, end = hot_path.transfer_fields(frame, at)
        handle = fields[0]
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
        link = session.by_their_handle.get(handle)
        if link is not None:
            link.delivery_count = (link.delivery_count + 1) % WRAP
            link.credit -= 1
        if fields[4] != 1 and number >= 0:
            settling.append(number)
        return end

    def _dispositions(self, settling: list[int]) -> list[bytes]:
        if not settling:
            return []
        if self.host.plan.ack == "client-individual":
            return [hot_path.accepted(number, number) for number in settling]
        runs: list[list[int]] = []
        for number in settling:
            if runs and number == (runs[-1][1] + 1) % WRAP:
                runs[-1][1] = number
            else:
                runs.append([number, number])
        return [hot_path.accepted(low, high) for low, high in runs]

    def _disposition(self, frame: bytes, at: int, now: Instant) -> None:
        role, first, last, settled = numbers(frame, at, 4)
        if role != 1 or settled != 1:
            return
        tally, accepted = self.host.tally, frame.find(hot_path.ACCEPTED[:3], at) >= 0
        waits = []
        count = 1 if last < 0 else (last - first) % WRAP + 1
        for delivery in range(first, first + max(1, min(count, len(self._awaited) + 1))):
            awaited = self._awaited.pop(delivery % WRAP, None)
            if awaited is None:
                continue
            sender, since = awaited
            sender.waiting -= 1
            waits.append(now - since)
        tally.confirmation.record(waits)
        if accepted:
            tally.confirmed += len(waits)
        else:
            tally.refused += len(waits)

    def _flow(self, fields: list[int]) -> None:
        next_incoming_id, window, _, _, handle, delivery_count, credit = fields
        self._session.on_flow(None if next_incoming_id < 0 else next_incoming_id, window)
        link = self._session.by_their_handle.get(handle)
        if link is not None and link.role is codec.SENDER:
            link.on_flow(None if delivery_count < 0 else delivery_count, max(0, credit))

    def _grant(self, link: Link, credit: int) -> bytes:
        fields = self._endpoint.flow(self._session, link, {"link-credit": credit})
        return performative("flow", fields)

    def _rare(self, data: bytes, now: Instant) -> None:
        frame = next(iter(codec.Reader().feed(data)), None)
        if not isinstance(frame, codec.Frame):
            self.host.tally.errors[f"unknown frame: {data[:40].hex()}"] += 1
            return
        if frame.name in ("open", "begin", "attach", "detach", "end"):
            self._endpoint.on_frame(frame)
        match frame.name:
            case "sasl-outcome":
                if frame.get("code") == 0:
                    self._say(self._opening(), now)
                else:
                    self.failed = f"the broker sent {frame.brief()}"
            case "open":
                self._most = min(frame.get("max-frame-size", 2**20), 2**20)
                idle = frame.get("idle-time-out", 0)
                self.silence = idle * NS_PER_MS // 2
            case "attach":
                self._agreed(frame, now)
            case "detach" | "end" | "close":
                self._goodbye(frame, now)

    def _agreed(self, frame: codec.Frame, now: Instant) -> None:
        link = self._session.by_their_handle.get(frame.get("handle", 0))
        if link is None:
            return
        if frame.fields.get("target" if link.role is codec.SENDER else "source") is None:
            # A detach with the reason will follow.
            self.failed = f"the broker refused to attach {link.name}"
            return
        self._attached += 1
        if link.role is codec.RECEIVER:
            self._say([self._grant(link, self.host.plan.window or _CREDIT)], now)
        self.up = self._attached == len(self._links)

    def _goodbye(self, frame: codec.Frame, now: Instant) -> None:
        if self.leaving and frame.name == "close":
            self.end()
            return
        self.failed = f"the broker sent {frame.brief()[:200]}"
        self.host.tally.errors[self.failed] += 1
        self.host.tally.left += 1
        if frame.name == "close":
            self._say([performative("close", {})], now)
        self.end()

    @property
    def credit(self) -> int:
        return 0 if self.over else sum(link.credit for link in self._links[: len(self.senders)])

    def disconnect(self) -> None:
        self.leaving = True
        self._say([performative("close", {})], self.host.world.now())

    def beat(self, now: Instant) -> None:
        self._say([codec.encode_frame(b"")], now)
