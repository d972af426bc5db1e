"""Processor time per message of two versions of the broker's core: ``python
benchmarks/broker_core_versions.py OLD NEW [ROUNDS]``, each a checkout.

A process for each version runs the paths of this checkout's ``broker_core.py`` in slices of 3,000
messages, one process at a time and in changing order. So whatever else the machine does hits both
alike.
Prints for each path both medians, the median ratio of throughput (NEW to OLD) with the range of the
middle 90 % of the rounds, and the ratio of the quickest slices.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
from pathlib import Path

PATHS = Path(__file__).resolve().with_name("broker_core.py")
MESSAGES = 3000
WARM_UP = 3
WORKER = f"""
import runpy, sys, time
time.perf_counter = time.process_time
sys.path.insert(0, sys.argv[1])
paths = runpy.run_path(sys.argv[2])
paths["send_path"].__globals__["MESSAGES"] = {MESSAGES}
for name in sys.stdin:
    print(paths[name.strip()](), flush=True)
"""


class Version:
    """A checkout, and the process that runs its slices."""

    def __init__(self, checkout: str) -> None:
        root = str(Path(checkout).resolve())
        self._process = subprocess.Popen(
            [sys.executable, "-c", WORKER, root, str(PATHS)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"PYTHONPATH": root},
        )
        self.slices: list[float] = []

    def run(self, path: str) -> None:
        """Run one slice; record its microseconds per message."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(path, file=self._process.stdin, flush=True)
        self.slices.append(float(self._process.stdout.readline()) / MESSAGES * 1e6)


def main() -> None:
    """Print a line for each path."""
    old, new = Version(sys.argv[1]), Version(sys.argv[2])
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 60
    for path in ("send_path", "ack_path", "receipts_path"):
        old.slices.clear()
        new.slices.clear()
        for number in range(rounds + WARM_UP):
            for version in (old, new) if number % 2 else (new, old):
                version.run(path)
        pairs = list(zip(old.slices, new.slices, strict=True))[WARM_UP:]
        ratios = sorted(before / after for before, after in pairs)
        cut = len(ratios) // 20
        before, after = (statistics.median(side) for side in zip(*pairs, strict=True))
        quickest = min(old.slices) / min(new.slices)
        print(
            f"{path}: {before:.1f} and {after:.1f} us, ratio {statistics.median(ratios):.3f}"
            f" ({ratios[cut]:.2f} to {ratios[-1 - cut]:.2f}), of the quickest {quickest:.3f}"
        )


if __name__ == "__main__":
    main()
