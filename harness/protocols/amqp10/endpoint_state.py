"""The state of the harness's end of an AMQP connection: sessions, links, ids, windows and credit.

:class:`Endpoint` is sans-I/O. Callers pass every frame of the broker to the endpoint, and write
their own frames with the fields that it computes. The raw peer and the load client share this
class; for speed, the load client's transfers bypass the methods and update the same attributes.

The arithmetic is that of part 2, 2.5.6 and 2.6.7, modulo 2**32. Nothing is rejected here: a field
that contradicts the state is recorded as sent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from typing import Any

from brokerproof.harness.protocols.amqp10 import codec, messages, types
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER, Frame
from brokerproof.harness.protocols.amqp10.messages import Message

WRAP = 2**32
WIDE = 2**31 - 1
"""A window that is too large to be used up."""
_BARRIER_CHANNELS, _FIRST_BARRIER = 8, 8
"""The number of channels that take turns in :meth:`Endpoint.spare_channel`, and the lowest of these
channels. They are above the channels that cases name, if the broker allows so many."""


def plus(number: int, step: int) -> int:
    """Serial number arithmetic (RFC 1982, 32 bits)."""
    return (number + step) % WRAP


@dataclass(eq=False)
class Delivery:
    link: "Link"
    id: int
    tag: bytes | None
    settled: bool
    frames: list[Frame] = field(default_factory=list)
    aborted: bool = False

    @property
    def payload(self) -> bytes:
        return b"".join(frame.payload for frame in self.frames)

    @property
    def size(self) -> int:
        return sum(frame.size for frame in self.frames)

    @cached_property
    def message(self) -> Message:
        """The message. Raises :class:`brokerproof.harness.protocols.amqp10.types.Malformed`."""
        return messages.read(self.payload)

    def has_body(self, body: Any) -> bool:
        """Return True if this is a message with that body; False for a malformed message."""
        try:
            return bool(self.message.body == body)
        except types.Malformed:
            return False


class Link:
    """One link of a session. ``delivery_count`` and ``credit`` are our own if we send; if we
    receive, they are our view of the broker's."""

    def __init__(
        self, session: "Session", name: str, handle: int, role: bool, initial: int
    ) -> None:
        self.session = session
        self.name = name
        self.handle = handle
        self.role = role
        self.delivery_count = initial
        self.initial_delivery_count = initial
        self.credit = 0
        """Deliveries that may still be sent, as granted to us (sender) or by us (receiver). The
        number is negative if the credit is overdrawn."""
        self.available: int | None = None
        """Number of messages that the broker reports as available."""
        self.drain = False
        self.their_handle: int | None = None
        self.answer: Frame | None = None
        """The broker's attach."""
        self.detached: Frame | None = None
        """The broker's detach."""
        self.open_delivery: int | None = None
        """The delivery-id of our unfinished delivery."""
        self._arriving: Delivery | None = None

    @property
    def attached(self) -> bool:
        """True if the broker has answered the attach."""
        return self.answer is not None

    @property
    def default_outcome(self) -> Any:
        """The outcome that the broker's attach names for unsettled deliveries, or None."""
        source = None if self.answer is None else self.answer.fields.get("source")
        return codec.fields_of(source).get("default-outcome")

    def is_of(self, frame: Frame) -> bool:
        return (
            frame.channel == self.session.theirs
            and self.their_handle is not None
            and frame.get("handle") == self.their_handle
        )

    def granting(self, fields: Mapping[str, Any]) -> None:
        """Record that we are about to send these flow fields."""
        if self.role is RECEIVER:
            base, credit = _int(fields.get("delivery-count")), _int(fields.get("link-credit"))
            if credit is not None:
                at = self.initial_delivery_count if base is None else base
                self.credit = _signed(plus(at, credit) - self.delivery_count)
            self.drain = bool(_plain(fields.get("drain")))

    def on_frame(self, frame: Frame) -> Delivery | None:
        """Process the broker's frame on this link; return the delivery that the frame completes."""
        match frame.name:
            case "flow":
                self.available = frame.get("available", self.available)
                self.drain = frame.get("drain", False) if self.role is SENDER else self.drain
                self.on_flow(frame.get("delivery-count"), frame.get("link-credit", 0))
            case "detach":
                self.detached = frame
                self.session.theirs_released(self)
            case "transfer":
                return self._transfer(frame)
        return None

    def on_flow(self, delivery_count: int | None, credit: int) -> None:
        """Process the broker's flow state for this link."""
        if self.role is SENDER:
            at = self.initial_delivery_count if delivery_count is None else delivery_count
            self.credit = _signed(plus(at, credit) - self.delivery_count)
        elif delivery_count is not None:
            self.credit -= _signed(delivery_count - self.delivery_count)
            self.delivery_count = delivery_count

    def _transfer(self, frame: Frame) -> Delivery | None:
        arriving = self._arriving
        if arriving is None:
            arriving = Delivery(
                self, frame.get("delivery-id", -1), frame.get("delivery-tag"), False
            )
            self.delivery_count = plus(self.delivery_count, 1)
            self.credit -= 1
        arriving.frames.append(frame)
        arriving.settled = arriving.settled or frame.get("settled", False)
        arriving.aborted = frame.get("aborted", False)
        going_on = frame.get("more", False) and not arriving.aborted
        self._arriving = arriving if going_on else None
        return None if going_on or arriving.aborted else arriving


