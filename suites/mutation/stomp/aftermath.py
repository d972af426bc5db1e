"""Faults after the answer that a case waits for: the answer is right, but a later frame is
wrong."""

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


@aftermath.after(StompConnection, "tell", breaks=f"{FOR_SUCCESS} {THE_LAST_FRAME}")
def refused_and_confirmed(reached, self, problem, frame=None):
    """ERROR is followed by the RECEIPT of the frame that was refused."""
    if reached(problem.receipt is not None):
        self.shared.outbox.send(self.conn, self.encoder.receipt(problem.receipt))


@aftermath.override(StompConnection, "_command", breaks=FOR_SUCCESS)
def confirmed_and_refused(original, reached, self, frame):
    """A frame is confirmed before it is processed, and then refused."""
    receipt = frame.head.first.get("receipt")
    try:
        original(self, frame)
    except Refusal:
        if reached(receipt is not None):
            self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))
        raise


def _ends(self, now):
    if self.is_open:
        self._refuse(Refusal(refusal.TOO_SLOW, self.version, "the timer's number overflowed"))


@aftermath.after(StompConnection, "_connect", breaks=PROMISE)
def large_interval_ends_the_session(reached, self, now, frame):
    """A session whose client promises a heartbeat in 2^40 ms or more ends after 0.6 s: its timer
    overflows."""
    first = (frame.get("heart-beat") or "0").partition(",")[0]
    if reached(first.isdigit() and int(first) >= LARGE and self.is_open):
        self.shared.deadlines.call_at(now + seconds(0.6), lambda now: _ends(self, now))


@aftermath.mutant(PROMISE)
def idle_session_ends_without_a_word(patch, reached):
    """A session that was idle for two seconds is closed, regardless of the agreed heartbeats."""
    heard: dict[int, int] = {}

    @patch.before(StompConnection)
    def receive(self, now, data):
        heard[self.conn] = now

    @patch.after(StompConnection)
    def _connect(self, now, frame):

        def look(at):
            if reached(self.is_open and heard[self.conn] + seconds(2) <= at):
                self.close()
            elif self.is_open:
                self.shared.deadlines.call_at(at + seconds(1), look)

        self.shared.deadlines.call_at(now + seconds(2), look)


@aftermath.after(StompConnection, "_connect", breaks=NO_BEATS)
def beats_that_nobody_wants(reached, self, now, frame):
    """Heartbeats arrive every second on a connection that requested none."""
    if (frame.get("heart-beat") or "0,0").endswith(",0"):

        def beat(at):
            if reached(self.is_open):
                self.shared.outbox.send(self.conn, b"\n")
                self.shared.deadlines.call_at(at + seconds(1), beat)

        self.shared.deadlines.call_at(now + seconds(1), beat)
