"""Reads the activemq.xml of a real ActiveMQ Classic into :class:`Settings`; the same file starts
both brokers.

The reader is as strict as :mod:`brokerproof.reference_broker.config.artemis.broker_xml`: a setting
that is not used is either noted, because it is known to have no effect here, or refused with file,
line and name. Besides ``broker``, a file may contain beans that fill in placeholders. In values
that are used, ``${NAME}`` is replaced from the environment.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lxml import etree

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.config import xml_document
from brokerproof.reference_broker.config.activemq import connector, ignored_settings
from brokerproof.reference_broker.config.activemq.connector import OF
from brokerproof.reference_broker.config.artemis.broker_xml import BrokerXmlReader
from brokerproof.reference_broker.config.ignored_settings import Entry
from brokerproof.reference_broker.config.notes_on_settings import Note, settle, unknown
from brokerproof.reference_broker.config.values import (
    INT_MAX,
    Where,
    boolean,
    byte_size,
    filled_in,
    whole,
    words,
)
from brokerproof.reference_broker.config.xml_document import line, tag
from brokerproof.reference_broker.kernel.queue_and_topic_names import DEAD_LETTERS, qualified
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.activemq import (
    ActiveMq,
    Cursor,
    DestinationPolicy,
    SystemUsage,
)
from brokerproof.reference_broker.settings.settings import QUEUES_STAY, Settings

SPACE = "http://activemq.apache.org/schema/core"
BEANS = "http://www.springframework.org/schema/beans"
_SCHEMA = "{http://www.w3.org/2001/XMLSchema-instance}"

PAGE = 256 * 1024
"""Size in bytes of the pages that a cursor writes to disk; the family has no setting for it. A
queue has up to three pages in memory while it writes and reads."""
_PERCENT = whole(1, 100)
_POLICY: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "memoryLimit": ("memory_limit", byte_size(0)),
    "producerFlowControl": ("producer_flow_control", boolean),
    "cursorMemoryHighWaterMark": ("cursor_memory_high_water_mark", _PERCENT),
    "storeUsageHighWaterMark": ("store_usage_high_water_mark", _PERCENT),
    "maxPageSize": ("max_page_size", whole(1, INT_MAX)),
    "minimumMessageSize": ("minimum_message_size", byte_size(0, INT_MAX)),
    "queuePrefetch": ("queue_prefetch", whole(0, INT_MAX)),
    "queueBrowserPrefetch": ("queue_browser_prefetch", whole(0, INT_MAX)),
    "topicPrefetch": ("topic_prefetch", whole(0, INT_MAX)),
    "durableTopicPrefetch": ("durable_topic_prefetch", whole(0, INT_MAX)),
    "sendFailIfNoSpace": ("send_fail_if_no_space", boolean),
    "sendFailIfNoSpaceAfterTimeout": ("send_fail_after_ms", whole(0)),
}
"""Attributes of ``policyEntry``, each with a :class:`DestinationPolicy` field and a reader."""
_CURSORS = {"storeCursor": Cursor.STORE, "fileQueueCursor": Cursor.FILE, "vmQueueCursor": Cursor.VM}
_USAGES: dict[str, dict[str, tuple[str, Callable[[str, Where], Any]]]] = {
    "memoryUsage": {
        "limit": ("memory", byte_size(0)),
        "percentOfJvmHeap": ("memory_percent", _PERCENT),
    },
    "storeUsage": {
        "limit": ("store", byte_size(0)),
        "percentLimit": ("store_percent", _PERCENT),
        "total": ("store_total", byte_size(0)),
    },
    "tempUsage": {
        "limit": ("temp", byte_size(0)),
        "percentLimit": ("temp_percent", _PERCENT),
        "total": ("temp_total", byte_size(0)),
    },
}


def is_one(path: Path) -> bool:
    """Return True if ``path`` is an activemq.xml rather than another broker's file."""
    try:
        return SPACE.encode() in path.read_bytes()
    except OSError:
        return False


