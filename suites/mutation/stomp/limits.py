"""Faults at the limits of frames."""

from brokerproof.reference_broker.protocols.stomp import commands, refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group, breaks
from brokerproof.suites.mutation.stomp.shared_faults import cut_off, kept

limits = Group("limits")

REFUSED = "STOMP11-LIMIT-02 STOMP12-LIMIT-02"


@limits.override(commands, "new_message", recreates="ARTEMIS-1268")
@breaks("STOMP11-MSG-07 STOMP12-MSG-09")
def the_end_of_a_large_body_is_lost(original, reached, session, envelope, body):
    """Bodies of more than 50,000 bytes lose the last 17, if they are held in memory."""
    cut = reached(isinstance(body, bytes) and len(body) > 50_000)
    return original(session, envelope, body[:-17] if cut else body)


@limits.skips(commands.COMMANDS, "SEND", breaks="STOMP11-SUB-02 STOMP12-SUB-02")
def long_headers_are_confirmed_and_lost(session, frame):
    """A message with a header of 4096 bytes or more does not arrive (ARTEMIS-4282)."""
    return any(len(value) >= 4096 for _, value in frame.head.headers)


@limits.variant(cut_off, refusal.TOO_LARGE, breaks=REFUSED)
def exceeded_and_cut_off():
    """A frame that is too large ends the connection without an ERROR."""


@limits.variant(kept, refusal.TOO_LARGE, breaks=REFUSED)
def exceeded_and_kept():
    """After the ERROR for a frame that is too large, the connection stays open, and reading
    continues within the frame."""


@limits.mutant(REFUSED)
def exceeded_and_ignored(patch, reached):
    """A frame that is too large gets no ERROR, and nothing on the connection is answered any
    more."""
    patch.set(StompConnection, "deaf", False)

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        if reached(problem.message == refusal.TOO_LARGE.message):
            self.deaf = True
        else:
            original(self, problem, frame)

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        if self.deaf:
            self._liveness.on_bytes_received(now, data)
        else:
            original(self, now, data)
