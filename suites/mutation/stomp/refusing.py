"""STOMP refusals done wrong: what several groups of mutants share."""

from __future__ import annotations

from brokerproof.reference_broker.protocols.stomp.connection import StompConnection


def cut_off(patch, reached, fault):
    """A refusal for ``fault`` ends the connection without an ERROR."""

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        if problem.message == fault.message:
            reached()
            self.close()
        else:
            original(self, problem, frame)


def kept(patch, reached, fault):
    """After the ERROR for ``fault`` the connection stays open."""
    patch.set(StompConnection, "keep", False)

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        self.keep = problem.message == fault.message
        original(self, problem, frame)
        self.keep = False

    @patch.override(StompConnection)
    def close(original, self):
        if self.keep:
            reached()
        else:
            original(self)
