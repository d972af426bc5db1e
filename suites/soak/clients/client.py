"""Base of the soak's clients: it sends, receives and acknowledges durable messages and notes each
confirmation. Sans I/O.

:meth:`Client.on_bytes` takes what the broker sent and returns what it means; :meth:`Client.take`
returns what to send. What is asked for before the session is ready is sent when it is.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Confirmed:
    """The broker has confirmed what was asked for under ``reference``."""

    reference: str


@dataclass(frozen=True, slots=True)
class Delivered:
    """A message; ``handle`` acknowledges it. ``marked`` as a redelivery, None where the protocol
    has no mark that says that it may be one."""

    handle: Any
    body: bytes
    marked: bool | None


class Refused(Exception):
    """The broker refused something that is right; one sentence."""


Event = Confirmed | Delivered


@dataclass(frozen=True, slots=True)
class Naming:
    """How a family names what STOMP sends to and subscribes to, and the header for a window of so
    many bytes, -1 for all."""

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
    """The acceptor that it connects to."""
    topics = False
    """True if it can consume a durable subscription, named ADDRESS#NAME."""

    def __init__(self, name: str, naming: Naming = ARTEMIS) -> None:
        self.name = name
        self.naming = naming
        self._out: list[bytes] = []
        self._later: list[Callable[[], None]] = []
        self._ready = False

    def take(self) -> bytes:
        """Return what is to be sent now."""
        out, self._out = self._out, []
        return b"".join(out)

    def write(self, data: bytes) -> None:
        """Send ``data`` with the rest."""
        self._out.append(data)

    def when_ready(self, action: Callable[[], None]) -> None:
        """Call ``action`` as soon as the session is ready."""
        if self._ready:
            action()
        else:
            self._later.append(action)

    def set_ready(self) -> None:
        """The session is ready: send what was asked for meanwhile."""
        self._ready = True
        later, self._later = self._later, []
        for action in later:
            action()

    def produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        """Send durable messages, in one transaction if they are a ``unit``; ``reference`` is
        confirmed when all are, or the commit is."""
        self.when_ready(partial(self._produce, address, bodies, reference, unit))

    def consume(self, queue: str, window: int) -> None:
        """Receive from ``queue``, at most about ``window`` bytes ahead, -1 for all."""
        self.when_ready(partial(self._consume, queue, window))

    def acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        """Acknowledge deliveries; as for :meth:`produce`."""
        self.when_ready(partial(self._acknowledge, handles, reference, unit))

    @abstractmethod
    def on_bytes(self, data: bytes) -> Iterator[Event]:
        """Return the meaning of ``data``. Raises :class:`Refused`."""

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
    """Confirms a reference when so many of its parts are confirmed."""

    def __init__(self) -> None:
        self._parts: dict[str, int] = {}

    def expect(self, reference: str, parts: int) -> None:
        self._parts[reference] = parts

    def part(self, reference: str) -> Iterator[Event]:
        self._parts[reference] -= 1
        if not self._parts[reference]:
            del self._parts[reference]
            yield Confirmed(reference)
