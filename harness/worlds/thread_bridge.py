"""Passes events from a client's own threads to the thread that waits in a real world."""

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.harness.worlds.bounds import LimitReached
from brokerproof.harness.worlds.real import RealWorld

Handler = Callable[[str, Instant, Any], None]


class ThreadBridge:
    """When a foreign thread posts an event, wakes ``world`` through a self-pipe and passes the
    event to ``handle``, in order. If too many events are queued because the waiting thread cannot
    keep up, the case ends.

    ``close`` is called when the world closes and must end the foreign threads."""

    def __init__(self, world: RealWorld, handle: Handler, close: Callable[[], None]) -> None:
        self._world = world
        self._handle = handle
        self._close = close
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._events: deque[tuple[str, Instant, Any]] = deque()
        self._full = False
        self._order = threading.Lock()
        self._open = True
        world.adopt(self)

    def post(self, kind: str, content: Any) -> None:
        """Record, from any thread, that ``kind`` has just happened."""
        with self._order:
            if len(self._events) > self._world.bounds.most_events:
                self._full = True
            else:
                self._events.append((kind, self._world.now(), content))
        with suppress(OSError):  # full: a wake-up is pending already; closed: the world is closed
            self._theirs.send(b"!")

    def fileno(self) -> int:
        return self._ours.fileno()

    def ready(self, mask: int) -> None:
        """In the world's thread, pass on the posted events."""
        with suppress(BlockingIOError):
            self._ours.recv(4096)
        while self._events:
            self._handle(*self._events.popleft())
        if self._full:
            most = self._world.bounds.most_events
            raise LimitReached("connection_frames", f"more than {most:,} client events are waiting")

    def close(self) -> None:
        if self._open:
            self._open = False
            self._close()
            self._world.watch(self, 0)
            self._ours.close()
            self._theirs.close()
