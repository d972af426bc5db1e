"""General rules for a whole STOMP connection, including what arrives after the last answer that a
case waited for.

The rules hold for every case, because they bind the server whatever the client sent.

* After ERROR the server sends nothing and closes (1.2).
* RECEIPT answers each frame that requested one exactly once, and never a refused frame.
* MESSAGE arrives only for existing subscriptions.
* A session stays open if the client keeps its heartbeats and all its frames were answered.
  Heartbeats arrive only if they were agreed on.

Raw bytes from a client may be any frame, so a connection with raw bytes is judged by the first rule
alone."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant, in_ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles.connection_lifetimes import beat_interval, readable_heart_beat
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatReceived,
    HeartBeatSent,
    OctetsSent,
    OctetsSentUnseen,
)

CLOSED_AFTER_ERROR = {"1.2": "STOMP12-ERR-02"}
RECEIPT_FOR_SUCCESS = {
    "1.0": "STOMP10-RECEIPT-01",
    "1.1": "STOMP11-RCPT-01",
    "1.2": "STOMP12-RCPT-01",
}
OF_A_SUBSCRIPTION = {"1.1": "STOMP11-MSG-03", "1.2": "STOMP12-MSG-04"}
NOTHING_ONCE_REMOVED = {
    "1.0": "STOMP10-UNSUBSCRIBE-02",
    "1.1": "STOMP11-UNSUB-02",
    "1.2": "STOMP12-UNSUB-03",
}
CLIENT_KEEPS_ITS_PROMISE = {"1.1": "STOMP11-HB-06", "1.2": "STOMP12-HB-06"}
BEATS_AS_AGREED = {"1.1": "STOMP11-HB-07", "1.2": "STOMP12-HB-07"}
AT_LEAST_EVERY = {"1.1": "STOMP11-HB-09", "1.2": "STOMP12-HB-09"}
NO_ERROR_FOR_NOTHING = {
    "1.0": "STOMP10-READING-ERROR-01",
    "1.1": "STOMP11-READING-ERROR-01",
    "1.2": "STOMP12-READING-ERROR-01",
}
ESCAPED = {"\\", "\n", "\r", ":"}
WRITTEN = (FrameSent, HeartBeatSent, OctetsSent, OctetsSentUnseen)
RIGHT_BEHIND: Duration = 10 * NS_PER_MS
"""If a line end arrives this soon after a frame, it may belong to the frame: several may follow a
NUL."""


def heartbeats(events: Iterable[Event], conn: int, since: Instant) -> list[Instant]:
    """Return the instants after ``since`` at which line ends outside frames arrived."""
    beats, frame_at = [], -RIGHT_BEHIND
    for event in events:
        if not isinstance(event, (FrameReceived, HeartBeatReceived)) or event.conn != conn:
            continue
        if isinstance(event, FrameReceived):
            frame_at = event.at_ns
        elif event.at_ns > max(since, frame_at + RIGHT_BEHIND):
            beats.append(event.at_ns)
    return beats


@dataclass
class _Connection:
    version: str | None = None
    promised: tuple[int, int] = (0, 0)
    agreed: tuple[int, int] = (0, 0)
    is_unclear: bool = False
    """True if the client requested heartbeats with numbers that no server has to understand."""
    has_raw_bytes: bool = False
    goodbye: bool = False
    error: FrameReceived | None = None
    ended: Instant | None = None
    spoke_at: Instant = 0
    heard_at: Instant = 0
    frame_at: Instant = 0
    asked: Counter[str] = field(default_factory=Counter)
    receipts: Counter[str] = field(default_factory=Counter)
    open_frames: list[tuple[str, str]] = field(default_factory=list)
    """The command and receipt id ("" without one) of each frame that the server may still
    refuse."""
    refused: dict[str, str] = field(default_factory=dict)
    subscriptions: set[str] = field(default_factory=set)
    acknowledges: bool = False
    """True if any subscription has a mode other than auto."""
    removing: dict[str, str] = field(default_factory=dict)
    removed: set[str] = field(default_factory=set)
    has_unnamed_places: bool = False
    """True if messages may arrive for a subscription whose id the client did not choose."""
    unsettled: int = 0
    broke_promise: bool = False
    """True if the client was silent for longer than agreed, so that the server may be about to
    close the connection."""

    @property
    def client_interval(self) -> Duration:
        """The client's agreed heartbeat interval, in ns; 0 means none."""
        return beat_interval(self.promised[0], self.agreed[1])

    @property
    def server_interval(self) -> Duration:
        """The server's agreed heartbeat interval, in ns; 0 means none."""
        return beat_interval(self.agreed[0], self.promised[1])


