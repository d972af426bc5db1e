"""Ports to the storage of messages that exceed memory or must survive a restart. The kernel knows
nothing about files."""

from collections.abc import Iterable, Sequence
from typing import Protocol

from brokerproof.harness.model.broker_io import Effect, FileLoaded, FilesStored
from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.queue import Queue


class StoredQueue(Protocol):
    @property
    def id(self) -> int:
        """The number of the queue in the store."""

    @property
    def address(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def routing(self) -> RoutingType: ...

    @property
    def on_demand(self) -> bool: ...

    @property
    def subscription(self) -> bool:
        """True if the queue belongs to a durable subscription."""

    @property
    def filter(self) -> str | None:
        """The text of the queue's selector."""


class RouterStorage(Protocol):
    """The router's view of the store, which records changes and restores them after a restart."""

    @property
    def last_message(self) -> int:
        """The highest message number that an earlier broker used."""

    @property
    def queues(self) -> Sequence[StoredQueue]:
        """The queues that an earlier broker had."""

    def begin_atomic_unit(self) -> None:
        """Store this input's changes atomically."""

    def address_opened(self, address: Address) -> None:
        """Record that ``address`` exists now."""

    def address_closed(self, address: Address) -> None:
        """Record that ``address`` no longer exists."""

    def queue_made(
        self, queue: Queue, address: Address, on_demand: bool, subscription: bool
    ) -> None:
        """Record that ``queue`` now exists."""

    def queue_deleted(self, queue: Queue, address: Address) -> None: ...

    def back(self, queue: Queue, id: int, address: Address) -> None:
        """Record that ``queue`` is the one that had this number in an earlier broker."""

    def fill(self) -> None:
        """Restore the messages, once all queues have been restored."""

    def ending(self, queues: Iterable[Queue]) -> None:
        """Record that the broker is shutting down cleanly with these queues."""


class BrokerStorage(Protocol):
    """File writes and reads as effects; only one batch at a time is in progress."""

    @property
    def unfinished(self) -> dict[Queue, None]:
        """Queues that have more messages on pages than one input may read."""

    @property
    def batch(self) -> int:
        """The number of the last sealed batch."""

    @property
    def done(self) -> int:
        """The number of the last batch that has been stored."""

    @property
    def problem(self) -> str:
        """Why nothing can be stored, in one sentence."""

    @property
    def refuses(self) -> bool:
        """True if nothing can be stored now."""

    @property
    def much_waits(self) -> bool:
        """True if connections must not be read because storage has fallen behind."""

    @property
    def little_waits(self) -> bool:
        """True if connections may be read again."""

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be stored."""

    @property
    def wants_another_try(self) -> bool:
        """True if a failed write must be retried later."""

    def seal(self) -> bool:
        """Seal the batch; return True if current output must wait for it."""

    def effects(self) -> list[Effect]: ...

    def loaded(self, event: FileLoaded) -> None:
        """Accept the bytes that were read."""

    def stored(self, event: FilesStored) -> bool:
        """Record the result of a batch; return False if the batch could not be stored."""

    def try_again(self) -> None:
        """Retry a failed write."""