class Session:
    """One session: what we have sent and counted, and what the broker has sent."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.theirs: int | None = None
        """The channel on which the broker answers."""
        self.answer: Frame | None = None
        """The broker's begin."""
        self.ended: Frame | None = None
        """The broker's end."""
        self.next_outgoing_id = 0
        self.outgoing_window = WIDE
        self.initial_outgoing_id = 0
        self.incoming_window = WIDE
        """Credit that we currently grant; every transfer received uses one."""
        self.next_incoming_id: int | None = None
        self.remote_incoming_window = 0
        """The number of transfers that we may still send, negative if overdrawn."""
        self.remote_outgoing_window = 0
        self.next_delivery_id = 0
        self.outcomes: dict[int, Frame | None] = {}
        """Dispositions that settled our deliveries, by delivery-id; None while unsettled."""
        self.links: dict[int, Link] = {}
        """Links by our handle."""
        self.by_their_handle: dict[int, Link] = {}

    def beginning(self, fields: Mapping[str, Any]) -> None:
        self.next_outgoing_id = self.initial_outgoing_id = _int(fields.get("next-outgoing-id")) or 0
        self.next_delivery_id = self.next_outgoing_id
        self.granting(fields)

    def granting(self, fields: Mapping[str, Any]) -> None:
        """Record that we are about to send these windows."""
        window, outgoing = _int(fields.get("incoming-window")), _int(fields.get("outgoing-window"))
        self.incoming_window = self.incoming_window if window is None else window
        self.outgoing_window = self.outgoing_window if outgoing is None else outgoing

    def begun(self, frame: Frame) -> None:
        self.answer, self.theirs = frame, frame.channel
        self.next_incoming_id = frame.get("next-outgoing-id")
        self.remote_outgoing_window = frame.get("outgoing-window", 0)
        self.on_flow(None, frame.get("incoming-window", 0))

    def on_frame(self, frame: Frame) -> Delivery | None:
        """Process a frame of the broker on this session; return the delivery that it completes."""
        match frame.name:
            case "end":
                self.ended = frame
                return None
            case "attach":
                self._attached(frame)
                return None
            case "disposition":
                self._settled(frame)
                return None
            case "flow":
                self.on_flow(frame.get("next-incoming-id"), frame.get("incoming-window", 0))
                self.next_incoming_id = frame.get("next-outgoing-id", self.next_incoming_id)
                self.remote_outgoing_window = frame.get(
                    "outgoing-window", self.remote_outgoing_window
                )
            case "transfer":
                self.next_incoming_id = plus(self.next_incoming_id or 0, 1)
                self.incoming_window = max(0, self.incoming_window - 1)
                self.remote_outgoing_window -= 1
        link = self.by_their_handle.get(frame.get("handle", -1))
        return None if link is None else link.on_frame(frame)

    def on_flow(self, next_incoming_id: int | None, incoming_window: int) -> None:
        """Apply the broker's incoming window, which limits what we may send."""
        at = self.initial_outgoing_id if next_incoming_id is None else next_incoming_id
        self.remote_incoming_window = incoming_window - _signed(self.next_outgoing_id - at)

    def _settled(self, frame: Frame) -> None:
        if frame.get("role") is not RECEIVER or frame.get("settled") is not True:
            return
        first = frame.get("first", 0)
        span = (frame.get("last", first) - first) % WRAP
        if span < len(self.outcomes):
            covered = [(first + step) % WRAP for step in range(span + 1)]
        else:
            covered = [id for id in self.outcomes if (id - first) % WRAP <= span]
        for delivery in covered:
            if self.outcomes.get(delivery, frame) is None:
                self.outcomes[delivery] = frame

    # links

    def free_handle(self, first: int = 0) -> int:
        """Return the lowest handle that we are not using, from ``first`` on if the broker permits
        a hundred more."""
        most = WRAP - 1 if self.answer is None else int(self.answer.get("handle-max", WRAP - 1))
        start = first if first + 100 <= most else 0
        return next(handle for handle in range(start, WRAP) if handle not in self.links)

    def attaching(self, fields: Mapping[str, Any]) -> Link:
        initial = _int(fields.get("initial-delivery-count")) or 0
        handle = _int(fields.get("handle")) or 0
        link = Link(
            self, str(_plain(fields.get("name"))), handle, bool(_plain(fields.get("role"))), initial
        )
        self.links[handle] = link
        return link

    def answer_attach(self, attach: Frame, given: Mapping[str, Any]) -> dict[str, Any]:
        """Attach our end of a link that the peer attached; return the fields of the answer."""
        kept = ("name", "source", "target", "snd-settle-mode", "rcv-settle-mode")
        fields: dict[str, Any] = {
            **{name: attach.fields.get(name) for name in kept},
            "handle": self.free_handle(),
            "role": not attach["role"],
            "initial-delivery-count": 0 if attach["role"] is RECEIVER else None,
            **given,
        }
        self.attaching(fields)
        self._attached(attach)
        return fields

    def _attached(self, frame: Frame) -> None:
        name, role = frame.get("name"), frame.get("role")
        for link in self.links.values():
            if link.name == name and link.role is not role and not link.attached:
                link.answer, link.their_handle = frame, frame.get("handle", -1)
                if link.role is RECEIVER:
                    link.delivery_count = link.initial_delivery_count = frame.get(
                        "initial-delivery-count", 0
                    )
                self.by_their_handle[frame.get("handle", -1)] = link

    def released(self, link: Link) -> None:
        """Record that we sent a detach: the handle is free again."""
        if self.links.get(link.handle) is link:
            del self.links[link.handle]

    def theirs_released(self, link: Link) -> None:
        """Record that the broker sent a detach."""
        if link.their_handle is not None:
            self.by_their_handle.pop(link.their_handle, None)

    def sending(self, link: Link, fields: Mapping[str, Any], *, first: bool) -> int:
        """Record that we are about to send these transfer fields; return the delivery-id."""
        delivery = _int(fields.get("delivery-id")) if first else link.open_delivery
        delivery = self.next_delivery_id if delivery is None else delivery
        self.next_outgoing_id = plus(self.next_outgoing_id, 1)
        self.remote_incoming_window -= 1
        if first:
            self.next_delivery_id = plus(delivery, 1)
            self.outcomes[delivery] = None
            link.delivery_count = plus(link.delivery_count, 1)
            link.credit -= 1
        going_on = bool(_plain(fields.get("more"))) and not _plain(fields.get("aborted"))
        link.open_delivery = delivery if going_on else None
        return delivery


