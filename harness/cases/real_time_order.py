"""The order in which cases begin in real time: the longest first, and those that keep a broker and
its disk busy behind the others.

A run then ends when its work does, not when a long case does that began last. Long cases wait, most
of them for a broker's timers; beside each other they leave the processor to the broker, and they
are over when the hundreds of short ones begin that compute.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.cases.example_runs import Call
from brokerproof.harness.catalogue import tables

BUSY = frozenset({"address-full", "paging"})
"""Cases that need one of these keep a broker and its disk busy. They begin last, away from those
that measure time."""
LEAST_S = 3
"""Cases shorter than that are not in the table; among themselves they keep their order."""


@functools.cache
def durations() -> Mapping[str, int]:
    """Return the seconds that long cases take, by name without version and parameters.

    Raises :class:`brokerproof.harness.catalogue.tables.BadData` for a damaged table.
    """
    path = Path(str(files("brokerproof.fixtures"))) / "long_cases.toml"
    values, _ = tables.read(path)
    for name, length in values.items():
        if type(length) is not int or length < LEAST_S:
            raise tables.BadData(
                f"{path}: {name} should be a whole number of seconds, at least {LEAST_S}; it is"
                f" {length!r}"
            )
    return values


def longest_first(calls: Iterable[Call]) -> list[Call]:
    """Return ``calls`` in the order in which they begin."""
    seconds = durations()
    return sorted(
        calls,
        key=lambda call: (bool(BUSY & call.case.needs), -seconds.get(call.case.name, 0)),
    )
