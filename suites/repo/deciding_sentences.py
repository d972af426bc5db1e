"""Writes a page of known deviations for each family, and the index of these pages.

    python -m brokerproof.suites.repo.deciding_sentences

``test_catalogue.py`` compares the pages with the lists.
"""

from collections.abc import Iterator
from itertools import groupby

from brokerproof.harness.catalogue import deviations, requirements
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.catalogue.release_ranges import binds
from brokerproof.harness.catalogue.requirements import Catalogue, Requirement
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

A known deviation is a listed violation of a specification or manual. In a run its verdict is KNOWN,
and the exit code stays 0. Each family has a page:

| family | cases |
| --- | --- |
"""
INDEX_FOOT = """
A page has a heading for each broken requirement, the worst [impact](../verdicts.md#impact) first,
and below it the cases that show it, with the cause. Words in quotation marks are the document's.
An entry applies to the releases in parentheses; *intermittent* means not in every run.

`python -m brokerproof.suites.repo.deciding_sentences` writes the pages from the catalogue and
`fixtures/brokers/<family>/known_deviations.toml`.
"""
UNJUDGED = "## Cases in which the broker does not get far enough to be judged\n"

Entry = list[Deviation]
"""An entry of a list: a deviation for each of its requirements, or one deviation without any."""


def pages(catalogue: Catalogue) -> dict[str, str]:
    """Return the text of each page by its file name in :data:`FOLDER`."""
    lists = {family: _entries(family, catalogue) for family in FAMILIES}
    rows = [f"| [{FAMILIES[name]}]({name}.md) | {len(lists[name])} |\n" for name in lists]
    families = {f"{name}.md": _page(name, lists[name], catalogue) for name in lists}
    return {"index.md": INDEX + "".join(rows) + INDEX_FOOT, **families}


def _entries(family: str, catalogue: Catalogue) -> list[Entry]:
    listed = deviations.load(ROOT / "fixtures" / "brokers" / family / "known_deviations.toml")
    entries = [list(entry) for _, entry in groupby(listed, lambda deviation: deviation.where)]
    titles = list(dict.fromkeys(requirement.title for requirement in catalogue.values()))

    def rank(entry: Entry) -> tuple[int, int, str]:
        ids = " ".join(deviation.requirement for deviation in entry)
        broken = catalogue.get(entry[0].requirement)
        impact = impacts.severity(broken.impact if broken else None)
        place = titles.index(broken.title) if broken else len(titles)
        return impact, place, ids + entry[0].reason + entry[0].case

    return sorted(entries, key=rank)


def _page(family: str, entries: list[Entry], catalogue: Catalogue) -> str:
    def section(entry: Entry) -> str:
        broken = catalogue.get(entry[0].requirement)
        return f"## {broken.impact.words.capitalize()}\n" if broken and broken.impact else UNJUDGED

    def title(entry: Entry) -> str:
        broken = catalogue.get(entry[0].requirement)
        return broken.title if broken else ""

    lines, causes = [f"# Known deviations: {FAMILIES[family]}\n"], dict[str, str]()
    if any(entry[0].versions for entry in entries):
        lines.append("Of the newest release, unless an entry names others.\n")
    for heading, group in groupby(entries, section):
        lines.append(heading)
        for _, titled in groupby(group, title):
            broken = list(titled)
            ids = list(dict.fromkeys(each.requirement for entry in broken for each in entry))
            lines += _broken(ids, catalogue) if ids[0] else []
            reasons = dict[str, Entry]()
            for entry in broken:
                reasons.setdefault(entry[0].reason.strip(), []).append(entry[0])
            for reason, showing in reasons.items():
                first = causes.setdefault(reason, ids[0])
                cause = f"{reason.replace('<', '&lt;')} {_sources(showing)}"
                shown = cause if first == ids[0] else f"see {first}."
                lines.append(f"* {_shown_by(showing)}: {shown}")
            lines.append("")
    return "\n".join(lines)


def _broken(ids: list[str], catalogue: Catalogue) -> Iterator[str]:
    """Return the heading and the requirements. If versions of a document agree, quote the first."""
    yield f"### {catalogue[ids[0]].title}\n"
    titled = dict[tuple[str, str], list[Requirement]]()
    for requirement in map(catalogue.__getitem__, ids):
        titled.setdefault((requirement.title, requirement.level), []).append(requirement)
    for (_, level), same in titled.items():
        links = ", ".join(f"[{requirement.id}]({requirement.link})" for requirement in same)
        words = f": “{same[0].quotation}”" if same[0].quotation else ""
        yield f"{links} ({level}){words.replace('<', '&lt;')}\n"


def _shown_by(showing: Entry) -> str:
    limits = dict[str, list[str]]()
    for deviation in showing:
        notes = [] if binds(deviation.versions, "") else [f"`{deviation.versions}`"]
        notes += [f"target `{deviation.target}`"] if deviation.target else []
        notes += ["intermittent"] * deviation.sometimes + ["may crash the broker"] * deviation.harm
        limit = f" ({'; '.join(notes)})" if notes else ""
        case = f"`{deviation.case}`" if deviation.case else "every case"
        limits.setdefault(limit, []).append(case)
    return "; ".join(", ".join(names) + limit for limit, names in limits.items())


def _sources(showing: Entry) -> str:
    links = dict.fromkeys(deviation.link for deviation in showing)
    named = (f"[{'Source' if n == 1 else n}]({link})" for n, link in enumerate(links, 1))
    return f"{', '.join(named)}."


def main() -> None:
    for name, text in pages(requirements.load()).items():
        (FOLDER / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
