"""The order in which real-time cases begin: the longest first, and cases that keep a broker and its
disk busy begin after those that measure time.

This way, a run does not end with a long case that began last. Most long cases wait for a broker's
timers or for an answer that may never arrive. The longest busy cases begin once half of the other
cases have begun; if they began later, they would delay the end of the run."""

import functools
from collections.abc import Iterable, Mapping
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.cases.example_runs import Call
from brokerproof.harness.catalogue import tables

BUSY = frozenset({"address-full", "paging"})
"""Cases that need one of these capabilities keep a broker and its disk busy, and begin after the
long cases that measure time."""
LONGEST_S = 5
"""Busy cases that take at least this many seconds begin halfway."""
LEAST_S = 3
"""Shorter cases are not in the table and keep their order."""


@functools.cache
def durations() -> Mapping[str, int]:
    """Return the duration of long cases in seconds, by name without version and parameters.

    Raises :class:`brokerproof.harness.catalogue.tables.BadData` for an invalid table."""
    path = Path(str(files("brokerproof.fixtures"))) / "long_cases.toml"
    values, _ = tables.read(path)
    for name, length in values.items():
        if type(length) is not int or length < LEAST_S:
            raise tables.BadData(
                f"{path}: {name} should be a whole number of seconds, at least {LEAST_S}; it is"
                f" {length!r}"
            )
    return values


def beginning_order(calls: Iterable[Call]) -> list[Call]:
    seconds = durations()
    longest_first = sorted(calls, key=lambda call: -seconds.get(call.case.name, 0))
    measuring = [call for call in longest_first if not BUSY & call.case.needs]
    busy = [call for call in longest_first if BUSY & call.case.needs]
    longest = [call for call in busy if seconds.get(call.case.name, 0) >= LONGEST_S]
    half = len(measuring) // 2
    return [*measuring[:half], *longest, *measuring[half:], *busy[len(longest) :]]