def intervals(events: Sequence[Event], conn: int) -> tuple[Duration, Duration]:
    """Return the heartbeat intervals of the client and of the server, in ns; 0 means none."""
    connection = _Connection()
    for event in events:
        if event.conn == conn and isinstance(event, (FrameSent, FrameReceived)):
            _note_agreement(connection, event)
    return connection.client_interval, connection.server_interval


def promise(events: Sequence[Event], conn: int) -> tuple[str, tuple[int, int]]:
    """Return the session's version and the numbers in the client's heart-beat header."""
    connection = _Connection()
    for event in events:
        if event.conn == conn and isinstance(event, (FrameSent, FrameReceived)):
            _note_agreement(connection, event)
    return connection.version or "1.2", connection.promised


def judge(events: Sequence[Event], conn: int, linger: Linger) -> list[Finding]:
    """Return the violations on connection ``conn``, one per requirement."""
    connection = _Connection()
    findings: dict[str, Finding] = {}
    for event in events:
        if event.conn != conn or getattr(event, "protocol", "STOMP") != "STOMP":
            continue
        for finding in _read(connection, event, linger):
            findings.setdefault(finding.requirement, finding)
    for finding in _end(connection, linger):
        findings.setdefault(finding.requirement, finding)
    return list(findings.values())


def _violated(rows: dict[str, str], version: str | None, detail: str) -> Iterator[Finding]:
    if (requirement := rows.get(version or "")) is not None:
        yield Finding(requirement, Seen.VIOLATED, detail)


def _read(connection: _Connection, event: Event, linger: Linger) -> Iterator[Finding]:
    match event:
        case FrameSent():
            _note_agreement(connection, event)
            _sent(connection, event)
        case OctetsSent() | OctetsSentUnseen():
            connection.has_raw_bytes = True
        case FrameReceived(protocol="STOMP"):
            _note_agreement(connection, event)
            yield from _received(connection, event, linger)
        case HeartBeatReceived():
            yield from _beat(connection, event, linger)
        case ConnectionClosed():
            connection.ended = event.at_ns
            if connection.error is None:
                detail = "the server closed the connection without an ERROR"
                yield from _undue_end(connection, event.at_ns, detail, linger)
        case ConnectionAbandoned():
            connection.ended = connection.ended or event.at_ns
            connection.goodbye = True
        case _:
            return
    if isinstance(event, WRITTEN):
        promise = connection.client_interval
        pause = event.at_ns - connection.spoke_at
        connection.broke_promise |= bool(promise) and pause + linger.jitter >= promise
        connection.spoke_at = event.at_ns
    elif isinstance(event, (FrameReceived, HeartBeatReceived)):
        connection.heard_at = event.at_ns
        if isinstance(event, FrameReceived):
            connection.frame_at = event.at_ns


def _note_agreement(connection: _Connection, event: FrameSent | FrameReceived) -> None:
    headers = dict(reversed(event.headers))
    if event.command == "CONNECTED" and isinstance(event, FrameReceived):
        connection.version = headers.get("version") or "1.0"
        connection.agreed = readable_heart_beat(headers) or (0, 0)
    elif event.command in ("CONNECT", "STOMP") and isinstance(event, FrameSent):
        promised = readable_heart_beat(headers)
        connection.promised = promised or (0, 0)
        connection.is_unclear = promised is None


