"""The context of the events of one AMQP connection: session, link and delivery. Nothing is judged
here.

:class:`Side` distinguishes both sides: OURS sent what the trace marks as sent, and BROKER sent what
it marks as received. An oracle judges one side. The trace has the harness's order, so the broker's
frames may have crossed ours: see :class:`Granted`.
"""

import enum
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from brokerproof.harness.model.time import Instant
from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.trace.events import (
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
)

WRAP = 2**32
MOST = WRAP // 2 - 1
"""The furthest that one serial number can be ahead of another; a larger credit or window is reduced
to this."""
EMPTY = "empty"
"""The name of a frame without a body."""


class Side(enum.Enum):
    OURS = enum.auto()
    BROKER = enum.auto()

    @property
    def other(self) -> "Side":
        return Side.BROKER if self is Side.OURS else Side.OURS


def ahead(number: int, of: int) -> int:
    """Return how far ``number`` is ahead of ``of`` in serial number arithmetic (RFC 1982); negative
    if behind."""
    difference = (number - of) % WRAP
    return difference - WRAP if difference >= WRAP // 2 else difference


@dataclass(frozen=True, slots=True)
class WireFrame:
    """One frame of the trace, with its fields as text."""

    at: Instant
    side: Side
    name: str
    fields: Mapping[str, str] = field(default_factory=dict)
    size: int = 0

    @property
    def channel(self) -> int:
        return int(self.fields.get("channel", 0))

    def number(self, name: str) -> int | None:
        """Return a numeric field; None if absent."""
        value = self.fields.get(name)
        return None if value is None else whole_number(value)

    def flag(self, name: str) -> bool:
        """Return a boolean field; False if absent."""
        return self.fields.get(name) == "true"


class ConnectionEvents(list[Event]):
    """The events of one connection for several oracles, which share the frames, so that these are
    read and placed only once.

    Measured: this cut the time of six oracles on one connection to a third.
    """

    @cached_property
    def frames(self) -> list[WireFrame]:
        return list(_frames(self, self[0].conn)) if self else []

    @cached_property
    def placed(self) -> "list[Placed]":
        return list(Places().place(self.frames))


def frames(events: Iterable[Event], conn: int) -> Iterable[WireFrame]:
    """Return the frames of connection ``conn`` from both sides in the trace's order; frames without
    a body are named ``empty``."""
    return events.frames if isinstance(events, ConnectionEvents) else _frames(events, conn)


def _frames(events: Iterable[Event], conn: int | None) -> Iterator[WireFrame]:
    for event in events:
        if event.conn != conn:
            continue
        match event:
            case FrameSent(command=name, headers=headers, size=size):
                yield WireFrame(event.at_ns, Side.OURS, name, dict(headers), size)
            case FrameReceived(command=name, headers=headers, size=size):
                yield WireFrame(event.at_ns, Side.BROKER, name, dict(headers), size)
            case HeartBeatSent(size=size):
                yield WireFrame(event.at_ns, Side.OURS, EMPTY, {}, size)
            case HeartBeatReceived(size=size):
                yield WireFrame(event.at_ns, Side.BROKER, EMPTY, {}, size)


@dataclass(eq=False)
class Link:
    """One link, from the first attach with its name; facts are kept by side."""

    session: "Session"
    name: str
    sender: Side
    """The side that sends messages on the link."""
    handles: dict[Side, int] = field(default_factory=dict)
    attached: dict[Side, WireFrame] = field(default_factory=dict)
    detached: dict[Side, WireFrame] = field(default_factory=dict)

    @property
    def initial_delivery_count(self) -> int:
        """The sender's initial-delivery-count; 0 if its attach was not seen."""
        attach = self.attached.get(self.sender)
        return 0 if attach is None else attach.number("initial-delivery-count") or 0


@dataclass(eq=False)
class Session:
    """One session; facts are kept by side."""

    channels: dict[Side, int] = field(default_factory=dict)
    begun: dict[Side, WireFrame] = field(default_factory=dict)
    ended: dict[Side, WireFrame] = field(default_factory=dict)
    links: list[Link] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Placed:
    """A frame with its session and link, if any.

    ``answers``: the position of the other side's begin, attach, detach, end or open that this frame
    answers. Everything that the other side sent earlier in this session has then been read.
    """

    position: int
    frame: WireFrame
    session: Session | None = None
    link: Link | None = None
    answers: int | None = None


