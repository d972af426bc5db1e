"""Restarts the reference broker on damaged files and checks that it hides no damage.

``python -m brokerproof.suites.soak.damaged_restarts --restarts 2000 --seed 1``. A real process gets
messages (in the journal, on pages, with large bodies, in transactions) and acknowledgements,
confirms them all, and is killed. Each restart uses a copy of its files with one kind of damage
(``damages.py``). Then all queues are read. Nothing may be lost, reordered, repeated or altered
unless standard error names one of the damaged files. The exit code is 1 if damage was hidden. The
checker shares no code with the broker. After an interrupt (SIGINT) it prints the figures so far.
"""

import contextlib
import hashlib
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import click

from brokerproof.suites.soak import damages
from brokerproof.suites.soak.brokers import CONFIGURATIONS, ReferenceBroker, Stuck
from brokerproof.suites.soak.clients.client import ARTEMIS, SLASHES, Confirmed, Delivered, Refused
from brokerproof.suites.soak.clients.stomp import StompClient
from brokerproof.suites.soak.deaths import Peer

QUEUES = {"kept.queue": 40, "paged.queue": 60, "paged.other": 40, "kept.large": 5}
"""The number of messages for each queue."""
LARGE = 150_000
"""Bytes of a body in ``kept.large``."""
PER_HISTORY = 40
"""Restarts on the files of one history."""


