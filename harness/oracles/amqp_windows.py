"""Session windows and transfer-ids (part 2, 2.5.6), modulo 2**32.

A transfer may be sent while the sender's next-outgoing-id is below the receiver's limit, which is
the receiver's next-incoming-id plus its incoming-window. Before the receiver's first flow, the
limit is the sender's initial next-outgoing-id plus the window in the receiver's begin."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10.fact_reader import (
    MOST,
    WRAP,
    Granted,
    Placed,
    Session,
    Side,
    WireFrame,
    ahead,
    placed,
)
from brokerproof.harness.trace.events import Event

RESPECTED, OUTGOING, INCOMING, PRESENT, WHEN_BEGUN = (
    "AMQP10-WIN-02",
    "AMQP10-WIN-04",
    "AMQP10-WIN-05",
    "AMQP10-WIN-11",
    "AMQP10-WIN-10",
)
_ALWAYS = ("incoming-window", "next-outgoing-id", "outgoing-window")


@dataclass
class _Counts:
    """One session: each side's current next-outgoing-id, and the limit of the judged side."""

    next_id: dict[Side, int] = field(default_factory=dict)
    limit: Granted | None = None
    reported: int | None = None
    """The last next-incoming-id that the judged side stated."""
    restated: int | None = None
    """The other side's last stated next-outgoing-id that is not ahead of its transfers. From then
    on, next-incoming-id may fall back to this value (AMQP10-WIN-06)."""
    ends: dict[int | None, int] | None = field(default_factory=dict)
    """The id after the last transfer of each of the other side's deliveries; None once a flow of
    that side states a next-outgoing-id that its transfers contradict."""
    latest: dict[str | None, int | None] = field(default_factory=dict)
    """The other side's latest delivery, by handle."""
    accepted: int | None = None
    """The id after the last transfer that the judged side has accepted."""

    def received(self, transfer: WireFrame) -> None:
        """Record how far a delivery of the other side reaches."""
        handle, id = transfer.fields.get("handle"), transfer.number("delivery-id")
        id = self.latest[handle] = self.latest.get(handle) if id is None else id
        if self.ends is not None:
            self.ends[id] = self.next_id[transfer.side]

    def disposed(self, frame: WireFrame) -> None:
        """Record how many of the other side's transfers the judged side has accepted."""
        last = frame.number("first") if frame.number("last") is None else frame.number("last")
        end = None if self.ends is None else self.ends.get(last)
        is_accepted = frame.fields.get("state", "").startswith("accepted")
        if end is None or frame.fields.get("role") != "receiver" or not is_accepted:
            return
        if self.accepted is None or ahead(end, self.accepted) > 0:
            self.accepted = end

    def told(self, flow: WireFrame) -> None:
        """Adopt the position in the other side's flow (AMQP10-WIN-06), whatever it has sent."""
        stated, sent = flow.number("next-outgoing-id"), self.next_id.get(flow.side, 0)
        if stated not in (None, sent):
            self.ends = None
        if stated is not None and ahead(stated, sent) > 0:
            self.next_id[flow.side] = stated
        elif stated is not None and stated != sent:
            self.restated = stated


class _All:
    def __init__(self, side: Side) -> None:
        self._side = side
        self._by_session: defaultdict[Session, _Counts] = defaultdict(_Counts)

    def of(self, session: Session) -> _Counts:
        return self._by_session[session]

    def update(self, step: Placed) -> _Counts | None:
        """Record begins, transfers and the other's flows; return None for frames in no session."""
        if step.answers is not None and step.frame.side is self._side:
            counts = self._by_session.get(step.session) if step.session else None
            if counts is not None and counts.limit is not None:
                counts.limit.known(step.answers)
        if step.session is None:
            return None
        counts, frame = self.of(step.session), step.frame
        if frame.name == "begin":
            counts.next_id[frame.side] = frame.number("next-outgoing-id") or 0
            self._open_window(step.session, counts)
        elif frame.name == "flow" and frame.side is self._side.other and counts.limit is not None:
            counts.told(frame)
            base = frame.number("next-incoming-id")
            if base is None:
                base = step.session.begun[self._side].number("next-outgoing-id") or 0
            window = min(frame.number("incoming-window") or 0, MOST)
            counts.limit.grant(step.position, (base + window) % WRAP)
        return counts

    def _open_window(self, session: Session, counts: _Counts) -> None:
        begun = session.begun
        if self._side in begun and self._side.other in begun and counts.limit is None:
            start = begun[self._side].number("next-outgoing-id") or 0
            window = min(begun[self._side.other].number("incoming-window") or 0, MOST)
            counts.limit = Granted((start + window) % WRAP, crossing=self._side is Side.BROKER)


