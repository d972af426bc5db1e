"""Faults at the limits of frames."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.refusing import cut_off, kept

limits = Group("limits")

REFUSED = "STOMP11-LIMIT-02 STOMP12-LIMIT-02"


@limits.mutant(REFUSED)
def exceeded_and_cut_off(parts: Parts, reached: Reached) -> Parts:
    """A frame that is too large ends the connection without an ERROR."""
    return cut_off(parts, reached, refusal.TOO_LARGE)


@limits.mutant(REFUSED)
def exceeded_and_kept(parts: Parts, reached: Reached) -> Parts:
    """After the ERROR for a frame that is too large the connection stays open, and reads on in its
    midst."""
    return kept(parts, reached, refusal.TOO_LARGE)


@limits.mutant(REFUSED)
def exceeded_and_ignored(parts: Parts, reached: Reached) -> Parts:
    """A frame that is too large is swallowed: no ERROR, and whatever comes on the connection is not
    answered."""

    class Faulty(StompConnection):
        deaf = False

        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            if problem.message == refusal.TOO_LARGE.message:
                reached()
                self.deaf = True
            else:
                super()._refuse(problem, frame)

        def receive(self, now: int, data: bytes) -> None:
            if self.deaf:
                self._liveness.heard(now, data)
            else:
                super().receive(now, data)

    return replace(parts, stomp=Faulty)
