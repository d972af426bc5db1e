"""Lists and explains requirements, both as text and as data for ``--json``."""

import difflib
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from brokerproof.harness.catalogue.cases import CaseInfo, citations
from brokerproof.harness.catalogue.coverage import coverage
from brokerproof.harness.catalogue.requirements import (
    Catalogue,
    Document,
    Requirement,
    folder_of_package,
)

_BINDS = {"server": "the server", "client": "the client", "both": "the server and the client"}
_SHOWS = {
    "wire": "on the wire",
    "wire+time": "on the wire, against a clock",
    "files": "in the broker's files",
    "none": "nowhere that a test could look",
}


class UnknownSource(Exception):
    """``--source`` names no document. The message lists the existing names."""


@dataclass(frozen=True, slots=True)
class Row:
    requirement: Requirement
    cases: tuple[str, ...]
    listed: str = ""
    """Why the requirement has no case, according to the list of uncovered requirements."""

    @property
    def coverage(self) -> str:
        """``covered``, ``uncovered`` (a case is needed but missing), ``optional`` (no case is
        needed, and there is none) or ``untestable``."""
        if self.cases:
            return "covered"
        if not self.requirement.testable:
            return "untestable"
        return "uncovered" if self.requirement.owed else "optional"

    @property
    def why_not(self) -> str:
        """Why the requirement has no case; empty if it has one or if no reason is stated."""
        return "" if self.cases else self.requirement.why_not or self.listed


def rows(
    catalogue: Catalogue,
    cases: Mapping[str, CaseInfo],
    listed: Mapping[str, str] | None = None,
    *,
    source: str | None = None,
    uncovered: bool = False,
) -> list[Row]:
    """Return the rows of ``list``, in catalogue order. Raises :class:`UnknownSource`.

    ``source`` is a file name, a document name or prefix (``stomp12``, ``STOMP 1.2``, ``STOMP12``),
    or a group (``seeds``); case is ignored. ``uncovered`` keeps only requirements that need a case
    and have none. ``listed`` has the reasons in the list of uncovered requirements, by id."""
    documents = None if source is None else _documents(catalogue, source)
    citing = coverage(catalogue, citations(cases))
    reasons = listed or {}
    matching = [
        Row(requirement, citing[requirement.id], reasons.get(requirement.id, ""))
        for requirement in catalogue.values()
        if documents is None or requirement.document in documents
    ]
    return [row for row in matching if not uncovered or row.coverage == "uncovered"]


def rows_json(listed: Sequence[Row]) -> list[dict[str, Any]]:
    """The output of ``list --json``."""
    return [
        {
            **_fields(row.requirement),
            "coverage": row.coverage,
            "uncovered_reason": row.listed or None,
            "cases": list(row.cases),
        }
        for row in listed
    ]


