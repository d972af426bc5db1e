"""Targets that run during a block of a test."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target


@contextmanager
def started(name: str, folder: Path) -> Iterator[Target]:
    target = target_file.load(name)
    target.start(folder)
    try:
        yield target
    finally:
        target.stop()
