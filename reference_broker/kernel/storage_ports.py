"""Ports to the place where messages are stored that do not fit into memory or must survive a
restart. The kernel knows no file."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from brokerproof.harness.model.broker_io import Effect, FileLoaded, FilesStored
from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.address import Address
from brokerproof.reference_broker.kernel.queue import Queue


class StoredQueue(Protocol):
    @property
    def id(self) -> int:
        """The store's number of the queue."""

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
        """True if it is a durable subscription's."""

    @property
    def filter(self) -> str | None:
        """The text of its selector."""


class RouterStorage(Protocol):
    """The store as a router sees it: it records changes, and returns queues and messages after a
    restart."""

    @property
    def last_message(self) -> int:
        """The highest number of a message that an earlier broker left."""

    @property
    def queues(self) -> Sequence[StoredQueue]:
        """The queues that an earlier broker had."""

    def begin_atomic_unit(self) -> None:
        """Store what this input does as a whole or not at all."""

    def address_opened(self, address: Address) -> None:
        """``address`` exists now."""

    def address_closed(self, address: Address) -> None:
        """``address`` does not exist any more."""

    def queue_made(
        self, queue: Queue, address: Address, on_demand: bool, subscription: bool
    ) -> None:
        """``queue`` exists now."""

    def queue_deleted(self, queue: Queue, address: Address) -> None: ...

    def back(self, queue: Queue, id: int, address: Address) -> None:
        """``queue`` is the one that an earlier broker had under this number."""

    def fill(self) -> None:
        """Put back what was in the queues, all of which are back."""

    def ending(self, queues: Iterable[Queue]) -> None:
        """The broker ends in order, with these queues."""


class BrokerStorage(Protocol):
    """Files to write and read, as effects; one batch at a time is under way."""

    @property
    def unfinished(self) -> dict[Queue, None]:
        """Queues with more to read from pages than one input may."""

    @property
    def batch(self) -> int:
        """The number of the batch that was sealed last."""

    @property
    def done(self) -> int:
        """The number up to which batches are stored."""

    @property
    def problem(self) -> str:
        """Why nothing can be stored; one sentence."""

    @property
    def refuses(self) -> bool:
        """True if nothing can be stored."""

    @property
    def much_waits(self) -> bool:
        """True if connections must not be read, since files are behind."""

    @property
    def little_waits(self) -> bool:
        """True if they may be read again."""

    @property
    def is_idle(self) -> bool:
        """True if nothing waits to be stored."""

    @property
    def wants_another_try(self) -> bool:
        """True if what could not be written must be tried again later."""

    def seal(self) -> bool:
        """End the batch; return True if what leaves now must wait for it."""

    def effects(self) -> list[Effect]: ...

    def loaded(self, event: FileLoaded) -> None:
        """Take what was read."""

    def stored(self, event: FilesStored) -> bool:
        """Take note of a batch; return False if it could not be stored."""

    def try_again(self) -> None:
        """Write once more what could not be written."""
