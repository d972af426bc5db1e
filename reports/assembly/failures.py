"""Turns an error of a report or a judgement into one sentence."""

import re
from collections.abc import Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager

from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.results.records import UnreadableResults
from brokerproof.harness.targets.java_runtime import NoJava
from brokerproof.harness.trace.read import UnreadableTrace
from brokerproof.reports.assembly.refusals import OurError, Refusal, SetUpFailed
from brokerproof.reports.sources.runs import UnreadableRun
from brokerproof.reports.spark.gateway import NoGateway
from brokerproof.reports.spark.on_demand import NoSpark, problems


@contextmanager
def in_one_sentence() -> Iterator[None]:
    """Turn errors of a report or a judgement into a :class:`Refusal` with a sentence."""
    try:
        yield
    except (UnreadableRun, UnreadableResults, UnreadableTrace) as problem:
        raise Refusal(str(problem)) from None
    except (NoJava, NoGateway, NoSpark) as problem:
        raise SetUpFailed(str(problem)) from None
    except OSError as problem:
        named = f"{problem.filename}: " if problem.filename else ""
        raise Refusal(
            f"{named}the report cannot be written ({problem.strerror or problem})"
        ) from None
    except BadData as problem:
        raise OurError(str(problem)) from None
    except BrokenProcessPool:
        raise OurError(
            "a process that writes case pages ended, possibly because it ran out of memory"
        ) from None
    except problems() as problem:
        if unreadable := _UNREADABLE.search(_text(problem)):
            raise Refusal(unreadable[1]) from None
        raise OurError(f"Spark failed: {_first_line(problem)}") from None


_UNREADABLE = re.compile(rf"^{UnreadableTrace.__module__}.{UnreadableTrace.__name__}: (.+)$", re.M)
"""The last line of a worker's traceback, if the worker could not read its input."""


def _text(problem: BaseException) -> str:
    try:
        return str(problem)
    except Exception:  # py4j gets the message from the JVM, which may have ended
        return ""


def _first_line(problem: BaseException) -> str:
    lines = [line.strip() for line in _text(problem).splitlines() if line.strip()]
    return (lines[0] if lines else type(problem).__name__)[:400]
