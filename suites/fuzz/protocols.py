"""Runs the protocol fuzzer: ``python -m brokerproof.suites.fuzz.protocols --seconds 60``. It runs
in process or, with ``--sockets``, over TCP (:mod:`brokerproof.suites.fuzz.sockets`).

A scene is one broker with up to :data:`PEERS` peers, each with one protocol and at any point of its
connection. Peers send frames of their protocol (:mod:`brokerproof.suites.fuzz.speakers`), valid or
broken, in one piece or in parts; they stop reading, reset their connections, and reconnect.
:mod:`brokerproof.suites.fuzz.scene` defines the invariants. An input is one chunk of bytes.

In process, a scene is generated from the seed, the family and the scene's number, so it can be
repeated. A finding is shortened and written to ``fixtures/vectors/protocols/``;
``test_protocol_fuzz.py`` replays it in every run.
"""

import contextlib
import dataclasses
import functools
import hashlib
import json
import resource
import secrets
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Protocol

import click

from brokerproof.suites.fuzz import operators, scene, sockets
from brokerproof.suites.fuzz.draws import Memory, Speaker
from brokerproof.suites.fuzz.scene import (
    FAMILIES,
    Advance,
    Alarm,
    Data,
    Disk,
    Event,
    Gone,
    Hangs,
    Open,
    Pause,
    Scene,
    Setting,
)
from brokerproof.suites.fuzz.speakers import FAMILIES as SPEAKERS

PEERS = 4
INPUTS = 250
"""Inputs of one scene."""
CHECK_EVERY = 25
"""Events between two checks of the bystander."""
POOL = 500
"""Frames that a speaker draws in advance, because encoding one takes longer than reading it."""
SHARED_BY = 100
"""Scenes that share a pool of frames."""
FRESH = 0.1
"""The share of frames that are drawn anew."""
LATE = 0.7
"""The share of closed peers that continue for one more event."""
MOST_CHUNK = 64 * 1024
MOST_GROWTH = 300 << 20
"""Bytes by which the process may grow from its hundredth scene on."""
_POLICIES = ("", "", "PAGE", "BLOCK", "FAIL", "DROP")
_EVENTS: dict[str, type[Event]] = {
    event.__name__: event for event in (Open, Data, Gone, Pause, Advance, Disk, Alarm)
}


@dataclass
class Peer:
    """A peer: its protocol, the rest of its opening, and how often it breaks a frame."""

    speaker: Speaker
    conn: int
    opening: list[bytes]
    wildness: float
    """The share of broken chunks."""
    sense: float
    """The share of frames that continue the conversation correctly."""
    rest: bytes = b""
    memory: Memory = field(default_factory=Memory)


class World(Protocol):
    """Where events happen: :class:`Scene` or :class:`sockets.SocketScene`. ``slowest`` is in ns."""

    slowest: int

    def play(self, event: Event, /) -> None: ...

    def received(self, conn: int, /) -> bytes: ...

    def is_closed(self, conn: int, /) -> bool: ...

    def check_bystander(self) -> None: ...

    def end(self, conns: Iterable[int], /) -> None: ...


