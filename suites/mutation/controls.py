"""Three controls: what is right must pass everything, and what is wrong throughout must pass
nothing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Headers
from brokerproof.suites.mutation.mutant import Group, Reached

controls = Group("control")

IDENTITY, ALWAYS_WRONG, MUTE = "control.identity", "control.always-wrong", "control.mute"


@controls.mutant("")
def identity(parts: Parts, reached: Reached) -> Parts:
    """The reference broker without a fault."""
    return parts


@controls.mutant("")
def always_wrong(parts: Parts, reached: Reached) -> Parts:
    """Sessions open as they should, and then every answer is wrong: ids, bodies, closes and
    beats."""

    class Faulty(FrameEncoder):
        def receipt(self, receipt: str) -> bytes:
            reached()
            return super().receipt(f"not {receipt}")

        def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
            reached()
            return self.frame("MESSAGE", (("message-id", "1"),), b"not " + message.body)

        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            if command == "ERROR":
                reached()
                return super().frame("RECEIPT", (("receipt-id", "not an error"),))
            return super().frame(command, headers, body)

    return replace(parts, encoder=Faulty)


@controls.mutant("")
def mute(parts: Parts, reached: Reached) -> Parts:
    """Connections are accepted and nothing is ever said on them."""

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            reached()

        def _on_beat(self, now: Instant) -> None:
            reached()

        def _on_handshake_timeout(self, now: Instant) -> None:
            reached()

        def _on_silence_check(self, now: Instant) -> None:
            reached()

        def _command(self, frame: Frame) -> None:
            reached()

    return replace(parts, stomp=Faulty)


ACCEPTABLE = ("PASS", "NOTE", "SKIP", "WARN")
"""What the reference broker itself may get: a WARN or a NOTE is a choice of its own that a
specification leaves open."""


def complaints(verdicts: Mapping[str, Mapping[str, int]]) -> list[str]:
    """What is wrong with the controls' verdicts, counted by name of the control."""
    found = []
    for name, counts in verdicts.items():
        bad = {verdict: count for verdict, count in counts.items() if verdict not in ACCEPTABLE}
        if name == IDENTITY and bad:
            found.append(f"{name}: the broker without a fault got {bad}")
        if name == ALWAYS_WRONG and not counts.get("FAIL"):
            found.append(
                f"{name}: a broker whose every answer is wrong was not failed: {dict(counts)}"
            )
        if name == MUTE and (counts.get("PASS") or not counts.get("FAIL")):
            found.append(f"{name}: a broker that says nothing passed {counts.get('PASS', 0)} cases")
    return found
