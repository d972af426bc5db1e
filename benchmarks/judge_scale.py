"""Time and memory of judging 10**6 recorded events and more: the judges, DuckDB, and the oracles.

``python benchmarks/judge_scale.py [--sizes 1e6,1e7,5e7] [--engines judges,DuckDB] [--json]``. For
each size it writes a recording (``suites/scale/load_trace.py``), judges it with Spark on
``local[2]`` with 4 GB of heap, and runs the same checks with DuckDB on the same files (two threads,
4 GB). The pure-Python oracles judge the smallest recording too. The ``cluster`` engine runs the
judges on a standalone cluster of two workers on this machine, each with one core and a 2 GB
executor. Each engine runs in its own process, whose process tree is watched: wall time, processor
time, and the peaks of memory (of all processes and of the JVMs) and temporary files.

Recordings are removed unless ``--keep`` leaves them in ``--scratch`` for another call. 10**9 events
need 4.2 GB of disk.

Every recording contains five anomalies. An engine that misses one has failed.
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import psutil

ROOT = Path(__file__).resolve().parent.parent

LOOK_EVERY_S = 1.0
PROCESSES = 2
"""The engines that write a recording."""
MOST_FOR_ORACLES = 2_000_000
"""The oracles hold every event as an object, which takes three gigabytes for a million."""
KINDS = {"lost": 1, "shared": 1, "disordered": 1, "overrun": 1, "closed early": 1}
EXPECTED = {"messages": 2, "order": 1, "windows": 1, "silences": 1}


def main() -> None:
    """Print a table, or JSON; exit with 1 if an engine failed or missed an anomaly."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    of = f"of {', '.join(ENGINES)}; oracles judge the first size, up to {MOST_FOR_ORACLES:,}"
    parser.add_argument("--sizes", default="1e6,1e7,5e7", help="numbers of events, with commas")
    parser.add_argument("--engines", default="judges,DuckDB,oracles", help=of)
    parser.add_argument(
        "--scratch", type=Path, help="for recordings; by default a temporary folder"
    )
    parser.add_argument(
        "--keep", action="store_true", help="keep recordings, and reuse existing ones"
    )
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", nargs=2, metavar=("ENGINE", "FOLDER"), help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(ENGINES[asked.one[0]](Path(asked.one[1]))))
        return
    engines = asked.engines.split(",")
    if unknown := set(engines) - ENGINES.keys():
        parser.error(
            f"--engines: no engine {unknown.pop()!r}; the engines are {', '.join(ENGINES)}"
        )
    if asked.keep and asked.scratch is None:
        parser.error("--keep needs --scratch, a folder that stays")
    sizes = [int(float(part)) for part in asked.sizes.split(",")]
    rows = []
    for number, size in enumerate(sizes):
        for_size = [
            engine
            for engine in engines
            if engine != "oracles" or (number == 0 and size <= MOST_FOR_ORACLES)
        ]
        if asked.keep:
            rows += measured(asked.scratch / f"{size}", size, for_size)
            continue
        with tempfile.TemporaryDirectory(prefix="brokerproof-scale-", dir=asked.scratch) as folder:
            rows += measured(Path(folder), size, for_size)
    print(json.dumps(rows, indent=1) if asked.json else as_table(rows))
    sys.exit(0 if all(row["right"] for row in rows) else 1)


