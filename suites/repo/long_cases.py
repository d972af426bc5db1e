"""Writes the table with which a run in real time starts its longest cases first.

    python -m brokerproof.suites.repo.long_cases RUN RUN … > fixtures/long_cases.toml

The runs should be of different targets. The table uses the second longest attempt of a case in all
runs, so a single run on a busy host does not make a case seem long.
"""

import json
import sys
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from brokerproof.harness.results import records
from brokerproof.harness.results.records import Result
from brokerproof.harness.session.real_time_order import LEAST_S

HEAD = """\
# Seconds that long cases take in real time: harness/session/real_time_order.py begins them first.
# Made by `python -m brokerproof.suites.repo.long_cases RUN …`; a case that is missing begins later.
"""


def table(runs: Iterable[Iterable[Result]]) -> str:
    taken: dict[str, list[float]] = defaultdict(list)
    for results in runs:
        longest: dict[str, float] = {}
        for result in results:
            name = result.case.partition("[")[0]
            attempt_s = result.duration_s / max(1, result.attempts)
            longest[name] = max(longest.get(name, 0.0), attempt_s)
        for name, attempt_s in longest.items():
            taken[name].append(attempt_s)
    seconds = {name: int(sorted(times)[-2:][0]) for name, times in taken.items()}
    ordered = sorted(seconds.items(), key=lambda item: (-item[1], item[0]))
    rows = [f"{json.dumps(name)} = {length}\n" for name, length in ordered if length >= LEAST_S]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    sys.stdout.write(table(records.read(Path(run)) for run in sys.argv[1:]))
