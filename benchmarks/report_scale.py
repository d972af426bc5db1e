"""Time to write a report on many cases, its size, and the time until Chromium displays it.

``python benchmarks/report_scale.py [--cases 1e5] [--targets 4] [--out FOLDER] [--look] [--json]``.
The benchmark writes a run of that many cases. A tenth of them have several connections, and the
rest are alike. Another process writes the report with ``local[2]``. Then the benchmark opens the
index and the page of a case, at the widths of a desktop and of a phone. The run goes to a temporary
folder unless ``--out`` names one to keep; ``--look`` only opens the report in that folder.
"""

import argparse
import contextlib
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import psutil
from judge_scale import tree

ROOT = Path(__file__).resolve().parent.parent

SUITES = ("stomp", "amqp10", "flow", "delivery", "conversion")
DOUBTS = (
    *(("FAIL", 0.002), ("INCONCLUSIVE", 0.002), ("KNOWN", 0.005)),
    *(("WARN", 0.003), ("SKIP", 0.05), ("NOTE", 0.01)),
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=lambda text: int(float(text)), default=100_000)
    parser.add_argument("--targets", type=int, default=4)
    parser.add_argument("--out", type=Path, help="keep run and report here")
    parser.add_argument("--look", action="store_true", help="only open the report in --out")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    if asked.look and asked.out is None:
        parser.error("--look needs --out, the folder of a report that was written before")
    folder = asked.out or Path(tempfile.mkdtemp(prefix="brokerproof-report-scale-"))
    try:
        figures = (
            looked_at(folder / "report")
            if asked.look
            else measured(folder, asked.cases, asked.targets)
        )
    finally:
        if asked.out is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(
        json.dumps(figures, indent=1)
        if asked.json
        else "\n".join(f"{name:32} {value}" for name, value in figures.items())
    )


def measured(folder: Path, cases: int, targets: int) -> dict[str, Any]:
    run, report = folder / "run", folder / "report"
    events = write_run(run, cases, targets)
    took, steps, most = written(run, report)
    sizes = [path.stat().st_size for path in (report / "cases").rglob("*") if path.is_file()]
    return {
        "cases": cases,
        "events": events,
        "report written in s": round(took, 1),
        **{f"- {name}, s": round(seconds, 1) for name, seconds in steps.items()},
        "processor s of it": round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]), 1),
        **{f"most memory of {name}, MiB": size >> 20 for name, size in most.items()},
        "index bytes": (report / "index.html").stat().st_size,
        "files of case pages": len(sizes),
        "bytes of case pages": sum(sizes),
        "bytes of the report": sum(
            path.stat().st_size for path in report.rglob("*") if path.is_file()
        ),
        **looked_at(report),
    }