def windows(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """For every transfer of ``side``, check that the other side's incoming-window had room."""
    all_, findings = _All(side), []
    for step in placed(events, conn):
        counts = all_.update(step)
        if counts is None or step.frame.name != "transfer" or step.frame.side is not side:
            continue
        at = counts.next_id.get(side, 0)
        counts.next_id[side] = (at + 1) % WRAP
        room = 0 if counts.limit is None else counts.limit.room(at)
        seen = Seen.HELD if room > 0 else Seen.VIOLATED
        words = f"transfer {at} was sent with {room} left in the incoming-window"
        words = words if room > 0 else f"transfer {at} exceeded the incoming-window by {1 - room}"
        findings.append(Finding(RESPECTED, seen, words))
    return findings or [Finding(RESPECTED, Seen.NEVER_REACHED, "no transfer was sent")]


def ids(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that the flows of ``side`` state the session's true ids and windows.

    next-outgoing-id grows with each transfer that ``side`` sent. next-incoming-id is present once
    ``side`` has received the other side's begin. It never decreases, never exceeds what the other
    side has sent, and is past every transfer of a delivery that ``side`` has accepted."""
    all_, findings = _All(side), []
    for step in placed(events, conn):
        counts = all_.update(step)
        if counts is None or step.session is None:
            continue
        if step.frame.name == "transfer":
            counts.next_id[step.frame.side] = (counts.next_id.get(step.frame.side, 0) + 1) % WRAP
            if step.frame.side is side.other:
                counts.received(step.frame)
        elif step.frame.name == "disposition" and step.frame.side is side:
            counts.disposed(step.frame)
        elif step.frame.name == "flow" and step.frame.side is side:
            findings += _flow(counts, step, side)
    return findings or [Finding(OUTGOING, Seen.NEVER_REACHED, "no flow arrived")]


def _flow(counts: _Counts, step: Placed, side: Side) -> list[Finding]:
    assert step.session is not None
    frame = step.frame
    missing = [name for name in _ALWAYS if frame.number(name) is None]
    words = f"a flow has no {', '.join(missing)}" if missing else "a flow has all its windows"
    findings = [Finding(PRESENT, Seen.VIOLATED if missing else Seen.HELD, words)]
    stated, sent = frame.number("next-outgoing-id"), counts.next_id.get(side, 0)
    if stated is not None:
        seen = Seen.HELD if stated == sent else Seen.VIOLATED
        words = f"a flow reports next-outgoing-id {stated}; expected {sent}"
        findings.append(Finding(OUTGOING, seen, words))
    incoming, other = frame.number("next-incoming-id"), counts.next_id.get(side.other)
    words = ""
    if incoming is not None and other is None:
        words = f"a flow has next-incoming-id {incoming} before the peer sent begin"
    elif incoming is None and side.other in step.session.begun and side.other is Side.OURS:
        words = "a flow has no next-incoming-id, although the peer had sent begin"
    if words:
        findings.append(Finding(WHEN_BEGUN, Seen.VIOLATED, words))
    if incoming is None or other is None:
        return findings
    findings.append(_incoming(counts, incoming, other))
    counts.reported = incoming
    return findings


def _incoming(counts: _Counts, incoming: int, other: int) -> Finding:
    words = f"a flow reports next-incoming-id {incoming}; the peer has sent up to {other}"
    if ahead(incoming, other) > 0:
        return Finding(INCOMING, Seen.VIOLATED, words)
    accepted = None if counts.ends is None else counts.accepted
    if accepted is not None and ahead(incoming, accepted) < 0:
        words += f", and a delivery whose last transfer was before {accepted} has been accepted"
        return Finding(INCOMING, Seen.VIOLATED, words)
    # The other side's latest statement counts, however much it differs from earlier ones.
    fell = (
        counts.reported is not None and ahead(incoming, counts.reported) < 0 and incoming != other
    )
    if fell and counts.restated is not None and ahead(incoming, counts.restated) >= 0:
        counts.restated = None
    elif fell:
        words = f"next-incoming-id fell from {counts.reported} to {incoming}"
        return Finding(INCOMING, Seen.VIOLATED, words)
    return Finding(INCOMING, Seen.HELD, words)
