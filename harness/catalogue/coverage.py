"""Maps requirements to the cases that cite them, and maintains the list of uncited requirements.

Each entry of ``fixtures/requirements/uncovered.toml`` is a testable MUST or DOC without a case,
with the reason. A requirement that gains a case is removed from the list; a new one needs a case or
a reason."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from brokerproof.harness.catalogue.requirements import (
    UNCOVERED,
    Catalogue,
    Requirement,
    UnknownRequirement,
    folder_of_package,
)
from brokerproof.harness.catalogue.tables import BadData, Key, entries, only, read

_ENTRY = {"id": Key(str), "reason": Key(str)}


def coverage(
    catalogue: Catalogue, cases: Mapping[str, Sequence[str]]
) -> dict[str, tuple[str, ...]]:
    """Return the cases that cite each requirement, in catalogue order; a requirement's cases are in
    the given order.

    ``cases`` maps cases to requirement ids. Ids missing from the catalogue are omitted (see
    :func:`unknown`)."""
    citing: dict[str, list[str]] = {requirement: [] for requirement in catalogue}
    for case, cited in cases.items():
        for requirement in dict.fromkeys(cited):
            if requirement in citing:
                citing[requirement].append(case)
    return {requirement: tuple(citations) for requirement, citations in citing.items()}


def uncovered(catalogue: Catalogue, cases: Mapping[str, Sequence[str]]) -> list[Requirement]:
    """Return the testable MUST and DOC requirements that bind the server and that no case cites."""
    citing = coverage(catalogue, cases)
    return [
        requirement
        for requirement in catalogue.values()
        if requirement.owed and not citing[requirement.id]
    ]


def unknown(catalogue: Catalogue, cases: Mapping[str, Sequence[str]]) -> list[str]:
    """Return a sentence for each case that cites an unknown or untestable id."""
    sentences = []
    for case, cited in cases.items():
        for cited_id in cited:
            try:
                requirement = catalogue.find(cited_id)
            except UnknownRequirement as problem:
                sentences.append(f"{case} cites {cited_id}, but {problem}")
                continue
            if not requirement.testable:
                sentences.append(
                    f"{case} cites {cited_id}, which the catalogue calls untestable:"
                    f" {requirement.why_not}"
                )
    return sentences


def load_listed(path: Path | None = None) -> dict[str, str]:
    """Return the listed reasons by requirement id (default: the shipped list). Raises ``BadData``;
    a missing file counts as an empty list."""
    path = folder_of_package() / UNCOVERED if path is None else path
    if not path.exists():
        return {}
    values, text = read(path)
    only(path, values, "uncovered")
    reasons: dict[str, str] = {}
    for entry in entries(path, "uncovered", _ENTRY, values, text):
        if entry.text("id") in reasons:
            raise BadData(f"{entry.where}: {entry.text('id')} is listed twice; remove one of them")
        reasons[entry.text("id")] = entry.text("reason")
    return reasons


def disagreements(
    catalogue: Catalogue, cases: Mapping[str, Sequence[str]], listed: Mapping[str, str]
) -> tuple[list[str], list[str]]:
    """Return how the list contradicts the cases: the ids that it lacks, and sentences about entries
    to remove."""
    owed = {requirement.id for requirement in uncovered(catalogue, cases)}
    citing = coverage(catalogue, cases)
    missing = [
        requirement
        for requirement in catalogue
        if requirement in owed and requirement not in listed
    ]
    surplus = []
    for requirement in listed:
        if requirement not in catalogue:
            surplus.append(f"{requirement}: the catalogue has no such requirement")
        elif citing[requirement]:
            surplus.append(f"{requirement}: is now cited by {citing[requirement][0]}")
        elif requirement not in owed:
            surplus.append(
                f"{requirement}: owes no case (not a testable MUST or DOC that binds the server)"
            )
    return missing, surplus


def entry(requirement: str, reason: str) -> str:
    """Return an entry of the list as TOML; ``reason`` is plain text on one line."""
    quoted = reason.replace("\\", "\\\\").replace('"', '\\"')
    return f'[[uncovered]]\nid = "{requirement}"\nreason = "{quoted}"\n'


def rewritten(
    catalogue: Catalogue, cases: Mapping[str, Sequence[str]], reasons: Mapping[str, str]
) -> str:
    """Return the whole list as it should be now, in catalogue order.

    Raises ``KeyError`` for the first requirement that needs a reason and has none in ``reasons``.
    """
    head = (
        "# Testable MUST and DOC requirements that no case cites yet, each with its reason. Never"
        " add to this list.\n"
    )
    return head + "".join(
        f"\n{entry(requirement.id, reasons[requirement.id])}"
        for requirement in uncovered(catalogue, cases)
    )
