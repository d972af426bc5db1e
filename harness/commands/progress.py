"""Shows the progress of a run: as a bar on a terminal, in plain lines elsewhere."""

import enum
import subprocess
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder

_LOOK_EVERY_S = 0.25
_PLAIN_EVERY = 50
"""The number of cases per printed line if the output is not a terminal."""
_ESTIMATE_AFTER = 0.25
"""The fraction of cases after which the time left can be estimated."""
_BAD = frozenset({Verdict.FAIL, Verdict.ERROR})


class Ended(enum.Enum):
    """Reasons to stop following a target."""

    BY_ITSELF = enum.auto()
    LATE = enum.auto()
    """The target was not judged within the limit."""
    FAILED = enum.auto()
    """A case failed, and the run should end at its first failure."""


def _bar(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        MofNCompleteColumn(),
        TextColumn("{task.fields[left]}"),
        TextColumn("{task.fields[bad]}", style="red"),
        console=console,
        disable=not console.is_terminal,
        transient=True,
        expand=True,
    )


def follow(
    console: Console,
    process: subprocess.Popen[bytes],
    folder: Path,
    target: str,
    within_s: int,
    *,
    title: str,
    stop_at_first: bool,
) -> Ended:
    """Follow the results that ``process`` writes, until the process ends or there is a reason to
    stop."""
    began = time.monotonic()
    done = bad = total = 0
    tail = records.Tail(folder)
    with _bar(console) as bar:
        task = bar.add_task(title, total=None, bad="", left="")
        if not console.is_terminal:
            console.print(f"{title}: judging", highlight=False, markup=False)
        ended = False
        while not ended:
            try:
                process.wait(_LOOK_EVERY_S)
                ended = True
            except subprocess.TimeoutExpired:
                ended = False
            elapsed = time.monotonic() - began
            if not ended and elapsed > within_s:
                return Ended.LATE
            before = done
            for result in tail.new():
                if result.target == target:
                    done += 1
                    bad += result.verdict in _BAD
            if done and (not total or done > total):
                total = len(run_folder.cases_for(folder, target))
            left = time_left(done, total, elapsed)
            bar.update(
                task,
                completed=done,
                total=total or None,
                bad=f"{bad} failed" if bad else "",
                left=left,
            )
            if not console.is_terminal and (
                done // _PLAIN_EVERY > before // _PLAIN_EVERY or (ended and done)
            ):
                shown = "" if ended or not left else f", {left}"
                console.print(
                    f"{title}: {done} of {total} cases, {bad} failed{shown}",
                    highlight=False,
                    markup=False,
                )
            if bad and stop_at_first and not ended:
                return Ended.FAILED
    return Ended.FAILED if bad and stop_at_first else Ended.BY_ITSELF


def time_left(done: int, total: int, elapsed_s: float) -> str:
    """Return the estimated time left in words; empty while there is no estimate."""
    if not total or done < total * _ESTIMATE_AFTER or done >= total:
        return ""
    left = elapsed_s / done * (total - done)
    return f"about {left:.0f} s left" if left < 90 else f"about {left / 60:.0f} min left"