def rows_text(listed: Sequence[Row], width: int = 100) -> str:
    """The output of ``list`` as plain lines, by document; ``width`` is in characters, at least
    60."""
    if not listed:
        return "no requirement fits\n"
    names = max(len(row.requirement.id) for row in listed)
    lines: list[str] = []
    document: Document | None = None
    for row in listed:
        requirement = row.requirement
        if requirement.document is not document:
            document = requirement.document
            lines += [*([""] if lines else []), *textwrap.wrap(document.title, max(width, 60))]
        head = f"{requirement.id:<{names}}  {requirement.level:<6}  {row.coverage:<10}  "
        indent = " " * len(head)
        room = max(width, 60, len(head) + 24)
        lines += textwrap.wrap(
            requirement.heading,
            room,
            initial_indent=head,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
        if row.why_not:
            lines += textwrap.wrap(
                f"no case: {row.why_not}",
                room,
                initial_indent=indent,
                subsequent_indent=indent,
                break_on_hyphens=False,
            )
        lines += [f"    · {case}" for case in row.cases]
    return "\n".join([*lines, "", *textwrap.wrap(totals(listed), max(width, 60))]) + "\n"


def totals(listed: Sequence[Row]) -> str:
    counts = {
        kind: sum(row.coverage == kind for row in listed)
        for kind in ("covered", "uncovered", "optional", "untestable")
    }
    return f"{len(listed)} requirements: " + ", ".join(
        f"{count} {kind}" for kind, count in counts.items()
    )


def explanation(
    catalogue: Catalogue,
    cases: Mapping[str, CaseInfo],
    requirement: str,
    listed: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The output of ``explain --json``. ``listed`` has the reasons in the list of uncovered
    requirements, by id.

    Raises :class:`~brokerproof.harness.catalogue.requirements.UnknownRequirement`."""
    known = catalogue.find(_spelled(catalogue, requirement))
    citing = [case for case in cases.values() if known.id in case.requirements]
    return {
        **_fields(known),
        "document": known.document.title,
        "catalogue_file": _file(known),
        "owed": known.owed,
        "uncovered_reason": (listed or {}).get(known.id),
        "cases": [
            {
                "id": case.id,
                "says": case.summary,
                "source": case.source,
                "needs": sorted(case.needs),
            }
            for case in citing
        ],
    }


def explanation_text(facts: Mapping[str, Any], width: int = 100) -> str:
    """The output of ``explain`` as text; ``facts`` come from :func:`explanation`, ``width`` is in
    characters."""

    def wrapped(text: str, indent: str = "  ", label: str = "") -> str:
        return textwrap.fill(
            text,
            max(width, 60),
            initial_indent=label or indent,
            subsequent_indent=" " * len(label) or indent,
            break_on_hyphens=False,
            break_long_words=False,
        )

    strength = (
        "the vendor's documentation" if facts["level"] == "DOC" else f"level {facts['level']}"
    )
    parts = [
        facts["title"],
        f"  {facts['id']}  ({facts['level']})",
        "",
        *([wrapped(f"“{facts['quotation']}”")] if facts["quotation"] else []),
        wrapped(facts["statement"]),
        "",
        *([wrapped(facts["impact"].words, label="  impact    ")] if facts["impact"] else []),
        wrapped(f"{facts['document']}, section {facts['section']!r}", label="  source    "),
        f"  read it   {facts['link']}",
        wrapped(f"{strength}; its own words there: {facts['verb']!r}", label="  strength  "),
        f"  binds     {_BINDS[facts['subject']]}",
        f"  shows     {_SHOWS[facts['observe']]}",
    ]
    if facts["profile"]:
        parts.append(f"  brokers   those of profile {facts['profile']}")
    if facts["note"]:
        parts += ["", wrapped(f"Note: {facts['note']}")]
    if not facts["testable"]:
        parts += ["", wrapped(f"Not tested: {facts['why_not']}")]
    parts += ["", f"  Cases that cite it: {len(facts['cases'])}"]
    for case in facts["cases"]:
        parts.append(f"  · {case['id']}")
        parts += [wrapped(case["says"], "      ")] if case["says"] else []
        parts += [wrapped(f"needs {', '.join(case['needs'])}", "      ")] if case["needs"] else []
        parts.append(f"      {case['source']}")
    if not facts["cases"] and facts["uncovered_reason"]:
        parts.append(wrapped(f"Listed as uncovered: {facts['uncovered_reason']}"))
    parts += ["", wrapped(contest(facts))]
    return "\n".join(parts) + "\n"


def _file(requirement: Requirement) -> str:
    """Return a requirement's file; a path inside the repository is relative to it."""
    path = Path(requirement.where.rpartition(", ")[0])
    if path.parent == folder_of_package():
        return f"fixtures/requirements/{path.name}"
    return str(path)


def contest(facts: Mapping[str, Any]) -> str:
    """Return the paragraph on how to dispute a requirement or a verdict based on it."""
    return (
        "To contest it: compare the statement with the source. If we misread it, change"
        f" {facts['id']} in {facts['catalogue_file']} and quote the sentence in the pull request."
        " If a case asks for more than the statement says, the case is wrong: name it in an issue,"
        " with the trace. If your broker departs from it on purpose, list it in"
        " fixtures/brokers/<family>/known_deviations.toml with the reason and a link."
    )


def _fields(requirement: Requirement) -> dict[str, Any]:
    return {
        "id": requirement.id,
        "source": requirement.source,
        "version": requirement.version,
        "profile": requirement.profile,
        "section": requirement.section,
        "link": requirement.link,
        "level": requirement.level.value,
        "verb": requirement.verb,
        "title": requirement.heading,
        "impact": requirement.impact,
        "statement": requirement.statement,
        "quotation": requirement.quotation,
        "subject": requirement.subject,
        "observe": requirement.observe,
        "testable": requirement.testable,
        "why_not": requirement.why_not,
        "note": requirement.note,
    }


def _folded(text: str) -> str:
    return "".join(
        character for character in text.casefold().removesuffix(".toml") if character.isalnum()
    )


def _documents(catalogue: Catalogue, source: str) -> list[Document]:
    known: dict[str, list[Document]] = {}
    for document in catalogue.documents:
        known |= {
            _folded(name): [document] for name in (document.name, document.source, document.prefix)
        }
    for document in catalogue.documents:
        if document.group:
            known.setdefault(_folded(document.group), []).append(document)
    folded = _folded(source.replace("\\", "/").rpartition("/")[2])
    if folded in known:
        return known[folded]
    near = difflib.get_close_matches(folded, known, n=1)
    nearest = known[near[0]] if near else []
    hint = (
        f"did you mean {nearest[0].group if len(nearest) > 1 else nearest[0].name!r}?"
        if nearest
        else ""
    )
    names = ", ".join(f"{document.name} ({document.source})" for document in catalogue.documents)
    groups = sorted({document.group for document in catalogue.documents if document.group})
    names += "".join(f", and {group} for all of its documents" for group in groups)
    raise UnknownSource(f"no document is called {source!r}; {hint or f'the documents are {names}'}")


def _spelled(catalogue: Catalogue, requirement: str) -> str:
    """Return the id in the catalogue's spelling, since people type lower case."""
    folded = {name.casefold(): name for name in catalogue}
    return folded.get(requirement.strip().casefold(), requirement)
