"""Faults behind the answer that a case waits for: the answer is right, and what follows is not."""

from __future__ import annotations

from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group

aftermath = Group("aftermath")

FOR_SUCCESS = "STOMP10-RECEIPT-01 STOMP11-RCPT-01 STOMP12-RCPT-01"
THE_LAST_FRAME = "STOMP12-ERR-02"
PROMISE = "STOMP11-HB-06 STOMP12-HB-06"
NO_BEATS = "STOMP11-HB-07 STOMP12-HB-07"
LARGE = 1 << 40


@aftermath.override(StompConnection, "tell", breaks=f"{FOR_SUCCESS} {THE_LAST_FRAME}")
def refused_and_confirmed(original, reached, self, problem, frame=None):
    """ERROR is followed by the RECEIPT of the frame that was refused."""
    original(self, problem, frame)
    if problem.receipt is not None:
        reached()
        self.shared.outbox.send(self.conn, self.encoder.receipt(problem.receipt))


@aftermath.override(StompConnection, "_command", breaks=FOR_SUCCESS)
def confirmed_and_refused(original, reached, self, frame):
    """A frame is confirmed before it is processed, and then refused."""
    receipt = frame.head.first.get("receipt")
    try:
        original(self, frame)
    except Refusal:
        if receipt is not None:
            reached()
            self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
        raise


def _ends(self, now):
    if self.is_open:
        self._refuse(Refusal(refusal.TOO_SLOW, self.version, "the timer's number overflowed"))


@aftermath.override(StompConnection, "_connect", breaks=PROMISE)
def large_interval_ends_the_session(original, reached, self, now, frame):
    """A session whose client promises a heartbeat in 2^40 ms or more ends after 0.6 s: its timer
    overflows."""
    original(self, now, frame)
    first = (frame.get("heart-beat") or "0").partition(",")[0]
    if first.isdigit() and int(first) >= LARGE and self.is_open:
        reached()
        self.shared.deadlines.call_at(now + seconds(0.6), lambda now: _ends(self, now))


@aftermath.mutant(PROMISE)
def idle_session_ends_without_a_word(patch, reached):
    """A session that was idle for two seconds is closed, whatever heartbeats were agreed on."""
    heard: dict[int, int] = {}

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        heard[self.conn] = now
        original(self, now, data)

    @patch.override(StompConnection)
    def _connect(original, self, now, frame):
        original(self, now, frame)

        def look(at):
            if self.is_open and heard[self.conn] + seconds(2) <= at:
                reached()
                self.close()
            elif self.is_open:
                self.shared.deadlines.call_at(at + seconds(1), look)

        self.shared.deadlines.call_at(now + seconds(2), look)


@aftermath.override(StompConnection, "_connect", breaks=NO_BEATS)
def beats_that_nobody_wants(original, reached, self, now, frame):
    """Line ends arrive every second on a connection that asked for no heartbeats."""
    original(self, now, frame)
    if (frame.get("heart-beat") or "0,0").endswith(",0"):

        def beat(at):
            if self.is_open:
                reached()
                self.shared.outbox.send(self.conn, b"\n")
                self.shared.deadlines.call_at(at + seconds(1), beat)

        self.shared.deadlines.call_at(now + seconds(1), beat)
