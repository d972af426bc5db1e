"""The parts of an ``activemq.xml`` that the harness reads or changes: the names, hosts and ports of
connectors, the first user, and flow control.

The file is read independently of the reference broker's reader, because a case's expectations must
not depend on the code under test.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from lxml import etree

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import xml_file
from brokerproof.harness.targets.artemis.config import LOOPBACK
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.target import Parameters, Value
from brokerproof.harness.targets.xml_file import parsed

CORE = "{http://activemq.apache.org/schema/core}"
_URI = re.compile(
    r"^(?P<before>[a-z+]+://)(?P<host>\[[^\]]*\]|[^:/?]+):(?P<port>\d{1,5})(?P<after>.*)$"
)
_SIZE = re.compile(r"^\s*([0-9]{1,18})\s*([kmg]?)b?\s*$", re.IGNORECASE)
_PROTOCOLS = {"stomp": "STOMP", "amqp": "AMQP", "tcp": "OPENWIRE"}
BROKER_WIDE = frozenset(
    {
        *(f"{kind}_usage_limit" for kind in ("memory", "store", "temp")),
        "send_fail_if_no_space",
        "send_fail_if_no_space_after_timeout_ms",
    }
)
"""Parameters that apply to a whole broker."""
_KIND = {RoutingType.ANYCAST: "queue", RoutingType.MULTICAST: "topic"}


@dataclass(frozen=True, slots=True)
class Policy:
    memory_limit: int = 0
    """In bytes; 0 means that only the broker's limit applies."""
    flow_control: bool = True
    cursor: str = ""
    """Where a queue keeps waiting messages: "vm", "file" or "store"; empty if not stated."""


def acceptors(config: Path, defaults: Parameters) -> dict[str, dict[str, Value]]:
    """Return each connector's parameters by its name: ``defaults`` (from the profile), overridden
    by what the file states for the whole broker and for the connector. Raises :class:`SetUpFailed`
    as :func:`connectors` does, and for a value that is not a number."""
    tree = parsed(config, "an activemq.xml")
    broker = dict(_of_the_broker(tree, config))
    acceptors = {}
    for element, name, _ in _connectors(tree, config):
        text = element.get("uri", "")
        try:
            uri = urlsplit(text)
        except ValueError as problem:
            raise SetUpFailed(
                f"{config}, line {element.sourceline}: {text!r:.60} is not a URI ({problem})"
            ) from None
        parameters: dict[str, Value] = {"protocols": _PROTOCOLS.get(uri.scheme, uri.scheme.upper())}
        options = dict(parse_qsl(uri.query))
        if (idle := options.get("transport.wireFormat.idleTimeout")) is not None:
            parameters["amqp_idle_timeout_ms"] = _number(config, element, idle, int)
        grace = options.get("transport.hbGracePeriodMultiplier")
        # The broker ignores a multiplier that would make it less patient.
        if grace is not None and (multiplier := _number(config, element, grace, float)) > 1.0:
            parameters["heart_beat_grace_multiplier"] = multiplier
        acceptors[name] = {**defaults, **broker, **parameters}
    return acceptors


def policy(config: Path, routing: RoutingType, name: str) -> Policy:
    """Return the file's policy for the queue or topic ``name``: the entry with the most words in
    common. Raises :class:`SetUpFailed` for a limit that is not a size."""
    policies: list[tuple[tuple[int, ...], Policy]] = []
    for entry in parsed(config, "an activemq.xml").iter(f"{CORE}policyEntry"):
        match = entry.get(_KIND[routing])
        if match is None or not _matches(match, name):
            continue
        cursor = next(
            (option for kind in entry.iter(f"{CORE}pendingQueuePolicy") for option in kind), None
        )
        destination_policy = Policy(
            memory_limit=_size(config, entry, entry.get("memoryLimit", "0")),
            flow_control=entry.get("producerFlowControl", "true") == "true",
            cursor=(
                "" if cursor is None else etree.QName(cursor).localname.removesuffix("QueueCursor")
            ),
        )
        policies.append(
            (tuple({">": 0, "*": 1}.get(part, 2) for part in match.split(".")), destination_policy)
        )
    return max(policies, key=lambda entry: entry[0], default=((), Policy()))[1]


