"""The URL of an acceptor: ``tcp://HOST:PORT?name=value;name=value``."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus

from brokerproof.reference_broker.config.artemis import acceptor_tls
from brokerproof.reference_broker.config.artemis.ignored_settings import ACCEPTOR
from brokerproof.reference_broker.config.notes_on_settings import Note, settle, unknown
from brokerproof.reference_broker.config.values import (
    INT_MAX,
    Where,
    boolean,
    byte_size,
    decimal,
    one_of,
    whole,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters

PROTOCOLS = ("CORE", "AMQP", "STOMP", "HORNETQ", "MQTT", "OPENWIRE")
"""Values of ``protocols``; an Artemis acceptor without this parameter speaks all protocols."""

_URL = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/?#;,\s]+)(:(?P<port>[^/?#]*))?/?(\?(?P<query>.*))?",
    re.DOTALL,
)


def _protocols(text: str, where: Where) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in PROTOCOLS:
            raise where.bad(
                f"{name!r} is not a protocol", f"write one or more of {','.join(PROTOCOLS)}"
            )
    return names


def _prefixes(text: str, where: Where) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if "" in names:
        raise where.bad("an empty prefix", "write one or more prefixes, separated by commas")
    return names


def _seconds(text: str, where: Where) -> int:
    """Return milliseconds as seconds; as in Artemis, negative values become 0 (no timeout)."""
    return max(0, whole(-INT_MAX, INT_MAX)(text, where)) * 1000


SASL = ("PLAIN", "ANONYMOUS", "EXTERNAL")
"""Values that ``saslMechanisms`` may have here."""


def _mechanisms(text: str, where: Where) -> tuple[str, ...]:
    names = tuple(part.strip() for part in text.split(","))
    for name in names:
        if name not in SASL:
            raise where.bad(
                f"{name!r} is not a SASL mechanism of this broker",
                f"write one or more of {','.join(SASL)}",
            )
    return names


_window = whole(0, INT_MAX, or_else=-1)
_large = byte_size(0, INT_MAX, or_else=-1)
_payload = whole(125, INT_MAX)
"""Every limit admits control frames, which have up to 125 bytes."""

USED: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "protocols": ("protocols", _protocols),
    "connectionTtl": ("connection_ttl_ms", whole(1)),
    "connectionTtlMin": ("connection_ttl_min_ms", whole(0)),
    "connectionTtlMax": ("connection_ttl_max_ms", whole(0)),
    "heartBeatToConnectionTtlModifier": ("heart_beat_to_connection_ttl_modifier", decimal(above=0)),
    # A current name wins over a deprecated one, in either order.
    "stompConsumerCredits": ("stomp_consumer_window_size", _window),
    "stompConsumerWindowSize": ("stomp_consumer_window_size", _window),
    "stomp-min-large-message-size": ("stomp_min_large_message_size", _large),
    "stompMinLargeMessageSize": ("stomp_min_large_message_size", _large),
    "amqpMinLargeMessageSize": ("amqp_min_large_message_size", _large),
    "stompMaxFramePayloadLength": ("web_socket_max_frame_payload_length", _payload),
    "webSocketMaxFramePayloadLength": ("web_socket_max_frame_payload_length", _payload),
    "webSocketEncoderType": ("web_socket_encoder_type", one_of("binary", "text")),
    "connectionsAllowed": ("connections_allowed", whole(-1, INT_MAX)),
    "anycastPrefix": ("anycast_prefix", _prefixes),
    "multicastPrefix": ("multicast_prefix", _prefixes),
    "disableStompServerHeader": ("stomp_disable_server_header", boolean),
    "stomp-enable-message-id": ("stomp_enable_message_id", boolean),
    "stompEnableMessageId": ("stomp_enable_message_id", boolean),
    "handshake-timeout": ("handshake_timeout_ms", _seconds),
    "saslMechanisms": ("amqp_sasl_mechanisms", _mechanisms),
    "amqpIdleTimeout": ("amqp_idle_timeout_ms", whole(-INT_MAX, INT_MAX)),
    "amqpCredits": ("amqp_credits", whole(1, INT_MAX)),
    "amqpLowCredits": ("amqp_low_credits", whole(0, INT_MAX)),
    "maxFrameSize": ("amqp_max_frame_size", whole(512, INT_MAX)),
}
"""The parameters that this broker uses, each with its :class:`Acceptor` parameter and a reader of
its value, weakest first."""

_DEPRECATED = {
    "stompConsumerCredits": "stompConsumerWindowSize",
    "stomp-enable-message-id": "stompEnableMessageId",
    "stomp-min-large-message-size": "stompMinLargeMessageSize",
    "stompMaxFramePayloadLength": "webSocketMaxFramePayloadLength",
}


def read(name: str, url: str, where: Where) -> tuple[Acceptor, list[Note]]:
    """Return the acceptor that ``url`` describes and the URL's parameters that have no effect.

    Raises ``BadSetting`` for a scheme other than tcp, a missing or bad port, and any parameter that
    is unknown, given twice, malformed, out of range or not supported.
    """
    match = _URL.fullmatch(url)
    if match is None:
        raise where.bad(
            f"{url!r} is not the URL of an acceptor", "write tcp://HOST:PORT?name=value;name=value"
        )
    if match["scheme"] != "tcp":
        raise where.bad(
            f"the scheme {match['scheme']} is not supported by this broker", "write tcp://HOST:PORT"
        )
    if match["port"] is None:
        raise where.bad("the URL has no port", "write tcp://HOST:PORT, with port 0 for a free one")
    host, port = (
        match["host"].strip("[]"),
        whole(0, 65535)(match["port"], where.named(f"{where.name}, port")),
    )
    given = _parameters(match["query"] or "", where)
    values: dict[str, Any] = {"protocols": PROTOCOLS}
    for parameter, (field, parse) in USED.items():
        if parameter in given:
            values[field] = parse(given[parameter], where.named(f"{where.name}, {parameter}"))
    values["tls"], notes = acceptor_tls.read(given, where)
    for old, current in _DEPRECATED.items():
        if old in given and current in given:
            notes.append(Note(where.named(f"{where.name}, {old}"), f"{current} wins"))
    for parameter, text in given.items():
        if parameter in ACCEPTOR:
            notes += settle(text, where.named(f"{where.name}, {parameter}"), ACCEPTOR[parameter])
    return with_parameters(Acceptor(name, host, port), **values), notes


def _parameters(query: str, where: Where) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in re.split("[;&]", query.rstrip(";&")) if query else ():
        name, equals, value = part.partition("=")
        name = unquote_plus(name).strip()
        if not equals or not name:
            raise where.bad(f"the parameter {part!r} has no name or no value", "write name=value")
        known = {*USED, *ACCEPTOR, *acceptor_tls.NAMES}
        if name not in known:
            raise unknown("parameter", where.named(name), known)
        if name in given:
            raise where.bad(f"the parameter {name} is given twice", "keep one of them")
        given[name] = unquote_plus(value).strip()
    return given
