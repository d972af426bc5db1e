"""Four controls: a correct broker, even a slow one, must pass everything, and a thoroughly wrong
one must pass nothing."""

from collections.abc import Mapping

from brokerproof.harness.model.broker_io import PeerGone
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.suites.mutation.mutant import Group

controls = Group("control")

IDENTITY, LATE = "control.identity", "control.late"
ALWAYS_WRONG, MUTE = "control.always-wrong", "control.mute"
LATE_BY = seconds(2)


@controls.mutant("")
def identity(patch, reached):
    """The unchanged reference broker."""


@controls.override(Broker, "handle", breaks="")
def late(original, reached, self, now, event):
    """The broker notices the close of a connection two seconds late. No document says how soon it
    must, and a busy broker needs longer."""
    if not isinstance(event, PeerGone):
        return original(self, now, event)
    reached()
    conn = event.conn
    self._deadlines.call_at(now + LATE_BY, lambda now: self._cut(conn))
    return []


@controls.mutant("")
def always_wrong(patch, reached):
    """Sessions open correctly, but every later answer is wrong: ids, bodies, closes and
    heartbeats."""

    @patch.override(FrameEncoder)
    def receipt(original, self, receipt):
        reached()
        return original(self, f"not {receipt}")

    @patch.override(FrameEncoder)
    def message(original, self, opening, message, ack, redelivered):
        reached()
        return self.frame("MESSAGE", (("message-id", "1"),), b"not " + message.body)

    @patch.override(FrameEncoder)
    def frame(original, self, command, headers, body=b""):
        if reached(command == "ERROR"):
            return original(self, "RECEIPT", (("receipt-id", "not an error"),))
        return original(self, command, headers, body)


@controls.mutant("")
def mute(patch, reached):
    """Connections are accepted, but nothing is ever sent on them."""

    def ignore(original, self, *arguments):
        reached()

    timers = ("_on_beat", "_on_handshake_timeout", "_on_silence_check")
    for name in ("receive", *timers, "_command"):
        patch.override(StompConnection, name)(ignore)


ACCEPTABLE = ("PASS", "NOTE", "SKIP", "WARN")
"""Verdicts that the reference broker itself may get: a WARN or a NOTE is a choice that a
specification leaves open."""


def complaints(verdicts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return the unexpected verdicts of the controls, counted by name of control."""
    problems = []
    for name, counts in verdicts.items():
        bad = {verdict: count for verdict, count in counts.items() if verdict not in ACCEPTABLE}
        if name in (IDENTITY, LATE) and bad:
            problems.append(f"{name}: the broker without a fault got {bad}")
        if name == ALWAYS_WRONG and not counts.get("FAIL"):
            problems.append(
                f"{name}: a broker whose every answer is wrong was not failed: {dict(counts)}"
            )
        if name == MUTE and (counts.get("PASS") or not counts.get("FAIL")):
            problems.append(
                f"{name}: a broker that says nothing passed {counts.get('PASS', 0)} cases"
            )
    return problems
