"""The process that listens at an address, if it runs on this machine.

brokerproof can then measure how long the process's threads wait for a core, as it does for brokers
that it starts itself. So a busy host does not make a punctual broker look late.
"""

import socket

import psutil

_EVERY = frozenset({"0.0.0.0", "::"})


def listening_process(host: str, port: int) -> int | None:
    """Return the process that listens on ``host`` and ``port``; None if it is not on this machine
    or must not be inspected."""
    try:
        infos = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        ours = {address.address for card in psutil.net_if_addrs().values() for address in card}
        connections = psutil.net_connections(kind="tcp")
    except (OSError, psutil.Error):
        return None
    named = {str(info[4][0]) for info in infos}
    if not named & ours:
        return None
    accepting = named | _EVERY
    for connection in connections:
        address = connection.laddr
        if connection.status != psutil.CONN_LISTEN or not address or address.port != port:
            continue
        if address.ip.removeprefix("::ffff:") in accepting and connection.pid is not None:
            return int(connection.pid)
    return None
