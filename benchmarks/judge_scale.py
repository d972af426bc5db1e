"""Time and memory that judging takes, from 10**6 recorded events on: the judges, DuckDB,
and the oracles.

``python benchmarks/judge_scale.py [--sizes 1e6,1e7,5e7] [--json]``. For each size it writes a
recording (``benchmarks/load_trace.py``), judges it with Spark on ``local[2]`` with 4 GB of heap,
and asks DuckDB for the same checks on the same files (two threads, 4 GB); the smallest one is
judged by the pure-Python oracles too. Each engine is a process of its own, whose tree is watched:
wall time, processor time, and the most memory that it had at once. Recordings are removed again;
5·10**7 events need 1 GB of disk.

Every recording has five anomalies in it, and an engine that does not find each of them has failed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

TICK = os.sysconf("SC_CLK_TCK")
LOOK_EVERY_S = 1.0
MOST_FOR_ORACLES = 2_000_000
"""They hold every event as an object: three gigabytes for a million."""
KINDS = {"lost": 1, "shared": 1, "disordered": 1, "overrun": 1, "closed early": 1}
EXPECTED = {"messages": 2, "order": 1, "windows": 1, "silences": 1}


def main() -> None:
    """Print a table, or JSON; exits with 1 when an engine missed an anomaly or failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--sizes", default="1e6,1e7,5e7", help="numbers of events, separated by commas"
    )
    parser.add_argument(
        "--scratch", type=Path, help="where recordings are written; a temporary folder by default"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(ENGINES[asked.one[0]](Path(asked.one[1]))))
        return
    sizes = [int(float(part)) for part in asked.sizes.split(",")]
    rows = []
    for number, size in enumerate(sizes):
        with tempfile.TemporaryDirectory(prefix="brokerproof-scale-", dir=asked.scratch) as folder:
            rows += measured(Path(folder), size, oracles=number == 0 and size <= MOST_FOR_ORACLES)
    print(json.dumps(rows, indent=1) if asked.json else as_table(rows))
    sys.exit(0 if all(row["right"] for row in rows) else 1)


def measured(folder: Path, size: int, *, oracles: bool) -> list[dict[str, Any]]:
    """A row for each engine on a recording of ``size`` events."""
    from benchmarks.load_trace import Anomalies, write

    events = write(folder / "trace", size, Anomalies.all(size // 4))
    rows = []
    for engine in ("judges", "DuckDB", *(["oracles"] if oracles else [])):
        row = watched([sys.executable, __file__, "--one", engine, str(folder / "trace")])
        anomalies = row.pop("found")
        row |= {
            "engine": engine,
            "events": events,
            "right": anomalies == (EXPECTED if engine == "DuckDB" else KINDS),
        }
        print(
            f"{events:>11,} {engine:8} {row['seconds']:8.1f} s  found {anomalies}", file=sys.stderr
        )
        rows.append(row)
    return rows


def watched(command: list[str]) -> dict[str, Any]:
    """Run a command and watch it and all it starts: seconds, processor seconds, and most bytes
    of memory at once."""
    began = time.monotonic()
    spent: dict[int, float] = {}
    most = 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT) as process:
        while True:
            size = 0
            for pid in tree(process.pid):
                with contextlib.suppress(OSError, ValueError, IndexError):
                    stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
                    spent[pid] = (int(stat[11]) + int(stat[12])) / TICK
                    size += proportional(pid)
            most = max(most, size)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(LOOK_EVERY_S)
                break
        assert process.stdout is not None
        lines = process.stdout.read().decode().strip().splitlines()
    result = (
        json.loads(lines[-1])
        if process.returncode == 0 and lines
        else {"found": f"failed ({process.returncode})"}
    )
    return {
        "seconds": time.monotonic() - began,
        "processor": sum(spent.values()),
        "memory": most,
        **result,
    }


def tree(root: int) -> list[int]:
    """A process and all its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    processes, left = [], [root]
    while left:
        processes.append(left.pop())
        left += children.get(processes[-1], [])
    return processes


def proportional(pid: int) -> int:
    """A process's memory, what it shares with others counted in parts."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def judges(folder: Path) -> dict[str, Any]:
    """The judges on Spark."""
    from brokerproof.harness.catalogue.profiles import load
    from brokerproof.harness.catalogue.requirements import load as requirements
    from brokerproof.harness.oracles.expectations import expectations_of
    from brokerproof.reports.judging.conclusion import conclude
    from brokerproof.reports.judging.judge import find_anomalies
    from brokerproof.reports.requirements import Requirements
    from brokerproof.reports.sources.segments import local
    from brokerproof.reports.spark_session import session

    began = time.monotonic()
    with session("local[2]", heap="4g", brief=True) as spark:
        ready = time.monotonic()
        judgement = find_anomalies(
            spark, local([str(folder)], 2), expectations_of("artemis", load("artemis").parameters)
        )
        conclusion = conclude(judgement, Requirements(requirements().values()).level)
        done = time.monotonic()
    return {
        "start": ready - began,
        "work": done - ready,
        "found": {anomaly.kind: anomaly.count for anomaly in conclusion.wrong},
    }


def duck(folder: Path) -> dict[str, Any]:
    """DuckDB."""
    from benchmarks.duck_checks import run

    began = time.monotonic()
    anomalies = run(folder, threads=2, memory="4GB", scratch=folder.parent / "duck")
    return {"work": time.monotonic() - began, "found": anomalies}


def oracles(folder: Path) -> dict[str, Any]:
    """The pure-Python oracles, which hold all events in memory."""
    from brokerproof.harness.catalogue.profiles import load
    from brokerproof.harness.oracles import connection_lifetimes, recorded_anomalies
    from brokerproof.harness.oracles.expectations import expectations_of
    from brokerproof.harness.trace import read

    expectations = expectations_of("artemis", load("artemis").parameters)
    began = time.monotonic()
    events = [
        read.event(row) for path in sorted(folder.glob("part-*.parquet")) for row in read.rows(path)
    ]
    wrong = recorded_anomalies.find_anomalies(events, expectations)
    wrong += [
        anomaly
        for life in connection_lifetimes.lifetimes(events).values()
        for anomaly in connection_lifetimes.find_anomalies(life, expectations)
    ]
    kinds = [anomaly.kind for anomaly in wrong]
    return {
        "work": time.monotonic() - began,
        "found": {kind: kinds.count(kind) for kind in dict.fromkeys(kinds)},
    }


ENGINES = {"judges": judges, "DuckDB": duck, "oracles": oracles}


def as_table(rows: list[dict[str, Any]]) -> str:
    """The rows as Markdown; ratios are to DuckDB on the same recording."""
    lines = [
        (
            "| events | engine | s | of it at work, s | processor, s | µs an event | memory, MB |"
            " ratio | ratio of processor |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    base = {row["events"]: row for row in rows if row["engine"] == "DuckDB"}
    for row in rows:
        other = base[row["events"]]
        lines.append(
            f"| {row['events']:,} | {row['engine']}{'' if row['right'] else ' (wrong)'} |"
            f" {row['seconds']:.1f} | {row.get('work', 0):.1f} | {row['processor']:.1f} |"
            f" {row['processor'] / row['events'] * 10**6:.2f} | {row['memory'] / 10**6:,.0f} |"
            f" {row.get('work', 0) / other.get('work', 1):.2f} |"
            f" {row['processor'] / other['processor']:.2f} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
