"""Output of ``brokerproof diff`` for other programs: Markdown, JUnit and GitHub annotations."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator, Sequence

from brokerproof.harness.commands.diff_inputs import Side
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.difference import Course, Difference, Shift

MOST_ROWS = 100
"""The maximum number of rows in a Markdown table, because a job summary may not exceed a
megabyte."""
MOST_ANNOTATIONS = 10
"""The maximum number of annotations of each kind. GitHub shows no more for a step."""
_MARKDOWN = re.compile(r"[\\`*_{}\[\]<>()#|!~]")
_TITLES = {
    Course.WORSE: "Worse",
    Course.UNDECIDED: "Undecided",
    Course.BETTER: "Better",
    Course.LATE: "Left open by a late host",
}


def markdown(
    a: Side, b: Side, notes: Sequence[str], differences: Sequence[Difference]
) -> Iterator[str]:
    counts = {course: _of(differences, course) for course in _TITLES}
    yield "## brokerproof: " + (", ".join(_counted(counts)) or "nothing changed")
    yield ""
    yield f"* A: {_text(a.describe())}"
    yield f"* B: {_text(b.describe())}"
    for note in notes:
        yield f"* note: {_text(note)}"
    for course, changed in counts.items():
        if not changed:
            continue
        yield ""
        yield f"### {_TITLES[course]}"
        yield ""
        yield "| case | target | A → B | B observed |"
        yield "| --- | --- | --- | --- |"
        for change in changed[:MOST_ROWS]:
            cells = (_code(change.case), _text(change.target), way(change), _text(observed(change)))
            yield "| " + " | ".join(cells) + " |"
        if len(changed) > MOST_ROWS:
            yield ""
            yield f"and {len(changed) - MOST_ROWS} more"


def junit(differences: Sequence[Difference]) -> str:
    """Return the comparison as JUnit XML: a worse case is a failure, an undecided case is
    skipped."""
    suite = ET.Element(
        "testsuite",
        name="brokerproof diff",
        tests=str(len(differences)),
        failures=str(len(_of(differences, Course.WORSE))),
        errors="0",
        skipped=str(len(_of(differences, Course.UNDECIDED))),
    )
    for change in differences:
        case = ET.SubElement(
            suite, "testcase", classname=_legal(change.target), name=_legal(change.case)
        )
        if change.course in (Course.WORSE, Course.UNDECIDED):
            kind = "failure" if change.course is Course.WORSE else "skipped"
            verdict = ET.SubElement(case, kind, message=way(change))
            verdict.text = _legal(observed(change))
    suites = ET.Element("testsuites")
    suites.append(suite)
    ET.indent(suites)
    return ET.tostring(suites, encoding="unicode", xml_declaration=True) + "\n"


def github(differences: Sequence[Difference]) -> Iterator[str]:
    """Yield workflow commands of GitHub Actions: an error for each worse case, a warning for each
    undecided case."""
    for course, word in ((Course.WORSE, "error"), (Course.UNDECIDED, "warning")):
        changed = _of(differences, course)
        for change in changed[:MOST_ANNOTATIONS]:
            title = _property(f"{change.target} {change.case}: {way(change)}")
            yield f"::{word} title={title}::{_data(observed(change) or way(change))}"
        if len(changed) > MOST_ANNOTATIONS:
            yield f"::{word}::{len(changed) - MOST_ANNOTATIONS} more cases are {course.lower()}"


def way(change: Difference | Shift) -> str:
    """Return the verdicts of A and B and the violation's impact: ``PASS → FAIL (loss)``."""
    verdicts = " → ".join(_verdict(verdict) for verdict in change.verdicts)
    return f"{verdicts} ({change.impact})" if change.impact else verdicts


def observed(change: Difference) -> str:
    """Return B's observation (A's if B has no such case) on one line."""
    side = change.b or change.a
    return "" if side is None else " ".join(_legal(side.result.detail[:400]).split())


def _verdict(verdict: Verdict | None) -> str:
    return "absent" if verdict is None else verdict.value


def _of(differences: Sequence[Difference], course: Course) -> list[Difference]:
    return [change for change in differences if change.course is course]


def _counted(counts: dict[Course, list[Difference]]) -> Iterator[str]:
    for course, changed in counts.items():
        if changed:
            yield f"{len(changed)} {course.lower()}"


def _legal(text: str) -> str:
    """Return ``text`` without the characters that XML cannot represent."""
    return "".join(
        character if character.isprintable() or character in "\t\n" else "\N{REPLACEMENT CHARACTER}"
        for character in text
    )


def _text(text: str) -> str:
    """Return ``text`` escaped so that Markdown shows it unchanged, even in a table cell."""
    return " ".join(_MARKDOWN.sub(r"\\\g<0>", _legal(text)).split())


def _code(text: str) -> str:
    return "`" + _legal(text).replace("`", "'").replace("|", "\\|") + "`"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(_legal(text)).replace(":", "%3A").replace(",", "%2C")
