"""For clients that bring threads of their own: what they say is carried into the thread that waits
in a real world."""

from __future__ import annotations

import socket
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.harness.worlds.real import RealWorld

Hear = Callable[[str, Instant, Any], None]


class Bell:
    """Rings in ``world`` whenever a foreign thread has told something; ``hear`` then gets it, in
    the order it was told.

    ``close`` is called when the world closes: it must end the foreign threads.
    """

    def __init__(self, world: RealWorld, hear: Hear, close: Callable[[], None]) -> None:
        self._world, self._hear, self._close = world, hear, close
        self._ours, self._theirs = socket.socketpair()
        self._ours.setblocking(False)
        self._theirs.setblocking(False)
        self._told: deque[tuple[str, Instant, Any]] = deque()
        self._order = threading.Lock()
        self._open = True
        world.adopt(self)

    def tell(self, what: str, content: Any) -> None:
        """From any thread: ``what`` happened now."""
        with self._order:
            self._told.append((what, self._world.now(), content))
        with suppress(OSError):  # full: it rings already; closed: nobody listens any more
            self._theirs.send(b"!")

    def fileno(self) -> int:
        return self._ours.fileno()

    def ready(self, mask: int) -> None:
        """In the world's thread: pass on what has been told."""
        with suppress(BlockingIOError):
            self._ours.recv(4096)
        while self._told:
            self._hear(*self._told.popleft())

    def close(self) -> None:
        if self._open:
            self._open = False
            self._close()
            self._world.watch(self, 0)
            self._ours.close()
            self._theirs.close()
