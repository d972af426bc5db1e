"""Other ports for some acceptors, whatever the file said."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from brokerproof.reference_broker.settings.settings import BadSetting, Settings


def with_ports(settings: Settings, ports: Mapping[str, int]) -> Settings:
    """``settings`` with the ports of the named acceptors replaced; 0 is any free port.

    Raises :class:`BadSetting` for a name that no acceptor has and a port outside 0 to 65535.
    """
    known = {acceptor.name for acceptor in settings.acceptors}
    for name, port in ports.items():
        if name not in known:
            raise BadSetting(
                f"there is no acceptor {name!r} to give the port {port}; there is"
                f" {', '.join(sorted(known))}"
            )
        if not 0 <= port <= 65535:
            raise BadSetting(
                f"{port} is no port for the acceptor {name!r}; write a number from 0 to 65535"
            )
    return replace(
        settings,
        acceptors=tuple(
            replace(acceptor, port=ports.get(acceptor.name, acceptor.port))
            for acceptor in settings.acceptors
        ),
    )


def on_any_port(settings: Settings) -> Settings:
    """``settings`` with every acceptor on a free port."""
    return with_ports(settings, {acceptor.name: 0 for acceptor in settings.acceptors})
