"""Base class of the soak test's clients. A client sends, receives and acknowledges durable messages
and records each confirmation. It does no I/O: :meth:`Client.on_bytes` gets the broker's bytes and
returns events, and :meth:`Client.take` returns the bytes to send. Requests made before the session
is ready are sent once it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker has confirmed the request ``reference``."""

    reference: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message; ``handle`` is for its acknowledgement. ``marked``: as a redelivery, or None if the
    protocol has no such mark."""

    handle: Any
    body: bytes
    marked: bool | None


class Refused(Exception):
    """The broker refused something valid."""


Event = Confirmed | Delivered


@dataclass(frozen=True, slots=True)
class Naming:
    """How a family names STOMP destinations for sending and subscribing, and its header for a
    window in bytes (-1 means unlimited)."""

    place: Callable[[str, bool, str], str]
    window: Callable[[int], str]
    connect: str = "host:h\n"
    """Headers of CONNECT."""


ARTEMIS = Naming(
    lambda name, topic, header: (
        f"destination:{name}\n{header}:{'MULTICAST' if topic else 'ANYCAST'}\n"
    ),
    lambda size: f"consumer-window-size:{size}\n",
)
SLASHES = Naming(
    lambda name, topic, header: f"destination:/{'topic' if topic else 'queue'}/{name}\n",
    lambda size: f"activemq.prefetchSize:{10_000 if size < 0 else size // 500 + 1}\n",
)
RABBITMQ = Naming(
    lambda name, topic, header: f"destination:/amq/queue/{name}\n",
    lambda size: "" if size < 0 else f"prefetch-count:{size // 500 + 1}\n",
    "host:/\nlogin:guest\npasscode:guest\n",
)


class Client(ABC):
    protocol: ClassVar[str]
    """The acceptor that the client connects to."""
    topics = False
    """True if the client can consume a durable subscription, named ADDRESS#NAME."""

    def __init__(self, name: str, naming: Naming = ARTEMIS) -> None:
        self.name = name
        self.naming = naming
        self._out: list[bytes] = []
        self._later: list[Callable[[], None]] = []
        self._ready = False

    def take(self) -> bytes:
        """Return the bytes to send now."""
        out, self._out = self._out, []
        return b"".join(out)

    def write(self, data: bytes) -> None:
        """Queue ``data`` for sending."""
        self._out.append(data)

    def when_ready(self, action: Callable[[], None]) -> None:
        """Call ``action`` as soon as the session is ready."""
        if self._ready:
            action()
        else:
            self._later.append(action)

    def set_ready(self) -> None:
        """Mark the session as ready and send the earlier requests."""
        self._ready = True
        later, self._later = self._later, []
        for action in later:
            action()

    def produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        """Send durable messages, in one transaction if they are a ``unit``. ``reference`` is
        confirmed once all of them are, or the commit is."""
        self.when_ready(partial(self._produce, address, bodies, reference, unit))

    def consume(self, queue: str, window: int) -> None:
        """Receive from ``queue``, at most about ``window`` bytes ahead (-1 means unlimited)."""
        self.when_ready(partial(self._consume, queue, window))

    def acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        """Acknowledge deliveries; the parameters are those of :meth:`produce`."""
        self.when_ready(partial(self._acknowledge, handles, reference, unit))

    @abstractmethod
    def on_bytes(self, data: bytes) -> Iterator[Event]:
        """Return the events in ``data``. Raises :class:`Refused`."""

    @abstractmethod
    def _produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        pass

    @abstractmethod
    def _consume(self, queue: str, window: int) -> None:
        pass

    @abstractmethod
    def _acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        pass


class Counting:
    """Confirms a reference when all of its parts are confirmed."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}

    def expect(self, reference: str, parts: int) -> None:
        self._parts[reference] = parts

    def part(self, reference: str) -> Iterator[Event]:
        self._parts[reference] -= 1
        if not self._parts[reference]:
            del self._parts[reference]
            yield Confirmed(reference)
