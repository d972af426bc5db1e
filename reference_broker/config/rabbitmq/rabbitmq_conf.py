"""Reads a rabbitmq.conf into :class:`Settings`; the same file starts a real RabbitMQ.

Each line is ``key = value``, and ``#`` begins a comment; a file named ``*.config`` has the classic
format (:mod:`brokerproof.reference_broker.config.rabbitmq.rabbitmq_config`). Every key is either
used, or known to have no effect here, or refused with the file, line and name. The broker then
behaves like RabbitMQ: unused queues stay, ``/queue/NAME`` and ``/topic/NAME`` are STOMP's names for
a queue and a routing key, port 5672 speaks AMQP 1.0 and 0-9-1, and STOMP over WebSocket has its own
port.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.reference_broker.config.notes_on_settings import Note
from brokerproof.reference_broker.config.rabbitmq import rabbitmq_config
from brokerproof.reference_broker.config.values import (
    INT_MAX,
    Where,
    decimal,
    nearest,
    one_of,
    whole,
)
from brokerproof.reference_broker.settings.acceptor import AMQP091, HTTP, Acceptor, WebSocketOptions
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.rabbitmq import RabbitMq
from brokerproof.reference_broker.settings.settings import QUEUES_STAY, BadSetting, Settings

STOMP_PORT, AMQP_PORT, MANAGEMENT_PORT, WEB_STOMP_PORT = 61613, 5672, 15672, 15674
MAX_STOMP_FRAME_BYTES = 4 * 1024 * 1024
"""The largest STOMP frame (DEFAULT_MAX_FRAME_SIZE). WebSocket frames have no separate limit unless
``web_stomp.ws_opts.max_frame_size`` sets one."""
LOGIN, PASSCODE = "guest", "guest"
"""The user of an unconfigured RabbitMQ."""

_LINE = re.compile(r"\s*(?P<key>[^\s#=]+)\s*=\s*(?P<value>[^#]*?)\s*(#.*)?")
_LISTENERS = {"listeners.tcp": "amqp", "stomp.listeners.tcp": "stomp"}
_OVER_HTTP = {"management": MANAGEMENT_PORT, "web_stomp": WEB_STOMP_PORT}
"""Listeners whose host and port are set by separate keys, and their default ports."""
_PARTS = {f"{name}.tcp.{part}": (name, part) for name in _OVER_HTTP for part in ("ip", "port")} | {
    f"management.listener.{part}": ("management", part) for part in ("ip", "port")
}
_ENDPOINT = re.compile(r"(?:(?P<host>[^:\s]+|\[[^\]]+\]|::1?):)?(?P<port>[0-9]{1,5})")
_NO_EFFECT = ("log.", "web_stomp.", "cluster_name", "collect_statistics", "loopback_users")
"""Keys, or prefixes of keys, without effect here, because what they configure does not exist."""


@dataclass
class _Reading:
    users: dict[str, str] = field(default_factory=dict)
    values: dict[str, Any] = field(default_factory=dict)
    broker: dict[str, Any] = field(default_factory=dict)
    endpoints: dict[str, tuple[str, int] | None] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    @property
    def settings(self) -> Settings:
        return _settings(self)


def default() -> Settings:
    """Return an unconfigured broker of this kind."""
    return _settings(_Reading())


def read(path: Path) -> Settings:
    """Return the settings of a file. Raises :class:`BadSetting`."""
    return read_with_notes(path).settings


def read_with_notes(path: Path) -> _Reading:
    """Return the settings of a file and notes on any without effect. Raises :class:`BadSetting`."""
    reading = _Reading()
    login, passcode = LOGIN, PASSCODE
    seen: dict[str, int] = {}
    for where, key, value in (
        rabbitmq_config.lines(path) if path.suffix == rabbitmq_config.SUFFIX else _lines(path)
    ):
        if key in seen:
            raise where.bad(f"is already set in line {seen[key]}", "keep one of the lines")
        seen[key] = where.line
        if key == "default_user":
            login = value
        elif key == "default_pass":
            passcode = value
        elif key in _OF_ACCEPTORS:
            name, meaning = _OF_ACCEPTORS[key]
            reading.values[name] = meaning(value, where)
        elif key in _LIMITS:
            name, meaning = _LIMITS[key]
            reading.broker[name] = meaning(value, where)
        elif key == PAGING_RATIO:
            reading.broker["memory_paging_ratio"] = decimal(above=0)(value, where)
        elif (listener := key.rpartition(".")[0]) in _LISTENERS or key in _LISTENERS:
            _listen(reading, _LISTENERS[key if key in _LISTENERS else listener], value, where)
        elif key in _PARTS:
            _listen_at(reading, *_PARTS[key], value, where)
        elif key.startswith(_NO_EFFECT):
            reading.notes.append(Note(where, "it configures something that does not exist here"))
        else:
            hint = nearest(key, [*_OF_ACCEPTORS, *_LIMITS, *_PARTS, "default_user", "default_pass"])
            raise where.bad("is unknown here", hint or "leave it out")
    reading.users = {login: passcode}
    return reading


def _lines(path: Path) -> Iterator[tuple[Where, str, str]]:
    try:
        text = input_file.read_text(path)
    except BadInput as problem:
        raise BadSetting(f"{path}: {problem}; name a rabbitmq.conf") from None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        match = _LINE.fullmatch(line)
        if match is None:
            raise Where(path, number).bad("the line is not a setting", "write KEY = VALUE")
        yield Where(path, number, match["key"]), match["key"], match["value"].strip("'")


_OF_ACCEPTORS: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "web_stomp.ws_frame": ("web_socket_encoder_type", one_of("text", "binary")),
    "web_stomp.ws_opts.max_frame_size": ("web_socket_max_frame_payload_length", whole(1, INT_MAX)),
    "heartbeat": ("amqp091_heartbeat_s", whole(0, 65535)),
    "channel_max": ("amqp091_channel_max", whole(0, 65535)),
    "frame_max": ("amqp091_frame_max", whole(0, INT_MAX)),
    "max_message_size": ("amqp091_max_message_size", whole(1, 536_870_912)),
    "handshake_timeout": ("handshake_timeout_ms", whole(1, INT_MAX)),
}


PAGING_RATIO = "vm_memory_high_watermark_paging_ratio"
_UNITS = {
    "": 1,
    "k": 1 << 10,
    "m": 1 << 20,
    "g": 1 << 30,
    "t": 1 << 40,
    "kb": 10**3,
    "mb": 10**6,
    "gb": 10**9,
    "tb": 10**12,
}
_UNITS |= {f"{letter}ib": _UNITS[letter] for letter in "kmgt"}
_AMOUNT = re.compile(r"(?P<count>[0-9]{1,18})\s*(?P<unit>[A-Za-z]{0,3})")


def _byte_size(text: str, where: Where) -> int:
    """Read a number of bytes as RabbitMQ writes it: kB is 1000, KiB and k are 1024."""
    match = _AMOUNT.fullmatch(text)
    if match is None or match["unit"].lower() not in _UNITS:
        raise where.bad(
            f"{text} is not a number of bytes",
            "write a number, or one with kB, MB, GB, KiB, MiB or GiB",
        )
    return int(match["count"]) * _UNITS[match["unit"].lower()]


def _fraction(text: str, where: Where) -> float:
    return 0.0 if text in ("0", "0.0") else decimal(above=0)(text, where)


_LIMITS: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "vm_memory_high_watermark.relative": ("memory_high_watermark", _fraction),
    "vm_memory_high_watermark.absolute": ("memory_high_watermark", _byte_size),
    "disk_free_limit.relative": ("disk_free_limit", _fraction),
    "disk_free_limit.absolute": ("disk_free_limit", _byte_size),
}


def _listen(reading: _Reading, name: str, value: str, where: Where) -> None:
    if value == "none":
        reading.endpoints[name] = None
        return
    match = _ENDPOINT.fullmatch(value)
    if match is None or int(match["port"]) > 65535:
        raise where.bad(f"{value} is not an endpoint", "write PORT, HOST:PORT or none")
    if reading.endpoints.get(name) is not None:
        raise where.bad(
            "is a second listener of the same kind", "this broker has only one: leave it out"
        )
    reading.endpoints[name] = (match["host"] or "127.0.0.1").strip("[]"), int(match["port"])


def _listen_at(reading: _Reading, name: str, part: str, value: str, where: Where) -> None:
    host, port = reading.endpoints.get(name) or ("127.0.0.1", _OVER_HTTP[name])
    if part == "ip":
        host = value
    else:
        port = whole(0, 65535)(value, where)
    reading.endpoints[name] = host, port


def _settings(reading: _Reading) -> Settings:
    stomp = Acceptor(
        "stomp",
        port=STOMP_PORT,
        protocols=("STOMP",),
        anycast_prefix=("/queue/", "/amq/queue/"),
        multicast_prefix=("/topic/",),
        web_socket=WebSocketOptions(
            encoder_type="text", max_frame_payload_length=MAX_STOMP_FRAME_BYTES
        ),
    )
    web_stomp = replace(stomp, name="web_stomp", port=WEB_STOMP_PORT)
    amqp = Acceptor(
        "amqp",
        port=AMQP_PORT,
        protocols=("AMQP", AMQP091),
        anycast_prefix=("/queues/",),
        multicast_prefix=("/topic/",),
    )
    acceptors = []
    management = Acceptor("management", port=MANAGEMENT_PORT, protocols=(HTTP,))
    for acceptor in (stomp, amqp, management, web_stomp):
        endpoint = reading.endpoints.get(acceptor.name, (acceptor.host, acceptor.port))
        if endpoint is not None:
            acceptor = with_parameters(
                acceptor, stomp_min_large_message_size=-1, amqp_min_large_message_size=-1
            )  # no acceptor of this family has a file for large bodies
            acceptor = replace(acceptor, host=endpoint[0], port=endpoint[1])
            acceptors.append(with_parameters(acceptor, **reading.values))
    return Settings(
        name="rabbitmq",
        acceptors=tuple(acceptors),
        security_enabled=True,
        users=reading.users or {LOGIN: PASSCODE},
        address_settings=(QUEUES_STAY,),
        persistence_enabled=False,
        rabbitmq=RabbitMq(**reading.broker),
    )
