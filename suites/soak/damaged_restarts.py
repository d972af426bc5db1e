"""Restarts the reference broker on damaged files, again and again, and looks whether it hides
anything.

``python -m brokerproof.suites.soak.damaged_restarts --restarts 2000 --seed 1``. A real process gets
messages (in the journal, on pages, with large bodies, in transactions), and acknowledgements, all
confirmed, and is killed. Each restart is on a copy of its files with one damage (``damages.py``).
Then all queues are read. Nothing may be lost, reordered, repeated or altered unless standard error
names one of the damaged files. Exit 1 when something was hidden. The checker shares no code with
the broker. An interrupt (SIGINT) ends it with the figures so far.
"""

import contextlib
import hashlib
import json
import os
import random
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path

import click

from brokerproof.suites.soak import damages
from brokerproof.suites.soak.kill9 import FAMILIES, WITHIN_S, Family, Stuck

QUEUES = {"kept.queue": 40, "paged.queue": 60, "paged.other": 40, "kept.large": 5}
"""Messages that each queue gets."""
LARGE = 150_000
"""Bytes of a body in ``kept.large``."""
READY_WITHIN_S = 90.0
"""How long a broker may take to start."""
PER_HISTORY = 40
"""Restarts on the files of one history."""


def body_of(queue: str, number: int) -> bytes:
    """Return the body of a message, of which every byte is known."""
    name = f"{queue}:{number}:".encode()
    seed = hashlib.sha256(name).hexdigest().encode()
    length = LARGE if queue.endswith("large") else 64 + 37 * number % 700
    return (name + seed * (length // len(seed) + 1))[:length]


PROFILES = tuple(sorted(name for name in FAMILIES if FAMILIES[name].configuration is not None))
"""Those that keep anything."""


class Peer:
    """A STOMP session over a socket. Bodies hold no NUL."""

    def __init__(self, port: int, client_id: str = "") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), WITHIN_S)
        self._rest = b""
        self.frames: deque[tuple[str, dict[str, str], bytes]] = deque()
        name = f"client-id:{client_id}\n" if client_id else ""
        self.say(f"CONNECT\naccept-version:1.2\nhost:h\n{name}\n\0".encode())
        self.wait("CONNECTED")

    def say(self, data: bytes) -> None:
        self.socket.sendall(data)

    def read(self) -> None:
        """Takes what is there, or waits until something is. Raises ``ConnectionError`` at the end
        of the stream."""
        data = self.socket.recv(262144)
        if not data:
            raise ConnectionError("the broker closed the connection")
        *whole, self._rest = (self._rest + data).split(b"\0")
        for frame in whole:
            head, _, body = frame.lstrip(b"\n").partition(b"\n\n")
            command, *lines = head.decode().split("\n")
            self.frames.append(
                (command, dict(line.split(":", 1) for line in reversed(lines)), body)
            )

    def wait(self, command: str) -> tuple[str, dict[str, str], bytes]:
        """The next frame, which is that command. Raises :class:`Stuck`."""
        while not self.frames:
            try:
                self.read()
            except TimeoutError:
                raise Stuck(f"no {command} came within {WITHIN_S} s") from None
        frame = self.frames.popleft()
        if frame[0] != command:
            raise Stuck(f"{frame[0]} came instead of {command}: {frame[1].get('message')}")
        return frame

    def close(self) -> None:
        self.socket.close()