def body_of(queue: str, number: int) -> bytes:
    """Return the body of a message. Every byte is predictable."""
    name = f"{queue}:{number}:".encode()
    seed = hashlib.sha256(name).hexdigest().encode()
    length = LARGE if queue.endswith("large") else 64 + 37 * number % 700
    return (name + seed * (length // len(seed) + 1))[:length]


NAMINGS = {"activemq": SLASHES, "artemis": ARTEMIS}
"""Namings of the profiles that keep messages on disk."""


@dataclass(slots=True)
class Tally:
    """Numbers of attempts and observations. ``hidden`` has a sentence for each hidden damage."""

    restarts: int = 0
    harmless: int = 0
    reported: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    hidden: list[str] = field(default_factory=list)


class History:
    """One broker's life until it is killed, its files, and restarts on damaged copies of them."""

    def __init__(self, broker: ReferenceBroker, profile: str, dice: random.Random) -> None:
        self._broker = broker
        self._naming = NAMINGS[profile]
        self._dice = dice
        self._content: dict[str, list[int]] = {}
        shutil.rmtree(broker.data, ignore_errors=True)
        port = self._broker.start()["stomp"]
        for queue, count in QUEUES.items():
            self._content[queue] = list(range(count))
            self._send(port, queue, count)
        for queue in QUEUES:
            self._acknowledge(port, queue)
        self._broker.signal(signal.SIGKILL)
        data = self._broker.data
        self._files = {
            path.relative_to(data).as_posix(): path.read_bytes()
            for path in sorted(data.rglob("*"))
            if path.is_file() and path.name != "ballast"
        }

    def _peer(self, port: int, name: str) -> Peer:
        return Peer(port, StompClient(name, self._naming))

    def _send(self, port: int, queue: str, count: int) -> None:
        peer = self._peer(port, f"send-{queue}")
        numbers = iter(range(count))
        for number in numbers:
            group = [number]
            if self._dice.random() < 0.1:
                group += [next_ for _, next_ in zip(range(3), numbers, strict=False)]
            peer.client.produce(queue, [body_of(queue, number) for number in group], "t", True)
            peer.flush()
            peer.wait()
        peer.close()

    def _acknowledge(self, port: int, queue: str) -> None:
        peer = self._peer(port, f"acknowledge-{queue}")
        peer.client.consume(queue, -1)
        peer.flush()
        count = confirmed = self._dice.randint(0, len(self._content[queue]) // 2)
        while confirmed:
            event = peer.wait()
            if isinstance(event, Confirmed):
                confirmed -= 1
            elif count:
                count -= 1
                peer.client.acknowledge([event.handle], f"{count}", False)
                peer.flush()
                self._content[queue].remove(int(event.body.split(b":")[1]))
        peer.close()

    # --- restarts ---------------------------------------------------------------------------------

    def restart(self, way: str, tally: Tally) -> None:
        """Start a broker on damaged files and judge it."""
        damage = damages.ALL[way](self._dice, damages.damageable(self._files))
        if damage is None:
            return
        data = self._broker.data
        shutil.rmtree(data)
        for name, content in damage.on(self._files).items():
            path = data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        tally.restarts += 1
        tally.kinds[way] += 1
        try:
            port = self._broker.start()["stomp"]
            problems = self._look(port)
            altered = [problem for problem in problems if "altered" in problem]
        except (Stuck, Refused, OSError) as problem:
            problems, altered = [str(problem)], []
        complaints = self._broker.complaints()
        self._broker.signal(signal.SIGKILL)
        named = any(_reported_name(name) in complaints for name in damage.changes)
        if altered or (problems and not named):
            tally.hidden.append(f"{damage.sentence}: {'; '.join(problems[:3])} ({complaints!r})")
        tally.reported += named
        tally.harmless += not problems and not named

    def _look(self, port: int) -> list[str]:
        """Return the faults in the content of the queues."""
        problems: list[str] = []
        for queue in QUEUES:
            peer = self._peer(port, f"look-{queue}")
            peer.client.consume(queue, -1)
            peer.client.produce(queue, [b"end"], "end", False)
            peer.flush()
            numbers: list[int] = []
            while not isinstance(event := peer.wait(), Delivered) or event.body != b"end":
                if isinstance(event, Delivered):
                    name, number, *_ = event.body[:60].decode("utf-8", "replace").split(":", 2)
                    if name != queue or event.body != body_of(queue, int(number)):
                        problems.append(f"{queue}: {event.body[:40]!r} is altered, or of another")
                    else:
                        numbers.append(int(number))
            peer.close()
            problems += _judge(queue, self._content[queue], numbers)
        return problems


def _judge(queue: str, expected: list[int], numbers: list[int]) -> list[str]:
    problems = []
    if numbers != sorted(numbers):
        problems.append(f"{queue}: is out of order")
    if len(set(numbers)) < len(numbers):
        problems.append(f"{queue}: has messages twice")
    if lost := set(expected) - set(numbers):
        problems.append(f"{queue}: {len(lost)} messages are lost")
    if repeated := set(numbers) - set(expected):
        problems.append(f"{queue}: {len(repeated)} acknowledged messages are there")
    return problems


def _reported_name(name: str) -> str:
    """Return a file's name in the broker's reports, whatever folder is configured."""
    folder, _, rest = name.partition("/")
    return f"large/{rest}" if folder.startswith("large") else name


def restarts(folder: Path, profile: str, count: int, seed: int, tally: Tally) -> None:
    """Restart a broker ``count`` times, on the files of as many histories as needed."""
    dice = random.Random(seed)
    ways = sorted(damages.ALL)
    until = tally.restarts + count
    folder.mkdir(exist_ok=True)
    broker = ReferenceBroker(folder, profile, CONFIGURATIONS[profile])
    try:
        while tally.restarts < until:
            history = History(broker, profile, dice)
            for _ in range(min(PER_HISTORY, until - tally.restarts)):
                history.restart(dice.choice(ways), tally)
    finally:
        broker.close()


@click.command(context_settings={"show_default": True})
@click.option("--restarts", "count", type=click.IntRange(1), default=2000)
@click.option("--seed", default=1, help="Seed of all random choices.")
@click.option(
    "--profile", "profiles", type=click.Choice(list(NAMINGS)), multiple=True, default=list(NAMINGS)
)
def main(count: int, seed: int, profiles: tuple[str, ...]) -> None:
    """Restart the reference broker on damaged files, and check that it hides no damage."""
    began = time.monotonic()
    tally = Tally()
    with (
        tempfile.TemporaryDirectory(prefix="brokerproof-damaged-") as scratch,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for number, profile in enumerate(profiles):
            share = count // len(profiles) + (number < count % len(profiles))
            restarts(Path(scratch) / profile, profile, share, seed + number, tally)
    ways = ", ".join(f"{way} {times}" for way, times in sorted(tally.kinds.items()))
    click.echo(
        f"{tally.restarts} restarts on damaged files ({', '.join(profiles)}), seed {seed},"
        f" {time.monotonic() - began:.0f} s: {ways}"
    )
    click.echo(
        f"damage reported {tally.reported} times, without effect {tally.harmless} times,"
        f" undetected {len(tally.hidden)} times"
    )
    for sentence in tally.hidden[:20]:
        click.echo(sentence)
    sys.exit(1 if tally.hidden else 0)


if __name__ == "__main__":
    main()
