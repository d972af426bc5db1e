"""A small AMQP 0-9-1 client without sockets or a clock. It does only what the specification
requires. Each fault replaces one of its habits."""

from typing import Any

from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.harness.protocols.amqp091.codec import Contents, Frame, Method, Reader, Unreadable
from brokerproof.harness.protocols.amqp091.raw_peer import CAPABILITIES
from brokerproof.suites.mutation.clients.sans_io import Refused, SansIoClient

CLOSE = {"reply-code": 200, "reply-text": "done"}


class SmallAmqp091Client(SansIoClient):
    """AMQP 0-9-1 with RabbitMQ's extensions."""

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.contents = Reader(), Contents()
        self.is_blocked = False
        self.limits: dict[str, int] = {}
        self.numbers: dict[int, int] = {}
        """The numbers of the application's channels."""
        self.closing: set[int] = set()
        self.paused: set[int] = set()
        self.held: list[tuple[int, str, bytes]] = []
        self.queues: dict[str, str] = {}
        """The queue of each consumer tag."""

    # the driver's side

    def dialled(self) -> None:
        self.write(self.protocol_header())

    def protocol_header(self) -> bytes:
        return codec.protocol_header()

    def free_number(self) -> int:
        used = set(self.numbers.values())
        most = self.limits["channel-max"] or 65535
        free = next((number for number in range(1, most + 1) if number not in used), None)
        if free is None:
            raise Refused("no channel is free")
        return free

    def do_channel(self, channel: int) -> None:
        self.numbers[channel] = self.free_number()
        self.send("channel.open", channel=self.numbers[channel])

    def do_consume(self, channel: int, queue: str, no_ack: bool) -> None:
        tag = f"c{len(self.queues)}"
        self.queues[tag] = queue
        fields = {"queue": queue, "consumer-tag": tag, "no-ack": no_ack}
        self.send("basic.consume", fields, self.numbers[channel])

    def do_publish(self, channel: int, queue: str, body: str | bytes) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.held.append((self.numbers[channel], queue, data))
        self.publish_held()

    def publish_held(self) -> None:
        waiting, self.held = self.held, []
        for number, queue, body in waiting:
            if number in self.paused:
                self.held.append((number, queue, body))
                continue
            self.send("basic.publish", {"routing-key": queue}, number)
            self.write(self.content(number, body))

    def content(self, number: int, body: bytes) -> bytes:
        return codec.encode_content(number, body, {}, frame_max=self.limits["frame-max"])

    def do_ack(self, message: int) -> None:
        self.ack(self.received[message - 1])

    def ack(self, message: Method) -> None:
        self.send("basic.ack", {"delivery-tag": message["delivery-tag"]}, message.channel)

    def do_confirm(self, channel: int) -> None:
        self.send("confirm.select", channel=self.numbers[channel])

    def do_close_channel(self, channel: int) -> None:
        self.closing.add(self.numbers[channel])
        self.send("channel.close", CLOSE, self.numbers[channel])

    def do_disconnect(self) -> None:
        self.refuse(200)

    # the wire's side

    def send(self, name: str, fields: dict[str, Any] | None = None, channel: int = 0) -> None:
        self.write(codec.encode_frame(codec.METHOD, channel, codec.encode_method(name, fields)))

    def beat(self) -> None:
        self.write(codec.encode_frame(codec.HEARTBEAT, 0))

    def refuse(self, code: int) -> None:
        self.leaving = True
        self.send("connection.close", {"reply-code": code, "reply-text": "x"})

    def receive(self, data: bytes) -> None:
        self.heard(data)
        for item in self.reader.feed(data):
            if self.wire is None:
                return
            if isinstance(item, Unreadable):
                self.unreadable(item)
            elif (code := self.fault_in(item)) and not self.leaving:
                self.refuse(code)
            elif item.type != codec.HEARTBEAT:
                self.take_whole(item)

    def unreadable(self, item: Unreadable) -> None:
        if item.lost:
            self.end()
        else:
            self.refuse(502)

    def fault_in(self, frame: Frame) -> int:
        """Return the reply code that a frame on its own requires; 0 if it requires none."""
        most = self.limits.get("frame-max", 0)
        if (most and frame.size > most) or (frame.type == codec.HEARTBEAT and frame.channel):
            return 501
        if frame.type in (codec.HEADER, codec.BODY) and not frame.channel:
            return 504
        if frame.name.startswith("connection.") and frame.channel:
            return 503
        other = frame.type == codec.HEADER and frame.fields["class-id"] != codec.BASIC
        return 501 if other else 0

    def take_whole(self, frame: Frame) -> None:
        for method in self.contents.feed(frame):
            if self.leaving and method.name not in ("connection.close", "connection.close-ok"):
                continue
            if not method.complete or method.name in (codec.CONTENT_HEADER, codec.CONTENT_BODY):
                self.refuse(505)
            elif self.listens(method):
                self.take(method)

    def listens(self, method: Method) -> bool:
        closed = method.channel in self.closing
        return not closed or method.name in ("channel.close", "channel.close-ok")

    def take(self, method: Method) -> None:
        name, _, what = method.name.partition(".")
        own = next((own for own, at in self.numbers.items() if at == method.channel), 0)
        match name, what:
            case "connection", _:
                self.take_connection(what, method)
            case "channel", "open-ok":
                self.report("channel-open", channel=own)
            case "channel", "close" | "close-ok":
                self.channel_ends(what, own, method.channel)
            case "channel", "flow":
                self.flow(method.channel, method["active"])
            case "basic", "cancel":
                self.report("cancelled", queue=self.queues[method["consumer-tag"]])
            case "basic", "deliver":
                self.hand_out(method, method.body)
            case "basic", "ack" | "nack":
                self.confirmed(method["delivery-tag"], method["multiple"], what == "ack")
            case _:
                pass

    def take_connection(self, what: str, method: Method) -> None:
        match what:
            case "start":
                self.send("connection.start-ok", self.start_ok())
            case "tune":
                self.limits = self.agree({name: method[name] for name in method.fields})
                self.send("connection.tune-ok", self.limits)
                self.send("connection.open", {"virtual-host": self.connecting["vhost"]})
            case "open-ok":
                self.connected = True
                self.report("connected")
            case "close":
                self.send("connection.close-ok")
                self.end()
            case "close-ok":
                self.end()
            case "blocked" | "unblocked":
                self.is_blocked = what == "blocked"
                self.report(what)
            case _:
                pass

    def agree(self, proposed: dict[str, int]) -> dict[str, int]:
        wanted = self.connecting["heartbeat"]
        self.sends_every, self.awaits_every = seconds(wanted) // 2, seconds(wanted)
        return {**proposed, "heartbeat": wanted}

    def start_ok(self) -> dict[str, Any]:
        names = ("product", "version", "platform", "information")
        properties = {**dict.fromkeys(names, "small"), "capabilities": dict(CAPABILITIES)}
        secret = f"\0{self.connecting['login']}\0{self.connecting['passcode']}".encode()
        fields = {"mechanism": "PLAIN", "response": secret, "locale": "en_US"}
        return {**fields, "client-properties": properties}

    def channel_ends(self, what: str, own: int, number: int) -> None:
        if what == "close":
            self.send("channel.close-ok", channel=number)
        self.closing.discard(number)
        self.numbers.pop(own, None)
        self.report("channel-closed", channel=own)

    def flow(self, number: int, active: bool) -> None:
        self.paused = self.paused - {number} if active else self.paused | {number}
        self.send("channel.flow-ok", {"active": active}, number)
        self.publish_held()

    def confirmed(self, number: int, multiple: bool, ok: bool) -> None:
        self.report("confirmed", number=number, multiple=multiple, ok=ok)

    def headers_of(self, about: Method) -> dict[str, str]:
        return {"queue": self.queues[about["consumer-tag"]]}


class Reserved(SmallAmqp091Client):
    """An honest client that numbers channels from the highest down, asks for less than it may,
    writes small bodies, and waits for the server twice as long as usual."""

    patience = 4

    def free_number(self) -> int:
        used = self.numbers.values()
        free = (number for number in range(self.limits["channel-max"], 0, -1) if number not in used)
        return next(free, None) or super().free_number()

    def agree(self, proposed: dict[str, int]) -> dict[str, int]:
        agreed = super().agree(proposed)
        return {**agreed, "channel-max": min(agreed["channel-max"] or 9, 9), "frame-max": 4096}

    def content(self, number: int, body: bytes) -> bytes:
        return codec.encode_content(number, body, {"priority": 4}, frame_max=1000)


STYLES = {"amqp-small": SmallAmqp091Client, "amqp-reserved": Reserved}
