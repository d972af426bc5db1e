"""The requirement catalogue: by id, every normative sentence on which verdicts are based.

Each TOML file of ``fixtures/requirements/`` describes one document: a ``[document]`` table
identifies it, ``[document.anchors]`` has a URL fragment for each section, and each
``[[requirement]]`` is one statement in our own words. ``quotation`` has the decisive words of the
document; ``suites/repo/quotations.py`` compares them with its text.

``level`` is the strength of the statement, and ``verb`` is the document's own word for it. READING
marks our interpretation of a silent or ambiguous text. Its ``note`` says what the text leaves open.
``releases`` is the range of vendor releases whose manual has the sentence. ``subject`` is the party
bound: ``server``, ``client``, or ``both`` if the sentence binds the frame itself or either end.
Duties of clients alone are judged only when a client is on trial, never on a broker. ``observe`` is
where a violation shows: on the ``wire``, on the wire with a clock (``wire+time``), in the broker's
``files``, or nowhere (``none``).

``title`` is the statement as a heading: at most 60 characters, no period, unique in its document.
``impact`` is the worst likely effect of a violation on an application."""

import difflib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

from brokerproof.harness.catalogue import extensions, release_ranges
from brokerproof.harness.catalogue.tables import BadData, Entry, Key, entries, only, read, table
from brokerproof.harness.model.verdicts import Impact, Level

UNCOVERED = "uncovered.toml"
"""A file in the same folder that is not a document (see
:mod:`brokerproof.harness.catalogue.coverage`)."""

SUBJECTS = ("server", "client", "both")
OBSERVE = ("wire", "wire+time", "files", "none")

_UNDERSTOOD = 12
"""A quotation with at least this many words can be understood on its own."""
_DOCUMENT = {
    "source": Key(str),
    "version": Key(str),
    "prefix": Key(str),
    "title": Key(str),
    "url": Key(str),
    "profile": Key(str, required=False),
    "group": Key(str, required=False),
    "about": Key(str, required=False),
    "anchors": Key(dict),
}
_REQUIREMENT = {
    "id": Key(str),
    "section": Key(str),
    "level": Key(str),
    "verb": Key(str),
    "subject": Key(str),
    "observe": Key(str),
    "testable": Key(bool),
    "why_not": Key(str, required=False),
    "title": Key(str, required=False),
    "impact": Key(str, required=False),
    "statement": Key(str),
    "quotation": Key(str, required=False),
    "note": Key(str, required=False),
    "releases": Key(str, required=False),
}


class UnknownRequirement(KeyError):
    """An id is not in the catalogue. The message suggests the nearest ids."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True, slots=True)
class Document:
    name: str
    """The name of the file without ``.toml``."""
    source: str
    """The document's usual name, such as ``STOMP 1.2``."""
    version: str
    """The protocol version that the document defines; ``*`` if no particular one."""
    prefix: str
    title: str
    url: str
    profile: str | None
    """The profile of the brokers that a vendor's document describes; None for a specification,
    which binds all brokers."""
    group: str
    """A name for several documents in ``requirements --source``: ``seeds`` are the vendors'
    chapters with which this project began."""
    about: str
    anchors: Mapping[str, str]
    """The URL fragment of each section; empty if it has none. If a document consists of several
    files, its ``url`` ends in a slash, and file and fragment are stated here:
    ``part-2.html#frames``."""