def measured(folder: Path, size: int, engines: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each engine on a recording of ``size`` events; write the recording if
    ``folder`` has none."""
    from brokerproof.suites.scale.load_trace import Anomalies, write

    complete = folder / "events"
    if complete.exists():
        events = int(complete.read_text())
    else:
        events = write(folder / "trace", size, Anomalies.all(size // 4), processes=PROCESSES)
        complete.write_text(str(events))
    rows = []
    for engine in engines:
        with tempfile.TemporaryDirectory(prefix="scratch-", dir=folder) as scratch:
            row = watched(
                [sys.executable, __file__, "--one", engine, str(folder / "trace")], Path(scratch)
            )
        anomalies = row.pop("found")
        row |= {
            "engine": engine,
            "events": events,
            "right": anomalies == (EXPECTED if engine == "DuckDB" else KINDS),
        }
        print(
            f"{events:>13,} {engine:8} {row['seconds']:8.1f} s {row['processor']:8.1f} s of"
            f" processor, {row['memory'] / 10**6:,.0f} MB, found {anomalies}",
            file=sys.stderr,
        )
        rows.append(row)
    return rows


def watched(command: list[str], scratch: Path) -> dict[str, Any]:
    """Run a command that writes temporary files to ``scratch``, and watch its process tree. Return
    the seconds, the processor seconds, and the peak bytes of memory, of the JVMs' memory, and of
    the temporary files."""
    began = time.monotonic()
    spent: dict[int, float] = {}
    most = {"memory": 0, "java": 0, "files": 0}
    environment = {**os.environ, "TMPDIR": str(scratch), "SPARK_LOCAL_DIRS": str(scratch)}
    with subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT, env=environment) as process:
        while True:
            now = {"memory": 0, "java": 0, "files": size_of_files(scratch)}
            for watched_process in tree(process.pid):
                with contextlib.suppress(psutil.Error):
                    times = watched_process.cpu_times()
                    spent[watched_process.pid] = times.user + times.system
                    size = watched_process.memory_full_info().pss
                    now["memory"] += size
                    now["java"] += size if watched_process.name() == "java" else 0
            most = {name: max(most[name], now[name]) for name in most}
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
    return {"seconds": time.monotonic() - began, "processor": sum(spent.values()), **most, **result}


def size_of_files(folder: Path) -> int:
    size = 0
    for where, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):  # the file is gone
                size += (Path(where) / name).lstat().st_blocks * 512
    return size


def tree(pid: int) -> list[psutil.Process]:
    """Return a process and its descendants; nothing if the process has ended."""
    try:
        root = psutil.Process(pid)
        return [root, *root.children(recursive=True)]
    except psutil.NoSuchProcess:
        return []


def judges(folder: Path) -> dict[str, Any]:
    return judged(folder, "local[2]", heap="4g")


def cluster(folder: Path) -> dict[str, Any]:
    """Judge on a standalone cluster whose JVMs start before the clock does."""
    from brokerproof.suites.scale.cluster import standalone

    scratch = Path(tempfile.mkdtemp())
    settings = scratch / "conf"
    settings.mkdir()
    (settings / "spark-defaults.conf").write_text("spark.executor.memory 2g\n")
    os.environ |= {
        "SPARK_CONF_DIR": str(settings),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    with standalone(scratch, memory="2g") as master:
        return judged(folder, master, heap="1g")


def judged(folder: Path, master: str, *, heap: str) -> dict[str, Any]:
    """Return the anomalies that the judges find with Spark on ``master``, and the seconds they
    took."""
    from brokerproof.harness.catalogue.profiles import load
    from brokerproof.harness.catalogue.requirements import load as requirements
    from brokerproof.harness.oracles.expectations import expectations_of
    from brokerproof.reports.judging.conclusion import conclude
    from brokerproof.reports.judging.judge import find_anomalies
    from brokerproof.reports.model.requirements import Requirements
    from brokerproof.reports.sources.segments import local
    from brokerproof.reports.spark.session import session

    began = time.monotonic()
    with session(master, heap=heap, brief=True) as spark:
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
    """Check with DuckDB; if DuckDB gives up, return the first line of its message."""
    import duckdb
    from duck_checks import run

    began = time.monotonic()
    anomalies: dict[str, int] | str
    try:
        anomalies = run(folder, threads=2, memory="4GB", scratch=Path(tempfile.mkdtemp()))
    except duckdb.Error as problem:
        anomalies = str(problem).partition("\n")[0]
    return {"work": time.monotonic() - began, "found": anomalies}


def oracles(folder: Path) -> dict[str, Any]:
    """Judge with the pure-Python oracles, which hold all events in memory."""
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


ENGINES = {"judges": judges, "cluster": cluster, "DuckDB": duck, "oracles": oracles}


def as_table(rows: list[dict[str, Any]]) -> str:
    """Return the rows as Markdown, with ratios to DuckDB on the same recording if DuckDB ran."""
    lines = [
        (
            "| events | engine | s | of it at work, s | processor, s | µs an event | memory, MB |"
            " of it JVMs, MB | files, MB | ratio | ratio of processor |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    base = {row["events"]: row for row in rows if row["engine"] == "DuckDB" and row["right"]}
    for row in rows:
        other = base.get(row["events"])
        ratios = (
            f" {row['work'] / other['work']:.2f} | {row['processor'] / other['processor']:.2f} |"
            if other and "work" in row
            else " | |"
        )
        lines.append(
            f"| {row['events']:,} | {row['engine']}{'' if row['right'] else ' (wrong)'} |"
            f" {row['seconds']:.1f} | {row.get('work', 0):.1f} | {row['processor']:.1f} |"
            f" {row['processor'] / row['events'] * 10**6:.2f} | {row['memory'] / 10**6:,.0f} |"
            f" {row['java'] / 10**6:,.0f} | {row['files'] / 10**6:,.0f} |{ratios}"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