def read(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of an activemq.xml. Raises a one-sentence ``BadSetting``."""
    return read_with_notes(path, environment).settings


def read_with_notes(path: Path, environment: Mapping[str, str] = os.environ) -> BrokerXmlReader:
    """Return the settings of an activemq.xml, and notes on settings that have no effect. Raises a
    one-sentence ``BadSetting``."""
    return _Reader(path, environment).run()


def default() -> Settings:
    """Return an unconfigured broker of this kind: connectors for STOMP, AMQP and OpenWire on their
    usual ports, and no users."""
    acceptors = (
        connector.acceptor("stomp", ("STOMP",), port=61613),
        connector.acceptor("amqp", ("AMQP",), port=5672),
        connector.acceptor("openwire", (connector.OPENWIRE,), port=61616),
    )
    return _settings("localhost", ActiveMq(), acceptors, None)


def _settings(
    name: str, activemq: ActiveMq, acceptors: tuple[Acceptor, ...], users: dict[str, str] | None
) -> Settings:
    everything = replace(
        QUEUES_STAY,
        dead_letter_address=qualified(DEAD_LETTERS, RoutingType.ANYCAST),
        page_size_bytes=PAGE,
        page_max_cache_size=2,
        max_read_page_bytes=-1,
    )
    return Settings(
        name=name,
        acceptors=acceptors,
        security_enabled=users is not None,
        users=users or {},
        address_settings=(everything,),
        persistence_enabled=activemq.persistent,
        activemq=activemq,
    )


@dataclass
class _Reader:
    file: Path
    environment: Mapping[str, str]
    notes: list[Note] = field(default_factory=list)
    users: dict[str, str] | None = None
    acceptors: list[Acceptor] = field(default_factory=list)
    values: dict[str, Any] = field(default_factory=dict)
    """Collects the values for :class:`ActiveMq`."""

    def run(self) -> BrokerXmlReader:
        broker = self._broker(xml_document.document(self.file, "an activemq.xml"))
        name = "localhost"
        for attribute, text, where in self._attributes(broker):
            if attribute == "brokerName":
                name = words(self._filled(text, where), where)
            elif attribute == "persistent":
                self.values["persistent"] = boolean(self._filled(text, where), where)
            else:
                used = {"brokerName": 0, "persistent": 0}
                self._without_effect(
                    attribute, text, where, ignored_settings.BROKER, "attribute", used
                )
        trees = {
            "destinationPolicy": self._policy_map,
            "plugins": self._plugins,
            "systemUsage": self._system_usage,
            "transportConnectors": self._connectors,
        }
        for child in self._once(broker):
            if tag(child) in trees:
                trees[tag(child)](child)
            else:
                self._without_effect(
                    tag(child),
                    "",
                    self._where(child),
                    ignored_settings.BROKER_TREES,
                    "element",
                    trees,
                )
        if not self.acceptors:
            raise self._where(broker, "transportConnectors").bad(
                "there is no connector",
                "write at least one <transportConnector>, so that clients can connect",
            )
        settings = _settings(name, ActiveMq(**self.values), tuple(self.acceptors), self.users)
        return BrokerXmlReader(settings, tuple(self.notes))

    # --- the document -----------------------------------------------------------------------------

    def _broker(self, root: etree._Element) -> etree._Element:
        """Return the file's only ``broker`` element, which may be the root or be among beans."""
        if root.tag == f"{{{SPACE}}}broker":
            return root
        if root.tag != f"{{{BEANS}}}beans":
            right = f'write <beans xmlns="{BEANS}"> with a <broker xmlns="{SPACE}"> inside'
            raise self._where(root).bad("is not the root of an activemq.xml", right)
        broker: etree._Element | None = None
        for child in xml_document.children(root, self._where(root)):
            if child.tag == f"{{{SPACE}}}broker":
                if broker is not None:
                    raise self._where(child).bad(
                        f"is given twice (first in line {line(broker)})", "keep one of them"
                    )
                broker = child
            elif child.tag == f"{{{BEANS}}}bean" and "Placeholder" in child.get("class", ""):
                self.notes.append(
                    Note(self._where(child), "placeholders are filled in from the environment here")
                )
            else:
                raise self._where(child).bad(
                    "is not read by this broker", "remove it and everything that refers to it"
                )
        if broker is None:
            raise self._where(root).bad(
                "has no broker element", f'write <broker xmlns="{SPACE}"> inside it'
            )
        return broker

    def _where(self, element: etree._Element, name: str = "") -> Where:
        return Where(self.file, line(element), name or tag(element))

    def _filled(self, text: str, where: Where) -> str:
        return filled_in(text, where, self.environment).strip()

    def _attributes(self, element: etree._Element) -> Iterator[tuple[str, str, Where]]:
        for key, value in element.attrib.items():
            name = str(key)
            if not name.startswith(_SCHEMA):
                yield name, str(value), self._where(element, f"{tag(element)}, {name}")

    def _children(self, element: etree._Element) -> Iterator[etree._Element]:
        for child in xml_document.children(element, self._where(element)):
            if etree.QName(child).namespace not in (SPACE, BEANS):
                space = etree.QName(child).namespace
                raise self._where(child).bad(
                    f"is in the namespace {space!r}", f'write it inside <broker xmlns="{SPACE}">'
                )
            yield child

    def _once(self, element: etree._Element) -> Iterator[etree._Element]:
        lines: dict[str, int] = {}
        for child in self._children(element):
            if tag(child) in lines:
                raise self._where(child).bad(
                    f"is given twice (first in line {lines[tag(child)]})", "keep one of them"
                )
            lines[tag(child)] = line(child)
            yield child

    def _only(self, element: etree._Element, *tags: str) -> Iterator[etree._Element]:
        for child in self._children(element):
            if tag(child) not in tags:
                raise unknown("element", self._where(child), set(tags), OF)
            yield child

    def _plain(self, element: etree._Element) -> None:
        """Raise an exception if ``element`` has attributes."""
        for name, _, where in self._attributes(element):
            raise where.bad(f"unknown attribute {name}", "remove it")

    def _without_effect(
        self,
        name: str,
        text: str,
        where: Where,
        known: Mapping[str, Entry],
        what: str,
        used: Mapping[str, object] | None = None,
    ) -> None:
        """Note why ``name`` is not used, or refuse it as unknown."""
        entry = known.get(name)
        if entry is None:
            raise unknown(what, where.named(name), {*known, *(used or ())}, OF)
        if "${" in text:
            self.notes.append(Note(where, getattr(entry, "reason", "its value is not known here")))
        else:
            self.notes += settle(text, where, entry)

    def _read(
        self,
        element: etree._Element,
        used: Mapping[str, tuple[str, Callable[[str, Where], Any]]],
        known: Mapping[str, Entry],
        but: tuple[str, ...] = (),
    ) -> dict[str, Any]:
        """Return the attributes of ``element``, except those in ``but``, as values."""
        values: dict[str, Any] = {}
        for name, text, where in self._attributes(element):
            if name in used:
                at, parse = used[name]
                values[at] = parse(self._filled(text, where), where)
            elif name not in but:
                self._without_effect(name, text, where, known, "attribute", used)
        return values

    # --- the trees --------------------------------------------------------------------------------

    def _policy_map(self, element: etree._Element) -> None:
        self._plain(element)
        for policy_map in self._only(element, "policyMap"):
            self._plain(policy_map)
            for child in self._once(policy_map):
                if tag(child) == "policyEntries":
                    self._plain(child)
                    self.values["policies"] = tuple(self._policies(child))
                elif tag(child) == "defaultEntry":
                    for entry in self._only(child, "policyEntry"):
                        self.values["default_policy"] = self._policy(entry, "")
                else:
                    raise unknown(
                        "element", self._where(child), {"policyEntries", "defaultEntry"}, OF
                    )

    def _policies(self, element: etree._Element) -> Iterator[DestinationPolicy]:
        lines: dict[str, int] = {}
        for entry in self._only(element, "policyEntry"):
            where = self._where(entry)
            named = [kind for kind in ("queue", "topic") if kind in entry.attrib]
            if len(named) != 1:
                raise where.bad(
                    "must name either a queue or a topic",
                    'write queue="NAME" or topic="NAME", with * and > as wildcards',
                )
            name = words(
                self._filled(str(entry.get(named[0])), where),
                where.named(f"{where.name}, {named[0]}"),
            )
            pattern = f"{named[0]}://{name}"
            if pattern in lines:
                raise where.bad(
                    f"{pattern} is given twice (first in line {lines[pattern]})", "keep one of them"
                )
            lines[pattern] = where.line
            yield self._policy(entry, pattern)

    def _policy(self, element: etree._Element, pattern: str) -> DestinationPolicy:
        values = self._read(element, _POLICY, ignored_settings.POLICY, ("queue", "topic"))
        for child in self._once(element):
            if tag(child) == "pendingQueuePolicy":
                self._plain(child)
                for cursor in self._only(child, *_CURSORS):
                    values["cursor"] = _CURSORS[tag(cursor)]
            else:
                self._without_effect(
                    tag(child),
                    "",
                    self._where(child),
                    ignored_settings.POLICY_TREES,
                    "element",
                    {"pendingQueuePolicy": 0},
                )
        return DestinationPolicy(pattern, **values)

    def _plugins(self, element: etree._Element) -> None:
        self._plain(element)
        for child in self._once(element):
            where = self._where(child)
            if tag(child) == "simpleAuthenticationPlugin":
                self._authentication(child)
            elif tag(child) == "statisticsBrokerPlugin":
                self._plain(child)
                self.values["statistics"] = True
            else:
                used = {"simpleAuthenticationPlugin": 0, "statisticsBrokerPlugin": 0}
                self._without_effect(
                    tag(child), "", where, ignored_settings.PLUGINS, "element", used
                )

    def _authentication(self, element: etree._Element) -> None:
        for name, text, where in self._attributes(element):
            if name != "anonymousAccessAllowed":
                raise unknown("attribute", where.named(name), {"anonymousAccessAllowed"}, OF)
            if boolean(self._filled(text, where), where):
                raise where.bad(
                    "anonymous users are not supported by this broker",
                    "write false, or remove the plugin",
                )
        self.users = {}
        for users in self._only(element, "users"):
            for user in self._only(users, "authenticationUser"):
                where = self._where(user)
                credentials = {
                    name: self._filled(text, there) for name, text, there in self._attributes(user)
                }
                if extra := credentials.keys() - {"username", "password", "groups"}:
                    raise unknown(
                        "attribute", where.named(min(extra)), {"username", "password", "groups"}, OF
                    )
                login = words(
                    credentials.get("username", ""), where.named(f"{where.name}, username")
                )
                if login in self.users:
                    raise where.bad(f"the username {login!r} is given twice", "keep one of them")
                self.users[login] = credentials.get("password", "")

    def _system_usage(self, element: etree._Element) -> None:
        self._plain(element)
        values: dict[str, Any] = {}
        used = {
            "sendFailIfNoSpace": ("send_fail_if_no_space", boolean),
            "sendFailIfNoSpaceAfterTimeout": ("send_fail_after_ms", whole(0)),
        }
        for usage in self._only(element, "systemUsage"):
            values |= self._read(usage, used, {})
            for child in self._once(usage):
                if tag(child) not in _USAGES:
                    self._without_effect(
                        tag(child),
                        "",
                        self._where(child),
                        ignored_settings.USAGE_TREES,
                        "element",
                        _USAGES,
                    )
                    continue
                self._plain(child)
                for limit in self._only(child, tag(child)):
                    values |= self._read(limit, _USAGES[tag(child)], {})
        self.values["usage"] = SystemUsage(**values)

    def _connectors(self, element: etree._Element) -> None:
        self._plain(element)
        names: dict[str, int] = {}
        for child in self._only(element, "transportConnector"):
            attributes = {name: (text, where) for name, text, where in self._attributes(child)}
            where = self._where(child)
            for needed in ("name", "uri"):
                if needed not in attributes:
                    raise where.bad(
                        f"has no {needed}",
                        f'write <transportConnector name="…" uri="…"/> with its {needed}',
                    )
            name, uri = (self._filled(*attributes.pop(attribute)) for attribute in ("name", "uri"))
            if name in names:
                raise where.bad(
                    f"the name {name!r} is given twice (first in line {names[name]})",
                    "keep one of them",
                )
            names[name] = where.line
            for attribute, (text, there) in attributes.items():
                self._without_effect(
                    attribute, text, there, ignored_settings.CONNECTOR, "attribute"
                )
            acceptor, notes = connector.read(name, uri, self._where(child, f"connector {name!r}"))
            self.acceptors.append(acceptor)
            self.notes += notes
