"""How the peers of ``throughput.py`` speak a protocol."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar


class Failed(Exception):
    """The broker did something other than expected. The message says what arrived instead."""


@dataclass(frozen=True)
class Speech:
    """How clients address one broker, beyond the protocol.

    ``where`` is the format of a destination, ``capability`` the capability that an AMQP 1.0
    terminus requests. ``send`` and ``subscribe`` are header lines of STOMP that request an anycast
    queue where the name alone does not. ``prefetch`` is STOMP's header line for a window, of size
    ``{messages}`` or ``{bytes}``.
    """

    login: str = ""
    passcode: str = ""
    where: str = "{}"
    capability: str = ""
    send: str = ""
    subscribe: str = ""
    prefetch: str = ""


@dataclass(frozen=True)
class Job:
    """One run, as both peers see it. ``window`` limits the unconfirmed messages and the messages
    that the consumer holds. If nothing happens for ``patience_s``, the run has failed."""

    protocol: str
    scenario: str
    port: int
    speech: Speech
    queue: str
    messages: int
    size: int
    durable: bool
    window: int
    patience_s: float

    @property
    def backlog(self) -> bool:
        """True if the consumer begins only after the producer is done."""
        return self.scenario == "backlog"

    @property
    def body(self) -> bytes:
        return b"x" * self.size


Step = tuple[bytes, int | bytes]
"""Bytes to write, and the code of the frame that answers them."""


class Dialect(ABC):
    """One protocol on one connection. By default, frames begin with their size."""

    prefix: ClassVar[int] = 4
    """Bytes before the content of a frame; the last four of ``size_end`` are its size."""
    size_end: ClassVar[int] = 4
    tail: ClassVar[int] = 0
    """Bytes after the content."""
    failures: ClassVar[frozenset[int | bytes]] = frozenset()
    """Codes of frames that end a run."""
    confirms: bool = True
    """False if the broker confirms nothing but the end of the producer's connection."""
    owed: int = 0
    """Answers to acknowledgements that have not arrived yet."""

    def __init__(self, job: Job, sender: bool) -> None:
        self._job = job
        self._sender = sender

    def split(self, data: bytes) -> tuple[list[bytes], bytes]:
        """Return the complete frames in ``data`` and the bytes after them."""
        size_at, around = self.size_end - 4, self.prefix + self.tail
        frames = []
        at, end = 0, len(data)
        while at + self.prefix <= end:
            next_at = at + around + int.from_bytes(data[at + size_at : at + size_at + 4])
            if next_at > end:
                break
            frames.append(data[at:next_at])
            at = next_at
        return frames, data[at:]

    @abstractmethod
    def code(self, frame: bytes) -> int | bytes: ...

    def failed(self, frame: bytes) -> bool:
        return self.code(frame) in self.failures

    @abstractmethod
    def opening(self) -> Sequence[Step]: ...

    def answered(self, frame: bytes) -> None:  # noqa: B027
        """Handle the frame that answered a step."""

    def producing(self) -> Sequence[Step]:
        """Return the steps before the first message."""
        return []

    @abstractmethod
    def consuming(self) -> bytes: ...

    @abstractmethod
    def message(self, number: int) -> bytes:
        """Return the message ``number``, from 0."""

    def allowed(self, confirmed: int) -> int:
        """Return how many messages the producer may have sent once ``confirmed`` are confirmed."""
        return confirmed + self._job.window

    @abstractmethod
    def confirmed(self, frames: Sequence[bytes]) -> int:
        """Return how many messages are confirmed once ``frames`` have arrived."""

    @abstractmethod
    def delivered(self, frames: Sequence[bytes]) -> tuple[int, bytes]:
        """Return how many messages ``frames`` contained, and the bytes that acknowledge them."""

    @abstractmethod
    def closing(self) -> Step:
        """Return the step that closes the connection."""
