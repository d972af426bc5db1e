"""Writes a page of known deviations for each family, and their index.

    python -m brokerproof.suites.repo.deciding_sentences

``test_catalogue.py`` compares the pages with the lists.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import groupby

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

| family | deviations |
| --- | --- |
"""
INDEX_FOOT = """
Each deviation has a heading with the title of the requirement and the case that shows it, sorted by
[impact](../verdicts.md#impact), the worst first. Words in quotation marks are the document's own.

The pages are made from the catalogue and `fixtures/brokers/<family>/known_deviations.toml`:
`python -m brokerproof.suites.repo.deciding_sentences`.
"""
UNJUDGED = """## Cases that cannot be judged

The broker does not get far enough in these cases for any requirement to be judged.
"""

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
        return impact, order.index(requirement), entry[0].case

    return sorted(entries, key=rank)


def _page(family: str, entries: list[Entry], catalogue: Catalogue) -> str:
    def section(entry: Entry) -> str:
        requirement = entry[0].requirement
        impact = catalogue[requirement].impact if requirement else None
        return f"## {impact.words.capitalize()}\n" if impact else UNJUDGED

    lines = [f"# Known deviations: {FAMILIES[family]}\n"]
    for heading, group in groupby(entries, section):
        lines.append(heading)
        for entry in group:
            lines += _deviation(entry, catalogue)
    return "\n".join(lines)


def _deviation(entry: Entry, catalogue: Catalogue) -> Iterator[str]:
    first = entry[0]
    name = re.sub(r"[*?]|\[.*", "", first.case.rpartition(".")[2]).strip("_").replace("_", " ")
    title = f"{catalogue[first.requirement].title}: " if first.requirement else ""
    yield f"### {title}{name or 'every case'}\n"
    yield f"{first.reason.strip().replace('<', '&lt;')} [Source]({first.link}).\n"
    for deviation in entry:
        if deviation.requirement:
            yield f"* {_sentence(catalogue, deviation.requirement)}"
    yield f"* Case: `{first.case}`" if first.case else "* Case: every case"
    for label, text in (("Releases", first.versions), ("Target", first.target)):
        if text:
            yield f"* {label}: `{text}`"
    if first.sometimes:
        yield "* Does not show in every run."
    if first.harm:
        yield "* The broker may not survive the case."
    yield ""


def _sentence(catalogue: Catalogue, id: str) -> str:
    requirement = catalogue[id]
    words = f"“{requirement.quotation}”" if requirement.quotation else requirement.statement
    words = words.replace("<", "&lt;")
    return f"[{id}]({requirement.link}) ({requirement.level}): {words}"


def main() -> None:
    """Write the pages."""
    FOLDER.mkdir(exist_ok=True)
    for name, text in pages(requirements.load()).items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
