"""Replays a recorded STOMP conversation through stomp.py.

This file needs Python 3.11, stomp.py and ``player.py``. Both files are copied into every
``*_stompy.py`` script."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any

from brokerproof.harness.counterexamples.player import Player, Ref, Secret


class _Listener:
    def __init__(self, player: StompPyPlayer, conn: int) -> None:
        self._player = player
        self._conn = conn

    def on_disconnected(self) -> None:
        self._player.disconnected(self._conn)


class StompPyPlayer(Player):
    """Performs the steps of a recorded conversation over stomp.py's connections."""

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._versions: dict[int, str] = {}
        self._connections: dict[int, Any] = {}
        self._changed = threading.Condition()
        """The condition that stomp.py's threads notify when bytes arrive."""

    def connect(self, conn: int, acceptor: str, version: str) -> None:
        """Open a connection that speaks ``version``; CONNECT is sent as a separate step."""
        self._versions[conn] = version
        self.open(conn, acceptor)

    def frame(
        self, conn: int, command: str, headers: Mapping[str, str | Ref | Secret], body: str = ""
    ) -> None:
        lines = [f"{name}:{value}" for name, value in headers.items() if isinstance(value, str)]
        text = "\n".join([command, *lines, "", body]).encode("utf-8", "surrogateescape")
        named = [value for value in headers.values() if not isinstance(value, str)]
        if self._begin_send(conn, [text, *named], ""):
            values = {name: self._value(value) for name, value in headers.items()}
            self._connections[conn].send_frame(command, values, self._value(body))

    def disconnected(self, conn: int) -> None:
        """Record that the connection ended. Unless we left, the broker closed it."""
        with self._changed:
            if conn not in self._gone:
                self.closed(conn, "EOF")
            self._changed.notify_all()

    def _value(self, value: str | Ref | Secret) -> str:
        data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value
        return self._bytes_of(data).decode("utf-8", "surrogateescape")

    def _dial(self, conn: int, acceptor: str) -> None:
        # imported here, so that its absence is reported and not mistaken for a verdict's exit code
        import stomp

        kinds = {"1.0": stomp.Connection10, "1.1": stomp.Connection11, "1.2": stomp.Connection12}
        connection = kinds[self._versions[conn]](
            [self._endpoints[acceptor]], reconnect_attempts_max=1
        )
        connection.set_listener("", _Listener(self, conn))
        receive = connection.transport.receive

        def received() -> bytes:
            data: bytes = receive()
            if data:
                with self._changed:
                    self.arrived(conn, data)
                    self._changed.notify_all()
            return data

        connection.transport.receive = received
        self._connections[conn] = connection
        try:
            connection.transport.start()
        except stomp.exception.ConnectFailedException:
            host, port = self._endpoints[acceptor]
            raise ConnectionError(f"nothing listens on {host}:{port}") from None

    def _wait(self, deadline: float, ready: Callable[[], bool]) -> None:
        with self._changed:
            self._changed.wait_for(ready, max(0.0, deadline - self.now()))

    def _hang_up(self, conn: int, how: str) -> None:
        self._connections[conn].transport.disconnect_socket()

    def close(self) -> None:
        for conn, connection in self._connections.items():
            self._gone.add(conn)
            connection.transport.disconnect_socket()
