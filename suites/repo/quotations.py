"""Compares the quotations of the catalogue with the documents they are taken from.

    python -m brokerproof.suites.repo.quotations [--texts FOLDER] [--fetch]

The text of a document is looked for in ``FOLDER`` and then in ``suites/repo/texts``, as files or
folders named like the requirement file or like its first part (``amqp10.xml``, ``artemis/`` for
every ``artemis-*`` with the manual of a release inside); with ``--fetch`` it is then read from the
document's address. A quotation that its text does not have has drifted: exit code 1. Documents
without a text are listed.
"""

from __future__ import annotations

import argparse
import html
import re
import sys
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.requirements import Catalogue, Document, Requirement

CARRIED = Path(__file__).parent / "texts"
_SUFFIXES = (".html", ".xml", ".adoc", ".md", ".txt")
_FETCH_S = 30


@dataclass(frozen=True, slots=True)
class Comparison:
    """The outcome for one catalogue."""

    drifted: tuple[Requirement, ...]
    agreeing: int
    without_text: tuple[Document, ...]


def plain(text: str) -> str:
    """Return ``text`` without the markup of HTML, XML, AsciiDoc and Markdown, in lower case, with
    single blanks and none before punctuation: editions differ in those."""
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r'<xref[^>]*name="([^"]*)"[^>]*/>', r"\1", text)
    text = html.unescape(re.sub(r"<[^<>]+>", " ", text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\b(?:xref|https?):[^\s\[]*\[([^\]]*)\]", r"\1", text)
    text = re.sub(r"[`*\\]|(?<!\w)_|_(?!\w)", "", text)
    text = text.translate(str.maketrans("“”‘’", "\"\"''"))
    return re.sub(r"\s+(?=[.,;:)'])", "", re.sub(r"\s+", " ", text)).lower().strip()


def compare(catalogue: Catalogue, folders: Iterable[Path], *, fetch: bool = False) -> Comparison:
    """Compare each quotation of ``catalogue`` with the text of its document."""
    drifted: list[Requirement] = []
    missing: list[Document] = []
    agreeing = 0
    searched = tuple(folders)
    for document in catalogue.documents:
        quoting = [
            requirement
            for requirement in catalogue.values()
            if requirement.document is document and requirement.quotation
        ]
        if not quoting:
            continue
        text = _text(document, searched, fetch=fetch)
        if not text:
            missing.append(document)
            continue
        wrong = [row for row in quoting if plain(row.quotation) not in text]
        drifted += wrong
        agreeing += len(quoting) - len(wrong)
    return Comparison(tuple(drifted), agreeing, tuple(missing))


def _text(document: Document, folders: tuple[Path, ...], *, fetch: bool) -> str:
    names = (document.name, document.name.partition("-")[0])
    for folder in folders:
        for name in names:
            paths = [folder / f"{name}{suffix}" for suffix in _SUFFIXES]
            paths += sorted((folder / name).rglob("*"))
            texts = [
                path.read_text(errors="replace")
                for path in paths
                if path.suffix in _SUFFIXES and path.is_file()
            ]
            if texts:
                return plain("\n".join(texts))
    if not fetch:
        return ""
    addresses = {document.url}
    if document.url.endswith("/"):
        addresses = {document.url + page.partition("#")[0] for page in document.anchors.values()}
    try:
        return plain("\n".join(_fetched(address) for address in sorted(addresses)))
    except OSError as problem:
        sys.stderr.write(f"{document.url}: cannot be read: {problem}\n")
        return ""


def _fetched(address: str) -> str:
    with urllib.request.urlopen(address, timeout=_FETCH_S) as answer:
        return str(answer.read().decode(errors="replace"))


def main() -> int:
    """Print what drifted and which documents had no text; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the catalogue's quotations with texts.")
    parser.add_argument("--texts", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--fetch", action="store_true", help="read other documents from the web")
    options = parser.parse_args()
    outcome = compare(requirements.load(), [*options.texts, CARRIED], fetch=options.fetch)
    lines = [
        f"{requirement.where}: {requirement.id}: {requirement.source} does not have"
        f" {requirement.quotation!r}; read {requirement.link} and correct the row"
        for requirement in outcome.drifted
    ]
    lines += [
        f"{document.name}: no text to compare with; it is at {document.url}"
        for document in outcome.without_text
    ]
    lines.append(f"{outcome.agreeing} quotations agree, {len(outcome.drifted)} have drifted")
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if outcome.drifted else 0


if __name__ == "__main__":
    sys.exit(main())
