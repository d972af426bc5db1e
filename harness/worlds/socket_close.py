"""Classifies how the broker closed a TCP connection, from the results of calls on our socket.

The kernel reports a reset only once, to the next call. Bytes received before the reset stay
readable even if a ``send`` fails. But if it was ``send`` that received the report, ``recv`` ends as
after an orderly close, so a program that checks only ``recv`` mistakes the reset for an orderly
close. ``docs/explanation/resets.md`` has the measurements."""

import ssl

from brokerproof.harness.model.enums import CloseHow

OPEN = 4096
"""If no more than this many bytes, including frame overhead, wait to be read, our receive window
cannot have been closed."""


class SocketCloseTracker:
    """The results of the calls on one socket. For ``is_local`` see
    :class:`brokerproof.harness.targets.sockets.SocketTarget`."""

    def __init__(self, *, is_local: bool = False) -> None:
        self.all_received = is_local
        """True if every byte the broker wrote before closing has certainly arrived.

        A reset drops what the broker's system had not yet sent: bytes that the network lost, and
        bytes for which our receive window had no room."""
        self._is_local = is_local
        self._reset = False
        self._more = False

    def unsent(self, problem: OSError) -> None:
        """Record that a ``send`` failed. A broken pipe proves nothing, as it also occurs after an
        orderly close."""
        if not isinstance(problem, BrokenPipeError | ssl.SSLError):
            self._reset = True

    def read(self, count: int, *, more: bool) -> None:
        """Record that ``count`` bytes were readable; ``more`` says whether more were."""
        self.all_received = self._is_local and count <= OPEN and not self._more
        self._more = more

    def finish(self, problem: OSError | None = None) -> CloseHow:
        """Record that ``recv`` reached the end of the stream or failed with ``problem``."""
        return CloseHow.RESET if self._reset or problem is not None else CloseHow.EOF