@dataclass(frozen=True, slots=True)
class Requirement:
    """One normative sentence. The module's docstring describes the fields."""

    id: str
    document: Document
    section: str
    level: Level
    verb: str
    statement: str
    subject: str
    observe: str
    testable: bool
    why_not: str = ""
    """Why the requirement cannot be tested; empty if it can."""
    quotation: str = ""
    """The decisive words of the document, if they are quoted."""
    note: str = ""
    title: str = ""
    """A heading for people; empty if an entry of another package has none."""
    impact: Impact | None = None
    releases: str = ""
    """The releases whose manual has the sentence, such as ``>=2.34``; empty for all."""
    where: str = ""
    """The file and line of the entry."""

    @property
    def source(self) -> str:
        """The document's usual name."""
        return self.document.source

    @property
    def version(self) -> str:
        """The protocol version to which the requirement belongs, or ``*``."""
        return self.document.version

    @property
    def profile(self) -> str | None:
        """The profile of the brokers to which it applies; None for all brokers."""
        return self.document.profile

    @property
    def heading(self) -> str:
        """The title, or the statement if there is none."""
        return self.title or self.statement

    @property
    def required(self) -> str:
        """The required behaviour. This is the quotation, preceded by our statement if the quotation
        is too short to be understood alone; without a quotation, it is our statement."""
        if not self.quotation:
            return self.statement
        quoted = f"“{self.quotation}”"
        is_whole = self.quotation.endswith(".") or len(self.quotation.split()) >= _UNDERSTOOD
        return quoted if is_whole else f"{self.statement} {quoted}"

    @property
    def link(self) -> str:
        anchor = self.document.anchors[self.section]
        if self.document.url.endswith("/"):
            return self.document.url + anchor
        return f"{self.document.url}#{anchor}" if anchor else self.document.url

    @property
    def owed(self) -> bool:
        """True if a suite is incomplete without a case for it: a testable MUST or DOC that binds
        the server."""
        return self.testable and self.subject != "client" and self.level in (Level.MUST, Level.DOC)