class Endpoint:
    def __init__(self) -> None:
        self.opened: Frame | None = None
        """The broker's open."""
        self.sessions: dict[int, Session] = {}
        """Sessions by our channel."""
        self.deliveries: list[Delivery] = []
        """Complete deliveries that no caller has taken, oldest first."""
        self._by_their_channel: dict[int, Session] = {}
        self._barriers = count()

    def on_frame(self, frame: Frame) -> None:
        if frame.name == "open":
            self.opened = frame
        elif frame.name == "begin":
            session = self.sessions.get(frame.get("remote-channel"))
            if session is not None:
                self._by_their_channel[frame.channel] = session
                session.begun(frame)
        elif (session := self._by_their_channel.get(frame.channel)) is not None:
            delivery = session.on_frame(frame)
            if delivery is not None:
                self.deliveries.append(delivery)
            if frame.name == "end":
                del self._by_their_channel[frame.channel]

    def spare_channel(self) -> int | None:
        """Return a channel without a session, for a session that is begun and ended immediately;
        None if channel-max leaves none. It is never the previous channel, because RabbitMQ drops
        frames on a channel whose last session has just ended: a begin before 4.1.4, an end in
        3.10."""
        highest = 65535 if self.opened is None else int(self.opened.get("channel-max", 65535))
        free = max(self.sessions, default=-1) + 1
        if free > highest:
            return None
        first = max(free, min(_FIRST_BARRIER, highest + 1 - _BARRIER_CHANNELS))
        return first + next(self._barriers) % min(_BARRIER_CHANNELS, highest - first + 1)

    @property
    def max_frame_size(self) -> int:
        """The broker's max-frame-size; the smallest permitted until the broker's open arrives."""
        return 512 if self.opened is None else int(self.opened.get("max-frame-size", WRAP - 1))

    @property
    def most_payload(self) -> int:
        """Payload bytes that fit into one transfer, with 64 bytes reserved for the performative."""
        return min(self.max_frame_size, 2**20) - 64 - 8

    # fields of frames that we are about to send: according to the state, unless given otherwise

    def begin(self, channel: int, given: Mapping[str, Any]) -> tuple[Session, dict[str, Any]]:
        """Begin a session; return it and the fields of the begin."""
        session = self.sessions[channel] = Session(channel)
        fields = {
            "next-outgoing-id": session.next_outgoing_id,
            "incoming-window": session.incoming_window,
            "outgoing-window": session.outgoing_window,
            **given,
        }
        session.beginning(fields)
        return session, fields

    def answer_begin(
        self, begin: Frame, given: Mapping[str, Any]
    ) -> tuple[Session, dict[str, Any]]:
        """Answer a session that the peer began; return our session and the fields of the answer."""
        channel = next(number for number in range(WRAP) if number not in self.sessions)
        session, fields = self.begin(channel, {"remote-channel": begin.channel, **given})
        self._by_their_channel[begin.channel] = session
        session.begun(begin)
        return session, fields

    def session_of(self, frame: Frame) -> Session | None:
        """Return the session to which a frame from the peer belongs. An end still belongs to the
        session that it ended."""
        session = self._by_their_channel.get(frame.channel)
        ending = (one for one in self.sessions.values() if one.ended is frame)
        return session or next(ending, None)

    def flow(self, session: Session, link: Link | None, given: Mapping[str, Any]) -> dict[str, Any]:
        fields: dict[str, Any] = {
            "next-incoming-id": session.next_incoming_id,
            "incoming-window": session.incoming_window,
            "next-outgoing-id": session.next_outgoing_id,
            "outgoing-window": session.outgoing_window,
        }
        if link is not None:
            fields |= {
                "handle": link.handle,
                "delivery-count": link.delivery_count,
                "link-credit": link.credit,
            }
            if link.role is RECEIVER and not link.attached:
                del fields["delivery-count"]
        fields |= given
        session.granting(fields)
        if link is not None:
            link.granting(fields)
        return fields

    def transfer(self, link: Link, given: Mapping[str, Any]) -> tuple[int, dict[str, Any]]:
        """Return the delivery-id and the fields of the next transfer of ``link``."""
        session = link.session
        first = link.open_delivery is None
        fields: dict[str, Any] = {"handle": link.handle}
        if first:
            fields |= {
                "delivery-id": session.next_delivery_id,
                "delivery-tag": b"%d-%d" % (link.handle, session.next_delivery_id),
                "message-format": 0,
            }
        fields |= given
        return session.sending(link, fields, first=first), fields

    def take_deliveries(self, link: Link | None) -> list[Delivery]:
        """Return and remove every complete delivery (of ``link``, if given), in order."""
        taken: list[Delivery] = []
        others: list[Delivery] = []
        for delivery in self.deliveries:
            (taken if link in (None, delivery.link) else others).append(delivery)
        self.deliveries = others
        return taken


def _plain(value: Any) -> Any:
    if isinstance(value, (types.Value, types.Described, types.Array, types.Raw)):
        return types.plain(value)
    return value


def _int(value: Any) -> int | None:
    plain = _plain(value)
    return plain if isinstance(plain, int) else None


def _signed(number: int) -> int:
    """Return the difference of two serial numbers: positive if ahead, negative if behind."""
    number %= WRAP
    return number - WRAP if number >= WRAP // 2 else number
