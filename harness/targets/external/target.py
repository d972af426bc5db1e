"""A broker that is already running somewhere: ``HOST:PORT`` or
``stomp://login:passcode@HOST:PORT?profile=NAME``, or ``stomp+ssl://HOST:PORT?ca=FILE`` where it
speaks TLS."""

from __future__ import annotations

import dataclasses
import socket
import ssl
import time
from collections.abc import Mapping
from pathlib import Path

from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Identity, TargetFacts
from brokerproof.harness.worlds.tls import Tls, TlsFailed

_PROBE_TIMEOUT_S = 10.0
_MOST_GREETING = 64 * 1024
"""Bytes received for one CONNECTED."""


class AddressTarget(SocketTarget):
    """A broker that is neither started nor stopped; its name is read from its ``server`` header."""

    def __init__(
        self,
        identity: Identity,
        endpoints: dict[str, tuple[str, int]],
        config: Path | None = None,
        tls: dict[str, Tls] | None = None,
    ) -> None:
        if identity.default_amqp_acceptor not in endpoints:
            # A profile says what a family can do; where nobody said at which port, this one cannot
            # be asked to.
            identity = dataclasses.replace(identity, capabilities=identity.capabilities - {"amqp"})
        super().__init__(identity, config)
        self._given = endpoints
        self.tls = tls or {}

    def start(self, folder: Path) -> TargetFacts:
        for name, (host, port) in self._given.items():
            self._dial(name, host, port).close()
        self.endpoints = dict(self._given)
        host, port = self.endpoints[self.identity.default_acceptor]
        broker, _, version = self._greeting(host, port).partition("/")
        self.watch_the_host()
        return TargetFacts(
            broker=broker or "unknown",
            version=version.split(" ")[0] or "unknown",
            configuration="unknown" if self.config is None else self.config.name,
            endpoint=f"{host}:{port}",
            tls="; ".join(sorted({tl.words() for tl in self.tls.values()})),
        )

    def _dial(self, name: str, host: str, port: int) -> socket.socket:
        """A connection to an endpoint, over TLS if it has TLS. Raises :class:`SetUpFailed`."""
        try:
            connection = socket.create_connection((host, port), timeout=_PROBE_TIMEOUT_S)
        except OSError as problem:
            raise SetUpFailed(
                f"{host}:{port} does not accept connections ({problem}); is the broker running?"
            ) from None
        tls = self.tls.get(name)
        if tls is None:
            return connection
        try:
            return tls.context().wrap_socket(connection, server_hostname=host)
        except ssl.SSLCertVerificationError as problem:
            reason = (
                f"its certificate is not believed ({problem.verify_message}); name its authority by"
                " ca=FILE"
            )
            raise SetUpFailed(
                f"{host}:{port}: {reason}, or believe anybody by insecure=true"
            ) from None
        except (OSError, TlsFailed) as problem:
            raise SetUpFailed(
                f"{host}:{port}: there is no TLS with it ({problem}); does this port speak TLS?"
            ) from None

    def _greeting(self, host: str, port: int) -> str:
        """The server header of CONNECTED; empty when the broker names none or refuses us."""
        stomp_host = str(self.identity.profile.parameters.get("stomp_host", "localhost"))
        headers = {"accept-version": "1.0,1.1,1.2", "host": stomp_host}
        if self.identity.login is not None:
            headers |= {"login": self.identity.login, "passcode": self.identity.passcode or ""}
        where = f"{host}:{port}"
        reader, greeting = codec.Reader(), b""
        try:
            with self._dial(self.identity.default_acceptor, host, port) as connection:
                connection.sendall(codec.encode("CONNECT", headers))
                deadline = time.monotonic() + _PROBE_TIMEOUT_S
                while data := connection.recv(4096):
                    if time.monotonic() > deadline or len(greeting) > _MOST_GREETING:
                        raise SetUpFailed(
                            f"{where} sent {len(greeting):,} bytes without a whole answer to"
                            " CONNECT; is it a STOMP port?"
                        )
                    greeting += data
                    for item in reader.feed(data):
                        if isinstance(item, codec.Frame):
                            if item.command != "CONNECTED":
                                raise SetUpFailed(f"{where} refused the connection: {item.brief()}")
                            return item.get("server") or ""
                        if isinstance(item, codec.Unreadable):
                            raise SetUpFailed(_no_stomp(where, greeting))
        except TimeoutError:
            how = f"did not answer CONNECT within {_PROBE_TIMEOUT_S:g} s; is it a STOMP port?"
            raise SetUpFailed(
                _no_stomp(where, greeting) if greeting else f"{where} {how}"
            ) from None
        except OSError as problem:
            how = (
                f"ended the connection without an answer to CONNECT ({problem}); is it a STOMP"
                " port?"
            )
            raise SetUpFailed(
                _no_stomp(where, greeting) if greeting else f"{where} {how}"
            ) from None
        how = "closed the connection without an answer to CONNECT; is it a STOMP port?"
        raise SetUpFailed(_no_stomp(where, greeting) if greeting else f"{where} {how}")


_OTHERS: Mapping[bytes, str] = {
    b"AMQP": (
        "speaks AMQP, not STOMP; name its STOMP port, and this one in a target file"
        " (docs/how-to/judge-a-running-broker.md)"
    ),
    b"\x15\x03": "speaks TLS; write stomp+ssl://HOST:PORT",
    b"HTTP/": "speaks HTTP, not STOMP; name the broker's STOMP port",
}
"""Other protocols that may answer CONNECT, by how their answer begins: advice for each."""


def _no_stomp(where: str, greeting: bytes) -> str:
    for begins, words in _OTHERS.items():
        if greeting.startswith(begins):
            return f"{where} {words}"
    return (
        f"{where} does not speak STOMP: to CONNECT it said {greeting[:60]!r}; is it a STOMP port?"
    )