def _sent(connection: _Connection, event: FrameSent) -> None:
    headers = dict(reversed(event.headers))
    receipt = headers.get("receipt", "")
    if receipt:
        connection.asked[receipt] += 1
    connection.open_frames.append((event.command, receipt))
    if event.command == "SUBSCRIBE":
        connection.acknowledges |= headers.get("ack", "auto") != "auto"
    match event.command:
        case "SUBSCRIBE" if "id" not in headers:
            connection.has_unnamed_places = True
        case "SUBSCRIBE":
            connection.subscriptions.add(headers["id"])
            connection.removed.discard(headers["id"])
        case "UNSUBSCRIBE" if "id" in headers and receipt:
            connection.removing[receipt] = headers["id"]
        case "SEND" if "reply-to" in headers:
            connection.has_unnamed_places = True
        case "ACK" | "NACK":
            connection.unsettled = 0
        case "DISCONNECT":
            connection.goodbye = True


def _received(connection: _Connection, event: FrameReceived, linger: Linger) -> Iterator[Finding]:
    headers = dict(reversed(event.headers))
    if connection.error is not None:
        detail = f"after {_words(connection.error)}, the server sent {_words(event)}"
        yield from _violated(CLOSED_AFTER_ERROR, connection.version, detail)
    match event.command:
        case "RECEIPT":
            yield from _receipt(connection, event, headers.get("receipt-id", ""))
        case "ERROR":
            yield from _error(connection, event, headers, linger)
        case "MESSAGE":
            yield from _message(connection, event, headers)
        case "CONNECTED":
            connection.open_frames = [
                sent for sent in connection.open_frames if sent[0] not in ("CONNECT", "STOMP")
            ]


def _receipt(connection: _Connection, event: FrameReceived, receipt: str) -> Iterator[Finding]:
    connection.receipts[receipt] += 1
    if receipt in connection.refused and not connection.has_raw_bytes:
        detail = f"{connection.refused[receipt]} was refused, but also confirmed by {_words(event)}"
        yield from _violated(RECEIPT_FOR_SUCCESS, connection.version, detail)
    elif connection.receipts[receipt] > connection.asked[receipt] and not connection.has_raw_bytes:
        asked = connection.asked[receipt]
        if not asked and any(ESCAPED & {*waiting} for _, waiting in connection.open_frames):
            return  # a wrong value, which the rules on escapes judge
        detail = f"expected {asked} RECEIPT frames for receipt:{receipt}, got {asked + 1}"
        yield from _violated(RECEIPT_FOR_SUCCESS, connection.version, detail)
    asking = (place for place, sent in enumerate(connection.open_frames) if sent[1] == receipt)
    place = next(asking, None) if receipt else None
    if place is not None:  # earlier frames were received and not refused
        del connection.open_frames[: place + 1]
    if receipt in connection.removing:
        connection.removed.add(connection.removing.pop(receipt))


def _error(
    connection: _Connection, event: FrameReceived, headers: dict[str, str], linger: Linger
) -> Iterator[Finding]:
    named = headers.get("receipt-id", "")
    if not named and len(connection.open_frames) == 1:
        named = connection.open_frames[0][1]
    if named:
        command = next((sent[0] for sent in connection.open_frames if sent[1] == named), "a frame")
        refused = f"{command} (receipt:{named})"
        if connection.receipts[named] and not connection.has_raw_bytes:
            detail = f"{refused} was confirmed by RECEIPT, but also refused by {_words(event)}"
            yield from _violated(RECEIPT_FOR_SUCCESS, connection.version, detail)
        connection.refused[named] = refused
    if connection.error is None:
        yield from _undue_end(connection, event.at_ns, f"{_words(event)} arrived", linger)
        connection.error = event


