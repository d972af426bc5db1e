"""Reads XML configuration files as elements. Nothing outside the file is read."""

from pathlib import Path
from typing import Any

from lxml import etree

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.reference_broker.config.values import Where
from brokerproof.reference_broker.settings.settings import BadSetting

MOST_BYTES = 8 << 20
_XINCLUDE = "{http://www.w3.org/2001/XInclude}"


def document(file: Path, what: str) -> etree._Element:
    """Return the root element of ``file``; errors call the file ``what``. Raises
    :class:`BadSetting` for a file that cannot be read, is not well-formed, or has a DOCTYPE."""
    parser = etree.XMLParser(
        resolve_entities=False,
        no_network=True,
        load_dtd=False,
        huge_tree=False,
        remove_comments=True,
        remove_pis=True,
    )
    try:
        data = input_file.read_bytes(file, MOST_BYTES)
    except BadInput as problem:
        raise BadSetting(f"{file}: {problem}; name {what}") from None
    try:
        root = etree.fromstring(data, parser)
    except etree.XMLSyntaxError as problem:
        reason = (problem.msg or "it is empty").split(", line ")[0]
        raise BadSetting(
            f"{file}, line {problem.lineno or 1}: malformed XML: {reason}; correct it there"
        ) from None
    docinfo: Any = root.getroottree().docinfo
    if docinfo.doctype:
        raise BadSetting(
            f"{file}, line 1: a DOCTYPE is not accepted; remove it and write out its entities"
        )
    return root


def tag(element: etree._Element) -> str:
    """Return the name of ``element`` without its namespace."""
    return etree.QName(element).localname


def line(element: etree._Element) -> int:
    """Return the number of the line where the element begins, from 1."""
    line: Any = element.sourceline
    return line or 1


def children(element: etree._Element, where: Where) -> list[etree._Element]:
    """Return the elements inside ``element``. Raises :class:`BadSetting` for text between them, for
    entities and for XInclude."""
    for text in (element.text, *(child.tail for child in element)):
        if text and text.strip():
            raise where.bad(f"the text {text.strip()[:40]!r} does not belong here", "remove it")
    for child in element:
        if not isinstance(child.tag, str):
            raise where.bad("an entity is not accepted", "write out its content")
        if child.tag.startswith(_XINCLUDE):
            here = Where(where.file, line(child), "xi:include")
            raise here.bad("is not read by this broker", "put the text of the file here")
    return list(element)
