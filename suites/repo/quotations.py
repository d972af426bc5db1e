"""Compares the quotations of the catalogue with their documents.

    python -m brokerproof.suites.repo.quotations [--texts FOLDER] [--fetch] [--strict]

The text of a document is looked for in ``FOLDER`` and then in ``suites/repo/texts``, in files or
folders named like the requirement file or like its first part (``amqp10.xml``; ``artemis/`` for
every ``artemis-*``, with the manual of a release inside). With ``--fetch`` the document's address
is tried last. A quotation that is missing from its text has drifted, and the exit code is 1.
The output lists documents that have no text or could not be fetched.

Web pages of others may change at any time, so their drift is reported but is an error only with
``--strict``.
"""

import argparse
import html
import http.client
import re
import sys
import urllib.request
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.catalogue import requirements
from brokerproof.harness.catalogue.requirements import Catalogue, Document, Requirement

CARRIED = Path(__file__).parent / "texts"
_SUFFIXES = (".html", ".xml", ".adoc", ".md", ".txt")
_FETCH_S = 5
_FETCHES_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Uncompared:
    """A document that could not be compared, and the reason."""

    document: Document
    reason: str


@dataclass(frozen=True, slots=True)
class Comparison:
    drifted: tuple[Requirement, ...]
    """Quotations that an available text does not contain."""
    moved: tuple[Requirement, ...]
    """Quotations that a fetched page does not contain."""
    agreeing: int
    without_text: tuple[Uncompared, ...]


def plain(text: str) -> str:
    """Return ``text`` without the markup of HTML, XML, AsciiDoc and Markdown, in lower case, with
    single blanks and none before punctuation: editions differ in these."""
    text = re.sub(r"<!--.*?-->", " ", text, flags=re.DOTALL)
    text = re.sub(r'<xref[^>]*name="([^"]*)"[^>]*/>', r"\1", text)
    text = html.unescape(re.sub(r"<[^<>]+>", " ", text))
    text = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", text)
    text = re.sub(r"\b(?:xref|https?):[^\s\[]*\[([^\]]*)\]", r"\1", text)
    text = re.sub(r"[`*\\]|(?<!\w)_|_(?!\w)", "", text)
    text = text.translate(str.maketrans("“”‘’", "\"\"''"))
    return re.sub(r"\s+(?=[.,;:)'])", "", re.sub(r"\s+", " ", text)).lower().strip()


def compare(
    catalogue: Catalogue, folders: Iterable[Path], read_page: Callable[[str], str] | None = None
) -> Comparison:
    """Compare each quotation of ``catalogue`` with the text of its document. ``read_page`` returns
    the page at an address, and is used if no other text is found."""
    quoting: dict[str, list[Requirement]] = {}
    for requirement in catalogue.values():
        if requirement.quotation:
            quoting.setdefault(requirement.document.name, []).append(requirement)
    searched = tuple(folders)
    documents = [document for document in catalogue.documents if document.name in quoting]
    texts = {document.name: _text(document, searched) for document in documents}
    pages: dict[str, str | OSError] = {}
    if read_page is not None:
        with ThreadPoolExecutor(_FETCHES_AT_ONCE) as pool:
            jobs = {
                document.name: pool.submit(_page, document, read_page)
                for document in documents
                if not texts[document.name]
            }
        pages = {name: job.result() for name, job in jobs.items()}
    missing: list[Uncompared] = []
    drifted: list[Requirement] = []
    moved: list[Requirement] = []
    agreeing = 0
    for document in documents:
        text = texts[document.name] or pages.get(document.name, "")
        if isinstance(text, OSError):
            missing.append(Uncompared(document, f"cannot be read: {text}"))
            continue
        if not text:
            missing.append(Uncompared(document, "no text to compare with"))
            continue
        rows = quoting[document.name]
        wrong = [row for row in rows if plain(row.quotation) not in text]
        (moved if document.name in pages else drifted).extend(wrong)
        agreeing += len(rows) - len(wrong)
    return Comparison(tuple(drifted), tuple(moved), agreeing, tuple(missing))


def _text(document: Document, folders: tuple[Path, ...]) -> str:
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
    return ""


def _page(document: Document, read_page: Callable[[str], str]) -> str | OSError:
    addresses = {document.url}
    if document.url.endswith("/"):
        addresses = {document.url + page.partition("#")[0] for page in document.anchors.values()}
    try:
        return plain("\n".join(read_page(address) for address in sorted(addresses)))
    except OSError as problem:
        return problem


def from_the_web(address: str) -> str:
    """Return the page at ``address``. Raises ``OSError`` if the page cannot be read."""
    try:
        with urllib.request.urlopen(address, timeout=_FETCH_S) as answer:
            return str(answer.read().decode(errors="replace"))
    except http.client.HTTPException as problem:
        raise OSError(f"{type(problem).__name__} {problem}") from None


def main() -> int:
    """Print the quotations that drifted and the documents without a text; return the exit code."""
    parser = argparse.ArgumentParser(description="Compare the catalogue's quotations with texts.")
    parser.add_argument("--texts", type=Path, action="append", default=[], metavar="FOLDER")
    parser.add_argument("--fetch", action="store_true", help="read other documents from the web")
    parser.add_argument("--strict", action="store_true", help="fail if a fetched page drifted")
    options = parser.parse_args()
    read_page = from_the_web if options.fetch else None
    outcome = compare(requirements.load(), [*options.texts, CARRIED], read_page)
    lines = [
        f"{requirement.where}: {requirement.id}: {requirement.source} does not have"
        f" {requirement.quotation!r}; read {requirement.link} and correct the row"
        for requirement in (*outcome.drifted, *outcome.moved)
    ]
    lines += [
        f"{missing.document.name}: {missing.reason}; it is at {missing.document.url}"
        for missing in outcome.without_text
    ]
    lines.append(
        f"{outcome.agreeing} quotations agree, {len(outcome.drifted)} have drifted,"
        f" {len(outcome.moved)} are not on the page that was fetched,"
        f" {len(outcome.without_text)} documents could not be compared"
    )
    sys.stdout.write("\n".join(lines) + "\n")
    return 1 if outcome.drifted or (options.strict and outcome.moved) else 0


if __name__ == "__main__":
    sys.exit(main())
