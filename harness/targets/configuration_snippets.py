"""The parts of a broker's configuration that cases need in addition to its defaults, to paste into
your own configuration. They come from the files with which brokerproof starts its own brokers."""

import re
from collections.abc import Iterator
from pathlib import Path

from lxml import etree

from brokerproof.harness.targets import parameters, shipped_targets, xml_file

FAMILIES = ("artemis", "rabbitmq", "activemq")
_USUAL = frozenset({"stomp", "amqp", "openwire"})
"""Acceptors that every broker already has."""
_SETTINGS = ("full.", "anycast.", "multicast.", "window-2000.")
_RABBITMQ = """\
# RabbitMQ: the plugins that cases need. Cases set limits by queue arguments, so you need not
# configure anything else.
#
#     rabbitmq-plugins enable rabbitmq_stomp rabbitmq_web_stomp rabbitmq_management
#
# In rabbitmq.conf, if the defaults do not suit you:
stomp.listeners.tcp.1 = 61613
web_stomp.tcp.port = 15674
management.tcp.port = 15672
# An alarm (rabbitmqctl) affects the whole broker: judge alarms with a separate target file:
#     like = "rabbitmq-alarms"
#     rabbitmqctl = ["docker", "exec", "NAME", "rabbitmqctl"]
"""


def snippet(family: str) -> str:
    if family == "rabbitmq":
        return _RABBITMQ
    parts = _artemis() if family == "artemis" else _activemq()
    return "\n".join(parts) + "\n"


def _artemis() -> Iterator[str]:
    root = _root("artemis", "broker.xml")
    yield "<!-- Artemis, into <acceptors>: variants of STOMP and AMQP, and CORE. -->"
    known = parameters.from_broker_xml(_file("artemis", "broker.xml"), {})
    for element in _named(root, "acceptor"):
        name = str(element.get("name"))
        if name not in _USUAL and not parameters.has_tls(known[name]):
            yield _text(element)
    yield "\n<!-- Into <address-settings>: addresses with low limits, under each policy. -->"
    for element in _named(root, "address-setting"):
        if str(element.get("match")).startswith(_SETTINGS):
            yield _text(element)
    yield "\n<!-- Into <addresses>: a durable subscription that exists from the start. -->"
    for element in _named(root, "address"):
        if element.get("name") == "configured.durable":
            yield _text(element)
    yield (
        '\n<!-- Into <security-setting match="#">, for the role of the login: cases query the'
        "\n     state of addresses. -->"
    )
    yield '<permission type="manage" roles="ROLE"/>'
    yield (
        "\n<!-- Into <core>, only if persistence is off: this scan delivers paged messages to a"
        "\n     waiting consumer. -->"
    )
    yield "<message-expiry-scan-period>1000</message-expiry-scan-period>"


def _activemq() -> Iterator[str]:
    flow, plain = _root("activemq", "flow.xml"), _root("activemq", "activemq.xml")
    yield (
        "<!-- ActiveMQ, into <policyEntries>: destinations with low limits. Name full.file. in"
        '\n     [addresses] only if the broker has persistent="true". -->'
    )
    for element in (*_named(flow, "policyEntry"), *_named(plain, "policyEntry")):
        yield _text(element)
    yield "\n<!-- Into <plugins>: cases query what a destination holds. -->"
    yield "<statisticsBrokerPlugin/>"
    yield "\n<!-- Into <transportConnectors>. -->"
    for element in _named(plain, "transportConnector"):
        if element.get("name") not in _USUAL:
            yield _text(element)


def snippet_ports(family: str) -> dict[str, tuple[str, int]]:
    """Return the scheme and port of each acceptor in the snippet, by the acceptor's name."""
    if family not in ("artemis", "activemq"):
        return {}
    file = _file(family, "broker.xml" if family == "artemis" else "activemq.xml")
    ports = {}
    for name, stated in parameters.from_file(file, {}).items():
        port = _port(file, name)
        if name not in _USUAL and not parameters.has_tls(stated) and port:
            ports[name] = (str(stated.get("protocols", "STOMP")).lower(), port)
    return ports


def _port(file: Path, name: str) -> int:
    for element in xml_file.parsed(file, "a configuration").getroot().iter(etree.Element):
        if element.get("name") == name:
            address = (element.text or "").strip() or element.get("uri", "")
            digits = address.partition("://")[2].partition("?")[0].rpartition(":")[2]
            return int(digits) if digits.isdecimal() else 0
    return 0


def _file(family: str, name: str) -> Path:
    return shipped_targets.families() / family / name


def _root(family: str, name: str) -> etree._Element:
    return xml_file.parsed(_file(family, name), "a configuration").getroot()


def _named(root: etree._Element, name: str) -> Iterator[etree._Element]:
    for element in root.iter(etree.Element):
        if etree.QName(element).localname == name:
            yield element


def _text(element: etree._Element) -> str:
    """Return an element as text, without a namespace and listening on every interface."""
    text = etree.tostring(element, encoding="unicode", with_tail=False)
    text = re.sub(r' xmlns(:\w+)?="[^"]*"', "", text)
    lines = text.replace("//127.0.0.1:", "//0.0.0.0:").split("\n")
    indents = [len(line) - len(line.lstrip()) for line in lines[1:] if line.strip()]
    cut = min(indents, default=0)
    return "\n".join([lines[0], *(line[cut:] for line in lines[1:])])
