"""Exchanges lines of JSON over TCP between the conductor of a load and its drivers, local or
remote."""

import contextlib
import json
import socket
from collections.abc import Callable
from typing import Any

from brokerproof.harness.worlds.real import RealWorld

_READ = 1 << 16


class ControlConnection:
    """One end of a control channel. ``heard`` is called with each message, and ``gone`` once after
    the other end has closed."""

    def __init__(
        self,
        world: RealWorld,
        connection: socket.socket,
        on_message: Callable[[dict[str, Any]], None],
        gone: Callable[[], None],
    ) -> None:
        self._world, self._socket, self._heard, self._gone = world, connection, on_message, gone
        self._pending = b""
        self._open = True
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        world.adopt(self)

    def fileno(self) -> int:
        return self._socket.fileno()

    def say(self, **message: Any) -> None:
        """Send one message. This has no effect if the other end has closed, and hardly blocks,
        because messages are small."""
        if self._open:
            # a later read will notice the close, after earlier messages
            with contextlib.suppress(OSError):
                self._socket.sendall(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def ready(self, mask: int) -> None:
        try:
            data = self._socket.recv(_READ)
        except OSError:
            data = b""
        if not data:
            self._end()
            return
        *lines, self._pending = (self._pending + data).split(b"\n")
        for line in lines:
            self._heard(json.loads(line))

    def close(self) -> None:
        if self._open:
            self._open = False
            self._world.watch(self, 0)
            self._socket.close()

    def _end(self) -> None:
        if self._open:
            self.close()
            self._gone()


class ControlListener:
    """Listens for drivers, which can reach us at ``host``."""

    def __init__(self, world: RealWorld, host: str, came: Callable[[socket.socket], None]) -> None:
        self._world, self._came = world, came
        self._socket = socket.create_server((host, 0), backlog=256)
        self.port: int = self._socket.getsockname()[1]
        self._open = True
        world.adopt(self)

    def fileno(self) -> int:
        return self._socket.fileno()

    def ready(self, mask: int) -> None:
        connection, _ = self._socket.accept()
        self._came(connection)

    def close(self) -> None:
        if self._open:
            self._open = False
            self._world.watch(self, 0)
            self._socket.close()
