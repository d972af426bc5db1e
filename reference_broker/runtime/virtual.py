"""The reference broker in virtual time. A target file refers to :func:`make` by its dotted name."""

import enum
import os
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol, TypeVar

from brokerproof.harness.model.broker_io import Effect, Input
from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant, seconds
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.config.artemis import users_properties
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_conf, rabbitmq_config
from brokerproof.reference_broker.config.values import nearest
from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.persistence.memory import DiskFaults, MemoryDisk
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import parameters, with_parameters
from brokerproof.reference_broker.settings.settings import AddressSetting, BadSetting, Settings

EPOCH: Duration = seconds(1_790_000_000)
"""The broker's clock at instant 0, in ns since 1970: September 2026. If it were 0, no expiry and an
immediate expiry would look alike, and instants in ns would never come near 64 bits."""

_ACCEPTOR_PARAMETERS = (
    "connection_ttl_ms",
    "connection_ttl_min_ms",
    "connection_ttl_max_ms",
    "heart_beat_to_connection_ttl_modifier",
    "stomp_consumer_window_size",
    "web_socket_max_frame_payload_length",
    "web_socket_encoder_type",
    "amqp_idle_timeout_ms",
    "amqp_credits",
    "amqp_low_credits",
    "amqp_max_frame_size",
    "amqp_max_message_size",
    "amqp_incoming_window",
    "amqp_channel_max",
    "amqp_handle_max",
    "amqp091_channel_max",
    "amqp091_frame_max",
    "amqp091_heartbeat_s",
    "amqp091_max_message_size",
)
_BROKER_PARAMETERS = ("connection_ttl_override_ms", "connection_ttl_check_interval_ms")
_NOT_OVERRIDABLE = {
    *(
        "name",
        "host",
        "port",
        "stomp_limits",
        "tls",
        "acceptors",
        "users",
        "certificate_users",
        "address_settings",
        "addresses",
        "match",
        "persistent",
        "policies",
        "default_policy",
        "usage",
        "statistics",
    )
}

Overridden = TypeVar("Overridden", Acceptor, Settings, AddressSetting)


class VirtualBroker(Protocol):
    """A broker, or several linked ones, driven by the caller's clock."""

    def handle(self, now: Instant, event: Input) -> Sequence[Effect]: ...

    def next_deadline(self) -> Instant | None:
        """Return when a timer must be fired; None for never."""


@dataclass(frozen=True, slots=True)
class Made:
    broker: VirtualBroker
    acceptors: dict[str, dict[str, object]]
    """By acceptor name, the parameters in force, named as in a profile; None if not set."""
    version: str
    disk: MemoryDisk | None
    """The broker's files; None if everything is kept in memory."""


def make(config: str | None, overrides: Mapping[str, object], *, start: Instant) -> Made:
    """Return a broker whose clock begins at ``start`` (ns).

    ``config`` is the path of a broker.xml, an activemq.xml or a rabbitmq.conf; None means a single
    acceptor ``stomp`` with defaults. ``overrides`` may have ``{"acceptor": {field: value},
    "broker": {field: value}, "address": {field: value}}``, replacing fields of every
    :class:`Acceptor`, of :class:`Settings`, and of every :class:`AddressSetting`, including one for
    all addresses. Raises :class:`BadSetting` for an unacceptable file, and for an override that has
    the wrong type or changes an unknown or fixed field."""
    settings = settled(config, overrides)
    limited = settings.global_max_size_bytes >= 0 or settings.global_max_messages >= 0
    limited = (
        limited
        or settings.rabbitmq is not None
        or (settings.activemq is not None and settings.activemq.persistent)
        or any(_is_limited(setting) for setting in settings.address_settings)
    )
    disk = MemoryDisk(faults=DiskFaults(write=NS_PER_MS, read=NS_PER_MS)) if limited else None
    files = None if disk is None else store(settings)
    broker = create_broker(settings, start=start, epoch=EPOCH, store=files)
    return made_of(broker, settings, disk)


def made_of(broker: VirtualBroker, settings: Settings, disk: MemoryDisk | None) -> Made:
    return Made(broker, _described(settings), RELEASE, disk)


def settled(config: str | None, overrides: Mapping[str, object]) -> Settings:
    """Return a file's settings with the overrides of :func:`make`."""
    settings = _read(config)
    for name in overrides:
        if name not in ("acceptor", "broker", "address"):
            raise BadSetting(
                f"unknown group of overrides {name!r}; the groups are acceptor, broker and address"
            )
    settings = _replaced(settings, overrides.get("broker", {}), "broker")
    if "acceptor" in overrides:
        changed = overrides["acceptor"]
        settings = replace(
            settings,
            acceptors=tuple(
                _replaced(acceptor, changed, "acceptor") for acceptor in settings.acceptors
            ),
        )
    if "address" in overrides:
        settings = replace(
            settings, address_settings=tuple(_of_addresses(settings, overrides["address"]))
        )
    return settings


def _is_limited(setting: AddressSetting) -> bool:
    return any(
        limit is not None and limit >= 0
        for limit in (setting.max_size_bytes, setting.max_size_messages)
    )


