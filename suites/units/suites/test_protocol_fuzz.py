"""Brokers of every family and peers that send anything: new scenes in every run, all earlier
findings, and seeded faults, each found by an invariant."""

import os
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from brokerproof.harness.model.time import NS_PER_MS
from brokerproof.reference_broker.kernel.outbox import Outbox
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.fuzz import protocols, scene, sockets
from brokerproof.suites.fuzz.scene import BYSTANDER, FAMILIES, Data, Event, Open, Setting

SCENES = 3
"""Fresh scenes for each family in every run."""
VECTORS = sorted(protocols.vectors().glob("*.jsonl"))
CONNECT = Data(1, b"CONNECT\naccept-version:1.2\nhost:/\n\n\0")
STORED = Setting("artemis", True)


@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_scenes_keep_every_invariant(family: str) -> None:
    seed = secrets.token_hex(8)
    for number in range(SCENES):
        player, problem = protocols.play(family, seed, number)
        assert not problem, (
            f"seed {seed}, scene {number}: {problem}; python -m brokerproof.suites.fuzz.protocols"
            f" --family {family} --seed {seed} --inputs {SCENES * protocols.INPUTS} keeps it"
        )
        assert player.inputs.total() == protocols.INPUTS


@pytest.mark.parametrize("vector", VECTORS, ids=lambda path: path.stem)
def test_what_once_went_wrong_keeps_every_invariant(vector: Any) -> None:
    finding = protocols.read(vector)
    assert scene.problem_of(finding.setting, finding.events) == ""


def test_a_scene_can_be_made_again() -> None:
    first, second = (protocols.play("artemis", "a", 1, 40)[0].events for _ in range(2))
    assert first == second != protocols.play("artemis", "a", 2, 40)[0].events


def test_a_finding_can_be_kept(tmp_path: Any) -> None:
    player, _ = protocols.play("activemq", "a", 1, 40)
    finding = protocols.Finding(player.setting, tuple(player.events), "x: y")
    finding.write(tmp_path / "x.jsonl")
    assert protocols.read(tmp_path / "x.jsonl") == finding


def _raises(self: StompConnection, now: int, data: bytes) -> None:
    if self.conn != BYSTANDER:
        raise KeyError("planted")
    RECEIVE(self, now, data)


def _hangs(self: StompConnection, now: int, data: bytes) -> None:
    while self.conn != BYSTANDER:
        pass
    RECEIVE(self, now, data)


def _slow(self: StompConnection, now: int, data: bytes) -> None:
    if self.conn != BYSTANDER:
        sum(range(20_000_000))
    RECEIVE(self, now, data)


def _remains(self: StompConnection) -> None:
    GONE(self)
    self.shared.arrivals[-1] = self.shared.arrivals[BYSTANDER]


RECEIVE, GONE, DRAIN = StompConnection.receive, StompConnection.on_peer_gone, Outbox.drain


def _early(self: Outbox, batch: int = 0) -> list[Any]:
    return DRAIN(self)


def _unheard(self: StompConnection, now: int, data: bytes) -> None:
    if self.conn != BYSTANDER:
        bystander: Any = self.shared.connections[BYSTANDER]
        bystander._serving._state = type(self._state).CLOSED
    RECEIVE(self, now, data)


@pytest.mark.parametrize(
    ("kind", "method", "fault"),
    [
        ("KeyError at ", "receive", _raises),
        ("hangs", "receive", _hangs),
        ("slow", "receive", _slow),
        ("bystander", "receive", _unheard),
        ("left", "on_peer_gone", _remains),
    ],
)
def test_a_planted_fault_is_noticed(
    monkeypatch: pytest.MonkeyPatch, kind: str, method: str, fault: Callable[..., Any]
) -> None:
    monkeypatch.setattr(scene, "HANGS_S", 2.0)
    monkeypatch.setattr(scene, "MOST_NS", 100 * NS_PER_MS)
    monkeypatch.setattr(StompConnection, method, fault)
    problem = scene.problem_of(STORED, [Open(1, "all"), CONNECT])
    assert problem.startswith(kind)


