"""How long a report on many cases takes to write, how large it is, and how quickly Chromium shows it.

``python benchmarks/report_scale.py [--cases 1e5] [--targets 4] [--out FOLDER] [--json]``. It writes a run of so many cases,
all alike but for a tenth that have several connections, reports it with ``local[2]`` in a process of its own, and opens the
index, a page in a file of its own and a packed one. The run goes to a temporary folder unless ``--out`` names one to keep.
"""

from __future__ import annotations

import argparse
import json
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

SUITES = ("stomp", "amqp", "flow", "delivery", "crossing")
DOUBTS = (("FAIL", 0.002), ("INCONCLUSIVE", 0.002), ("KNOWN", 0.005), ("WARN", 0.003), ("SKIP", 0.05), ("NOTE", 0.01))


def main() -> None:
    """Prints the figures, or JSON."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cases", type=lambda text: int(float(text)), default=100_000)
    parser.add_argument("--targets", type=int, default=4)
    parser.add_argument("--out", type=Path, help="keep run and report here")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    folder = asked.out or Path(tempfile.mkdtemp(prefix="brokerproof-report-scale-"))
    try:
        figures = measured(folder, asked.cases, asked.targets)
    finally:
        if asked.out is None:
            shutil.rmtree(folder, ignore_errors=True)
    print(
        json.dumps(figures, indent=1)
        if asked.json
        else "\n".join(f"{name:32} {value}" for name, value in figures.items())
    )


def measured(folder: Path, cases: int, targets: int) -> dict[str, Any]:
    """The figures by name: seconds, octets, megabytes."""
    run, report = folder / "run", folder / "report"
    events = write_run(run, cases, targets)
    began = time.monotonic()
    command = [sys.executable, "-c", "from harness.cli import main; main()", "report", str(run), "--out", str(report)]
    subprocess.run([*command, "--master", "local[2]"], check=True, cwd=ROOT)
    took = time.monotonic() - began
    sizes = [path.stat().st_size for path in (report / "cases").rglob("*") if path.is_file()]
    return {
        "cases": cases,
        "events": events,
        "report written in s": round(took, 1),
        "processor s of it": round(sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2]), 1),
        "index octets": (report / "index.html").stat().st_size,
        "files of case pages": len(sizes),
        "octets of case pages": sum(sizes),
        **looked_at(report, cases),
    }


def write_run(folder: Path, cases: int, targets: int) -> int:
    """A run folder of so many results, and how many events its trace has."""
    from harness.catalogue.requirements import load
    from harness.trace.recorder import Recorder
    from harness.verdicts.finding import Finding
    from harness.verdicts.results import Result
    from harness.words import Clock, Seen, Verdict
    from suites.units.synthetic_run import header, silence, two_connections, write_header

    chance = random.Random(1)
    known = list(load())
    names = [f"target-{each}" for each in range(targets)]
    write_header(folder, header(folder.name, targets=names))
    events, told = 0, []
    recorders = {name: Recorder(folder, folder.name, name, Clock.VIRTUAL) for name in names}
    facts: dict[str, Any] = {}
    for number in range(cases):
        target = names[number % targets]
        place = number // targets
        case = f"{SUITES[place % 5]}.part_{place % 97}.a_case_that_says_what_it_is_about_{place}"
        verdict = next((each for each, share in DOUBTS if chance.random() < share), "PASS")
        trace = two_connections() if number % 10 == 0 else silence(2_000_000_000 + number * 20_000)
        recorders[target].write(case, trace)
        events += len(trace)
        cited = tuple(dict.fromkeys(chance.choice(known) for _ in range(3)))
        bad = verdict in ("FAIL", "KNOWN", "WARN")
        said = f"{chance.randrange(9999)} ms, should be between 2000 and 4000 ms" if verdict != "PASS" else ""
        findings = tuple(Finding(each, Seen.VIOLATED if bad else Seen.HELD, said) for each in cited)
        told.append(Result(case, target, cited, Verdict(verdict), said, findings, duration_s=chance.random()).line())
        facts[case] = {"doc": "A case that stands for many.", "requirements": list(cited), "source": "suites/x.py:1"}
    for recorder in recorders.values():
        recorder.flush()
    (folder / "results.ndjson").write_text("\n".join(told) + "\n", "utf-8")
    (folder / "cases.json").write_text(json.dumps(facts), "utf-8")
    return events


def looked_at(report: Path, cases: int) -> dict[str, Any]:
    """Seconds until Chromium shows what was asked for."""
    from suites.browser.devtools import Browser

    def ready(browser: Browser, path: Path, fragment: str = "") -> float:
        began = time.monotonic()
        browser.open(path, fragment)
        browser.wait_for("'ready' in document.documentElement.dataset")
        return round(time.monotonic() - began, 2)

    with Browser() as browser:
        browser.look()
        found: dict[str, Any] = {"index ready in s": ready(browser, report / "index.html")}
        found["index nodes"] = browser.run("document.querySelectorAll('*').length")
        found["filter by text in ms"] = round(
            browser.run(
                "(() => { const box = document.getElementById('text'), began = performance.now();"
                " box.value = 'about_77 target-1'; box.dispatchEvent(new Event('input'));"
                " return performance.now() - began })()"
            )
        )
        found["index filtered, ready in s"] = ready(browser, report / "index.html", "verdict=FAIL&suite=flow&page=2")
        found["megabytes of its heap"] = round(browser.run("performance.memory.usedJSHeapSize") / 2**20)
        found["packed page ready in s"] = ready(browser, report / "cases" / "more.html", str(cases - 1))
        alone = next(path for path in sorted((report / "cases").glob("*.html")) if path.name != "more.html")
        found["page alone shown in s"] = round(browser.open(alone), 2)
    return found


if __name__ == "__main__":
    main()
