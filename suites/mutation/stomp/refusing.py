"""STOMP refusals done wrong: what several groups of mutants share."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.reference_broker.protocols.stomp.refusal import Fault, Refusal
from brokerproof.suites.mutation.mutant import Reached


def cut_off(parts: Parts, reached: Reached, fault: Fault) -> Parts:
    """What is refused with ``fault`` ends the connection without an ERROR."""

    class Faulty(StompConnection):
        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            if problem.message == fault.message:
                reached()
                self.close()
            else:
                super()._refuse(problem, frame)

    return replace(parts, stomp=Faulty)


def kept(parts: Parts, reached: Reached, fault: Fault) -> Parts:
    """After the ERROR for ``fault`` the connection stays open."""

    class Faulty(StompConnection):
        keep = False

        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            self.keep = problem.message == fault.message
            super()._refuse(problem, frame)
            self.keep = False

        def close(self) -> None:
            if self.keep:
                reached()
            else:
                super().close()

    return replace(parts, stomp=Faulty)