class Player:
    """Draws the events of one scene and plays them in a world that the player creates."""

    def __init__(
        self, family: str, seed: str, number: int, world: Callable[[Setting], World] = Scene
    ) -> None:
        self.random = Random(f"{seed}/{family}/{number}")
        self.family = family
        self.setting = setting_of(family, self.random)
        self.events: list[Event] = []
        self.inputs: Counter[str] = Counter()
        self.slowest = 0
        self._peers: list[Peer] = []
        self._last = scene.BYSTANDER
        self._seed = seed
        self._number = number
        self._make = world
        self._world: World

    def play(self, inputs: int) -> None:
        """Play ``inputs`` chunks of bytes and the events between them. Raises the same exceptions
        as :meth:`Scene.play`."""
        world = self._world = self._make(self.setting)
        try:
            while self.inputs.total() < inputs:
                self._peers = [
                    peer
                    for peer in self._peers
                    if not world.is_closed(peer.conn) or self.random.random() < LATE
                ]
                for event in self._draw():
                    self.events.append(event)
                    world.play(event)
                if len(self.events) % CHECK_EVERY == 0:
                    world.check_bystander()
            world.check_bystander()
            world.end(range(1, self._last + 1))
        finally:
            self.slowest = world.slowest

    def _draw(self) -> Iterator[Event]:
        random = self.random
        while len(self._peers) < PEERS:
            yield self._arrive()
        chosen = random.random()
        peer = random.choice(self._peers)
        if chosen < 0.90:
            self.inputs[peer.speaker.name] += 1
            yield Data(peer.conn, self._chunk(peer))
        elif chosen < 0.92:
            yield Pause(peer.conn, random.random() < 0.5)
        elif chosen < 0.95:
            self._peers.remove(peer)
            yield Gone(peer.conn)
        elif chosen < 0.97:
            yield Advance(random.choice((1, 20, 500, 3000)))
        elif chosen < 0.98:
            yield Alarm(random.random() < 0.5)
        else:
            yield Disk(random.choice((1, 2, 9)))

    def _arrive(self) -> Event:
        self._last += 1
        random = self.random
        speaker = random.choice(SPEAKERS[self.family])
        opening = list(speaker.openings(random))
        if random.random() < 0.1:
            del opening[random.randrange(len(opening) + 1) :]
        if random.random() < 0.3:
            opening = [b"".join(opening)]
        wildness = random.choice((0.0, 0.02, 0.02, 0.3))
        sense = random.choice((0.0, 0.9, 1.0))
        self._peers.append(Peer(speaker, self._last, opening, wildness, sense))
        return Open(self._last, speaker.acceptor)

    def _chunk(self, peer: Peer) -> bytes:
        random = self.random
        if peer.rest and random.random() < 0.8:
            chunk, peer.rest = peer.rest, b""
            return chunk
        if peer.opening:
            chunk = peer.opening.pop(0)
        else:
            chunk = b"".join(self._frame(peer) for _ in range(random.choice((1, 1, 1, 2, 5))))
        if random.random() < peer.wildness:
            operator = random.choice(operators.BINARY)
            chunk = operator(random, chunk, [self._frame(peer)])
        chunk = chunk[:MOST_CHUNK]
        if len(chunk) > 1 and random.random() < 0.1:
            cut = random.randrange(1, len(chunk))
            chunk, peer.rest = chunk[:cut], chunk[cut:]
        return chunk or b"\n"

    def _frame(self, peer: Peer) -> bytes:
        random = self.random
        speaker = peer.speaker
        if speaker.sensible is not None and random.random() < peer.sense:
            peer.memory.received += self._world.received(peer.conn)
            return speaker.sensible(random, peer.memory)
        if random.random() < FRESH:
            return speaker.frame(random)
        return random.choice(_pool(speaker, self._seed, self._number // SHARED_BY))


@functools.lru_cache(maxsize=32)
def _pool(speaker: Speaker, seed: str, block: int) -> list[bytes]:
    """Return the frames that :data:`SHARED_BY` scenes share."""
    random = Random(f"{seed}/{speaker.name}/{block}")
    return [speaker.frame(random) for _ in range(POOL)]


def setting_of(family: str, random: Random) -> Setting:
    """Draw the broker of a scene."""
    stored = family != "rabbitmq" and random.random() < 0.5
    return Setting(family, stored, random.choice(_POLICIES))


@dataclass(frozen=True)
class Finding:
    """Events that break an invariant."""

    setting: Setting
    events: tuple[Event, ...]
    problem: str

    @property
    def vector(self) -> Path:
        digest = hashlib.sha256(repr(self.events).encode()).hexdigest()[:12]
        return vectors() / f"{self.setting.family}-{digest}.jsonl"

    def write(self, path: Path) -> None:
        """Write the finding as lines of JSON: the broker, then the events."""
        lines = [{"problem": self.problem, **dataclasses.asdict(self.setting)}]
        for event in self.events:
            line = {"event": type(event).__name__, **dataclasses.asdict(event)}
            if isinstance(event, Data):
                line["octets"] = line.pop("data").hex()
            lines.append(line)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))


