"""The parts of a ``broker.xml`` that the harness reads or changes: its acceptors' names, hosts and
ports."""

import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from lxml import etree

from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.xml_file import parsed

_CORE = "{urn:activemq:core}"
_URL = re.compile(
    r"^(?P<before>\s*tcp://)(?P<host>\[[^\]]*\]|[^:/?;]+):(?P<port>\d{1,5})(?P<after>[/?;].*|\s*)$",
    re.DOTALL,
)
_SCHEMA = "org.apache.activemq/dto/activemq.xsd"
_ATTRIBUTE = "{http://www.w3.org/2001/XMLSchema}attribute"
LOOPBACK = frozenset({"127.0.0.1", "localhost"})


@dataclass(frozen=True, slots=True)
class Acceptor:
    """An acceptor's address and protocols according to the file (empty: all protocols)."""

    name: str
    host: str
    port: int
    protocols: tuple[str, ...]


def acceptors(config: Path) -> dict[str, Acceptor]:
    """Return the acceptors of a ``broker.xml`` by name.

    Raises :class:`SetUpFailed` for a file that cannot be read, is not XML or has no acceptor, and
    for an acceptor that has no unique name or has a URL other than ``tcp://HOST:PORT…`` on this
    machine's loopback interface.
    """
    acceptors: dict[str, Acceptor] = {}
    for element in _elements(parsed(config), config):
        name, match = _read(element, config)
        if name in acceptors:
            raise SetUpFailed(
                f"{config}, line {element.sourceline}: two acceptors are called {name}"
            )
        spoken = re.search(r"[?;&]protocols=([^;&]*)", match["after"])
        protocols = tuple(part.strip() for part in spoken[1].split(",")) if spoken else ()
        acceptors[name] = Acceptor(name, match["host"], int(match["port"]), protocols)
    return acceptors


def with_ports(config: Path, ports: Mapping[str, int], host: str | None = None) -> bytes:
    """Return the file's text with other ports; acceptors missing from ``ports`` keep theirs. All
    acceptors listen on ``host``, if given. Raises the same exceptions as :func:`acceptors`."""
    tree = parsed(config)
    for element in _elements(tree, config):
        name, match = _read(element, config)
        element.text = f"{match['before']}{host or match['host']}:{ports.get(name, match['port'])}{match['after']}"  # noqa: E501
    return bytes(etree.tostring(tree, xml_declaration=True, encoding="UTF-8"))


def as_of(home: Path, config: Path) -> bytes:
    """Return the text of a bootstrap.xml or management.xml as the release at ``home`` reads it.

    The namespace of the files' elements has changed over time; attributes that the release does not
    know are omitted. Raises :class:`SetUpFailed`.
    """
    try:
        with zipfile.ZipFile(next((home / "lib").glob("artemis-dto-*.jar"))) as jar:
            schema = etree.fromstring(jar.read(_SCHEMA))
    except (OSError, StopIteration, KeyError, zipfile.BadZipFile, etree.XMLSyntaxError):
        raise SetUpFailed(
            f"{home}: has no lib/artemis-dto-VERSION.jar with {_SCHEMA}; remove the folder"
        ) from None
    own = etree.QName(parsed(config).getroot()).namespace or ""
    text = config.read_bytes().replace(
        f'xmlns="{own}"'.encode(), f'xmlns="{schema.get("targetNamespace")}"'.encode()
    )
    root, known = (
        etree.fromstring(text),
        {str(attribute.get("name")) for attribute in schema.iter(_ATTRIBUTE)},
    )
    for element in root.iter(etree.Element):
        for name in set(map(str, element.attrib)) - known:
            del element.attrib[name]
    return bytes(etree.tostring(root, xml_declaration=True, encoding="UTF-8"))


def _elements(tree: etree._ElementTree, config: Path) -> list[etree._Element]:
    elements = list(tree.getroot().iterfind(f"./{_CORE}core/{_CORE}acceptors/{_CORE}acceptor"))
    if not elements:
        raise SetUpFailed(
            f"{config}: has no <acceptor> below <core><acceptors>, so clients could not connect"
        )
    return elements


def _read(element: etree._Element, config: Path) -> tuple[str, re.Match[str]]:
    where = f"{config}, line {element.sourceline}"
    name = element.get("name")
    if not name:
        raise SetUpFailed(f"{where}: the acceptor has no name; give it one")
    match = _URL.match(element.text or "")
    if match is None:
        raise SetUpFailed(
            f"{where}: acceptor {name} is {(element.text or '').strip()!r}, not tcp://HOST:PORT"
        )
    if match["host"] not in LOOPBACK:
        raise SetUpFailed(
            f"{where}: acceptor {name} listens on {match['host']}; only 127.0.0.1 is allowed here"
        )
    if not 0 <= int(match["port"]) <= 65535:
        raise SetUpFailed(
            f"{where}: acceptor {name} has the port {match['port']}, which is not in 0 to 65535"
        )
    return name, match
