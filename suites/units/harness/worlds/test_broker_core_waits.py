"""The lateness of a host: an interval is widened by the time for which a broker's threads waited
for a core, and by the canary's own lateness."""

from pathlib import Path

import pytest

from brokerproof.harness.model.time import ms
from brokerproof.harness.worlds import wake_up_lateness as canary_module
from brokerproof.harness.worlds.broker_core_waits import SchedulerDelay
from brokerproof.harness.worlds.wake_up_lateness import CHAIN, Canary


def thread(proc: Path, pid: int, tid: int, waited: int, children: str = "") -> None:
    folder = proc / str(pid) / "task" / str(tid)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "schedstat").write_text(f"5000 {waited} 7\n")
    (folder / "children").write_text(children)


def test_the_thread_that_waited_longest_since_the_last_look_counts(tmp_path: Path) -> None:
    thread(tmp_path, 10, 10, 1_000)
    thread(tmp_path, 10, 11, 50_000)
    queue = SchedulerDelay(10, tmp_path)
    assert queue.worst() == 0  # earlier waits are unknown
    thread(tmp_path, 10, 10, 9_000)
    thread(tmp_path, 10, 11, 50_300)
    assert queue.worst() == 8_000
    assert queue.worst() == 0


def test_processes_that_the_broker_started_are_the_broker(tmp_path: Path) -> None:
    thread(tmp_path, 10, 10, 0, children="20 ")
    thread(tmp_path, 20, 20, 100)
    queue = SchedulerDelay(10, tmp_path)
    queue.worst()
    thread(tmp_path, 20, 20, 700)
    # New here: it may have existed long before it became a thread of this process.
    thread(tmp_path, 20, 21, 90_000)
    assert queue.worst() == 600


def test_a_process_that_is_gone_or_is_not_counted_waited_for_nothing(tmp_path: Path) -> None:
    (tmp_path / "10" / "task" / "10").mkdir(parents=True)
    assert SchedulerDelay(10, tmp_path).worst() == SchedulerDelay(11, tmp_path).worst() == 0


def test_compilers_of_java_are_waited_for_by_nobody(tmp_path: Path) -> None:
    names = {11: "C2 CompilerThre", 12: "C1 CompilerThre", 13: "Thread-0 (activ"}

    def waited(milliseconds: int) -> None:
        for tid, name in names.items():
            thread(tmp_path, 10, tid, ms(milliseconds) if tid < 13 else ms(milliseconds) // 10)
            (tmp_path / "10" / "task" / str(tid) / "comm").write_text(f"{name}\n")

    waited(0)
    queue = SchedulerDelay(10, tmp_path)
    queue.worst()
    for total in (500, 1000):
        waited(total)
        assert queue.worst() == ms(50)


def test_threads_that_wait_in_turn_are_late_by_a_second_at_most(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(canary_module.time, "monotonic_ns", lambda: clock[0])
    for tid in range(10):
        thread(tmp_path, 10, tid, 0)
    canary = Canary(SchedulerDelay(10, tmp_path))
    canary.worst(0)
    for tid in range(10):
        clock[0] += ms(100)
        thread(tmp_path, 10, tid, ms(300))
        canary.worst(0)
    assert canary.worst(0) == CHAIN
    thread(tmp_path, 10, 0, ms(300) + 3 * CHAIN)
    assert canary.worst(0) == 3 * CHAIN, "a thread alone may wait for longer"


def test_a_host_that_starves_the_broker_is_late_for_as_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(canary_module.time, "monotonic_ns", lambda: clock[0])
    for tid in range(3):
        thread(tmp_path, 10, tid, 0)
    canary = Canary(SchedulerDelay(10, tmp_path))
    canary.worst(0)
    for number in range(30):
        clock[0] += ms(100)
        thread(tmp_path, 10, number % 3, ms(80) * (number // 3 + 1))
        canary.worst(0)
    assert canary.worst(0) == 30 * ms(80)
    clock[0] += ms(100)
    canary.worst(0)
    assert canary.worst(ms(2950)) == ms(80), "what was before does not count"


def test_a_broker_that_waited_for_a_core_makes_the_host_late(tmp_path: Path) -> None:
    thread(tmp_path, 10, 10, 0)
    canary = Canary(SchedulerDelay(10, tmp_path))
    assert canary.worst(0) == 0
    thread(tmp_path, 10, 10, ms(180))
    assert canary.worst(0) == ms(180)
    assert canary.worst(0) == ms(180), "readings stay"
    assert canary.quantile(1.0) == 0, "what we say of ourselves is the canary's"


def test_what_threads_waited_one_after_the_other_adds_up_within_a_second(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(canary_module.time, "monotonic_ns", lambda: clock[0])
    thread(tmp_path, 10, 10, 0)
    thread(tmp_path, 10, 11, 0)
    canary = Canary(SchedulerDelay(10, tmp_path))
    assert canary.worst(0) == 0
    clock[0] = ms(250)
    thread(tmp_path, 10, 10, ms(80))
    assert canary.worst(0) == ms(80)
    clock[0] = ms(500)
    thread(tmp_path, 10, 11, ms(70))
    assert canary.worst(0) == ms(150)
    clock[0] = ms(250) + CHAIN
    thread(tmp_path, 10, 10, ms(170))
    assert canary.worst(0) == ms(160), "the first is a second ago"
    assert canary.worst(ms(600)) == ms(90)


def test_what_was_late_behind_an_instant_does_not_count_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = [0]
    monkeypatch.setattr(canary_module.time, "monotonic_ns", lambda: clock[0])
    thread(tmp_path, 10, 10, 0)
    canary = Canary(SchedulerDelay(10, tmp_path))
    assert canary.worst(0) == 0
    clock[0] = ms(600)
    thread(tmp_path, 10, 10, ms(80))
    assert canary.worst(0, ms(300)) == ms(80), "the look covers what was since the first"
    clock[0] = ms(900)
    thread(tmp_path, 10, 10, ms(200))
    assert canary.worst(0, ms(500)) == ms(80)
    assert canary.worst(0, ms(700)) == ms(200)