def read(path: Path) -> Finding:
    head, *lines = map(json.loads, path.read_text().splitlines())
    problem = head.pop("problem")
    events = []
    for line in lines:
        kind = _EVENTS[line.pop("event")]
        if "octets" in line:
            line["data"] = bytes.fromhex(line.pop("octets"))
        events.append(kind(**line))
    return Finding(Setting(**head), tuple(events), problem)


def vectors() -> Path:
    """Return the folder of earlier findings."""
    return Path(str(files("brokerproof.fixtures"))) / "vectors" / "protocols"


def play(
    family: str,
    seed: str,
    number: int,
    inputs: int = INPUTS,
    world: Callable[[Setting], World] = Scene,
) -> tuple[Player, str]:
    """Play one scene; return the scene and its problem ("" if there was none)."""
    signal.signal(signal.SIGPROF, scene._hangs)
    player = Player(family, seed, number, world)
    try:
        player.play(inputs)
    except (Exception, Hangs) as problem:
        return player, scene.words(problem)
    return player, ""


def _grown(since: int) -> int:
    return (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10) - since


@click.command()
@click.option("--inputs", type=int, help="End after this many inputs.")
@click.option("--seconds", type=float, help="End after this time; 60 if nothing else ends it.")
@click.option("--seed", help="Any text; random by default.")
@click.option("--family", "families", multiple=True, type=click.Choice(FAMILIES))
@click.option("--keep/--no-keep", default=True, help="Write findings as vectors.")
@click.option("--sockets", "over_sockets", is_flag=True, help="Test broker processes over TCP.")
def main(
    inputs: int | None,
    seconds: float | None,
    seed: str | None,
    families: tuple[str, ...],
    keep: bool,
    over_sockets: bool,
) -> None:
    """Send arbitrary input to brokers of every family; an interrupt ends the run with the figures
    so far. Exit: 0 no finding · 1 findings."""
    seed = seed or secrets.token_hex(8)
    if inputs is None and seconds is None:
        seconds = 60
    click.echo(f"seed {seed}")
    began = time.monotonic()
    played: Counter[str] = Counter()
    problems: Counter[str] = Counter()
    slowest = number = first = 0
    pool = sockets.Pool() if over_sockets else None
    world = Scene if pool is None else pool.scene
    with contextlib.suppress(KeyboardInterrupt):
        while (inputs is None or played.total() < inputs) and (
            seconds is None or time.monotonic() - began < seconds
        ):
            number += 1
            for family in families or FAMILIES:
                player, problem = play(family, seed, number, world=world)
                played.update({f"{family} {name}": count for name, count in player.inputs.items()})
                slowest = max(slowest, player.slowest)
                if not problem:
                    continue
                if pool is not None:
                    pool.drop(player.setting)
                kind = f"{family}: {scene.kind(problem)}"
                problems[kind] += 1
                if problems[kind] > 1:
                    continue
                events = scene.shorter(player.setting, player.events, problem)
                finding = Finding(player.setting, tuple(events), problem)
                click.echo(f"{family} {number}: {problem} ({len(events)} events)")
                if keep:
                    finding.write(finding.vector)
            if number == 100:
                first = _grown(0)
            if first and _grown(first) > MOST_GROWTH:
                problems["the process grows"] += 1
                click.echo(
                    f"the process grew by {_grown(first) >> 20} MiB in {number - 100} scenes"
                )
                break
    took = time.monotonic() - began
    for name, count in sorted(played.items()):
        click.echo(f"{name}: {count:,} inputs")
    if pool is None:
        what = f"the slowest took {slowest / 1e6:.0f} ms of processor time"
        memory = f"at most {_grown(0) >> 20} MiB"
    else:
        pool.end()
        what = f"the bystander waited at most {slowest / 1e6:.0f} ms"
        memory = f"a broker had at most {pool.most >> 20} MiB and grew by {pool.growth >> 20} MiB"
    click.echo(f"{played.total():,} inputs in {took:,.0f} s; {what}; {memory}")
    for problem, count in problems.most_common():
        click.echo(f"finding ×{count}: {problem}")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