class Catalogue(Mapping[str, Requirement]):
    """Every requirement by id, in file order."""

    def __init__(
        self, documents: tuple[Document, ...], requirements: Mapping[str, Requirement]
    ) -> None:
        self.documents = documents
        self._by_id = MappingProxyType(dict(requirements))

    def __getitem__(self, key: str) -> Requirement:
        return self._by_id[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_id)

    def __len__(self) -> int:
        return len(self._by_id)

    def to_json(self) -> dict[str, Any]:
        """Return the catalogue as plain values for :meth:`from_json`."""
        return {
            "documents": [
                {**_values(document), "anchors": dict(document.anchors)}
                for document in self.documents
            ],
            "requirements": [
                {**_values(requirement), "document": requirement.document.name}
                for requirement in self.values()
            ],
        }

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the catalogue from the values of :meth:`to_json`. Raises ``KeyError``,
        ``TypeError`` or ``ValueError`` for other values."""
        documents = {
            row["name"]: Document(**{**row, "anchors": MappingProxyType(row["anchors"])})
            for row in values["documents"]
        }
        requirements = {
            row["id"]: Requirement(
                **{
                    **row,
                    "document": documents[row["document"]],
                    "level": Level(row["level"]),
                    "impact": Impact(row["impact"]) if row.get("impact") else None,
                }
            )
            for row in values["requirements"]
        }
        return cls(tuple(documents.values()), requirements)

    def find(self, requirement: str) -> Requirement:
        """Return the requirement with that id. Raises :class:`UnknownRequirement`, which suggests
        the nearest ids."""
        requirement_row = self._by_id.get(requirement)
        if requirement_row is None:
            raise UnknownRequirement(
                f"no requirement has the id {requirement!r}; {_nearest(requirement, self._by_id)}"
            )
        return requirement_row


def _values(record: Document | Requirement) -> dict[str, Any]:
    return {field.name: getattr(record, field.name) for field in fields(record)}


def folder_of_package() -> Path:
    return Path(str(files("brokerproof.fixtures"))) / "requirements"


def load(folder: Path | None = None) -> Catalogue:
    """Read every requirement file of ``folder`` (default: the shipped folder and those of installed
    packages).

    Raises :class:`~brokerproof.harness.catalogue.tables.BadData` for the first error."""
    folders = [folder or folder_of_package()]
    if folder is None:
        folders += extensions.folders(extensions.REQUIREMENTS).values()
    paths = [path for folder in folders for path in _files(folder)]
    documents: list[Document] = []
    requirements: dict[str, Requirement] = {}
    for path in paths:
        values, text = read(path)
        only(path, values, "document", "requirement")
        document = _document(path, values.get("document"))
        for other in documents:
            if document.prefix == other.prefix:
                raise BadData(
                    f"{path}: prefix {document.prefix!r} is already used by {other.name}.toml;"
                    " choose another"
                )
        documents.append(document)
        for entry in entries(path, "requirement", _REQUIREMENT, values, text):
            requirement = _requirement(document, entry)
            if earlier := requirements.get(requirement.id):
                raise BadData(
                    f"{entry.where}: {requirement.id} is already defined at {earlier.where}; ids"
                    " are unique"
                )
            requirements[requirement.id] = requirement
    return Catalogue(tuple(documents), requirements)


def _files(folder: Path) -> list[Path]:
    paths = sorted(path for path in folder.glob("*.toml") if path.name != UNCOVERED)
    if not paths:
        raise BadData(
            f"{folder}: holds no requirement files; there should be one .toml file per document"
        )
    return paths


def _document(path: Path, values: object) -> Document:
    if not isinstance(values, dict):
        raise BadData(f"{path}: [document] is missing; it says where the requirements come from")
    entry = table(f"{path}: [document]", _DOCUMENT, values, "document")
    anchors = entry.values["anchors"]
    for section, anchor in anchors.items():
        if not isinstance(anchor, str):
            raise BadData(
                f"{path}: the anchor of section {section!r} is {anchor!r}; it should be text in"
                " quotes"
            )
    return Document(
        name=path.stem,
        source=entry.text("source"),
        version=entry.text("version"),
        prefix=entry.text("prefix"),
        title=entry.text("title"),
        url=entry.text("url"),
        profile=entry.text("profile") or None,
        group=entry.text("group"),
        about=entry.text("about"),
        anchors=MappingProxyType(dict(anchors)),
    )


def _untestable_problem(testable: bool, why_not: str, observe: str) -> str | None:
    if testable and why_not:
        return "why_not explains why testable is false; here it is true"
    if not testable and not why_not:
        return "why_not is missing; say why testable is false"
    if testable and observe == "none":
        return (
            "observe is none, so nothing can be tested; set testable to false, or say where it"
            " shows"
        )
    return None


def _unknown_word(entry: Entry) -> str | None:
    allowed = {"level": Level, "subject": SUBJECTS, "observe": OBSERVE, "impact": Impact}
    for key, words in allowed.items():
        if key in entry.values and entry.values[key] not in tuple(words):
            return f"{key} is {entry.values[key]!r}; it should be one of {', '.join(words)}"
    return None


def _requirement(document: Document, entry: Entry) -> Requirement:
    name = entry.text("id")

    def bad(problem: str) -> BadData:
        return BadData(f"{entry.where}: {name}: {problem}")

    if not re.fullmatch(rf"{re.escape(document.prefix)}(-[A-Za-z0-9]+)*-[0-9]+", name):
        raise bad(f"the id must be {document.prefix}-…-NUMBER, with the prefix of its document")
    if problem := _unknown_word(entry):
        raise bad(problem)
    level, subject, observe = (
        Level(entry.text("level")),
        entry.text("subject"),
        entry.text("observe"),
    )
    if level is Level.READING:
        if not entry.text("note"):
            raise bad("note is missing; at level READING it must say what the text leaves open")
    elif (level is Level.DOC) != (document.profile is not None):
        raise bad(
            "documents with a profile use only the levels DOC and READING; others never use DOC"
        )
    releases = entry.text("releases")
    if releases and document.profile is None:
        raise bad("releases needs a document with a profile, whose vendor's releases it names")
    if problem := release_ranges.problem_of(releases):
        raise bad(f"releases {problem}")
    if entry.text("section") not in document.anchors:
        raise bad(
            f"section {entry.text('section')!r} has no anchor; add it to [document.anchors], or"
            " correct its name"
        )
    testable, why_not = bool(entry.values["testable"]), entry.text("why_not")
    if problem := _untestable_problem(testable, why_not, observe):
        raise bad(problem)
    return Requirement(
        id=name,
        document=document,
        section=entry.text("section"),
        level=level,
        verb=entry.text("verb"),
        statement=entry.text("statement"),
        subject=subject,
        observe=observe,
        testable=testable,
        why_not=why_not,
        quotation=entry.text("quotation"),
        note=entry.text("note"),
        title=entry.text("title"),
        impact=Impact(entry.text("impact")) if "impact" in entry.values else None,
        releases=releases,
        where=entry.where,
    )


def _nearest(requirement: str, known: Mapping[str, object]) -> str:
    by_folded = {name.upper(): name for name in known}
    near = difflib.get_close_matches(requirement.upper(), by_folded, n=3, cutoff=0.6)
    if near:
        return f"did you mean {' or '.join(by_folded[name] for name in near)}?"
    return "brokerproof requirements shows every id"
