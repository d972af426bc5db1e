"""Window, transactions and liveness of a STOMP session together. Each example draws a plan. After
each step a model computes what may and what must have arrived; a separate ledger records all
messages."""

from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.harness.oracles.accounting import (
    Attempted,
    Confirmed,
    Delivered,
    Ledger,
    Returned,
    Settled,
    Withdrawn,
)
from brokerproof.harness.oracles.window import WindowAccount
from brokerproof.suites.api import PATIENCE, Bench, case, ms, over, seconds, shown
from brokerproof.suites.api.stomp import MESSAGE, Destination, Frame, StompPeer

WINDOW = "ARTEMIS-STOMP-window-3"
SENT = "STOMP12-SEND-02"
ABORTED = "STOMP12-ABORT-01"
ONCE = "ARTEMIS-CONCEPTS-queue-2"
ALIVE = "ARTEMIS-STOMP-ttl-3"
SHUT = "messages wait for a window that is shut"
COMMITTED = "a COMMIT sends into a window that is shut"
WITHDRAWN = "an ABORT withdraws a message"
SMALL = "a message is larger than its window"
ONLY_BEATS = "the consumer does nothing but beat for as long as its TTL"
SILENT = "a silent consumer leaves with messages"
SITUATIONS = (SHUT, COMMITTED, WITHDRAWN, SMALL, ONLY_BEATS, SILENT)
QUIET = ms(200)
"""If nothing arrives for this long, the broker counts as stopped."""
BEAT_MS, REAL_BEAT_MS = 1500, 4000
"""The heartbeat interval that the consumer promises, in virtual and in real time, where steps may
take longer. The target's parameters turn it into a TTL."""


@dataclass(frozen=True)
class Publish:
    """The producer sends a message with a body of this size, in the transaction if ``inside``."""

    size: int
    inside: bool


@dataclass(frozen=True)
class End:
    """The open transaction is committed or aborted, and the next one begins."""

    commit: bool


@dataclass(frozen=True)
class Ack:
    """The consumer acknowledges the message held at this position (in client mode, up to it)."""

    which: int


@dataclass(frozen=True)
class Idle:
    """The consumer sends only heartbeats for this many intervals (a third of them in real time)."""

    intervals: int


Step = Publish | End | Ack | Idle
STEPS = st.one_of(
    st.builds(Publish, st.sampled_from([0, 50, 300, 1000]), st.booleans()),
    st.builds(Publish, st.sampled_from([0, 50, 300, 1000]), st.booleans()),
    st.builds(End, st.booleans()),
    st.builds(Ack, st.integers(0, 9)),
    st.builds(Idle, st.integers(1, 2)),
)


