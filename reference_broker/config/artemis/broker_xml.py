"""Reads the broker.xml of a real Artemis into :class:`Settings`; the same file starts both brokers.

The reader is deliberately strict: every element, attribute and URL parameter is either used, or
known to have no effect here (see :mod:`brokerproof.reference_broker.config.ignored_settings`), or
refused with file, line and name. Artemis itself takes the first of two equal elements and ignores
unknown parameters; a test tool must not guess what was meant.

As in Artemis, ``${NAME:default}`` is replaced from the environment. Entities, DTDs and XInclude are
refused: apart from the users files next to the file, nothing outside it is read.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lxml import etree

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.config import xml_document
from brokerproof.reference_broker.config.artemis import acceptor_url, users_properties
from brokerproof.reference_broker.config.artemis.ignored_settings import (
    ADDRESS_SETTING,
    CORE,
    QUEUE,
)
from brokerproof.reference_broker.config.ignored_settings import NoEffect, Refused
from brokerproof.reference_broker.config.notes_on_settings import Note, settle, unknown
from brokerproof.reference_broker.config.values import (
    INT_MAX,
    Where,
    boolean,
    byte_size,
    filled_in,
    maybe_words,
    member,
    one_of,
    whole,
    words,
)
from brokerproof.reference_broker.config.xml_document import line as line_of
from brokerproof.reference_broker.config.xml_document import tag as tag_of
from brokerproof.reference_broker.selector.selector import SelectorError, parse
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)

ROOT = "urn:activemq"
SPACE = "urn:activemq:core"
_FREE_ATTRIBUTES = (
    "{http://www.w3.org/2001/XMLSchema-instance}schemaLocation",
    "{http://www.w3.org/XML/1998/namespace}",
)

_TOP: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "name": ("name", words),
    "connection-ttl-override": ("connection_ttl_override_ms", whole(1, or_else=-1)),
    "connection-ttl-check-interval": ("connection_ttl_check_interval_ms", whole(1)),
    "security-enabled": ("security_enabled", boolean),
    "global-max-size": ("global_max_size_bytes", byte_size(1, or_else=-1)),
    "persistence-enabled": ("persistence_enabled", boolean),
    "paging-directory": ("paging_directory", words),
    "journal-directory": ("journal_directory", words),
    "large-messages-directory": ("large_messages_directory", words),
    "journal-file-size": ("journal_file_size", byte_size(1, INT_MAX)),
    "global-max-messages": ("global_max_messages", whole(1, or_else=-1)),
}
_TREES = ("acceptors", "address-settings", "addresses", "wildcard-addresses")

_attempts = whole(1, INT_MAX, or_else=-1)


def _page_full(text: str, where: Where) -> FullPolicy:
    return FullPolicy(one_of("DROP", "FAIL")(text, where))


ADDRESS_FIELDS: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "default-address-routing-type": ("default_address_routing_type", member(RoutingType)),
    "default-queue-routing-type": ("default_queue_routing_type", member(RoutingType)),
    "auto-create-addresses": ("auto_create_addresses", boolean),
    "auto-create-queues": ("auto_create_queues", boolean),
    "auto-delete-addresses": ("auto_delete_addresses", boolean),
    "auto-delete-queues": ("auto_delete_queues", boolean),
    "max-delivery-attempts": ("max_delivery_attempts", _attempts),
    "dead-letter-address": ("dead_letter_address", words),
    "expiry-address": ("expiry_address", words),
    "redelivery-delay": ("redelivery_delay_ms", whole(0)),
    "max-size-bytes": ("max_size_bytes", byte_size(0, or_else=-1)),
    "max-size-messages": ("max_size_messages", whole(0, or_else=-1)),
    "max-size-bytes-reject-threshold": (
        "max_size_bytes_reject_threshold",
        byte_size(0, or_else=-1),
    ),
    "page-size-bytes": ("page_size_bytes", byte_size(1, INT_MAX)),
    "page-max-cache-size": ("page_max_cache_size", whole(0, INT_MAX, or_else=-1)),
    "max-read-page-bytes": ("max_read_page_bytes", byte_size(1, INT_MAX, or_else=-1)),
    "max-read-page-messages": ("max_read_page_messages", whole(1, INT_MAX, or_else=-1)),
    "page-limit-bytes": ("page_limit_bytes", byte_size(1, or_else=-1)),
    "page-limit-messages": ("page_limit_messages", whole(1, or_else=-1)),
    "page-full-policy": ("page_full_policy", _page_full),
    "address-full-policy": ("address_full_policy", member(FullPolicy)),
    "default-consumer-window-size": ("default_consumer_window_size", whole(0, INT_MAX, or_else=-1)),
}
"""Children of ``address-setting``, each with its :class:`AddressSetting` field and a reader."""


@dataclass(frozen=True, slots=True)
class BrokerXmlReader:
    """The result of reading a file: its settings, and those that have no effect here."""

    settings: Settings
    notes: tuple[Note, ...]


def read(path: Path, environment: Mapping[str, str] = os.environ) -> Settings:
    """Return the settings of a broker.xml. Raises a one-sentence :class:`BadSetting`."""
    return read_with_notes(path, environment).settings


def read_with_notes(path: Path, environment: Mapping[str, str] = os.environ) -> BrokerXmlReader:
    """Return the settings of a broker.xml and notes on settings that have no effect. Raises a
    one-sentence :class:`BadSetting`."""
    return _Reader(path, environment).run()


@dataclass
class _Reader:
    file: Path
    environment: Mapping[str, str]
    notes: list[Note] = field(default_factory=list)
    matches: list[tuple[Where, str]] = field(default_factory=list)

    def run(self) -> BrokerXmlReader:
        core = self._core(xml_document.document(self.file, "a broker.xml"))
        values: dict[str, Any] = {"security_enabled": True}  # Artemis' default
        for tag, element in self._once(core):
            where = self._where(element)
            if tag in _TOP:
                name, parse = _TOP[tag]
                values[name] = parse(self._text(element), where)
            elif tag == "acceptors":
                values["acceptors"] = tuple(self._acceptors(element))
            elif tag == "address-settings":
                values["address_settings"] = tuple(self._address_settings(element))
            elif tag == "addresses":
                values["addresses"] = tuple(self._addresses(element))
            elif tag == "wildcard-addresses":
                values.update(self._wildcards(element))
            elif tag in CORE:
                entry = CORE[tag]
                tree = isinstance(entry, Refused) or (
                    isinstance(entry, NoEffect) and entry.read is None
                )
                self.notes += settle("" if tree else self._text(element), where, entry)
            else:
                raise unknown("element", where, {*_TOP, *_TREES, *CORE})
        any_words = values.get("wildcard_any_words", Settings().wildcard_any_words)
        for where, match in self.matches:
            if any_words in match[:-1]:
                raise where.bad(
                    f"the match {match!r} continues after {any_words}",
                    f"write {any_words} only at the end",
                )
        if not values.get("acceptors"):
            raise self._where(core, "acceptors").bad(
                "there is no acceptor", "write at least one, so that clients can connect"
            )
        if values["security_enabled"]:
            values["users"] = users_properties.read(self.file.with_name(users_properties.NAME))
            certificates = self.file.with_name(users_properties.CERTIFICATES)
            values["certificate_users"] = users_properties.read_certificates(certificates)
        return BrokerXmlReader(Settings(**values), tuple(self.notes))

    def _core(self, root: etree._Element) -> etree._Element:
        if root.tag != f"{{{ROOT}}}configuration":
            raise self._where(root).bad(
                "is not the root of a broker.xml", f'write <configuration xmlns="{ROOT}">'
            )
        self._attributes(root, ())
        core: etree._Element | None = None
        for child in xml_document.children(root, self._where(root)):
            if child.tag != f"{{{SPACE}}}core":
                raise self._where(child).bad(
                    "does not belong here", f'write <core xmlns="{SPACE}">, and nothing else'
                )
            if core is not None:
                raise self._where(child).bad(
                    f"is given twice (first in line {line_of(core)})", "keep one of them"
                )
            core = child
        if core is None:
            raise self._where(root).bad(
                "has no core element", f'write <core xmlns="{SPACE}"> inside it'
            )
        self._attributes(core, ())
        return core

    # small things

    def _where(self, element: etree._Element, name: str = "") -> Where:
        return Where(self.file, line_of(element), name or tag_of(element))

    def _filled(self, text: str, where: Where) -> str:
        return filled_in(text, where, self.environment).strip()

    def _core_children(self, element: etree._Element) -> Iterator[tuple[str, etree._Element]]:
        for child in xml_document.children(element, self._where(element)):
            if etree.QName(child).namespace != SPACE:
                raise self._where(child).bad(
                    f"is in the namespace {etree.QName(child).namespace!r}",
                    f'write it inside <core xmlns="{SPACE}">',
                )
            yield tag_of(child), child

    def _once(self, element: etree._Element) -> Iterator[tuple[str, etree._Element]]:
        """Return the children by name. Raises an exception for a repeated name."""
        lines: dict[str, int] = {}
        for tag, child in self._core_children(element):
            if tag in lines:
                raise self._where(child).bad(
                    f"is given twice (first in line {lines[tag]})", "keep one of them"
                )
            lines[tag] = line_of(child)
            yield tag, child

    def _text(self, element: etree._Element, attributes: tuple[str, ...] = ()) -> str:
        where = self._where(element)
        self._attributes(element, attributes)
        if len(element):
            raise where.bad("has elements inside", "write its value as text")
        return self._filled(element.text or "", where)

    def _attributes(self, element: etree._Element, known: tuple[str, ...]) -> dict[str, str]:
        attributes: dict[str, str] = {}
        for key, value in element.attrib.items():
            name, where = str(key), self._where(element)
            if name.startswith(_FREE_ATTRIBUTES):
                continue
            if name not in known:
                raise where.bad(
                    f"unknown attribute {name}", f"its attributes are: {', '.join(known) or 'none'}"
                )
            attributes[name] = self._filled(str(value), where.named(f"{where.name}, {name}"))
        return attributes

    def _named(
        self,
        element: etree._Element,
        attribute: str,
        seen: dict[str, int],
        known: tuple[str, ...] = (),
    ) -> str:
        """Return the attribute that names an element. Raises if it is missing or not unique."""
        where, value = (
            self._where(element),
            self._attributes(element, (attribute, *known)).get(attribute, ""),
        )
        if not value:
            raise where.bad(f"has no {attribute}", f'write <{tag_of(element)} {attribute}="…">')
        if value in seen:
            raise where.bad(
                f"the {attribute} {value!r} is given twice (first in line {seen[value]})",
                "keep one of them",
            )
        seen[value] = where.line
        return value

    def _only(self, element: etree._Element, *tags: str) -> Iterator[tuple[str, etree._Element]]:
        for tag, child in self._core_children(element):
            if tag not in tags:
                raise unknown("element", self._where(child), set(tags))
            yield tag, child

    # the trees

    def _acceptors(self, element: etree._Element) -> Iterator[Acceptor]:
        self._attributes(element, ())
        seen: dict[str, int] = {}
        for _, child in self._only(element, "acceptor"):
            name = self._named(child, "name", seen)
            acceptor, notes = acceptor_url.read(
                name, self._text(child, ("name",)), self._where(child, f"acceptor {name!r}")
            )
            self.notes += notes
            yield acceptor

    def _address_settings(self, element: etree._Element) -> Iterator[AddressSetting]:
        self._attributes(element, ())
        seen: dict[str, int] = {}
        for _, child in self._only(element, "address-setting"):
            values: dict[str, Any] = {"match": self._named(child, "match", seen)}
            self.matches.append((self._where(child), values["match"]))
            for tag, setting in self._once(child):
                where, text = self._where(setting), self._text(setting)
                if tag not in ADDRESS_FIELDS and tag not in ADDRESS_SETTING:
                    raise unknown("element", where, {*ADDRESS_FIELDS, *ADDRESS_SETTING})
                if tag in ADDRESS_FIELDS:
                    name, parse = ADDRESS_FIELDS[tag]
                    values[name] = parse(text, where)
                if tag in ADDRESS_SETTING:
                    self.notes += settle(text, where, ADDRESS_SETTING[tag])
            yield AddressSetting(**values)

    def _addresses(self, element: etree._Element) -> Iterator[ConfiguredAddress]:
        self._attributes(element, ())
        seen: dict[str, int] = {}
        queues_seen: dict[str, int] = {}
        for _, child in self._only(element, "address"):
            name = self._named(child, "name", seen)
            routing: dict[RoutingType, tuple[ConfiguredQueue, ...]] = {}
            for tag, way in self._once(child):
                if tag not in ("anycast", "multicast"):
                    raise unknown("element", self._where(way), {"anycast", "multicast"})
                self._attributes(way, ())
                kind = RoutingType(tag.upper())
                routing[kind] = tuple(
                    self._queue(queue, kind, queues_seen) for _, queue in self._only(way, "queue")
                )
            if not routing:
                raise self._where(child).bad(
                    f"the address {name!r} has no routing type", "write <anycast/> or <multicast/>"
                )
            yield ConfiguredAddress(
                name,
                frozenset(routing),
                tuple(queue for queues in routing.values() for queue in queues),
            )

    def _queue(
        self, element: etree._Element, routing: RoutingType, seen: dict[str, int]
    ) -> ConfiguredQueue:
        name = self._named(element, "name", seen, tuple(QUEUE))
        for attribute, text in self._attributes(element, ("name", *QUEUE)).items():
            if attribute != "name":
                self.notes += settle(
                    text, self._where(element, f"queue {name!r}, {attribute}"), QUEUE[attribute]
                )
        durable, condition = True, None
        for tag, child in self._once(element):
            where = self._where(child)
            match tag:
                case "durable":
                    durable = boolean(self._text(child), where)
                case "filter":
                    where = where.named("filter, string")
                    condition = words(self._attributes(child, ("string",)).get("string", ""), where)
                    try:
                        parse(condition)
                    except SelectorError as problem:
                        raise where.bad(
                            f"{condition[:40]!r} is not a selector ({problem})", "correct it there"
                        ) from None
                case "user":
                    maybe_words(self._text(child), where)
                    self.notes.append(Note(where, "queues have no owner here"))
                case _:
                    raise unknown("element", where, {"durable", "filter", "user"})
        return ConfiguredQueue(name, routing, durable, condition)

    def _wildcards(self, element: etree._Element) -> dict[str, str]:
        self._attributes(element, ())
        fields = {
            "delimiter": "wildcard_delimiter",
            "any-words": "wildcard_any_words",
            "single-word": "wildcard_single_word",
        }
        values: dict[str, str] = {}
        for tag, child in self._once(element):
            where, text = self._where(child), self._text(child)
            if tag in ("routing-enabled", "enabled"):
                settle(text, where, CORE["wild-card-routing-enabled"])
            elif tag in fields:
                if len(text) != 1:
                    raise where.bad(f"{text!r} is not one character", "write a single character")
                values[fields[tag]] = text
            else:
                raise unknown("element", where, {"routing-enabled", *fields})
        default = Settings()
        in_force = [values.get(name, getattr(default, name)) for name in fields.values()]
        if len(set(in_force)) < len(in_force):
            raise self._where(element).bad(
                f"the three characters {' '.join(in_force)} are not different",
                "give each a different character",
            )
        return values
