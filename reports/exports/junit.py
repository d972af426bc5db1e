"""junit.xml: one test suite per run and target, written row by row.

FAIL becomes ``<failure>`` and ERROR ``<error>``. SKIP and INCONCLUSIVE become ``<skipped>``, the
latter with a message that begins with ``inconclusive``. Parsers know no fourth outcome, and a pass
or a failure would be false. KNOWN is ``<skipped>`` with a message that begins with ``known
deviation``. WARN and NOTE pass, with their text in ``<system-out>``. The requirements and the
verdict itself become properties of the test case."""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO
from xml.sax.saxutils import escape, quoteattr

from brokerproof.reports.model.index_model import Bar, CaseRow

_UNWRITABLE = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_SKIPPED = {"SKIP": "", "INCONCLUSIVE": "inconclusive: ", "KNOWN": "known deviation: "}


def write(
    path: Path, bars: Sequence[Bar], cases: Iterable[CaseRow], started: Mapping[str, str]
) -> None:
    """Write ``cases``, grouped in the order of ``bars``; ``started`` holds the start of each
    run."""
    left = iter(cases)
    with path.open("w", encoding="utf-8") as file:
        file.write('<?xml version="1.0" encoding="UTF-8"?>\n')
        totals = _totals(bars)
        file.write(f'<testsuites name="brokerproof" {totals}>\n')
        for bar in bars:
            at = started.get(bar.column.run, "")
            stamp = f" timestamp={quoteattr(at)}" if at else ""
            file.write(
                f" <testsuite name={_attribute(bar.column.label)} {_totals([bar])}{stamp}>\n"
            )
            for _ in range(bar.cases):
                _case(file, next(left), bar.column.label)
            file.write(" </testsuite>\n")
        file.write("</testsuites>\n")


def _totals(bars: Sequence[Bar]) -> str:
    def count(*verdicts: str) -> int:
        return sum(number for bar in bars for verdict, number in bar.counts if verdict in verdicts)

    tests = sum(bar.cases for bar in bars)
    seconds = sum(bar.seconds for bar in bars)
    return (
        f'tests="{tests}" failures="{count("FAIL")}" errors="{count("ERROR")}" '
        f'skipped="{count(*_SKIPPED)}" time="{seconds:.3f}"'
    )


def _case(file: IO[str], case: CaseRow, suite: str) -> None:
    module, _, _ = _split(case.case)
    where = f" file={_attribute(case.source.rpartition(':')[0])}" if ":" in case.source else ""
    file.write(
        f"  <testcase name={_attribute(case.named)}"
        f" classname={_attribute(f'{suite}.{module}' if module else suite)} "
        f'time="{case.duration_s:.3f}"{where}>\n<properties>'
    )
    for key, value in [
        ("case", case.case),
        ("verdict", case.verdict),
        *([("impact", case.impact)] if case.impact else []),
        *[("requirement", requirement) for requirement in case.requirements],
    ]:
        file.write(f"<property name={_attribute(key)} value={_attribute(value)}/>")
    file.write("</properties>\n")
    message = _attribute(_SKIPPED.get(case.verdict, "") + case.detail)
    if case.verdict == "FAIL":
        file.write(f'   <failure type="FAIL" message={message}>{_text(case.detail)}</failure>\n')
    elif case.verdict == "ERROR":
        file.write(f'   <error type="ERROR" message={message}>{_text(case.detail)}</error>\n')
    elif case.verdict in _SKIPPED:
        file.write(f"   <skipped message={message}/>\n")
    elif case.verdict in ("WARN", "NOTE"):
        file.write(f"   <system-out>{_text(f'{case.verdict}: {case.detail}')}</system-out>\n")
    file.write("  </testcase>\n")


def _split(case: str) -> tuple[str, str, str]:
    """Split a name, such as ``stomp.frames.eols[1.2]`` into ``stomp.frames`` and ``eols[1.2]``;
    parameters may contain dots."""
    head, bracket, parameters = case.partition("[")
    module, dot, name = head.rpartition(".")
    return module, dot, f"{name}{bracket}{parameters}" or case


def _attribute(text: str) -> str:
    return quoteattr(_UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text))


def _text(text: str) -> str:
    return escape(_UNWRITABLE.sub("\N{REPLACEMENT CHARACTER}", text))
