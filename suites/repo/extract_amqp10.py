"""Turns the machine-readable definition of AMQP 1.0 into ``amqp10-definition.json``.

The definition is the folder ``/usr/share/amqp/specs/1-0`` of Debian's package ``amqp-specs``: the
XML of the standard without its prose. Run from the top of the repository::

    python -m brokerproof.suites.repo.extract_amqp10 /usr/share/amqp/specs/1-0 >
    fixtures/vectors/amqp10-definition.json

Nothing is added, left out or corrected: names and texts are the XML's own, with numbers and truth
values also read as such. ``fixtures/vectors/README.md`` describes the JSON.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import TypeAlias
from xml.etree import ElementTree

Json: TypeAlias = "bool | int | str | list[Json] | dict[str, Json] | None"

DOCUMENTS = ("types", "transport", "messaging", "transactions", "security")
"""The parts of the standard, in its order; each is ``<name>.bare.xml``."""

NUMBERS = ("ubyte", "ushort", "uint", "ulong", "byte", "short", "int", "long")
TRUTH = {"true": True, "false": False}

ABOUT = (
    "The types, fields, choices and constants of AMQP 1.0, extracted from the XML definition by "
    "suites/repo/extract_amqp10.py; fixtures/vectors/README.md describes the form."
)


class BadDefinition(ValueError):
    """The folder does not hold the definition: one sentence that names the file and what is
    wrong."""


def extract(folder: Path) -> dict[str, Json]:
    """The whole definition in the form that ``fixtures/vectors/README.md`` describes.

    Raises :class:`BadDefinition` for a file that is missing, no XML, or not the definition.
    """
    roots = {name: _root(folder / f"{name}.bare.xml") for name in DOCUMENTS}
    try:
        return {
            "about": ABOUT,
            "notice": _notice(folder / f"{DOCUMENTS[0]}.bare.xml"),
            **_definitions(roots),
        }
    except (KeyError, ValueError) as problem:
        if isinstance(problem, BadDefinition):
            raise
        raise BadDefinition(
            f"{folder}: an element lacks or spoils what it should have: {problem}"
        ) from None


def _definitions(roots: dict[str, ElementTree.Element]) -> dict[str, Json]:
    types: dict[str, Json] = {}
    constants: dict[str, Json] = {}
    parts = [
        (document, section)
        for document, root in roots.items()
        for section in root
        if section.tag == _tag("section")
    ]
    elements = {
        element.attrib["name"]: (document, section.attrib["name"], element)
        for document, section in parts
        for element in section
        if element.tag == _tag("type")
    }
    sources = {name: element.get("source", name) for name, (_, _, element) in elements.items()}
    choices = {name: _choices(name, element, sources) for name, (_, _, element) in elements.items()}
    for name, (document, section_name, element) in elements.items():
        types[name] = {
            "document": document,
            "section": section_name,
            "class": element.attrib["class"],
            "source": element.get("source"),
            "provides": _words(element.get("provides")),
            "descriptor": _descriptor(element),
            "fields": [_field(field, sources, choices) for field in element.findall(_tag("field"))],
            "choices": [
                {"name": choice, "value": value} for choice, value in choices[name].items()
            ],
            "encodings": [
                _encoding(name, encoding) for encoding in element.findall(_tag("encoding"))
            ],
        }
    for _, section in parts:
        for element in section.findall(_tag("definition")):
            constants[element.attrib["name"]] = int(element.attrib["value"])
    return {"types": types, "constants": constants}


def text(folder: Path) -> str:
    """:func:`extract` as the committed file has it: one line per field, choice and encoding."""
    whole = json.dumps(extract(folder), indent=2, ensure_ascii=False)
    # An object without objects in it goes on one line: the file is read, and compared, by people
    # too.
    flat = re.sub(
        r"\{\n\s+([^{}]*?)\n\s+\}",
        lambda element: "{" + re.sub(r"\n\s+", " ", element[1]) + "}",
        whole,
    )
    return (
        re.sub(
            r"\[\n\s+((?:\"[^\"]*\",?\s*)+)\]",
            lambda element: "[" + " ".join(element[1].split()) + "]",
            flat,
        )
        + "\n"
    )


def _root(path: Path) -> ElementTree.Element:
    try:
        root = ElementTree.parse(path).getroot()
    except OSError as problem:
        raise BadDefinition(
            f"{path}: {problem.strerror}; Debian's package amqp-specs has it"
        ) from None
    except ElementTree.ParseError as problem:
        raise BadDefinition(f"{path}: is not XML: {problem}") from None
    if root.tag != _tag("amqp"):
        raise BadDefinition(
            f"{path}: its first element is {root.tag}; the definition begins with {_tag('amqp')}"
        )
    return root


def _notice(path: Path) -> list[Json]:
    """The paragraphs of the file's copyright notice, which copies have to keep."""
    notice = re.search(r"<!--(.*?)-->", path.read_text("utf-8"), re.DOTALL)
    if notice is None:
        raise BadDefinition(
            f"{path}: has no copyright notice in front; copies of the definition keep it"
        )
    return [" ".join(part.split()) for part in notice[1].strip().split("\n\n")]


