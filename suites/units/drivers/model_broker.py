"""A small model of a queue broker. It writes the frames that a broker would have put on the wire,
and may have one fault. It shares no code with our brokers and judges, so they cannot share its
mistakes.

:mod:`model_recordings` speaks STOMP for it, :mod:`model_recordings_amqp091` AMQP 0-9-1.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from hypothesis import strategies as st

from brokerproof.harness.model.time import ms
from brokerproof.harness.trace import events as ev
from brokerproof.harness.trace.stamp import stamp

PRODUCERS, CONSUMERS, QUEUES = 2, 3, 2


@dataclass
class ModelBroker:
    random: Random
    stamped: bool
    events: list[ev.Event] = field(default_factory=list)
    waiting: list[list[Any]] = field(default_factory=lambda: [[] for _ in range(QUEUES)])
    consumers: list[Any] = field(default_factory=list)
    settled: list[tuple[int, Any]] = field(default_factory=list)
    now: int = 0
    conns: int = 0
    sent: dict[tuple[int, int], int] = field(default_factory=dict)

    def tell(self, kind: type[ev.Event], conn: int, **fields: object) -> None:
        self.now += ms(1)
        self.events.append(kind(at_ns=self.now, conn=conn, **fields))

    def next_body(self, producer: int, queue: int) -> tuple[int, bytes]:
        """Return the number and the body of the producer's next message to the queue."""
        number = self.sent.get((producer, queue), 0)
        self.sent[producer, queue] = number + 1
        unstamped = f"{producer}/{queue}/{number}".encode()
        return number, stamp(producer, number) if self.stamped else unstamped

    def invented_body(self) -> bytes:
        return stamp(77, 7) if self.stamped else b"invented"

    def give_back(self, consumer: Any, messages: list[Any]) -> None:
        for message in messages:
            message.again = True
        self.waiting[consumer.queue][:0] = messages

    def hand(self, consumer: Any, message: Any, *, marked: bool | None = None) -> None:
        """Deliver a message; ``marked`` as redelivered (None means correctly)."""
        raise NotImplementedError

    def beat(self, protocol: str, size: int) -> None:
        """Let a second pass; the broker sends the promised heartbeats."""
        self.now += ms(900)
        for conn in range(1, self.conns + 1):
            self.tell(ev.HeartBeatReceived, conn, protocol=protocol, size=size)

    def misdeliver(self, fault: str, consumer: Any) -> bool:
        """Deliver a waiting or settled message wrongly. Return False if no message can be
        misdelivered yet."""
        waiting = self.waiting[consumer.queue]
        fresh = [message for message in waiting if not message.again]
        match fault:
            case "mark" if fresh:
                waiting.remove(fresh[0])
                self.hand(consumer, fresh[0], marked=True)
            case "unmark" if waiting and waiting[0].again:
                self.hand(consumer, waiting.pop(0), marked=False)
            case "overrun" if waiting and not consumer.room:
                self.hand(consumer, waiting.pop(0))
            case "revive" if self.settled and self.settled[0][0] == consumer.queue:
                self.hand(consumer, self.settled[0][1])
            case _:
                return False
        return True

    def wrong(self, fault: str) -> bool:
        """Commit the fault. Return False if nothing can be corrupted here yet."""
        raise NotImplementedError

    def step(self, step: str) -> None:
        raise NotImplementedError

    def play(self, fault: str | None, steps: int, kinds: Sequence[str]) -> list[ev.Event]:
        """Return a recording of ``steps`` steps of ``kinds``, with the fault as early as possible
        after the first third."""
        done = fault is None
        for number in range(steps):
            if not done and number > steps // 3:
                done = self.wrong(str(fault))
            self.step(self.random.choice(kinds))
        for _ in range(steps):  # deliver the remaining messages, as far as windows allow
            self.step("deliver")
        return self.events


def drawn(
    recording: Callable[..., list[ev.Event]], faults: Sequence[str], *, right: bool
) -> st.SearchStrategy[list[ev.Event]]:
    """Return recordings of a broker, with one of ``faults`` in each unless it is ``right``."""
    chosen = st.none() if right else st.sampled_from(faults)
    return st.builds(recording, st.integers(0, 2**32), chosen, st.integers(10, 150))