class Places:
    """Follows begin, attach, detach and end to find each frame's session and link."""

    def __init__(self) -> None:
        self.sessions: list[Session] = []
        self._by_channel: dict[tuple[Side, int], Session] = {}
        self._by_handle: dict[tuple[Side, Session, int], Link] = {}
        self._asked: dict[tuple[Side, str, object], int] = {}

    def place(self, seen: Iterable[WireFrame]) -> Iterator[Placed]:
        for position, frame in enumerate(seen):
            yield self._one(position, frame)

    def _one(self, position: int, frame: WireFrame) -> Placed:
        if frame.name == "begin":
            return self._begin(position, frame)
        session = self._by_channel.get((frame.side, frame.channel))
        answers = None
        link = None
        if session is None:
            if frame.name in ("open", "close"):
                answers = self._answer(position, frame, frame.name, None)
            return Placed(position, frame, answers=answers)
        if frame.name == "attach":
            link = self._attach(frame, session)
            answers = self._answer(position, frame, "attach", link)
        elif (handle := frame.number("handle")) is not None:
            link = self._by_handle.get((frame.side, session, handle))
            if frame.name == "detach" and link is not None:
                link.detached[frame.side] = frame
                del self._by_handle[(frame.side, session, handle)]
                answers = self._answer(position, frame, "detach", link)
        elif frame.name == "end":
            session.ended[frame.side] = frame
            del self._by_channel[(frame.side, frame.channel)]
            answers = self._answer(position, frame, "end", session)
        return Placed(position, frame, session, link, answers)

    def _answer(self, position: int, frame: WireFrame, what: str, value: object) -> int | None:
        asked = self._asked.get((frame.side.other, what, value))
        self._asked[(frame.side, what, value)] = position
        return asked

    def _begin(self, position: int, frame: WireFrame) -> Placed:
        remote = frame.number("remote-channel")
        session = None if remote is None else self._by_channel.get((frame.side.other, remote))
        if session is None or frame.side in session.begun:
            session = Session()
            self.sessions.append(session)
        session.begun[frame.side] = frame
        session.channels[frame.side] = frame.channel
        self._by_channel[(frame.side, frame.channel)] = session
        return Placed(
            position, frame, session, answers=self._answer(position, frame, "begin", session)
        )

    def _attach(self, frame: WireFrame, session: Session) -> Link:
        sender = frame.side if frame.fields.get("role") == "sender" else frame.side.other
        name = frame.fields.get("name", "")
        link = next(
            (
                link
                for link in session.links
                if link.name == name and link.sender is sender and frame.side not in link.attached
            ),
            None,
        )
        if link is None:
            link = Link(session, name, sender)
            session.links.append(link)
        link.attached[frame.side] = frame
        handle = frame.number("handle")
        if handle is not None:
            link.handles[frame.side] = handle
            self._by_handle[(frame.side, session, handle)] = link
        return link


def placed(events: Iterable[Event], conn: int) -> list[Placed]:
    if isinstance(events, ConnectionEvents):
        return events.placed
    return list(Places().place(_frames(events, conn)))


class Granted:
    """A limit in serial numbers that one side grants the other and may withdraw.

    A withdrawal may not have arrived when the other side used the limit. So the limit at any time
    is the furthest of the limits that may still apply: the last one that the other side certainly
    knew, and all later ones.
    """

    def __init__(self, limit: int, *, crossing: bool) -> None:
        self._limits = [(-1, limit)]
        self._crossing = crossing
        """True if grants and the frames that they limit may cross on the wire; False if the trace
        was taken at the side that uses the grants."""

    def grant(self, position: int, limit: int) -> None:
        if self._crossing:
            if limit != self.latest:
                self._limits.append((position, limit))
        else:
            self._limits = [(position, limit)]

    def known(self, position: int) -> None:
        """Record that the other side certainly knows every grant made before ``position``."""
        while len(self._limits) > 1 and self._limits[1][0] < position:
            del self._limits[0]

    def room(self, used: int) -> int:
        """Return how much is left beyond ``used``, which never decreases. 0 or less means that
        nothing is left."""
        rooms = [ahead(limit, used) for _, limit in self._limits]
        furthest = max(rooms)
        spent = next(n for n, room in enumerate(rooms) if room > 0 or room == furthest)
        del self._limits[:spent]
        return furthest

    @property
    def latest(self) -> int:
        return self._limits[-1][1]