def _of_addresses(settings: Settings, changed: object) -> Iterator[AddressSetting]:
    """Return the address settings, each ``changed``, with one for all addresses if missing."""
    everything = settings.wildcard_any_words
    for setting in settings.address_settings:
        yield _replaced(setting, changed, "address")
    if all(setting.match != everything for setting in settings.address_settings):
        yield _replaced(AddressSetting(everything), changed, "address")


def _read(config: str | None) -> Settings:
    """Read a file again only if the file, its neighbours, or an environment variable that it names
    has changed, because every example of a property creates a world."""
    if config is None:
        return Settings()
    path = Path(config)
    beside = (
        path.with_name(name) for name in (users_properties.NAME, users_properties.CERTIFICATES)
    )
    stamps = tuple(_stamp(name) for name in (path, *beside))
    known = _files.get(config)
    if known is None or known.stamps != stamps or not known.environment.same():
        environment = _Environment()
        known = _files[config] = _File(stamps, environment, _read_file(path, environment))
    return known.settings


def _read_file(path: Path, environment: Mapping[str, str]) -> Settings:
    if path.suffix in (".conf", rabbitmq_config.SUFFIX):
        return rabbitmq_conf.read(path)
    from brokerproof.reference_broker.config.activemq import activemq_xml
    from brokerproof.reference_broker.config.artemis import broker_xml  # only these need lxml

    if activemq_xml.is_one(path):
        return activemq_xml.read(path, environment)
    return broker_xml.read(path, environment)


class _Environment(Mapping[str, str]):
    """This process's environment variables; remembers which ones were requested."""

    def __init__(self) -> None:
        self._asked: dict[str, str | None] = {}

    def __getitem__(self, name: str) -> str:
        self._asked[name] = os.environ.get(name)
        return os.environ[name]

    def __iter__(self) -> Iterator[str]:
        return iter(os.environ)

    def __len__(self) -> int:
        return len(os.environ)

    def same(self) -> bool:
        """Return True if all variables requested so far still have the same values."""
        return all(os.environ.get(name) == value for name, value in self._asked.items())


@dataclass(frozen=True, slots=True)
class _File:
    stamps: tuple[tuple[int, int] | None, ...]
    environment: _Environment
    settings: Settings


_files: dict[str, _File] = {}
"""The contents read last, by path as it was given."""


def _stamp(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


_last_description: tuple[Settings, dict[str, dict[str, object]]] | None = None
"""A description of the settings read last, kept because they are usually read again."""


def _described(settings: Settings) -> dict[str, dict[str, object]]:
    global _last_description
    if _last_description is None or _last_description[0] is not settings:
        _last_description = settings, _describe(settings)
    return _last_description[1]


def _describe(settings: Settings) -> dict[str, dict[str, object]]:
    broad = {name: getattr(settings, name) for name in _BROKER_PARAMETERS}
    known = parameters(Acceptor)
    return {
        acceptor.name: {
            "name": acceptor.name,
            "protocols": ",".join(acceptor.protocols),
            **{name: known[name].of(acceptor) for name in _ACCEPTOR_PARAMETERS},
            **broad,
        }
        for acceptor in settings.acceptors
        if {"STOMP", "AMQP", "CORE", "HTTP"} & set(acceptor.protocols)
        or (settings.activemq is not None and "OPENWIRE" in acceptor.protocols)
    }


def _replaced(what: Overridden, changed: object, group: str) -> Overridden:
    if not isinstance(changed, Mapping):
        raise BadSetting(
            f"the overrides of {group} are {changed!r}; give values by the names of fields"
        )
    if not changed:
        return what
    known = {
        name: parameter
        for name, parameter in parameters(type(what)).items()
        if name not in _NOT_OVERRIDABLE and parameter.is_set(what)
    }
    values: dict[str, Any] = {}
    for name, value in changed.items():
        if name not in known:
            hint = nearest(str(name), known) or f"there are {', '.join(sorted(known))}"
            raise BadSetting(f"unknown override {group}.{name}; {hint}")
        hint = known[name].type
        value = _member(value, hint)
        if not _fits(value, hint):
            raise BadSetting(f"override {group}.{name}: {value!r} has the wrong type; give {hint}")
        values[name] = value
    return with_parameters(what, **values)


def _member(value: object, hint: Any) -> object:
    """Return a word as a member of the expected enumeration, and other values unchanged."""
    for kind in typing.get_args(hint):
        if (
            isinstance(value, str)
            and isinstance(kind, type)
            and issubclass(kind, enum.Enum)
            and value in kind.__members__
        ):
            return kind[value]
    return value


def _fits(value: object, hint: Any) -> bool:
    if isinstance(hint, types.UnionType):
        return any(_fits(value, member) for member in typing.get_args(hint))
    if typing.get_origin(hint) is tuple:
        return isinstance(value, tuple) and all(isinstance(member, str) for member in value)
    if hint is float:
        return isinstance(value, float | int) and not isinstance(value, bool)
    return isinstance(value, hint) and (hint is bool or not isinstance(value, bool))
