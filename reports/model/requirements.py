"""The requirement catalogue as the report needs it. For an unknown requirement, only the id is
shown."""

import dataclasses
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import pyarrow as pa

from brokerproof.harness.catalogue.requirements import Requirement
from brokerproof.harness.model.verdicts import Level


@dataclass(frozen=True, slots=True)
class Words:
    """A requirement in the report's words. Everything but the id is empty if the catalogue lacks
    the requirement. ``judgeable`` means that brokers can be judged by it. ``profile`` is the broker
    family to which it applies, or empty if it applies to all."""

    id: str
    source: str = ""
    version: str = ""
    section: str = ""
    level: str = ""
    title: str = ""
    impact: str = ""
    statement: str = ""
    link: str = ""
    quotation: str = ""
    profile: str = ""
    judgeable: bool = True

    @property
    def required(self) -> str:
        """The words of the document in quotation marks or, if none are quoted, our own words."""
        return f"“{self.quotation}”" if self.quotation else self.statement

    @property
    def said_by(self) -> str:
        return f"{self.source}, {Level(self.level).words}" if self.level else self.source


SCHEMA = pa.schema(
    [
        ("requirement", pa.string()),
        ("source", pa.string()),
        ("version", pa.string()),
        ("section", pa.string()),
        ("level", pa.string()),
        ("title", pa.string()),
        ("impact", pa.string()),
        ("statement", pa.string()),
        ("link", pa.string()),
        ("profile", pa.string()),
        ("judgeable", pa.bool_()),
    ]
)


class Requirements:
    def __init__(self, known: Iterable[Requirement]) -> None:
        self._known = {requirement.id: _words(requirement) for requirement in known}
        self._place = {requirement: place for place, requirement in enumerate(self._known)}

    def __iter__(self) -> Iterator[Words]:
        return iter(self._known.values())

    def find(self, requirement: str) -> Words:
        """Return the facts about ``requirement``. An unknown one has only its id."""
        return self._known.get(requirement) or Words(requirement)

    def place(self, requirement: str) -> int:
        """Return the requirement's position in the catalogue; unknown requirements come last."""
        return self._place.get(requirement, len(self._place))

    def level(self, requirement: str) -> Level | None:
        words = self._known.get(requirement)
        return None if words is None else Level(words.level)

    def table(self) -> pa.Table:
        rows = [{"requirement": words.id, **dataclasses.asdict(words)} for words in self]
        return pa.Table.from_pylist(rows, schema=SCHEMA)


def _words(known: Requirement) -> Words:
    return Words(
        id=known.id,
        source=known.source,
        version=known.version,
        section=known.section,
        level=known.level.value,
        title=known.heading,
        impact=known.impact or "",
        statement=known.statement,
        link=known.link,
        quotation=known.quotation,
        profile=known.profile or "",
        judgeable=known.testable and known.subject != "client",
    )
