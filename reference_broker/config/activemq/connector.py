"""A ``transportConnector`` of an activemq.xml: ``stomp://HOST:PORT?transport.option=value&…``."""

import re
from collections.abc import Callable
from typing import Any
from urllib.parse import unquote_plus

from brokerproof.reference_broker.config.activemq.ignored_settings import OPTION
from brokerproof.reference_broker.config.notes_on_settings import Note, settle, unknown
from brokerproof.reference_broker.config.values import (
    INT_MAX,
    LONG_MIN,
    Where,
    boolean,
    decimal,
    whole,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters

OPENWIRE = "OPENWIRE"
OF = "ActiveMQ 6.3"

SCHEMES: dict[str, tuple[str, ...]] = {
    "stomp": ("STOMP",),
    "stomp+nio": ("STOMP",),
    "amqp": ("AMQP",),
    "amqp+nio": ("AMQP",),
    "tcp": (OPENWIRE,),
    "nio": (OPENWIRE,),
    "ws": ("STOMP",),
}
"""Protocols of connectors by URI scheme."""

_URI = re.compile(
    r"(?P<scheme>[A-Za-z][A-Za-z0-9+.-]*)://(?P<host>\[[0-9A-Fa-f:.%]+\]|[^\[\]:/?#;,\s]+)(:(?P<port>[^/?#]*))?/?(\?(?P<query>.*))?",
    re.DOTALL,
)


def _grace(text: str, where: Where) -> float:
    """Only values above 1 have an effect
    (``StompTransportFilter.setHbGracePeriodMultiplier``)."""
    return max(1.0, decimal(above=0)(text, where))


USED: dict[str, tuple[str, Callable[[str, Where], Any]]] = {
    "transport.hbGracePeriodMultiplier": ("stomp_heart_beat_grace", _grace),
    "transport.producerCredit": ("amqp_credits", whole(1, INT_MAX)),
    "transport.wireFormat.producerCredit": ("amqp_credits", whole(1, INT_MAX)),
    "transport.wireFormat.idleTimeout": ("amqp_idle_timeout_ms", whole(0, INT_MAX)),
    "transport.wireFormat.maxAmqpFrameSize": ("amqp_max_frame_size", whole(512, INT_MAX)),
    "transport.connectAttemptTimeout": ("handshake_timeout_ms", whole(0, INT_MAX)),
    "transport.wireFormat.connectionAttemptTimeout": ("handshake_timeout_ms", whole(0, INT_MAX)),
    "transport.wireFormat.allowNonSaslConnections": ("", boolean),
    "wireFormat.maxInactivityDuration": ("openwire_max_inactivity_ms", whole(LONG_MIN)),
    "wireFormat.maxInactivityDurationInitalDelay": ("openwire_initial_delay_ms", whole(0)),
    "wireFormat.maxFrameSize": ("openwire_max_frame_size", whole(1)),
}
"""The options that are used, each with its :class:`Acceptor` parameter and a value reader."""


def read(name: str, uri: str, where: Where) -> tuple[Acceptor, list[Note]]:
    """Return the acceptor for ``uri``, and those of its options that have no effect. Raises
    ``BadSetting``."""
    match = _URI.fullmatch(uri)
    if match is None:
        raise where.bad(
            f"{uri!r} is not the URI of a connector",
            "write SCHEME://HOST:PORT?option=value&option=value",
        )
    scheme = match["scheme"]
    if scheme not in SCHEMES:
        raise where.bad(
            f"the scheme {scheme} is not supported by this broker",
            f"write one of {', '.join(SCHEMES)}",
        )
    if match["port"] is None:
        raise where.bad(
            "the URI has no port", f"write {scheme}://HOST:PORT, with port 0 for a free one"
        )
    host, port = (
        match["host"].strip("[]"),
        whole(0, 65535)(match["port"], where.named(f"{where.name}, port")),
    )
    values: dict[str, Any] = {}
    notes: list[Note] = []
    for option, text in _options(match["query"] or "", where).items():
        here = where.named(f"{where.name}, {option}")
        if option in USED:
            field, parse = USED[option]
            value = parse(text, here)
            if field:
                values[field] = value
        else:
            notes += settle(text, here, OPTION[option])
    return acceptor(name, SCHEMES[scheme], host=host, port=port, **values), notes


def acceptor(name: str, protocols: tuple[str, ...], **values: Any) -> Acceptor:
    """Return a connector with ActiveMQ's defaults."""
    credits = values.pop("amqp_credits", 1000)
    ours: dict[str, Any] = {
        "anycast_prefix": ("/queue/", "queue://"),
        "multicast_prefix": ("/topic/", "topic://"),
        "handshake_timeout_ms": 30_000,
        "amqp_idle_timeout_ms": 30_000,
        "amqp_credits": credits,
        "amqp_low_credits": credits * 3 // 10,
        "stomp_min_large_message_size": -1,
        "amqp_min_large_message_size": -1,
    }
    return with_parameters(Acceptor(name, protocols=protocols), **(ours | values))


def _options(query: str, where: Where) -> dict[str, str]:
    given: dict[str, str] = {}
    for part in re.split("[;&]", query.rstrip(";&")) if query else ():
        name, equals, value = part.partition("=")
        name = unquote_plus(name).strip()
        if not equals or not name:
            raise where.bad(f"the option {part!r} has no name or no value", "write name=value")
        known = {*USED, *OPTION}
        if name not in known:
            raise unknown("option", where.named(name), known, OF)
        if name in given:
            raise where.bad(f"the option {name} is given twice", "keep one of them")
        given[name] = unquote_plus(value).strip()
    return given
