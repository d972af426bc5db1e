"""General rules for a whole OpenWire connection, including what arrives after the last answer that
a case waited for.

* Each command that asks for a response gets one, and no other command gets any.
* No message arrives for a consumer once its removal was answered and dispatched messages had time
  to arrive: with dispatchAsync, another thread sends them.
* Only producers with a window get ProducerAcks, and only for what they sent.
* A connection on which a command failed stays open.

Raw bytes from a client may be any command, so a connection with raw bytes is not judged."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.time import Duration, Instant, in_ms
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.oracles import openwire_acks
from brokerproof.harness.oracles.linger import Linger
from brokerproof.harness.trace.events import (
    ConnectionAbandoned,
    ConnectionClosed,
    Event,
    FrameReceived,
    FrameSent,
    HeartBeatSent,
    OctetsSent,
    OctetsSentUnseen,
)
from brokerproof.harness.trace.facts import is_true

ASKED, STAYS_OPEN, REMOVED = "OPENWIRE-RESP-1", "OPENWIRE-RESP-2", "OPENWIRE-REMOVE-1"


@dataclass
class _Connection:
    name: str = ""
    asked: Counter[str] = field(default_factory=Counter)
    """How many more responses each command id may get."""
    removing: dict[str, str] = field(default_factory=dict)
    """For each removing command, by its id, the text of what the client removes."""
    consumers: set[str] = field(default_factory=set)
    producers: set[str] = field(default_factory=set)
    """Kept apart from consumers, because their texts may be equal."""
    removed: dict[str, Instant] = field(default_factory=dict)
    """When the removal of each consumer or session was answered."""
    failed: str = ""
    """The broker's latest report of a command that failed."""
    beats: bool = False
    """True if the client sent a KeepAliveInfo, which may ask for a response."""
    may_end: bool = False
    """True if the client ended the connection, or asked for an inactivity monitor."""


def intervals(events: Sequence[Event], conn: int) -> tuple[Duration, Duration]:
    """Return (0, 0), because a client of ours that wants signs of life sends its own."""
    return 0, 0


def judge(events: Sequence[Event], conn: int, linger: Linger) -> list[Finding]:
    """Return the violations on connection ``conn``, one per requirement."""
    own = [event for event in events if event.conn == conn]
    if any(isinstance(event, OctetsSent | OctetsSentUnseen) for event in own):
        return []
    connection = _Connection()
    findings: dict[str, Finding] = {}
    for event in own:
        for requirement, detail in _read(connection, event, linger):
            findings.setdefault(requirement, Finding(requirement, Seen.VIOLATED, detail))
    _, surplus = openwire_acks.producers(own, conn)
    for detail in surplus[:1]:
        findings[openwire_acks.ONLY] = Finding(openwire_acks.ONLY, Seen.VIOLATED, detail)
    return list(findings.values())


def _read(connection: _Connection, event: Event, linger: Linger) -> Iterator[tuple[str, str]]:
    match event:
        case HeartBeatSent():
            connection.beats = True
        case FrameSent():
            _sent(connection, event.command, dict(reversed(event.headers)))
        case FrameReceived():
            yield from _received(connection, event, linger)
        case ConnectionAbandoned():
            connection.may_end = True
        case ConnectionClosed():
            if connection.failed and linger.undisturbed and not connection.may_end:
                yield STAYS_OPEN, f"the connection ended after {connection.failed}"
            connection.may_end = True


def _sent(connection: _Connection, command: str, fields: dict[str, str]) -> None:
    number = fields.get("commandId", "")
    if is_true(fields, "responseRequired"):
        connection.asked[number] += 1
    match command:
        case "WireFormatInfo":
            connection.may_end = fields.get("MaxInactivityDuration", "0") != "0"
        case "ShutdownInfo":
            connection.may_end = True
        case "ConsumerInfo":
            connection.consumers.add(fields["consumerId"])
            connection.removed.pop(fields["consumerId"], None)
        case "ProducerInfo":
            connection.producers.add(fields["producerId"])
        case "ConnectionInfo":
            connection.name = fields["connectionId"]
        case "RemoveInfo":
            connection.removing[number] = fields["objectId"]


def _received(
    connection: _Connection, event: FrameReceived, linger: Linger
) -> Iterator[tuple[str, str]]:
    command, fields = event.command, dict(reversed(event.headers))
    if command in ("ExceptionResponse", "ConnectionError"):
        connection.failed = command
    if command.endswith("Response"):
        number = fields["correlationId"]
        connection.asked[number] -= 1
        if connection.asked[number] < 0 and not connection.beats:
            yield ASKED, f"{command} answered command {number}, which was not waiting for an answer"
        removed = connection.removing.pop(number, "")
        if removed and command == "Response" and removed not in connection.producers:
            connection.removed[removed] = event.at_ns
            connection.may_end |= removed == connection.name
    elif command == "MessageDispatch":
        name = fields["consumerId"]
        if name not in connection.consumers:
            yield REMOVED, f"a message arrived for {name}, which is no consumer of the connection"
        for gone, at in connection.removed.items():
            late = event.at_ns - at
            if (name == gone or name.startswith(f"{gone}:")) and late > linger.grace:
                detail = f"{in_ms(late)} ms after {gone} was removed, a message for {name} arrived"
                yield REMOVED, detail
