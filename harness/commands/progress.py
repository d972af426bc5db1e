"""Shows a run as it goes: a bar on a terminal, plain lines elsewhere."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder

_LOOK_EVERY_S = 0.25
_PLAIN_EVERY = 50
"""Without a terminal one line is printed per this many cases."""


def follow(
    console: Console, process: subprocess.Popen[bytes], folder: Path, target: str, within_s: int
) -> bool:
    """Follow ``process`` by the results it writes until it ends; return False if it takes longer
    than ``within_s``."""
    deadline = time.monotonic() + within_s
    done = bad = total = 0
    tail = records.Tail(folder)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[bad]}"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
    ) as bar:
        task = bar.add_task(target, total=None, bad="")
        if not console.is_terminal:
            console.print(f"{target}: judging", highlight=False)
        ended = False
        while not ended:
            try:
                process.wait(_LOOK_EVERY_S)
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
            if not ended and time.monotonic() > deadline:
                return False
            before = done
            for result in tail.new():
                if result.target == target:
                    done += 1
                    bad += result.verdict in (Verdict.FAIL, Verdict.ERROR)
            if console.is_terminal and (not total or done > total):
                total = len(run_folder.cases_of(folder))
            bar.update(
                task, completed=done, total=total or None, bad=f"{bad} failed" if bad else ""
            )
            if not console.is_terminal and (
                done // _PLAIN_EVERY > before // _PLAIN_EVERY or (ended and done)
            ):
                console.print(f"{target}: {done} cases, {bad} failed", highlight=False)
    return True
