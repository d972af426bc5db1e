"""Writes the page that says, for each known deviation, which sentence decides it.

    python -m brokerproof.suites.repo.deciding_sentences > docs/reference/known-deviations.md

``test_catalogue.py`` compares the page with the lists.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.suites.repo.sources import ROOT

PAGE = ROOT / "docs" / "reference" / "known-deviations.md"
FAMILIES = {
    "artemis": "Apache Artemis",
    "activemq": "ActiveMQ Classic",
    "rabbitmq": "RabbitMQ",
    "proton": "Proton's example brokers",
    "reference": "The reference broker, as one of ActiveMQ's kind",
}
HEAD = """# Known deviations and the sentences that decide them

Made by `python -m brokerproof.suites.repo.deciding_sentences` from the catalogue and
`fixtures/brokers/<family>/known_deviations.toml`. A verdict of KNOWN rests on the sentence in the
second column; text in quotation marks is the document's own. *control* marks an entry by which a
case cannot be put to the broker, so that nothing is judged.
"""


def page(catalogue: Catalogue) -> str:
    """Return the page for the shipped lists."""
    lines = [HEAD]
    for family, title in FAMILIES.items():
        path = ROOT / "fixtures" / "brokers" / family / "known_deviations.toml"
        lines += [
            f"## {title}",
            "",
            "| case and releases | deciding sentence | what the broker does |",
        ]
        lines += ["| --- | --- | --- |", *_rows(path, catalogue), ""]
    return "\n".join(lines)


def _rows(path: Path, catalogue: Catalogue) -> Iterator[str]:
    entries: dict[str, list[Deviation]] = {}
    for deviation in deviations.load(path):
        entries.setdefault(deviation.where, []).append(deviation)
    for entry in entries.values():
        first = entry[0]
        applies = ", ".join(text for text in (first.versions, first.target) if text)
        case = f"`{first.case or 'every case'}`{f' ({applies})' if applies else ''}"
        sentences = [_sentence(catalogue, item.requirement) for item in entry if item.requirement]
        cells = (
            case,
            "<br>".join(sentences) or "*control*",
            f"{first.reason} [source]({first.link})",
        )
        yield f"| {' | '.join(cell.replace('|', '&#124;') for cell in cells)} |"


def _sentence(catalogue: Catalogue, id: str) -> str:
    requirement = catalogue[id]
    words = f"“{requirement.quotation}”" if requirement.quotation else requirement.statement
    words = words.replace("<", "&lt;")
    return f"[{id}]({requirement.link}) ({requirement.level}): {words}"


if __name__ == "__main__":
    sys.stdout.write(page(requirements.load()))
