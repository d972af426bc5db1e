"""Reads a broker's XML configuration file without following references to other files."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from lxml import etree

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.targets.failure import SetUpFailed

T = TypeVar("T")


def parsed(config: Path, root_name: str = "a broker.xml") -> etree._ElementTree:
    """Return the file as a tree. Raises :class:`SetUpFailed` if the file cannot be read (the
    message calls it ``root_name``) or is not XML."""
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False)
    try:
        root = etree.fromstring(input_file.read_bytes(config), parser)
    except BadInput as problem:
        raise SetUpFailed(f"{config}: {problem}; name {root_name}") from None
    except (etree.XMLSyntaxError, ValueError) as problem:
        line = getattr(problem, "lineno", None) or 1
        raise SetUpFailed(f"{config}, line {line}: is not XML ({problem})") from None
    return root.getroottree()


def number(kind: Callable[[str], T], text: str) -> T:
    """Return ``text`` as ``kind``: int, float, or another type that accepts text. Raises
    ``ValueError`` for a number that is malformed, not finite, or too large for a trace's 64
    bits."""
    value = kind(text)
    if isinstance(value, int | float) and not abs(value) < 1 << 64:
        raise ValueError(text)
    return value
