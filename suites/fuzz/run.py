"""Runs the file reader fuzzer: ``python -m brokerproof.suites.fuzz.run --inputs 200000``.

Inputs are generated from a seed, a reader and a number, so each can be repeated. Forked workers try
them. It is a finding if a reader raises an unexpected exception, if a signal kills a worker (after
a fault in a C library, for example), or if an input takes longer than :data:`MOST_SECONDS`. A
finding is written to ``fixtures/vectors/files/READER/``; ``test_file_fuzz.py`` tries it in every
run.
"""

import functools
import hashlib
import multiprocessing
import resource
import secrets
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from random import Random
from typing import Any

import click

from brokerproof.suites.fuzz import operators
from brokerproof.suites.fuzz.file_readers import READERS, Reader, try_one

MOST_SECONDS = 10
"""The most processor time for one input; the slowest accepted one takes under a second."""
MOST_BYTES = 4 << 30
"""A worker's address space: a request for more is a finding."""
BATCH = 500
"""Inputs of one worker process."""


@dataclass(frozen=True)
class Finding:
    """An input that a reader neither read nor refused in one sentence."""

    reader: str
    seed: str
    number: int
    made_by: str
    problem: str
    data: bytes

    @property
    def vector(self) -> Path:
        digest = hashlib.sha256(self.data).hexdigest()[:12]
        return vectors() / self.reader / digest


class TooSlow(Exception):
    """One input took longer than :data:`MOST_SECONDS`."""


def vectors() -> Path:
    """Return the folder of earlier findings."""
    return Path(str(files("brokerproof.fixtures"))) / "vectors" / "files"


def made(reader: Reader, seed: str, number: int) -> tuple[bytes, str]:
    random = Random(f"{seed}/{reader.name}/{number}")
    return operators.mutant(random, _corpus(reader), reader.operators)


_input = made


@functools.cache
def _corpus(reader: Reader) -> Sequence[bytes]:
    return reader.seeds()


def fuzz(reader: Reader, seed: str, first: int, count: int) -> tuple[Counter[str], list[Finding]]:
    """Try ``count`` inputs in one worker process; return the outcomes and the findings."""
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    worker = context.Process(target=_work, args=(reader, seed, first, count, sending))
    worker.start()
    sending.close()
    outcomes: Counter[str] = Counter()
    findings = []
    current = first
    finished = False
    for kind, number, text in _reports(receiving):
        if kind == "now":
            current = number
        elif kind == "end":
            finished = True
        elif kind == "outcome":
            outcomes[text] += 1
        else:
            findings.append(_finding(reader, seed, number, text))
            outcomes["finding"] += 1
    worker.join()
    if not finished:
        findings.append(_finding(reader, seed, current, f"the worker ended ({worker.exitcode})"))
        outcomes["finding"] += 1
        rest = first + count - current - 1
        if rest:
            later, more = fuzz(reader, seed, current + 1, rest)
            return outcomes + later, findings + more
    return outcomes, findings


def _reports(receiving: Any) -> Iterator[tuple[str, int, str]]:
    while True:
        try:
            yield receiving.recv()
        except EOFError:
            return


def _finding(reader: Reader, seed: str, number: int, problem: str) -> Finding:
    data, made_by = made(reader, seed, number)
    return Finding(reader.name, seed, number, made_by, problem, data)


def _work(reader: Reader, seed: str, first: int, count: int, sending: Any) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, MOST_BYTES))
    signal.signal(signal.SIGPROF, _too_slow)
    with tempfile.TemporaryDirectory(prefix="brokerproof-fuzz-") as scratch:
        folder = Path(scratch)
        if reader.prepare is not None:
            reader.prepare(folder)
        for number in range(first, first + count):
            sending.send(("now", number, ""))
            data, _ = _input(reader, seed, number)
            signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
            try:
                outcome = try_one(reader, folder, data) or "read"
            except BaseException as problem:  # any other exception of a reader is a finding
                signal.setitimer(signal.ITIMER_PROF, 0)
                sending.send(("finding", number, _words(problem)))
            else:
                signal.setitimer(signal.ITIMER_PROF, 0)
                sending.send(("outcome", number, outcome))
    sending.send(("end", 0, ""))


def _words(problem: BaseException) -> str:
    frame = problem.__traceback__
    place = ""
    while frame is not None:
        path = Path(frame.tb_frame.f_code.co_filename)
        if "suites/fuzz" not in str(path):
            place = f"{path.name}:{frame.tb_lineno}"
        frame = frame.tb_next
    return f"{type(problem).__name__} at {place}: {str(problem)[:200]}"


def _too_slow(*_: object) -> None:
    raise TooSlow(f"one input took more than {MOST_SECONDS} s of processor time")


@click.command()
@click.option(
    "--inputs", default=20_000, show_default=True, help="Inputs for all readers together."
)
@click.option("--seed", help="Any text; random by default.")
@click.option("--reader", "names", multiple=True, help="Only this reader; may be repeated.")
@click.option("--keep/--no-keep", default=True, help="Write findings as vectors.")
def main(inputs: int, seed: str | None, names: tuple[str, ...], keep: bool) -> None:
    """Feed damaged files to every reader of files. Exit: 0 no finding · 1 findings."""
    seed = seed or secrets.token_hex(8)
    chosen = [reader for reader in READERS if not names or reader.name in names]
    if not chosen:
        raise click.UsageError(f"--reader: there are {', '.join(one.name for one in READERS)}")
    click.echo(f"seed {seed}")
    problems: Counter[str] = Counter()
    for reader in chosen:
        outcomes: Counter[str] = Counter()
        share = -(-inputs // len(chosen))
        for first in range(0, share, BATCH):
            counts, findings = fuzz(reader, seed, first, min(BATCH, share - first))
            outcomes += counts
            for finding in findings:
                known = problems[f"{reader.name}: {finding.problem[:60]}"]
                problems[f"{reader.name}: {finding.problem[:60]}"] += 1
                if known < 3:
                    click.echo(
                        f"{reader.name} {finding.number} ({finding.made_by}): {finding.problem}"
                    )
                if keep and not known:
                    finding.vector.parent.mkdir(parents=True, exist_ok=True)
                    finding.vector.write_bytes(finding.data)
        words = ", ".join(f"{count} {name}" for name, count in sorted(outcomes.items()))
        click.echo(f"{reader.name}: {sum(outcomes.values())} inputs: {words}")
    for problem, count in problems.most_common():
        click.echo(f"finding ×{count}: {problem}")
    raise SystemExit(1 if problems else 0)


if __name__ == "__main__":
    main()