def _tag(name: str) -> str:
    return f"{{http://www.amqp.org/schema/amqp.xsd}}{name}"


def _words(listed: str | None) -> list[Json]:
    return [part.strip() for part in listed.split(",")] if listed else []


def _primitive(name: str, sources: dict[str, str]) -> str:
    """Return the primitive type that encodes a type: ``delivery-number`` is a ``uint``."""
    while sources.get(name, name) != name:
        name = sources[name]
    return name


def _value(written: str, type_name: str, sources: dict[str, str]) -> Json:
    primitive = _primitive(type_name, sources)
    if primitive in NUMBERS:
        return int(written)
    return TRUTH[written] if primitive == "boolean" else written


def _choices(name: str, element: ElementTree.Element, sources: dict[str, str]) -> dict[str, Json]:
    return {
        choice.attrib["name"]: _value(choice.attrib["value"], name, sources)
        for choice in element.findall(_tag("choice"))
    }


def _descriptor(element: ElementTree.Element) -> Json:
    descriptor = element.find(_tag("descriptor"))
    if descriptor is None:
        return None
    domain, _, number = descriptor.attrib["code"].partition(":")
    return {"name": descriptor.attrib["name"], "code": (int(domain, 16) << 32) | int(number, 16)}


def _field(
    element: ElementTree.Element, sources: dict[str, str], choices: dict[str, dict[str, Json]]
) -> Json:
    type_name, default = element.attrib["type"], element.get("default")
    value: Json = None
    if default is not None:
        named = choices.get(type_name, {})
        value = named[default] if default in named else _value(default, type_name, sources)
    return {
        "name": element.attrib["name"],
        "type": type_name,
        "mandatory": element.get("mandatory") == "true",
        "multiple": element.get("multiple") == "true",
        "default": default,
        "default_value": value,
        "requires": _words(element.get("requires")),
    }


def _encoding(type_name: str, element: ElementTree.Element) -> Json:
    return {
        "name": element.get("name", type_name),
        "code": int(element.attrib["code"], 16),
        "category": element.attrib["category"],
        "width": int(element.attrib["width"]),
    }


def main(arguments: list[str]) -> int:
    """Writes the JSON of the folder named by the one argument to standard output; 4 for wrong usage
    or a wrong folder."""
    if len(arguments) != 1:
        sys.stderr.write("usage: python -m brokerproof.suites.repo.extract_amqp10 FOLDER\n")
        return 4
    try:
        sys.stdout.write(text(Path(arguments[0])))
    except BadDefinition as problem:
        sys.stderr.write(f"{problem}\n")
        return 4
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