def _message(
    connection: _Connection, event: FrameReceived, headers: dict[str, str]
) -> Iterator[Finding]:
    connection.unsettled += connection.acknowledges
    id = headers.get("subscription")
    if id is None or connection.has_raw_bytes or connection.has_unnamed_places:
        return
    if id in connection.removed:
        detail = f"after the RECEIPT for UNSUBSCRIBE (id:{id}), the server sent {_words(event)}"
        yield from _violated(NOTHING_ONCE_REMOVED, connection.version, detail)
    elif id not in connection.subscriptions and connection.subscriptions:
        detail = f"{_words(event)} arrived for the subscription {id!r}, which never existed"
        yield from _violated(OF_A_SUBSCRIPTION, connection.version, detail)


def _beat(connection: _Connection, event: HeartBeatReceived, linger: Linger) -> Iterator[Finding]:
    none_due = (
        connection.version in BEATS_AS_AGREED
        and not connection.server_interval
        and not connection.is_unclear
    )
    belongs_to_frame = event.at_ns - connection.frame_at <= RIGHT_BEHIND
    if none_due and event.at_ns > linger.since and not belongs_to_frame:
        detail = (
            f"a heartbeat arrived, but none is due after heart-beat:{_text(connection.promised)}"
            f" from the client and heart-beat:{_text(connection.agreed)} from the server"
        )
        yield from _violated(BEATS_AS_AGREED, connection.version, detail)


def _text(pair: tuple[int, int]) -> str:
    return f"{pair[0]},{pair[1]}"


def _undue_end(
    connection: _Connection, at: Instant, words: str, linger: Linger
) -> Iterator[Finding]:
    """Return a violation if neither a client frame nor a silence explains the connection's end."""
    if (
        connection.version is None
        or not linger.undisturbed
        or connection.goodbye
        or connection.has_raw_bytes
        or connection.is_unclear
        or connection.open_frames
        or connection.unsettled
        or connection.broke_promise
    ):
        return
    silent = at - connection.spoke_at
    since = f"{in_ms(silent)} ms after the client's last byte"
    nothing_due = "; no frame of the client was unanswered"
    promise = connection.client_interval
    if linger.patience is not None and silent + linger.jitter >= linger.patience:
        return
    if promise and silent + linger.jitter < promise:
        detail = f"{words} {since}, within the agreed {promise // NS_PER_MS} ms{nothing_due}"
        yield from _violated(CLIENT_KEEPS_ITS_PROMISE, connection.version, detail)
    elif not promise and connection.server_interval:
        interval = connection.server_interval // NS_PER_MS
        detail = (
            f"{words} {since}, although the server had agreed to send heartbeats every"
            f" {interval} ms{nothing_due}"
        )
        yield from _violated(AT_LEAST_EVERY, connection.version, detail)
    elif not promise and "ERROR" in words:
        detail = f"{words} {since}{nothing_due}"
        yield from _violated(NO_ERROR_FOR_NOTHING, connection.version, detail)


def _end(connection: _Connection, linger: Linger) -> Iterator[Finding]:
    """Return a violation if something was still missing when the connection was last read."""
    ended = connection.ended
    if connection.error is not None:
        open_for = linger.until - connection.error.at_ns
        if ended is None and linger.undisturbed and open_for >= linger.grace:
            detail = f"after {_words(connection.error)}, the connection stayed open"
            yield from _violated(CLOSED_AFTER_ERROR, connection.version, detail)
        return
    due = connection.server_interval if linger.undisturbed else 0
    if not due or ended is not None or connection.goodbye or connection.version is None:
        return
    silent = linger.until - max(connection.heard_at, linger.since)
    if silent > due + linger.jitter:
        agreed = f"the agreed interval is {due // NS_PER_MS} ms"
        detail = f"the server was silent for {in_ms(silent)} ms; {agreed}"
        yield from _violated(AT_LEAST_EVERY, connection.version, detail)


def _words(frame: FrameReceived) -> str:
    """Return the command and its identifying headers, without those that differ in each run."""
    shown = dict(reversed(frame.headers))
    told = [f"{name}:{shown[name]}" for name in ("message", "receipt-id") if name in shown]
    return f"{frame.command} [{', '.join(told)}]" if told else frame.command
