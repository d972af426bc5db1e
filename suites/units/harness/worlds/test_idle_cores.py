"""The idle share of the processor, read from the kernel's counts."""

from pathlib import Path

from brokerproof.harness.worlds.idle_cores import IdleCores

BEFORE = """\
cpu  400 0 100 900 100 0 0 0 0 0
cpu0 100 0 50 300 50 0 0 0 0 0
cpu1 100 0 50 300 50 0 0 0 0 0
cpu2 200 0 0 300 0 0 0 0 0 0
intr 1 2 3
"""
AFTER = """\
cpu  400 0 100 900 100 0 0 0 0 0
cpu0 104 0 54 301 51 0 0 0 0 0
cpu1 102 0 50 306 52 0 0 0 0 0
cpu2 300 0 0 300 0 0 0 0 0 0
intr 1 2 3
"""


def test_the_share_is_of_the_cores_asked_for_since_it_was_asked_last(tmp_path: Path) -> None:
    stat = tmp_path / "stat"
    stat.write_text(BEFORE, "ascii")
    cores = IdleCores({0, 1}, stat)
    stat.write_text(AFTER, "ascii")
    assert cores.share() == 0.5, "1 and 1 of 10 ticks of the first core, 6 and 2 of the second's 10"
    assert cores.share() == 0.0, "nothing was counted since"


def test_where_the_kernel_counts_nothing_nothing_is_idle(tmp_path: Path) -> None:
    cores = IdleCores({0}, tmp_path / "missing")
    assert cores.share() == 0.0


def test_the_cores_of_this_machine_are_counted() -> None:
    cores = IdleCores()
    assert all(0.0 <= cores.share() <= 1.0 for _ in range(3))