def test_a_receipt_before_its_batch_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Outbox, "drain", _early)
    assert scene.kind(scene.problem_of(STORED, [])) == "early"


def test_without_a_fault_nothing_is_noticed() -> None:
    assert scene.problem_of(STORED, [Open(1, "all"), CONNECT]) == ""


def test_a_finding_is_made_shorter(monkeypatch: pytest.MonkeyPatch) -> None:
    def fault(self: StompConnection, now: int, data: bytes) -> None:
        if b"fault" in data:
            raise KeyError("planted")
        RECEIVE(self, now, data)

    monkeypatch.setattr(StompConnection, "receive", fault)
    noise: list[Event] = [Data(1, b"\n")] * 20
    events = [Open(1, "all"), CONNECT, *noise, Data(1, b"fault"), *noise]
    problem = scene.problem_of(STORED, events)
    shortest = scene.shorter(STORED, events, problem)
    assert len(shortest) <= 3
    assert scene.problem_of(STORED, shortest) == problem


@pytest.fixture
def pool() -> Iterator[sockets.Pool]:
    pool = sockets.Pool()
    yield pool
    pool.end()


@pytest.mark.parametrize("family", FAMILIES)
def test_fresh_scenes_over_sockets_keep_every_invariant(family: str, pool: sockets.Pool) -> None:
    seed = secrets.token_hex(8)
    player, problem = protocols.play(family, seed, 1, 100, world=pool.scene)
    assert not problem, f"seed {seed}: {problem}"
    assert player.inputs.total() == 100


def _at_a_fault(harm: Callable[[StompConnection], object]) -> Callable[..., None]:
    def receive(self: StompConnection, now: int, data: bytes) -> None:
        if b"fault" in data:
            harm(self)
        RECEIVE(self, now, data)

    return receive


def _fails(connection: StompConnection) -> None:
    raise KeyError("planted")


def _spins(connection: StompConnection) -> None:
    while True:
        pass


def _problem(world: sockets.SocketScene) -> str:
    try:
        world.check_bystander()
    except scene.Broken as broken:
        return str(broken)
    return ""


@pytest.mark.parametrize(
    ("kind", "harm"),
    [
        ("process: ended with 3", lambda _: os._exit(3)),
        ("grows", lambda connection: setattr(connection, "kept", b"x" * (64 << 20))),
        ("brokerproof broker: our own error", _fails),
        ("slow", lambda _: sum(range(20_000_000))),
        ("bystander: no", _spins),
    ],
)
def test_a_fault_planted_in_a_broker_process_is_noticed(
    monkeypatch: pytest.MonkeyPatch, pool: sockets.Pool, kind: str, harm: Callable[..., Any]
) -> None:
    monkeypatch.setattr(StompConnection, "receive", _at_a_fault(harm))
    monkeypatch.setattr(sockets, "MOST_GROWTH", 32 << 20)
    if kind == "slow":  # on a busy host other brokers would be slow too
        monkeypatch.setattr(sockets, "WITHIN_NS", 100 * NS_PER_MS)
    world = pool.scene(Setting("artemis", False))
    world.play(Open(1, "all"))
    if harm is _spins:
        monkeypatch.setattr(sockets, "HANGS_S", 2.0)
    world.play(Data(1, b"fault"))
    problems = filter(None, map(_problem, [world] * 1000))  # the broker may read it slightly later
    assert next(problems).startswith(kind)


def test_without_a_fault_nothing_is_noticed_over_sockets(pool: sockets.Pool) -> None:
    world = pool.scene(STORED)
    world.play(Open(1, "all"))
    world.play(CONNECT)
    world.play(Data(1, b"fault"))
    world.end([1])
