"""The server end of an AMQP 1.0 connection, for judging clients. It answers every request that a
case does not answer itself."""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.amqp10.codec import Frame
from brokerproof.harness.protocols.amqp10.endpoint_state import Link, Session
from brokerproof.harness.protocols.amqp10.messages import message
from brokerproof.harness.protocols.amqp10.raw_peer import HEADER, SASL_ID, AmqpPeer, frame
from brokerproof.harness.protocols.amqp10.trace_recorder import UNREADABLE
from brokerproof.harness.protocols.conversation import Judge, Requirements
from brokerproof.harness.protocols.scripted import Scripted

MECHANISMS = ("ANONYMOUS", "PLAIN")
ANSWERED = frozenset(
    {HEADER, "sasl-init", "open", "begin", "attach", "transfer", "detach", "end", "close"}
)


class Amqp10Server(Scripted[Frame], AmqpPeer):
    """One connection that a client opened. As with any raw peer, what it sends is not checked."""

    protocol = "AMQP.CLIENT"

    def __init__(self, judge: Judge, conn: int, offered: Mapping[str, Mapping[str, Any]]) -> None:
        super().__init__(judge, conn, "client")
        self.offered = offered
        """Fields to add to our open, begin and attach."""
        self.frames: list[Frame] = []
        """Every received frame, in order, whether consumed or not."""
        self.withheld: set[str] = set()
        """Frames that the case itself answers or leaves unanswered."""

        self.closing: Instant | None = None
        """When the client's close arrived or, without a close, when its connection ended."""

    def decode(self, at: Instant, data: bytes) -> None:
        for item in self._recorder.on_bytes_received(at, data):
            self.inbox.append(item)
            self.frames.append(item)
            self.endpoint.on_frame(item)
            if item.name == "close":
                self.closing = at
            if item.name in ANSWERED - self.withheld:
                self.answer(item)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        super().channel_closed(at, how)
        self.closing = self.closing or at

    def named(self, name: str) -> list[Frame]:
        return [frame for frame in self.frames if frame.name == name]

    @property
    def closing_condition(self) -> str | None:
        """The error of the client's close, if it sent one."""
        return next((close.condition for close in self.named("close")), None)

    def fatal(self, frame: Frame) -> bool:
        return frame.name == UNREADABLE

    def answer(self, asked: Frame) -> None:
        session = self.endpoint.session_of(asked)
        match asked.name:
            case "protocol-header":
                self.header(asked["id"])
                if asked["id"] == SASL_ID:
                    self.send("sasl-mechanisms", {"sasl-server-mechanisms": MECHANISMS})
            case "sasl-init":
                self.send("sasl-outcome", {"code": 0})
            case "open":
                self.send("open", {"container-id": self.container, **self.offered["open"]})
            case "begin":
                begun, fields = self.endpoint.answer_begin(asked, self.offered["begin"])
                self.send("begin", fields, channel=begun.channel)
            case "close":
                self.send("close")
            case _ if session is not None:
                self._answer_within(session, asked)

    def _answer_within(self, session: Session, asked: Frame) -> None:
        link = self.link_of(asked)
        if asked.name == "end":
            self.send("end", channel=session.channel)
        elif asked.name == "attach":
            fields = session.answer_attach(asked, self.offered["attach"])
            self.send("attach", fields, channel=session.channel)
        elif link is not None and asked.name == "transfer":
            for arrived in self.deliveries:
                if arrived.frames[-1] is asked and not arrived.settled:
                    self.disposition(arrived)
        elif link is not None and asked.get("closed"):
            self.detach(link, answered=False)

    def link_of(self, frame: Frame) -> Link | None:
        """Return the link of a client's frame, even if a session's end has detached it."""
        session = self.endpoint.session_of(frame)
        if session is None:
            return None
        links = [*session.links.values(), *session.by_their_handle.values()]
        return next((link for link in links if link.is_of(frame)), None)

    def received(self, name: str, *, proves: Requirements | None = None, **fields: Any) -> Frame:
        """Return the next frame of that name; it may have been answered already."""
        return self.expect(frame(name, **fields), proves=proves)

    def deliver(
        self, link: Link, body: bytes = b"m", size: int | None = None, **fields: Any
    ) -> int:
        """Send a message, in transfers of ``size`` bytes if given; return its delivery-id."""
        payload = message(body)
        step = size or len(payload)
        starts = range(0, len(payload), step)
        for start in starts:
            more = start + step < len(payload) or None
            number = self.transfer(link, payload[start : start + step], more=more, **fields)
        return number

    def deliver_if_open(self, link: Link) -> None:
        if self.ended is None:
            self.deliver(link)
