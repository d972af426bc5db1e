"""Limits of a case in real time; and runs that end while their cases wait."""

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.harness.model import cost_limits
from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Instant, seconds
from brokerproof.harness.targets import target_file
from brokerproof.harness.worlds.bounds import CaseBounds, LimitReached, RunBounds, RunStopped
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.wake_up_lateness import Canary
from brokerproof.suites.units.drivers.misbehaving import SERVERS, listening

FAR = seconds(3600)


class Ignoring:
    def bytes_arrived(self, at: Instant, data: bytes) -> None: ...

    def channel_closed(self, at: Instant, how: CloseHow) -> None: ...


@contextmanager
def connected(behaviour: str, bounds: RunBounds) -> Iterator[RealWorld]:
    with listening(SERVERS[behaviour]) as port:
        world = RealWorld({"stomp": ("127.0.0.1", port)}, Canary(), bounds=bounds)
        with closing(world):
            world.open("stomp", Ignoring())
            yield world


def test_a_connection_that_brings_too_many_bytes_ends_its_case() -> None:
    with (
        connected("floods_before_login", RunBounds(Limits(connection_bytes=100_000))) as world,
        pytest.raises(LimitReached, match="more than 100,000 bytes on one connection"),
    ):
        world.wait_until(lambda: False, world.now() + FAR)


def test_a_case_that_takes_too_long_ends() -> None:
    with (
        connected("silent", RunBounds(Limits(case_seconds=1))) as world,
        pytest.raises(LimitReached, match=r"longer than 1 s \(limit case_seconds\)"),
    ):
        world.wait_until(lambda: False, world.now() + FAR)


def test_a_run_that_is_stopped_ends_its_waiting_cases() -> None:
    bounds = RunBounds(Limits())
    with connected("silent", bounds) as world:
        stopping = threading.Thread(target=bounds.stop, args=("it is gone",))
        world.at(world.now(), stopping.start)
        with pytest.raises(RunStopped, match="it is gone"):
            world.wait_until(lambda: False, world.now() + FAR)
        stopping.join()


def test_frames_are_counted_by_connection_and_by_case() -> None:
    bounds = RunBounds(Limits(connection_frames=3, case_frames=5))
    one, other = CaseBounds(bounds), CaseBounds(bounds)
    for conn in (1, 1, 1, 2, 2):
        one.on_frame_received(0, conn)
        other.on_frame_received(0, conn)
    with pytest.raises(LimitReached, match=r"more than 3 frames on connection 1"):
        one.on_frame_received(0, 1)
    with pytest.raises(LimitReached, match=r"more than 5 frames in one case"):
        other.on_frame_received(0, 3)


def test_cases_side_by_side_share_a_bound_and_the_largest_ends_first() -> None:
    bounds = RunBounds(Limits(parallel_bytes=100))
    small, large = CaseBounds(bounds), CaseBounds(bounds)
    large.on_bytes_received(0, 95, 95)
    small.on_bytes_received(0, 10, 10)
    with pytest.raises(LimitReached, match="parallel_bytes"):
        large.on_bytes_received(0, 1, 96)
    large.close()
    small.on_bytes_received(0, 80, 90)


def test_a_case_without_a_run_has_no_limits() -> None:
    free = CaseBounds(None)
    free.on_bytes_received(0, 2**40, 2**40)
    free.check(2**62)


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ("case_seconds", "'case_seconds' should be NAME=NUMBER"),
        ("case_seconds=-1", "should be NAME=NUMBER"),
        ("case_seconds=0", "is 0; it should be a positive integer"),
        ("seconds=3", "there is no limit 'seconds'; the limits are connection_bytes, "),
    ],
)
def test_a_wrong_limit_is_named(words: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        cost_limits.parse((words,))


def test_a_target_file_and_the_command_set_limits(tmp_path: Path) -> None:
    path = tmp_path / "mine.target.toml"
    text = 'kind = "address"\nprofile = "stomp"\nendpoints = { stomp = "127.0.0.1:1" }\n'
    path.write_text(f"{text}limits = {{ case_seconds = 7, case_bytes = 8 }}\n", "utf-8")
    loaded = target_file.load(str(path), {"case_bytes": 9})
    assert loaded.identity.limits == replace(Limits(), case_seconds=7, case_bytes=9)
    path.write_text(f'{text}limits = {{ case_seconds = "7" }}\n', "utf-8")
    with pytest.raises(target_file.BadTarget, match=r"mine.*limits: the limit case_seconds is"):
        target_file.load(str(path))
