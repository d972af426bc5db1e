"""A probe that sends a plain message through the broker over fresh connections."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.conversation import ControlFailed, Symptom, Violated
from brokerproof.harness.protocols.stomp.raw_peer import frame
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.events import (
    ConnectionClosed,
    Event,
    FrameSent,
    OctetsRefused,
    OctetsSent,
)
from brokerproof.harness.worlds.bounds import LimitReached

_BODY = b"a plain message"
_RECEIPT = seconds(2)
_MOST_BYTES = 1024 * 1024
_MOST_FRAMES = 1_000
"""The maximum number of frames in a probe. A plain message takes about 20."""
_MANY_FRAMES = 100
"""A target that sent more frames than this without an answer counts as flooding us, not as silent.
The limit is low because a host that also reads floods in concurrent cases may not reach
:data:`_MOST_FRAMES` in time."""


class _ProbeBench(Bench):
    def require_place(self, protocol: str, routing: RoutingType) -> None:
        """Do nothing, even if the message sent by discovery did not pass: the probe's own failure
        shows whether the target floods, is silent, or refuses."""


def _stomp(bench: Bench) -> None:
    peer, place = bench.stomp(), bench.destination()
    receipt = peer.next_receipt()
    peer.subscribe(place, peer.transaction, headers={"receipt": receipt}, receipt=False)
    # A broker that sends no receipts still serves; the cases judge that.
    peer.watch_for(frame("RECEIPT", {"receipt-id": receipt}), within=_RECEIPT)
    # Send it from another client, because not every broker delivers a message to its sender.
    bench.stomp().publish(place, _BODY, receipt=False)
    peer.message(body=_BODY)


def _amqp(bench: Bench) -> None:
    peer = bench.amqp()
    if "amqp ANYCAST" in bench.target.identity.unmet:
        return  # it has no queue, so only the login can be probed
    place = bench.node()
    receiver = peer.receiver(place, credit=1)
    peer.publish(peer.sender(place), _BODY)
    peer.disposition(peer.delivery(receiver, body=_BODY))


def _amqp091(bench: Bench) -> None:
    peer, queue = bench.amqp091(), bench.fresh_name()
    peer.declare(queue, exclusive=True)
    peer.consume(queue)
    peer.publish(_BODY, queue)
    peer.delivery()


_BY_CAPABILITY: Mapping[str, Callable[[Bench], None]] = {
    "stomp": _stomp,
    "amqp": _amqp,
    "amqp091": _amqp091,
}
PROTOCOLS = {"stomp": "STOMP", "amqp": "AMQP 1.0", "amqp091": "AMQP 0-9-1"}
_LOGIN: Mapping[str, Callable[[Bench], object]] = {
    "stomp": Bench.stomp,
    "amqp": Bench.amqp,
    "amqp091": Bench.amqp091,
}


class Fault(StrEnum):
    GONE = "is gone"
    CLOSES = "closes connections"
    SILENT = "is silent"
    FLOODS = "floods its clients"
    GARBAGE = "sends what cannot be read"
    REFUSES = "refuses plain messages"


@dataclass(frozen=True, slots=True)
class ProbeFailure:
    name: str
    fault: Fault
    detail: str
    host_was_late: bool = False
    """True if this host was so late that even a working target might have failed the probe."""


LATE_SHARE = 10
"""The host counts as late if it, or the broker's process on it, waited for a core for longer than
the probe's time limit divided by this number."""


class PlainMessageProbe:
    """Sends plain messages over each protocol of ``target``. ``seed`` keeps its addresses distinct
    from those of cases, ``process`` from those of other processes."""

    def __init__(self, target: Target, seed: int, process: str = "") -> None:
        identity = target.identity
        self.protocols = [
            name
            for name in _BY_CAPABILITY
            if name in identity.capabilities
            and (identity.default_acceptor if name == "stomp" else identity.default_amqp_acceptor)
            in target.acceptors()
        ]
        self._limits = replace(
            identity.limits,
            connection_bytes=_MOST_BYTES,
            connection_frames=_MOST_FRAMES,
            case_seconds=identity.limits.probe_seconds,
        )
        self._target = target
        self._seed, self._process = seed, process
        self._numbers = count(1)

    def failure(self, name: str, *, login_only: bool = False) -> ProbeFailure | None:
        """Send one message over the protocol, or only log in. Return the failure; None if there was
        none."""
        label = f"plain-message{self._process}-{next(self._numbers)}"
        bench = _ProbeBench(self._target, (), label=label, seed=self._seed)
        bench.world.bounds.tighten(self._limits)
        since = bench.now()
        try:
            failure = self._failure(bench, name, login_only)
            late = 0 if failure is None else bench.world.lateness(since)
        finally:
            bench.close()
        if failure is not None and late * LATE_SHARE >= seconds(self._limits.case_seconds):
            return replace(failure, host_was_late=True)
        return failure

    def _failure(self, bench: Bench, name: str, login_only: bool) -> ProbeFailure | None:
        events = bench.events
        try:
            (_LOGIN if login_only else _BY_CAPABILITY)[name](bench)
        except (ControlFailed, Violated, SetUpFailed) as problem:
            return ProbeFailure(name, _fault(problem, events), str(problem))
        except LimitReached as problem:
            if problem.limit != "case_seconds":
                return ProbeFailure(name, Fault.FLOODS, problem.detail)
            unanswered = f"{_last_sent(events)} was not answered in {self._limits.case_seconds} s"
            if any(isinstance(event, ConnectionClosed) for event in events):
                closed = f"{unanswered}, in which a connection was closed"
                return ProbeFailure(name, Fault.CLOSES, closed)
            received = bench.world.bounds.frames
            if received > _MANY_FRAMES:
                flooded = f"{unanswered}, in which {received} frames arrived"
                return ProbeFailure(name, Fault.FLOODS, flooded)
            return ProbeFailure(name, Fault.SILENT, unanswered)
        except Exception as problem:  # our codec failed on the target's bytes
            return ProbeFailure(name, Fault.GARBAGE, f"{type(problem).__name__}: {problem}")
        return None


def _fault(problem: Exception, events: list[Event]) -> Fault:
    if any(isinstance(event, OctetsRefused) for event in events):
        return Fault.GARBAGE
    match problem:
        case SetUpFailed() | ControlFailed(symptom=Symptom.UNREACHABLE):
            return Fault.GONE
        case ControlFailed(symptom=Symptom.CLOSED):
            return Fault.CLOSES
        case _:
            return Fault.REFUSES


def _last_sent(events: list[Event]) -> str:
    for event in reversed(events):
        if isinstance(event, FrameSent):
            return event.command
        if isinstance(event, OctetsSent):
            return f"{event.size} raw bytes"
    return "the connection"
