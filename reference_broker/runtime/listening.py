"""Opens acceptors: which ones, on which socket, and with what TLS."""

import socket
from collections.abc import Callable

from brokerproof.reference_broker.runtime.tls import BadTls, TlsLayer, context
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings

BACKLOG = 1024
SPOKEN = frozenset({"STOMP", "AMQP", "CORE", "HTTP"})
"""Protocols that this broker speaks, besides OpenWire in ActiveMQ's profile. An acceptor without
any of them is not opened."""


class CannotListen(Exception):
    """An acceptor could not be opened. The message gives its name and the reason."""


def opened(settings: Settings) -> tuple[Acceptor, ...]:
    """Return the acceptors to open: those with a protocol that this broker speaks."""
    spoken = SPOKEN if settings.activemq is None else SPOKEN | {"OPENWIRE"}
    return tuple(acceptor for acceptor in settings.acceptors if spoken & set(acceptor.protocols))


def listen(acceptor: Acceptor) -> socket.socket:
    """A bound socket for an acceptor: its host's first address, IPv4 before IPv6. Raises
    :class:`CannotListen`."""
    try:
        addresses = socket.getaddrinfo(
            acceptor.host, acceptor.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = min(
            addresses, key=lambda candidate: candidate[0] != socket.AF_INET
        )
        listening = socket.socket(family, kind, protocol)
        try:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind(address)
            listening.listen(BACKLOG)
        except OSError:
            listening.close()
            raise
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise CannotListen(
            f"acceptor {acceptor.name!r} cannot listen on {acceptor.host}:{acceptor.port}"
            f" ({reason}); choose another port, or 0 for a free one"
        ) from None
    return listening


def layers(acceptor: Acceptor) -> Callable[[], TlsLayer | None]:
    """Return the factory of an acceptor's TLS connections, which returns None if there is no TLS.
    Raises :class:`CannotListen`."""
    if acceptor.tls is None:
        return lambda: None
    try:
        shared = context(acceptor.tls)
    except BadTls as problem:
        raise CannotListen(f"acceptor {acceptor.name!r} cannot speak TLS: {problem}") from None
    return lambda: TlsLayer(shared, acceptor)
