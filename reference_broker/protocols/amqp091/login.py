"""Login of a peer (connection.start-ok): PLAIN, AMQPLAIN and EXTERNAL.

AMQPLAIN, which is older than PLAIN, is a field table with LOGIN and PASSWORD, but without the
table's size. With security off, any name and password are accepted. Passwords are compared in
constant time.
"""

import struct
from typing import Any

from pamqp import commands, decode

from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.passwords import admitted
from brokerproof.reference_broker.kernel.release import RELEASE
from brokerproof.reference_broker.protocols.amqp091.errors import (
    ACCESS_REFUSED,
    NOT_ALLOWED,
    SYNTAX_ERROR,
    Refusal,
    shown,
)

PLAIN, AMQPLAIN, EXTERNAL = "PLAIN", "AMQPLAIN", "EXTERNAL"


def offered(shared: BrokerContext, conn: int) -> tuple[str, ...]:
    """Return a connection's mechanisms, with EXTERNAL if the peer presented a certificate."""
    return (PLAIN, AMQPLAIN, *((EXTERNAL,) if conn in shared.certificates else ()))


def greeting(
    host: str, capabilities: dict[str, bool], mechanisms: tuple[str, ...]
) -> commands.Connection.Start:
    properties: dict[str, Any] = {
        "capabilities": dict(capabilities),
        "product": "brokerproof",
        "version": RELEASE,
        "platform": "Python",
        "host": host,
        "copyright": "The brokerproof authors",
        "information": "Licensed under the Apache License 2.0",
    }
    return commands.Connection.Start(0, 9, properties, " ".join(mechanisms), "en_US")


def user(shared: BrokerContext, conn: int, mechanism: str, response: bytes) -> str:
    """Return the name of the peer. Raises :class:`Refusal`."""
    if mechanism not in offered(shared, conn):
        raise Refusal(NOT_ALLOWED, f"the mechanism {shown(mechanism)} was not offered", silent=True)
    if mechanism == EXTERNAL:
        name = shared.certified(conn)
        if name is None:
            raise _refused(mechanism)
        return name
    login, password = _plain(response) if mechanism == PLAIN else _amqplain(response)
    settings = shared.settings
    if settings.security_enabled and not admitted(settings.users, login, password):
        raise _refused(mechanism)
    return login


def _refused(mechanism: str) -> Refusal:
    return Refusal(ACCESS_REFUSED, f"Login was refused using authentication mechanism {mechanism}.")


def _plain(response: bytes) -> tuple[str, bytes]:
    parts = response.split(b"\0")
    if len(parts) != 3:
        raise _refused(PLAIN)
    return parts[1].decode("utf-8", "replace"), parts[2]


def _amqplain(response: bytes) -> tuple[str, bytes]:
    try:
        _, table = decode.field_table(len(response).to_bytes(4) + response)
    except (
        ValueError,
        LookupError,
        struct.error,
        RecursionError,
        OverflowError,
        TypeError,
        OSError,
    ):
        raise Refusal(SYNTAX_ERROR, "AMQPLAIN: the response is not a table") from None
    login, password = table.get("LOGIN"), table.get("PASSWORD")
    if not isinstance(login, str) or not isinstance(password, str):
        raise _refused(AMQPLAIN)
    return login, password.encode()
