"""Classifies how the broker closed a TCP connection, from the results of calls on our socket.

The kernel reports a reset once, to the next call. Bytes received before the reset stay readable
even if a ``send`` fails. But once ``send`` has received the report, ``recv`` ends as after an
orderly close, so a program that checks only ``recv`` mistakes a reset for an orderly close.
``docs/explanation/resets.md`` has the measurements."""

from __future__ import annotations

import ssl

from brokerproof.harness.model.enums import CloseHow

OPEN = 4096
"""Bytes, including frame overhead. If no more than these wait to be read, our receive window cannot
have been closed."""


class SocketCloseTracker:
    """The results of the calls on one socket.

    ``is_local``: see :class:`brokerproof.harness.targets.sockets.SocketTarget`."""

    def __init__(self, *, is_local: bool = False) -> None:
        self.all_received = is_local
        """True if every byte the broker wrote before closing has certainly arrived.

        A reset drops what the broker's system had not sent: bytes the network lost, and bytes our
        receive window had no room for."""
        self._is_local = is_local
        self._reset = False
        self._more = False

    def unsent(self, problem: OSError) -> None:
        """A ``send`` failed. A broken pipe proves nothing: it occurs after an orderly close too."""
        if not isinstance(problem, BrokenPipeError | ssl.SSLError):
            self._reset = True

    def read(self, count: int, *, more: bool) -> None:
        """``count`` bytes were readable, and more if ``more``."""
        self.all_received = self._is_local and count <= OPEN and not self._more
        self._more = more

    def finish(self, problem: OSError | None = None) -> CloseHow:
        """``recv`` reached the end of the stream, or failed with ``problem``."""
        return CloseHow.RESET if self._reset or problem is not None else CloseHow.EOF
