"""``python -m brokerproof.suites.interop.accelerated [--rate 10]`` prints each wait of two seconds
as the waiting process and the host measured it, and exits with 1 if a wait did not follow the
accelerated clock.

It needs a JDK and everything that the ``rabbitmq`` target needs.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import as_file, files
from pathlib import Path

from brokerproof.harness.targets import accelerated_clock, debian, java_runtime
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release

ASKED_MS = 2000
MOST_MS = ASKED_MS * 3 // 2
"""A wait that the libraries do not intercept takes ten times as long, unless the host is late."""
JAVA = 11
"""The oldest Java that runs a source file."""


@dataclass(frozen=True, slots=True)
class Wait:
    """A wait of :data:`ASKED_MS`, in milliseconds on the process's clock and on the host's."""

    name: str
    own_ms: int
    host_ms: int

    def keeps(self, rate: int) -> bool:
        """True if the wait took the requested time on a clock that runs at ``rate``."""
        return ASKED_MS - 100 <= self.own_ms <= MOST_MS and self.host_ms <= MOST_MS // rate


def waits(command: Sequence[Path | str], environment: Mapping[str, str]) -> Iterator[Wait]:
    """Run a program that prints ``begin NAME`` and ``end NAME MILLISECONDS`` around each wait."""
    with subprocess.Popen(
        [*map(str, command)], stdout=subprocess.PIPE, env=environment, text=True
    ) as program:
        assert program.stdout is not None
        began = time.monotonic_ns()
        for line in program.stdout:
            word, _, rest = line.strip().partition(" ")
            if word == "begin":
                began = time.monotonic_ns()
            elif word == "end":
                name, _, own_ms = rest.rpartition(" ")
                yield Wait(name, int(own_ms), (time.monotonic_ns() - began) // 1_000_000)
    if program.returncode:
        sys.exit(f"{command[-1]}: ended with {program.returncode}; see what it printed above")


def of_java(rate: int) -> Iterator[Wait]:
    java = java_runtime.find_java(JAVA)
    with as_file(files(__package__).joinpath("ClockWaits.java")) as source:
        yield from waits([*accelerated_clock.prefix(rate), java, source], os.environ)


def of_erlang(rate: int) -> Iterator[Wait]:
    release = rabbitmq_release.find(rabbitmq_release.default_version())
    with (
        tempfile.TemporaryDirectory() as name,
        as_file(files(__package__).joinpath("clock_waits.escript")) as script,
    ):
        folder = Path(name)
        inside = folder if release.root is None else debian.FOLDER
        shutil.copy(script, folder)
        clock = accelerated_clock.prefix_inside(rate, folder, inside)
        entering = [] if release.root is None else debian.entering(release.root, folder)
        command = [*entering, *clock, "escript", f"{inside}/{script.name}"]
        yield from waits(command, {**os.environ, "PATH": debian.PATH, "HOME": str(inside)})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--rate", type=int, default=10, help="speed relative to the host clock (default 10)"
    )
    rate = parser.parse_args().rate
    kept = True
    for language, found in (("Java", of_java(rate)), ("Erlang", of_erlang(rate))):
        for wait in found:
            verdict = "kept" if wait.keeps(rate) else "NOT KEPT"
            kept &= wait.keeps(rate)
            sys.stdout.write(
                f"{language:7} {wait.name:26} {wait.own_ms:6} ms by its clock,"
                f" {wait.host_ms:6} ms by the host's: {verdict}\n"
            )
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