def written(run: Path, report: Path) -> tuple[float, dict[str, float], dict[str, int]]:
    """Write the report; return the seconds in total and by step, and the peak memory in bytes by
    process."""
    program = "from brokerproof.harness.commands.cli import main; main()"
    command = [sys.executable, "-c", program, "report", str(run), "--out", str(report)]
    began = time.monotonic()
    marks: list[tuple[str, float]] = [("start", began)]
    with subprocess.Popen(
        [*command, "--master", "local[2]"], cwd=ROOT, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None

        def listen(lines: Iterable[str]) -> None:
            marks.extend(
                (line.strip().removeprefix("report: "), time.monotonic()) for line in lines
            )

        listener = threading.Thread(target=listen, args=[process.stderr], daemon=True)
        listener.start()
        most: dict[str, int] = {}
        while listener.is_alive():
            for name, size in memory(process.pid).items():
                most[name] = max(size, most.get(name, 0))
            listener.join(0.3)
    if process.returncode:
        sys.exit(
            f"brokerproof report ended with {process.returncode}: {[words for words, _ in marks]}"
        )
    ended = time.monotonic()
    until = [at for _, at in marks[1:]] + [ended]
    return (
        ended - began,
        {words: end - at for (words, at), end in zip(marks, until, strict=True)},
        most,
    )


def memory(driver: int) -> dict[str, int]:
    """Return the current resident bytes of the process that writes the report, of its JVM, and of
    the largest of Spark's Python workers."""
    peaks: dict[str, int] = {}
    for process in tree(driver):
        with contextlib.suppress(psutil.Error):  # the process may end meanwhile
            java = process.name() == "java"
            name = "the driver" if process.pid == driver else "its JVM" if java else "a worker"
            peaks[name] = max(process.memory_info().rss, peaks.get(name, 0))
    return peaks


def write_run(folder: Path, cases: int, targets: int) -> int:
    """Write a run folder of that many results; return the number of events in the trace."""
    from brokerproof.harness.catalogue.requirements import load
    from brokerproof.harness.model.enums import Clock
    from brokerproof.harness.model.finding import JudgedFinding
    from brokerproof.harness.model.verdicts import Seen, Verdict
    from brokerproof.harness.results.records import Result
    from brokerproof.harness.trace.recorder import Recorder
    from brokerproof.suites.units.drivers.synthetic_run import (
        header,
        silence,
        two_connections,
        write_header,
    )

    chance = random.Random(1)
    known = list(load())
    names = [f"target-{number}" for number in range(targets)]
    write_header(folder, header(folder.name, targets=names))
    events, finding_rows = 0, []
    recorders = {name: Recorder(folder, folder.name, name, Clock.VIRTUAL) for name in names}
    facts: dict[str, Any] = {}
    for number in range(cases):
        target = names[number % targets]
        place = number // targets
        case = f"{SUITES[place % 5]}.part_{place % 97}.a_case_that_says_what_it_is_about_{place}"
        verdict = next((doubt for doubt, share in DOUBTS if chance.random() < share), "PASS")
        trace = two_connections() if number % 10 == 0 else silence(2_000_000_000 + number * 20_000)
        recorders[target].write(case, trace)
        events += len(trace)
        cited = tuple(dict.fromkeys(chance.choice(known) for _ in range(3)))
        bad = verdict in ("FAIL", "KNOWN", "WARN")
        detail = (
            f"{chance.randrange(9999)} ms; expected between 2000 and 4000 ms"
            if verdict != "PASS"
            else ""
        )
        seen = Seen.VIOLATED if bad else Seen.HELD
        findings = tuple(
            JudgedFinding(requirement, seen, detail, verdict=Verdict(verdict))
            for requirement in cited
        )
        finding_rows.append(
            Result(
                case, target, cited, Verdict(verdict), detail, findings, duration_s=chance.random()
            ).line()
        )
        facts[case] = {
            "doc": "A case that stands for many.",
            "requirements": list(cited),
            "source": "suites/x.py:1",
        }
    for recorder in recorders.values():
        recorder.flush()
    (folder / "results.ndjson").write_text("\n".join(finding_rows) + "\n", "utf-8")
    (folder / "cases.json").write_text(json.dumps(facts), "utf-8")
    return events


_READY = """new Promise(done => (function look() {
  'ready' in document.documentElement.dataset
    ? requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))) : setTimeout(look, 5);
})())"""  # noqa: E501
"""Milliseconds, by the page's own clock, until the page is ready and drawn."""
_CHANGED = """(() => {{
  const began = performance.now();
  {change};
  return new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began))));
}})()"""  # noqa: E501
_CHANGES = {
    **{
        name: (
            f"const box = document.getElementById('text'); box.value = '{text}';"
            " box.dispatchEvent(new Event('input'))"
        )
        for name, text in (
            ("text typed", "about_77 target-1"),
            ("another letter", "about_777 target-1"),
            ("text taken away", ""),
        )
    },
    "verdict chosen": "document.querySelector('button[data-verdict=FAIL]').click()",
    "suite chosen": (
        "const box = document.getElementById('suite'); box.value = 'flow'; box.dispatchEvent(new"
        " Event('change'))"
    ),
    "all again": "document.getElementById('reset').click()",
    "sorted by time": "document.querySelector('th[data-sort=took] button').click()",
}


def looked_at(report: Path) -> dict[str, Any]:
    """Return how long Chromium takes to display pages (in seconds) and to apply filters (in
    milliseconds), at each width."""
    from brokerproof.suites.browser.devtools import Browser

    figures: dict[str, Any] = {}
    last = json.loads((report / "ctrf.json").read_text("utf-8"))["results"]["tests"][-1]
    address = urlencode({"case": last["name"], "target": last["suite"][0]})
    for name, width, height in (("desktop", 1280, 900), ("phone", 390, 844)):
        with Browser() as browser:
            browser.look(width=width, height=height)

            def ready(path: Path, fragment: str = "", browser: Browser = browser) -> float:
                browser.open(path, fragment)
                return round(float(browser.run(_READY)) / 1000, 2)

            figures[f"{name}: index ready in s"] = ready(report / "index.html")
            figures[f"{name}: processor s of it"] = round(browser.busy(), 2)
            for change, script in _CHANGES.items():
                before = browser.busy()
                figures[f"{name}: {change}, drawn in ms"] = round(
                    browser.run(_CHANGED.format(change=script))
                )
                figures[f"{name}: processor ms of it ({change})"] = round(
                    (browser.busy() - before) * 1000
                )
            figures[f"{name}: filtered address ready in s"] = ready(
                report / "index.html", "verdict=FAIL&suite=flow&page=2"
            )
            figures[f"{name}: heap of its scripts, MB"] = round(
                browser.run("performance.memory.usedJSHeapSize") / 2**20
            )
            figures[f"{name}: nodes"] = browser.run("document.querySelectorAll('*').length")
            figures[f"{name}: case shown in s"] = ready(report / "case.html", address)
    return figures


if __name__ == "__main__":
    main()
