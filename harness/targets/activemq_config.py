"""What the harness must know and change of an ``activemq.xml``: its connectors' names, hosts and ports, and its first user."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from lxml import etree

from harness.targets.artemis_config import LOOPBACK
from harness.targets.failure import SetUpFailed
from harness.targets.xml_file import parsed

_CORE = "{http://activemq.apache.org/schema/core}"
_URI = re.compile(r"^(?P<before>[a-z+]+://)(?P<host>\[[^\]]*\]|[^:/?]+):(?P<port>\d{1,5})(?P<after>.*)$")


def connectors(config: Path) -> dict[str, int]:
    """The port of each transport connector by its name.

    Raises :class:`SetUpFailed` for a file that cannot be read, is no XML or has no connector, and for a connector that has
    no name of its own, or whose URI is not ``SCHEME://HOST:PORT…`` on this machine's loopback interface.
    """
    found: dict[str, int] = {}
    for element, name, match in _connectors(parsed(config, "an activemq.xml"), config):
        if name in found:
            raise SetUpFailed(f"{config}, line {element.sourceline}: a second transportConnector is called {name}")
        found[name] = int(match["port"])
    if not found:
        raise SetUpFailed(f"{config}: has no <transportConnector>, so nothing could connect")
    return found


def with_ports(config: Path, ports: Mapping[str, int]) -> bytes:
    """The file's text with other ports; connectors that ``ports`` does not name keep theirs. Raises like connectors()."""
    tree = parsed(config, "an activemq.xml")
    for element, name, match in _connectors(tree, config):
        element.set("uri", f"{match['before']}{match['host']}:{ports.get(name, match['port'])}{match['after']}")
    return bytes(etree.tostring(tree, xml_declaration=True, encoding="UTF-8"))


def user(config: Path) -> tuple[str, str]:
    """Login and passcode of the first user of the file; of a file without users, empty ones: anybody may enter there."""
    for element in parsed(config, "an activemq.xml").iter(f"{_CORE}authenticationUser"):
        return element.get("username", ""), element.get("password", "")
    return "", ""


def _connectors(tree: etree._ElementTree, config: Path) -> Iterator[tuple[etree._Element, str, re.Match[str]]]:
    for element in tree.iter(f"{_CORE}transportConnector"):
        where, name, uri = f"{config}, line {element.sourceline}", element.get("name"), element.get("uri", "")
        if not name:
            raise SetUpFailed(f"{where}: the transportConnector has no name; give it one")
        match = _URI.match(uri)
        if match is None:
            raise SetUpFailed(f"{where}: transportConnector {name} has the uri {uri!r}, not SCHEME://HOST:PORT")
        if match["host"] not in LOOPBACK:
            raise SetUpFailed(
                f"{where}: transportConnector {name} listens on {match['host']}; only 127.0.0.1 is allowed here"
            )
        yield element, name, match