def connectors(config: Path) -> dict[str, int]:
    """Return the port of each transport connector by the connector's name.

    Raises :class:`SetUpFailed` for a file that cannot be read, is not XML or has no connector, and
    for a connector that has no unique name or has a URI other than ``SCHEME://HOST:PORT…`` on this
    machine's loopback interface.
    """
    ports: dict[str, int] = {}
    for element, name, match in _connectors(parsed(config, "an activemq.xml"), config):
        if name in ports:
            raise SetUpFailed(
                f"{config}, line {element.sourceline}: two transportConnectors are called {name}"
            )
        ports[name] = int(match["port"])
    if not ports:
        raise SetUpFailed(f"{config}: has no <transportConnector>, so clients could not connect")
    return ports


def with_ports(config: Path, ports: Mapping[str, int], host: str | None = None) -> bytes:
    """Return the file's text with other ports; connectors missing from ``ports`` keep theirs. All
    connectors listen on ``host``, if given. Raises the same exceptions as :func:`connectors`."""
    tree = parsed(config, "an activemq.xml")
    for element, name, match in _connectors(tree, config):
        element.set(
            "uri",
            f"{match['before']}{host or match['host']}:{ports.get(name, match['port'])}{match['after']}",  # noqa: E501
        )
    return bytes(etree.tostring(tree, xml_declaration=True, encoding="UTF-8"))


def user(config: Path) -> tuple[str, str]:
    """Return the login and passcode of the file's first user; empty if the file has no users, so
    that anybody may log in."""
    for element in parsed(config, "an activemq.xml").iter(f"{CORE}authenticationUser"):
        return element.get("username", ""), element.get("password", "")
    return "", ""


def _of_the_broker(tree: etree._ElementTree, config: Path) -> Iterator[tuple[str, Value]]:
    for kind in ("memory", "store", "temp"):
        for element in tree.iter(f"{CORE}{kind}Usage"):
            if (limit := element.get("limit")) is not None:
                yield f"{kind}_usage_limit", _size(config, element, limit)
    for element in tree.iter(f"{CORE}systemUsage"):
        if (fails := element.get("sendFailIfNoSpace")) is not None:
            yield "send_fail_if_no_space", fails == "true"
        if (after := element.get("sendFailIfNoSpaceAfterTimeout")) is not None:
            yield "send_fail_if_no_space_after_timeout_ms", _number(config, element, after, int)


def _matches(match: str, name: str) -> bool:
    words = [
        "[^.]+" if part == "*" else re.escape(part) for part in match.removesuffix(">").split(".")
    ]
    return re.fullmatch(r"\.".join(words) + (".*" if match.endswith(">") else ""), name) is not None


def _size(config: Path, element: etree._Element, text: str) -> int:
    """Parse a number of bytes such as "20480", "20 kb", "1mb" or "2 g"."""
    match = _SIZE.match(text)
    if match is None:
        line = element.sourceline
        raise SetUpFailed(
            f"{config}, line {line}: {text!r} should be a size in bytes, such as 20480, 20 kb or"
            " 1 mb"
        )
    return int(match[1]) * int(1024 ** " kmg".index(match[2].lower() or " "))


def _number(
    config: Path, element: etree._Element, text: str, kind: type[int] | type[float]
) -> int | float:
    try:
        return xml_file.number(kind, text)
    except ValueError:
        raise SetUpFailed(
            f"{config}, line {element.sourceline}: {text!r:.60} should be a number"
        ) from None


def _connectors(
    tree: etree._ElementTree, config: Path
) -> Iterator[tuple[etree._Element, str, re.Match[str]]]:
    for element in tree.iter(f"{CORE}transportConnector"):
        where, name, uri = (
            f"{config}, line {element.sourceline}",
            element.get("name"),
            element.get("uri", ""),
        )
        if not name:
            raise SetUpFailed(f"{where}: the transportConnector has no name; give it one")
        match = _URI.match(uri)
        if match is None:
            raise SetUpFailed(
                f"{where}: transportConnector {name} has the uri {uri!r}, not SCHEME://HOST:PORT"
            )
        if match["host"] not in LOOPBACK:
            raise SetUpFailed(
                f"{where}: transportConnector {name} listens on {match['host']}; only 127.0.0.1 is"
                " allowed here"
            )
        yield element, name, match
