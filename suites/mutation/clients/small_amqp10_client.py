"""A small AMQP 1.0 client without sockets or a clock. It does only what the specification requires.
Each fault replaces one of its habits."""

from typing import Any

from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER, Empty, Frame, Unreadable
from brokerproof.harness.protocols.amqp10.endpoint_state import (
    Delivery,
    Endpoint,
    Link,
    Session,
    plus,
)
from brokerproof.harness.protocols.amqp10.messages import message
from brokerproof.suites.mutation.clients.sans_io import Refused, SansIoClient

FRAMING, SILENT = "amqp:connection:framing-error", "amqp:resource-limit-exceeded"


class SmallAmqp10Client(SansIoClient):
    """AMQP 1.0 with one session."""

    first_header = 3

    def __init__(self) -> None:
        super().__init__()
        self.reader, self.endpoint = codec.Reader(), Endpoint()
        self.links: dict[str, Link] = {}
        self.modes: dict[str, str] = {}
        self.windows: dict[str, int] = {}
        self.held: list[tuple[Link, list[bytes], int]] = []
        self.posted = 0
        self.sent: dict[int, int] = {}
        """The number of each unsettled message by its delivery-id."""

    @property
    def session(self) -> Session:
        return self.endpoint.sessions[0]

    # the driver's side

    def do_sender(self, link: str, address: str, mode: str) -> None:
        self.modes[link] = mode
        self.attach(link, SENDER, address, {"snd-settle-mode": int(mode == "settled")})

    def do_receiver(self, link: str, address: str, credit: int) -> None:
        self.windows[link] = credit
        self.attach(link, RECEIVER, address, {})

    def attach(self, name: str, role: bool, address: str, more: dict[str, Any]) -> None:
        at = "source" if role is RECEIVER else "target"
        fields = {
            "name": name,
            "handle": self.free_handle(),
            "role": role,
            "source": codec.composite("source"),
            "target": codec.composite("target"),
            at: codec.composite(at, {"address": address}),
            "initial-delivery-count": None if role is RECEIVER else 0,
            **more,
        }
        self.links[name] = self.session.attaching(fields)
        self.send("attach", fields)

    def free_handle(self) -> int:
        handle, begun = self.session.free_handle(), self.session.answer
        if begun is not None and handle > begun.get("handle-max", handle):
            raise Refused("no handle is free")
        return handle

    def do_send(self, link: str, body: str | bytes) -> None:
        payload = message(body.encode() if isinstance(body, str) else body)
        most = self.most_payload()
        pieces = [payload[at : at + most] for at in range(0, len(payload), most)]
        self.posted += 1
        self.held.append((self.links[link], pieces, self.posted))
        self.pump()

    def most_payload(self) -> int:
        return self.endpoint.most_payload

    def may_send(self, link: Link) -> bool:
        has_credit = link.credit > 0 or link.open_delivery is not None
        return has_credit and self.session.remote_incoming_window > 0

    def pump(self) -> None:
        while self.held and self.may_send(self.held[0][0]):
            link, pieces, number = self.held[0]
            piece = pieces.pop(0)
            settled = self.modes[link.name] == "settled"
            given = {"more": bool(pieces) or None, "settled": settled or None}
            delivery, fields = self.endpoint.transfer(link, given)
            self.send("transfer", self.transfer_fields(fields), piece)
            if not pieces:
                self.held.pop(0)
            if not settled:
                self.sent[delivery] = number

    def transfer_fields(self, fields: dict[str, Any]) -> dict[str, Any]:
        return fields

    def do_settle(self, message: int, outcome: str) -> None:
        delivery = self.received[message - 1]
        self.send("disposition", self.disposition(delivery, outcome))
        self.grant(delivery.link)

    def disposition(self, delivery: Delivery, outcome: str) -> dict[str, Any]:
        state = codec.composite(outcome)
        return {"role": RECEIVER, "first": delivery.id, "settled": True, "state": state}

    def do_disconnect(self) -> None:
        self.refuse(None)

    # the wire's side

    def dialled(self) -> None:
        self.write(self.header(self.first_header))

    def header(self, id: int) -> bytes:
        return codec.protocol_header(id)

    def send(
        self,
        name: str,
        fields: dict[str, Any] | None = None,
        payload: bytes = b"",
        channel: int = 0,
    ) -> None:
        body = types.encode(codec.composite(name, fields)) + payload
        kind = codec.SASL_FRAME if name.startswith("sasl-") else codec.AMQP_FRAME
        self.write(codec.encode_frame(body, channel=channel, type=kind))

    def beat(self) -> None:
        self.write(codec.encode_frame(b""))

    def refuse(self, condition: str | None) -> None:
        """Close the connection and accept nothing more."""
        self.send("close", {"error": condition})
        self.leaving = True

    def give_up(self) -> None:
        self.refuse(SILENT)
        self.end()

    def receive(self, data: bytes) -> None:
        self.heard(data)
        for item in self.reader.feed(data):
            if self.wire is None or (self.leaving and getattr(item, "name", "") != "close"):
                continue
            if isinstance(item, Unreadable):
                self.unreadable()
            elif not isinstance(item, Empty):
                self.take(item)

    def unreadable(self) -> None:
        self.refuse(FRAMING)

    def is_too_large(self, frame: Frame) -> bool:
        return 0 < self.connecting["max_frame"] < frame.size

    def take(self, frame: Frame) -> None:
        if self.is_too_large(frame):
            self.refuse(FRAMING)
            return
        self.endpoint.on_frame(frame)
        match frame.name:
            case "protocol-header" if frame["id"] == 0:
                self.open()
            case "sasl-mechanisms":
                self.send("sasl-init", {"mechanism": self.mechanism()})
            case "sasl-outcome":
                self.write(self.header(0))
            case "open":
                self.sends_every = ms(frame.get("idle-time-out", 0)) // 2
                self.send("begin", self.endpoint.begin(0, {})[1])
            case "begin":
                self.connected = True
                self.report("connected")
            case "attach":
                self.report("link-open", link=frame["name"])
                self.grant(self.links[frame["name"]])
            case "flow":
                self.take_flow(frame)
            case "disposition":
                self.take_outcomes(frame)
            case "transfer":
                for delivery in self.endpoint.take_deliveries(None):
                    self.hand_out(delivery, delivery.message.body)
            case "detach":
                self.give_up_link(frame)
            case "close":
                if not self.leaving:
                    self.send("close")
                self.end()
            case _:
                pass

    def mechanism(self) -> str:
        return "ANONYMOUS"

    def open(self) -> None:
        idle, size = self.connecting["idle_ms"], self.connecting["max_frame"]
        self.awaits_every = ms(idle)
        limits = {"idle-time-out": idle or None, "max-frame-size": size or None}
        self.send("open", {"container-id": "small", **limits})

    def take_flow(self, flow: Frame) -> None:
        link = self.session.by_their_handle.get(flow.get("handle", -1))
        if link is None and flow.get("handle") is not None:
            self.unattached()
            return
        self.pump()
        if link is not None and link.role is SENDER and link.drain and link.credit > 0:
            self.drained(link)
        elif flow.get("echo"):
            self.echo(link)

    def unattached(self) -> None:
        self.send("end", {"error": "amqp:session:unattached-handle"})

    def drained(self, link: Link) -> None:
        link.delivery_count = plus(link.delivery_count, link.credit)
        link.credit = 0
        self.tell(link)

    def echo(self, link: Link | None) -> None:
        self.tell(link)

    def tell(self, link: Link | None, **given: Any) -> None:
        fields = {name.replace("_", "-"): value for name, value in given.items()}
        self.send("flow", self.endpoint.flow(self.session, link, fields))

    def grant(self, link: Link) -> None:
        """Reopen a receiver's window."""
        window = self.windows.get(link.name, 0)
        if link.credit < window:
            self.tell(link, link_credit=window)

    def take_outcomes(self, disposition: Frame) -> None:
        for delivery, number in list(self.sent.items()):
            settled = self.session.outcomes.get(delivery)
            if settled is not None:
                del self.sent[delivery]
                self.report("settled", number=number, outcome=settled.kind("state"))

    def give_up_link(self, detach: Frame) -> None:
        link = next(one for one in self.links.values() if one.detached is detach)
        self.send("detach", {"handle": link.handle, "closed": True})
        self.session.released(link)
        self.report("link-closed", link=link.name)

    def headers_of(self, about: Delivery) -> dict[str, str]:
        return {"link": about.link.name}


class Eager(SmallAmqp10Client):
    """An honest client that logs in without SASL, opens immediately, grants credit before the
    server attaches, and writes small frames."""

    first_header = 0

    def dialled(self) -> None:
        super().dialled()
        self.open()

    def take(self, frame: Frame) -> None:
        if frame.name != "protocol-header":
            super().take(frame)

    def do_receiver(self, link: str, address: str, credit: int) -> None:
        super().do_receiver(link, address, credit)
        self.grant(self.links[link])

    def most_payload(self) -> int:
        return 100


STYLES = {"amqp10-small": SmallAmqp10Client, "amqp10-eager": Eager}
