"""How the broker's end of a TCP connection went away, as the calls on our socket tell it, and what
a reset proves.

The kernel tells a reset once, to the call that comes first. Octets that came before it stay
readable, whoever was told: a ``send`` that fails loses nothing of them. But once a ``send`` was
told, ``recv`` ends in what looks like an orderly end, so whoever looks at ``recv`` alone takes a
reset for a close in order. ``docs/explanation/resets.md`` has what was measured.
"""

from __future__ import annotations

import ssl

from brokerproof.harness.model.enums import CloseHow

OPEN = 4096
"""While no more octets than this wait to be read, our window cannot have been shut. Octets, also of
the smallest frames."""


class Ending:
    """What one socket told so far. ``direct``: see
    :class:`brokerproof.harness.targets.sockets.SocketTarget`."""

    def __init__(self, *, direct: bool = False) -> None:
        self.whole = direct
        """Whether all that the broker's system had been given before the end has come for certain.
        What it had not yet sent when it reset the connection it dropped: what the network lost, and
        what our window had no room for."""
        self._direct = direct
        self._reset = self._more = False

    def unsent(self, problem: OSError) -> None:
        """A ``send`` failed. A broken pipe says nothing new: it is what comes after an orderly end
        too."""
        if not isinstance(problem, BrokenPipeError | ssl.SSLError):
            self._reset = True

    def read(self, count: int, *, more: bool) -> None:
        """``count`` octets were there to be read, or ``more`` than we asked for."""
        self.whole = self._direct and count <= OPEN and not self._more
        self._more = more

    def finish(self, problem: OSError | None = None) -> CloseHow:
        """``recv`` found the end: nothing more, or ``problem``."""
        return CloseHow.RESET if self._reset or problem is not None else CloseHow.EOF