class Brokers:
    """Broker processes on one folder, one after the other. What they complain of is in
    ``complaints``."""

    def __init__(self, folder: Path, family: Family) -> None:
        self.data = folder / "data"
        self._configuration = folder / "broker.xml"
        self._configuration.write_text(family.configuration or "")
        self._options = ("--profile", family.profile)
        self._log = folder / "stderr"
        self._complaints = self._log.open("wb")
        self._rest = b""
        self._process = 0
        self._nursery = subprocess.Popen(
            [sys.executable, "-m", "brokerproof.suites.soak.process_forks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )

    def start(self) -> int:
        """Start a broker and return its port. Raises :class:`Stuck`."""
        files = ("--config", str(self._configuration), "--data", str(self.data))
        assert self._nursery.stdin is not None
        self._complaints.truncate(0)
        self._complaints.seek(0)
        self._nursery.stdin.write(json.dumps([*self._options, *files]).encode() + b"\n")
        self._nursery.stdin.flush()
        while (line := self._line()).startswith(b"{"):
            pass  # a broker that was killed had still printed this
        self._process = int(line)
        return int(json.loads(self._line())["stomp"])

    def _line(self) -> bytes:
        assert self._nursery.stdout is not None
        stream = self._nursery.stdout.fileno()
        until = time.monotonic() + READY_WITHIN_S
        while b"\n" not in self._rest:
            if select.select([stream], [], [], 0.2)[0]:
                self._rest += os.read(stream, 65536)
            elif time.monotonic() > until:
                raise Stuck(
                    f"the broker was not ready within {READY_WITHIN_S} s: {self.complaints()}"
                )
        line, _, self._rest = self._rest.partition(b"\n")
        return line

    def kill(self) -> None:
        os.kill(self._process, signal.SIGKILL)

    def complaints(self) -> str:
        """Return what the broker has printed on standard error."""
        return self._log.read_text("utf-8", "replace").replace("\0", "")

    def end(self) -> None:
        """Start no more of them."""
        assert self._nursery.stdin is not None
        self._nursery.stdin.close()
        self._nursery.wait()
        assert self._nursery.stdout is not None
        self._nursery.stdout.close()
        self._complaints.close()


@dataclass(slots=True)
class Tally:
    """Counts of what was tried and seen. ``hidden`` are sentences, empty as long as nothing was."""

    restarts: int = 0
    harmless: int = 0
    reported: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    hidden: list[str] = field(default_factory=list)


class History:
    """One broker's life up to its kill, its files, and restarts on damaged copies of them."""

    def __init__(self, brokers: Brokers, family: Family, dice: random.Random) -> None:
        self._brokers = brokers
        self._naming = family.naming
        self._dice = dice
        self._content: dict[str, list[int]] = {}
        shutil.rmtree(brokers.data, ignore_errors=True)
        port = self._brokers.start()
        for queue, count in QUEUES.items():
            self._content[queue] = list(range(count))
            self._send(port, queue, count)
        for queue in QUEUES:
            self._acknowledge(port, queue)
        self._brokers.kill()
        data = self._brokers.data
        self._files = {
            path.relative_to(data).as_posix(): path.read_bytes()
            for path in sorted(data.rglob("*"))
            if path.is_file() and path.name != "ballast"
        }

    def _send(self, port: int, queue: str, count: int) -> None:
        peer = Peer(port)
        head = f"SEND\n{self._naming.place(queue, False, 'destination-type')}persistent:true\n"
        numbers = iter(range(count))
        for number in numbers:
            group = [number]
            if self._dice.random() < 0.1:
                group += [next_ for _, next_ in zip(range(3), numbers, strict=False)]
            frames = [
                f"{head}transaction:t\n\n".encode() + body_of(queue, number) + b"\0"
                for number in group
            ]
            commit = b"COMMIT\ntransaction:t\nreceipt:t\n\n\0"
            peer.say(b"".join((b"BEGIN\ntransaction:t\n\n\0", *frames, commit)))
            peer.wait("RECEIPT")
        peer.close()

    def _acknowledge(self, port: int, queue: str) -> None:
        peer = Peer(port)
        peer.say(self._subscribe(queue, "0"))
        for number in range(self._dice.randint(0, len(self._content[queue]) // 2)):
            _, headers, _ = peer.wait("MESSAGE")
            peer.say(f"ACK\nid:{headers['ack']}\nreceipt:{number}\n\n\0".encode())
            while not any(frame[0] == "RECEIPT" for frame in peer.frames):
                peer.read()
            receipt = next(frame for frame in peer.frames if frame[0] == "RECEIPT")
            peer.frames.remove(receipt)
            self._content[queue].remove(number)
        peer.close()

    def _subscribe(self, queue: str, id: str) -> bytes:
        where = self._naming.place(queue, False, "subscription-type") + self._naming.window(-1)
        return f"SUBSCRIBE\nid:{id}\n{where}ack:client-individual\n\n\0".encode()

    # --- restarts ---------------------------------------------------------------------------------

    def restart(self, way: str, tally: Tally) -> None:
        """Start a broker on files with a damage, and judge it."""
        damage = damages.ALL[way](self._dice, damages.damageable(self._files))
        if damage is None:
            return
        data = self._brokers.data
        shutil.rmtree(data)
        for name, content in damage.on(self._files).items():
            path = data / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content)
        tally.restarts += 1
        tally.kinds[way] += 1
        try:
            port = self._brokers.start()
            problems = self._look(port)
            altered = [problem for problem in problems if "altered" in problem]
        except (Stuck, OSError) as problem:
            problems, altered = [str(problem)], []
        complaints = self._brokers.complaints()
        self._brokers.kill()
        named = any(_reported_name(name) in complaints for name in damage.changes)
        if altered or (problems and not named):
            tally.hidden.append(f"{damage.sentence}: {'; '.join(problems[:3])} ({complaints!r})")
        tally.reported += named
        tally.harmless += not problems and not named

    def _look(self, port: int) -> list[str]:
        """Return the faults of the content of the queues."""
        consumer, producer = Peer(port), Peer(port)
        for queue in QUEUES:
            consumer.say(self._subscribe(queue, queue))
            to = self._naming.place(queue, False, "destination-type")
            producer.say(f"SEND\n{to}end:{queue}\n\nend\0".encode())
        numbers: dict[str, list[int]] = {queue: [] for queue in QUEUES}
        ends, problems = 0, []
        while ends < len(QUEUES):
            _, headers, body = consumer.wait("MESSAGE")
            if body == b"end":
                ends += 1
                continue
            queue, number, _ = body[:60].decode("utf-8", "replace").split(":", 2)
            if queue != headers["subscription"] or body != body_of(queue, int(number)):
                problems.append(f"{queue}: {body[:40]!r} is altered, or of another queue")
            else:
                numbers[queue].append(int(number))
        consumer.close()
        producer.close()
        for queue in QUEUES:
            problems += _judge(queue, self._content[queue], numbers[queue])
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
    """The name of a file in the broker's reports, whatever folder the configuration has for it."""
    folder, _, rest = name.partition("/")
    return f"large/{rest}" if folder.startswith("large") else name


def restarts(folder: Path, family: Family, count: int, seed: int, tally: Tally) -> None:
    """Restart a broker ``count`` times, on the files of as many histories as that takes."""
    dice = random.Random(seed)
    ways = sorted(damages.ALL)
    until = tally.restarts + count
    folder.mkdir(exist_ok=True)
    brokers = Brokers(folder, family)
    try:
        while tally.restarts < until:
            history = History(brokers, family, dice)
            for _ in range(min(PER_HISTORY, until - tally.restarts)):
                history.restart(dice.choice(ways), tally)
    finally:
        brokers.end()


@click.command(context_settings={"show_default": True})
@click.option("--restarts", "count", type=click.IntRange(1), default=2000)
@click.option("--seed", default=1, help="All that the dice know.")
@click.option("--profile", "profiles", type=click.Choice(PROFILES), multiple=True, default=PROFILES)
def main(count: int, seed: int, profiles: tuple[str, ...]) -> None:
    """Restart the reference broker on damaged files, and see whether it hides anything."""
    began = time.monotonic()
    tally = Tally()
    with (
        tempfile.TemporaryDirectory(prefix="brokerproof-damaged-") as scratch,
        contextlib.suppress(KeyboardInterrupt),
    ):
        for number, profile in enumerate(profiles):
            share = count // len(profiles) + (number < count % len(profiles))
            restarts(Path(scratch) / profile, FAMILIES[profile], share, seed + number, tally)
    ways = ", ".join(f"{way} {times}" for way, times in sorted(tally.kinds.items()))
    click.echo(
        f"{tally.restarts} restarts on damaged files ({', '.join(profiles)}), seed {seed},"
        f" {time.monotonic() - began:.0f} s: {ways}"
    )
    click.echo(
        f"{tally.reported} damages reported, {tally.harmless} without effect and unreported,"
        f" {len(tally.hidden)} hidden"
    )
    for sentence in tally.hidden[:20]:
        click.echo(sentence)
    sys.exit(1 if tally.hidden else 0)


if __name__ == "__main__":
    main()
