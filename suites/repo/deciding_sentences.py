"""Writes a page of known deviations for each family, and their index.

    python -m brokerproof.suites.repo.deciding_sentences

``test_catalogue.py`` compares the pages with the lists.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from statistics import mode

from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.results import impacts
from brokerproof.suites.repo.sources import ROOT

FOLDER = ROOT / "docs" / "reference" / "known-deviations"
FAMILIES = {
    "artemis": "Apache Artemis",
    "activemq": "ActiveMQ Classic",
    "rabbitmq": "RabbitMQ",
    "proton": "Proton's example brokers",
    "reference": "The reference broker as ActiveMQ",
}
INDEX = """# Known deviations

A deviation is a sentence of a specification or manual that a broker is known to break. In a run
its verdict is KNOWN, and the exit code stays 0. Each family has a page:

| family | cases |
| --- | --- |
"""
INDEX_FOOT = """
A page has a heading for each broken requirement, the worst [impact](../verdicts.md#impact) first,
and below it the cases that show it, with the cause. Words in quotation marks are the document's.

`python -m brokerproof.suites.repo.deciding_sentences` writes the pages from the catalogue and
`fixtures/brokers/<family>/known_deviations.toml`.
"""
UNJUDGED = "## Cases in which the broker does not get far enough to be judged\n"

Entry = list[Deviation]
"""One entry of a list: a deviation for each of its requirements, or one without any."""


def pages(catalogue: Catalogue) -> dict[str, str]:
    """Return the text of each page by its file name in :data:`FOLDER`."""
    lists = {family: _entries(family, catalogue) for family in FAMILIES}
    rows = [f"| [{FAMILIES[name]}]({name}.md) | {len(lists[name])} |\n" for name in lists]
    families = {f"{name}.md": _page(name, lists[name], catalogue) for name in lists}
    return {"index.md": INDEX + "".join(rows) + INDEX_FOOT, **families}


def _entries(family: str, catalogue: Catalogue) -> list[Entry]:
    listed = deviations.load(ROOT / "fixtures" / "brokers" / family / "known_deviations.toml")
    entries = [list(entry) for _, entry in groupby(listed, lambda deviation: deviation.where)]
    order = list(catalogue)

    def rank(entry: Entry) -> tuple[int, int, str]:
        requirement = entry[0].requirement
        if not requirement:
            return impacts.severity(None), len(order), entry[0].case
        impact = impacts.severity(catalogue[requirement].impact)
        ids = " ".join(deviation.requirement for deviation in entry)
        return impact, order.index(requirement), ids + entry[0].reason + entry[0].case

    return sorted(entries, key=rank)


def _page(family: str, entries: list[Entry], catalogue: Catalogue) -> str:
    def section(entry: Entry) -> str:
        requirement = entry[0].requirement
        impact = catalogue[requirement].impact if requirement else None
        return f"## {impact.words.capitalize()}\n" if impact else UNJUDGED

    lines, causes = [f"# Known deviations: {FAMILIES[family]}\n"], dict[str, str]()
    usual = mode(entry[0].versions for entry in entries)
    if usual:
        lines.append(f"Of releases `{usual}`, unless an entry names others.\n")
    for heading, group in groupby(entries, section):
        lines.append(heading)
        for ids, cases in groupby(group, lambda entry: [each.requirement for each in entry]):
            lines += _broken(ids, catalogue) if ids[0] else []
            for cause, showing in groupby(cases, lambda entry: _cause(entry, usual)):
                names = (
                    f"`{entry[0].case}`" if entry[0].case else "every case" for entry in showing
                )
                first = causes.setdefault(cause, ids[0])
                shown = cause if first == ids[0] else f": as under {first}."
                lines.append(f"* {', '.join(names)}{shown}")
            lines.append("")
    return "\n".join(lines)


def _broken(ids: list[str], catalogue: Catalogue) -> Iterator[str]:
    yield f"### {catalogue[ids[0]].title}\n"
    for words, group in groupby(ids, lambda id: _words(catalogue, id)):
        links = ", ".join(f"[{id}]({catalogue[id].link})" for id in group)
        yield f"{links} {words}\n"


def _cause(entry: Entry, usual: str) -> str:
    first = entry[0]
    versions = "" if first.versions == usual else f", releases `{first.versions or 'all'}`"
    target = f", target `{first.target}`" if first.target else ""
    limits = ", not in every run" * first.sometimes + ", may end the broker" * first.harm
    reason = f"{first.reason.strip().replace('<', '&lt;')} [Source]({first.link})."
    return f"{versions}{target}{limits}: {reason}"


def _words(catalogue: Catalogue, id: str) -> str:
    requirement = catalogue[id]
    words = f"“{requirement.quotation}”" if requirement.quotation else requirement.statement
    return f"({requirement.level}): {words.replace('<', '&lt;')}"


def main() -> None:
    """Write the pages."""
    for name, text in pages(requirements.load()).items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
