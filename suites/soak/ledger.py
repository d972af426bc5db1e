"""Messages that a broker confirmed, by queue, and mistakes in its queues after it was killed.

A message is identified by its producer and the producer's number for it. It *must* be in a queue if
its sender has a receipt and no acknowledgement was sent; it *must not* be there if an
acknowledgement has a receipt; otherwise both are right. Order is judged for each producer.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple, Self, TextIO


class Key(NamedTuple):
    """A message: its producer (a new number in each run) and the producer's number for it.
    ``group`` is its transaction; 0 means none."""

    producer: int
    number: int
    group: int

    def body(self, length: int) -> bytes:
        """Return a body of at least ``length`` bytes."""
        return f"{self.producer}.{self.number}.{self.group}.".encode().ljust(length, b"x")

    @classmethod
    def of(cls, body: bytes) -> Self:
        producer, number, group, _ = body.split(b".", 3)
        return cls(int(producer), int(number), int(group))


@dataclass(slots=True)
class Known:
    """The state of one message in one queue."""

    receipted: bool = False
    delivered: bool = False
    ack_asked: bool = False
    acked: bool = False


@dataclass(slots=True)
class Counts:
    """Total numbers of actions and judgements."""

    sent: int = 0
    receipted: int = 0
    acknowledged: int = 0
    found: int = 0
    redelivered: int = 0


@dataclass(slots=True)
class Ledger:
    """``wrong`` has a sentence for each mistake. ``notes`` counts, by kind, the faults that the
    broker's manual disclaims. ``record`` gets a line for each fact."""

    queues: dict[str, dict[Key, Known]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    counts: Counts = field(default_factory=Counts)
    run: int = 0
    disclaimed: frozenset[str] = frozenset()
    notes: Counter[str] = field(default_factory=Counter)
    record: TextIO | None = None

    def sent(self, queues: Iterable[str], key: Key) -> None:
        self.counts.sent += 1
        self._note("sent", ",".join(queues), key)
        for queue in queues:
            self.queues.setdefault(queue, {})[key] = Known()

    def receipted(self, queues: Iterable[str], key: Key) -> None:
        self.counts.receipted += 1
        self._note("confirmed", ",".join(queues), key)
        for queue in queues:
            known = self.queues[queue].get(key)
            if known is not None:
                known.receipted = True

    def delivered(self, queue: str, key: Key, redelivered: bool) -> None:
        self._note(f"delivered redelivered={redelivered}", queue, key)
        known = self.queues.get(queue, {}).get(key)
        if known is None or known.acked:
            said = f"{queue}: {key} was delivered, and nobody sent it or it was acknowledged"
            self.say("alien", said)
            return
        if known.delivered and not redelivered:
            self.say(
                "mark", f"{queue}: {key} was delivered before and comes again without the mark"
            )
        self.counts.redelivered += redelivered
        known.delivered = True

    def ack_asked(self, queue: str, key: Key) -> None:
        """A consumer has sent the acknowledgement."""
        self._note("acknowledged", queue, key)
        self.queues[queue][key].ack_asked = True

    def acked(self, queue: str, key: Key) -> None:
        """The consumer has the receipt for the acknowledgement."""
        self.counts.acknowledged += 1
        self._note("acknowledgement confirmed", queue, key)
        self.queues[queue][key].acked = True

    def found(self, queue: str, there: list[tuple[Key, bool]]) -> None:
        """Judge the content of ``queue`` after a restart, in order, each message with its mark. It
        becomes the queue's known content."""
        before = self.queues.setdefault(queue, {})
        self.counts.found += len(there)
        for key, redelivered in there:
            self._note(f"found redelivered={redelivered}", queue, key)
        keys = [key for key, _ in there]
        present = set(keys)
        if len(present) < len(keys):
            self.say("twice", f"{queue}: {len(keys) - len(present)} messages are there twice")
        for key in present - before.keys():
            self.say("alien", f"{queue}: {key} is there, and nobody sent it or it was gone before")
        for key, known in before.items():
            if known.receipted and not known.ack_asked and key not in present:
                self.say("lost", f"{queue}: {key} had its receipt and is lost")
            elif known.delivered and not known.ack_asked and key not in present:
                self.say("seen", f"{queue}: {key} was delivered, not acknowledged, and is lost")
            if known.acked and key in present:
                self.say("back", f"{queue}: {key} is there, and its acknowledgement had a receipt")
        for key, redelivered in there:
            if key in before and before[key].delivered and not redelivered:
                self.say(
                    "mark", f"{queue}: {key} was delivered before and comes again without the mark"
                )
        last: dict[int, int] = {}
        for key in keys:
            if key.number < last.get(key.producer, -1):
                self.say(
                    "order",
                    f"{queue}: {key} is after number {last[key.producer]} of the same producer",
                )
            last[key.producer] = key.number
        self._judge_groups(queue, before, present)
        self.queues[queue] = {key: Known(receipted=True, delivered=True) for key in keys}

    def _judge_groups(self, queue: str, before: dict[Key, Known], present: set[Key]) -> None:
        groups: dict[tuple[int, int], list[Key]] = {}
        for key, known in before.items():
            if key.group and not known.ack_asked:
                groups.setdefault((key.producer, key.group), []).append(key)
        for (producer, group), keys in groups.items():
            there = sum(key in present for key in keys)
            if 0 < there < len(keys):
                self.say(
                    "part",
                    f"{queue}: {there} of {len(keys)} messages of transaction {group} of producer"
                    f" {producer}",
                )

    def say(self, kind: str, sentence: str) -> None:
        """Record a mistake. The kinds are ``lost``, ``seen``, ``twice``, ``alien``, ``back``,
        ``mark``, ``order``, ``part``, ``altered`` and ``stuck``."""
        if kind in self.disclaimed:
            self.notes[kind] += 1
        else:
            self.note(f"WRONG {sentence}")
            self.wrong.append(f"run {self.run}: {sentence}")

    def _note(self, fact: str, queue: str, key: Key) -> None:
        self.note(f"{queue}: {fact} {tuple(key)}")

    def note(self, fact: str) -> None:
        """Write ``fact`` into the record."""
        if self.record is not None:
            self.record.write(f"run {self.run}: {fact}\n")
