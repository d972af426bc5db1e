"""The interface that a world offers to a case, in virtual or in real time."""

from collections.abc import Callable, Mapping
from typing import Protocol

from brokerproof.harness.model.enums import Clock, CloseHow
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.worlds.bounds import CaseBounds
from brokerproof.harness.worlds.tls import Certificate


class Unreachable(Exception):
    """A connection could not be opened. The message contains the address and the reason."""


class Receiver(Protocol):
    """Receives what arrives on a channel, in order."""

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        """Receive ``data`` (never empty), which was readable at ``at``."""

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        """Learn that nothing more will arrive. Called only once."""


class Channel(Protocol):
    """The harness's end of one connection. After the connection has ended, no method has an
    effect."""

    @property
    def remote(self) -> str:
        """The broker's end, as text for people."""

    @property
    def local(self) -> str:
        """Our end, HOST:PORT, as the broker sees it."""

    @property
    def security(self) -> str:
        """The agreed TLS version and cipher, for people; empty without TLS."""

    @property
    def all_received(self) -> bool:
        """True if every byte that the broker wrote before it reset the connection has certainly
        arrived."""

    def secure(self, certificate: Certificate | None = None) -> None:
        """Begin TLS on a plain channel; writes wait until the handshake is done. In virtual time
        this has no effect."""

    def write(self, data: bytes) -> None:
        """Pass ``data`` to the link; never blocks."""

    def half_close(self) -> None:
        """Close only our direction (FIN)."""

    def close(self) -> None:
        """Close both directions (orderly close)."""

    def cut(self) -> None:
        """Break the connection (RST; in virtual time the broker sees the link break)."""

    def hold_reading(self, held: bool) -> None:
        """Stop (True) or resume (False) taking bytes from the link, so that back-pressure reaches
        the broker."""


class ForwardingChannel:
    """Base class for channels between a peer and its link, :attr:`_channel`."""

    _channel: Channel

    @property
    def remote(self) -> str:
        return self._channel.remote

    @property
    def local(self) -> str:
        return self._channel.local

    @property
    def security(self) -> str:
        return self._channel.security

    @property
    def all_received(self) -> bool:
        return self._channel.all_received

    def secure(self, certificate: Certificate | None = None) -> None:
        self._channel.secure(certificate)


class World(Protocol):
    """Time and links. A world belongs to one case (virtual: to one example); one thread uses it."""

    @property
    def clock(self) -> Clock: ...

    @property
    def is_local(self) -> bool:
        """True if a reset loses no bytes that the broker wrote before it."""

    @property
    def bounds(self) -> CaseBounds:
        """The limits on the bytes and frames that the case may receive."""

    def now(self) -> Instant: ...

    def open(
        self,
        acceptor: str,
        receiver: Receiver,
        certificate: Certificate | None = None,
        *,
        plain: bool = False,
    ) -> Channel:
        """Connect to the named acceptor, over TLS if it has TLS and ``plain`` is false. Raises
        :class:`Unreachable`.

        ``certificate`` is our client certificate. If the broker refuses it, the channel ends and
        nothing is raised."""

    def wait_until(self, ready: Callable[[], bool], deadline: Instant) -> bool:
        """Let time pass until ``ready()`` or ``deadline``, whichever comes first; return
        ``ready()``. In real time this raises the errors of :class:`CaseBounds`."""

    def at(self, instant: Instant, action: Callable[[], None]) -> None:
        """Run ``action`` at ``instant`` (immediately if past), while a caller waits in this
        world."""

    def lateness(self, since: Instant, until: Instant | None = None) -> Duration:
        """Return the host's worst lateness since ``since`` or, with ``until``, between the two; 0
        in virtual time."""

    def of_host(self, duration: Duration) -> Duration:
        """Return the time that passes in this world during ``duration`` on the host: more if the
        target's clock is accelerated, otherwise the same (also in virtual time)."""

    def page_files(self, content: bytes) -> Mapping[str, int]:
        """Return the sizes in bytes of the broker's page files that contain these bytes, by path
        below its paging folder. The target needs the "page-files" capability."""

    def close(self) -> None:
        """End every connection of this world."""
