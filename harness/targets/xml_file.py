"""A broker's XML configuration file, read without following what it points to."""

from __future__ import annotations

from pathlib import Path

from lxml import etree

from brokerproof.harness.targets.failure import SetUpFailed


def parsed(config: Path, wanted: str = "a broker.xml") -> etree._ElementTree:
    """The file as a tree. Raises :class:`SetUpFailed` when it cannot be read (``wanted`` should be
    named) or is no XML."""
    try:
        return etree.parse(str(config), etree.XMLParser(resolve_entities=False, no_network=True))
    except OSError:
        raise SetUpFailed(f"{config}: cannot be read; name {wanted}") from None
    except etree.XMLSyntaxError as problem:
        raise SetUpFailed(f"{config}, line {problem.lineno}: is no XML ({problem.msg})") from None