@dataclass
class Run:
    """A plan in progress. The broker must still deliver ``waiting``; a COMMIT adds ``pending``."""

    target: Bench
    to: Destination
    consumer: StompPeer
    producer: StompPeer
    mode: str
    account: WindowAccount
    beat_ms: int
    waiting: list[bytes] = field(default_factory=list)
    pending: list[bytes] = field(default_factory=list)
    held: list[Frame] = field(default_factory=list)
    ledger: Ledger = field(default_factory=Ledger)
    sent: int = 0
    withdrawn: int = 0
    transactions: int = 0

    @property
    def transaction(self) -> str:
        return f"{self.producer.transaction}-{self.transactions}"

    def begin(self) -> None:
        self.transactions += 1
        self.producer.request("BEGIN", {"transaction": self.transaction})

    def step(self, step: Step) -> None:
        """Take one step of the plan, in the world and in the model. Keep the producer alive too: it
        has a TTL."""
        self.consumer.beat()
        self.producer.beat()
        match step:
            case Publish(size, inside):
                self._publish(size, inside)
            case End(commit):
                self._end(commit)
            case Ack(which):
                self._ack(which)
            case Idle(intervals):
                if intervals * self.beat_ms >= self.target.negotiated((self.beat_ms, 0)).ttl_ms:
                    self.target.reached(ONLY_BEATS)
                for _ in range(3 * intervals if self.target.virtual else intervals):
                    self.target.advance(ms(self.beat_ms) // 3)
                    self.consumer.beat()
                    self.producer.beat()
        self.watch(shown(step))

    def _publish(self, size: int, inside: bool) -> None:
        self.sent += 1
        body = (b"%d " % self.sent).ljust(size, b".")
        self.ledger.update(Attempted(body, "inside" if inside else "outside"))
        if inside:
            self.producer.publish(self.to, body, {"transaction": self.transaction}, receipt=False)
            self.pending.append(body)
        else:
            self.producer.publish(self.to, body)
            self.ledger.update(Confirmed(body))
            self.waiting.append(body)

    def _end(self, commit: bool) -> None:
        self.producer.request("COMMIT" if commit else "ABORT", {"transaction": self.transaction})
        if self.pending and not commit:
            self.withdrawn += len(self.pending)
            self.target.reached(WITHDRAWN)
        if self.pending and commit and not self.account.open:
            self.target.reached(COMMITTED)
        for body in self.pending:
            self.ledger.update(Confirmed(body) if commit else Withdrawn(body))
        self.waiting += self.pending if commit else []
        self.pending = []
        self.begin()

    def _ack(self, which: int) -> None:
        if not self.held:
            return
        position = which % len(self.held)
        first = 0 if self.mode == "client" else position
        self.consumer.ack(self.held[position], receipt=True)
        self.ledger.update(
            Settled(tuple(message.body for message in self.held[first : position + 1]))
        )
        del self.held[first : position + 1]
        del self.account.held[first : position + 1]

    def watch(self, after: str) -> None:
        """Judge whether the messages of the model arrive, and no others."""
        alive = self.consumer.ended is None
        detail = f"after {after}, with heartbeats on time: {self.consumer.instead()}"
        self.target.require(ALIVE, alive, detail)
        while self.account.open and self.waiting:
            answer = self.consumer.watch_for(MESSAGE, within=PATIENCE)
            what = f"{len(self.waiting)} messages wait and the window is open"
            detail = f"after {after}, {what}: {self.consumer.instead()}"
            self.target.require((WINDOW, SENT), answer is not None, detail)
            assert answer is not None
            self._took(answer, after)
        self.target.wait_until(
            lambda: any(MESSAGE.accepts(received) for received in self.consumer.inbox), QUIET
        )
        for message in self.consumer.take_messages():
            self._took(message, after)
        if self.waiting:
            self.target.reached(SHUT)

    def _took(self, message: Frame, after: str) -> None:
        body = message.body
        self.ledger.update(Delivered(body, "consumer", False))
        owed = body in self.waiting
        early = body in self.pending
        what = "before its COMMIT" if early else "though no consumer waits for it"
        judged = (SENT,) if early else (ABORTED, ONCE)
        words = (
            f"after {after}, message {shown(body[:12])} arrived {'as it should' if owed else what}"
        )
        self.target.require(judged, owed, words)
        self.waiting.remove(body)
        size = sum(self.account.held)
        if message.size > self.account.window:
            self.target.reached(SMALL)
        allowed = self.account.delivered(message.size)
        self.held.append(message)
        detail = (
            f"after {after}, message {shown(body[:12])} arrived while {size} bytes were held; the"
            f" window is {self.account.window} bytes"
        )
        self.target.require(WINDOW, allowed, detail)


def corner(window: int, mode: str, silent: bool, *steps: Step) -> dict[str, object]:
    return {"window": window, "mode": mode, "silent": silent, "steps": [*steps]}


LATE = (Publish(300, True), Publish(300, True), End(True), Ack(0), Idle(1))
ONE_BY_ONE = (Publish(50, True), End(False), Publish(50, False), Publish(1000, True), End(True))
CORNERS = [
    corner(1, "client", False, Publish(50, False), Publish(50, True), End(True), Ack(0)),
    corner(700, "client", True, Publish(300, False), *LATE),
    corner(500, "client-individual", False, *ONE_BY_ONE, Ack(1)),
]


@case(
    WINDOW,
    SENT,
    ABORTED,
    ONCE,
    ALIVE,
    needs={"consumer-window", "transactions", "connection-ttl", "heart-beat"},
)
@over(
    examples=40,
    always=lambda target: CORNERS,
    situations=SITUATIONS,
    window=st.sampled_from([1, 300, 500, 700, 1500, 5000]),
    mode=st.sampled_from(["client", "client-individual"]),
    silent=st.booleans(),
    steps=st.lists(STEPS, min_size=1, max_size=10),
)
def test_a_session_does_what_the_model_says(
    target: Bench, window: int, mode: str, silent: bool, steps: list[Step]
) -> None:
    """A client sends, acknowledges and waits as drawn, in transactions or not, with a window and
    heartbeats. After each step exactly the messages that the model predicts have arrived. A silent
    consumer is disconnected after its TTL and its messages are redelivered. One scenario: the
    requirements concern one session."""
    to, beat_ms = target.destination(), BEAT_MS if target.virtual else REAL_BEAT_MS
    consumer, producer = target.stomp(heart_beat=f"{beat_ms},0"), target.stomp()
    consumer.subscribe(to, ack=mode, headers={"consumer-window-size": str(window)})
    run = Run(target, to, consumer, producer, mode, WindowAccount(window), beat_ms)
    run.begin()
    for step in steps:
        run.step(step)
    run.step(End(commit=False))
    went = f"{len(steps)} steps went as the model says"
    target.record_held(SENT, run.sent, f"{went}, {run.sent} of them sent a message")
    target.record_held(WINDOW, run.sent, f"{went} with a window of {window}")
    target.record_held(ABORTED, run.withdrawn, f"{went}, and {run.withdrawn} messages withdrawn")
    if silent:
        if run.held:
            target.reached(SILENT)
        consumer.beat()
        since = consumer.spoke_at
        assert since is not None
        bounds = target.silence_interval(target.negotiated((beat_ms, 0)).ttl_ms)
        target.wait_until(lambda: consumer.ended is not None, bounds[1] + seconds(10))
        bounds = (bounds[0], bounds[1] + seconds(8))
        target.judge_duration(ALIVE, "silence before the end", target.now() - since, bounds, since)
    else:
        goodbye = consumer.request("DISCONNECT")
        target.record_held(ALIVE, goodbye, "the consumer kept its promise and was kept")
    run.ledger.update(Returned("consumer", failed=silent, noticed=not silent))
    heir = target.stomp()
    heir.subscribe(to)
    owed = len(run.ledger.must_come())
    target.wait_until(lambda: heir.messages_seen >= owed or heir.ended is not None, PATIENCE)
    target.wait_until(lambda: heir.messages_seen > owed or heir.ended is not None, QUIET)
    for message in heir.take_messages():
        run.ledger.update(Delivered(message.body, "heir", message.get("redelivered") == "true"))
    books = run.ledger.close()
    wrong = books.phantom or books.revived or books.lost or books.abandoned or books.shared
    target.record_finding(ONCE, not wrong, str(books))
