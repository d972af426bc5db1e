"""Consumers of OpenWire, and their prefetch in messages (release 6.3.1, PrefetchSubscription).

A consumer gets messages while it holds fewer than the sum of its prefetch limit and its
*extension*. The extension grows when the client reports messages that it has seen but cannot
acknowledge yet (DELIVERED), and shrinks as messages are acknowledged. With a limit of 0, only
pulled messages are dispatched.
"""

from typing import Protocol

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.java_fields import int32
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.serial_numbers import NumberIndex
from brokerproof.reference_broker.protocols.openwire import codes
from brokerproof.reference_broker.protocols.openwire.encoding import NO, YES, command
from brokerproof.reference_broker.protocols.openwire.message import fields_of
from brokerproof.reference_broker.protocols.openwire.refusal import FAILED, Refusal
from brokerproof.reference_broker.protocols.openwire.structures import (
    ConsumerId,
    Destination,
    MessageId,
    nested,
)
from brokerproof.reference_broker.selector.selector import Selector


class Client(Protocol):
    shared: BrokerContext

    @property
    def version(self) -> int:
        """Return the version of the protocol that both sides speak."""

    @property
    def may_deliver(self) -> bool: ...

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""

    def send(self, data: bytes) -> None: ...


class Prefetch:
    """The prefetch of one consumer. ``limit`` is in messages; ``pulled`` is how many messages a
    client with limit 0 has requested."""

    def __init__(self, limit: int) -> None:
        self.limit = max(0, limit)
        self.extension = self.pulled = 0

    def has_room(self, out: int) -> bool:
        """Return True if one more message may be dispatched while ``out`` messages are held."""
        return self.pulled > 0 if self.limit == 0 else out - self.extension < self.limit

    def dispatched(self) -> None:
        self.pulled = max(0, self.pulled - 1)

    def seen(self, count: int) -> None:
        """Extend the limit by ``count`` messages that the client has seen but not acknowledged."""
        self.extension += max(0, count)

    def acknowledged(self, count: int) -> None:
        self.extension = max(0, self.extension - count)


class OpenWireConsumer:
    """A :class:`brokerproof.reference_broker.kernel.queue.Consumer`, or a ``Browser`` if it only
    ``browses``."""

    def __init__(
        self,
        client: Client,
        id: ConsumerId,
        destination: Destination,
        queue: Queue,
        selector: Selector | None,
        limit: int,
        browses: bool,
    ) -> None:
        self.id = id
        self.destination = destination
        self.queue = queue
        self.browses = browses
        self.cursor = 0
        self.prefetch = Prefetch(limit)
        self._client = client
        self._selector = selector
        self._out: dict[object, Entry] = {}
        self._places: dict[object, int] = {}
        self._keys: dict[int, object] = {}
        """Deliveries in transit by serial number, in the order of dispatch."""
        self._order = NumberIndex()
        self._place = 0
        self._ended = False
        version = client.version
        self._head = int32(0) + NO + nested(id, version) + nested(destination, version)

    def attach(self) -> None:
        """Join the queue. The consumer's selector picks from a shared queue; a topic subscription
        has its own queue, which filters on entry."""
        if self.browses:
            self.queue.browsers.add(self)
            self._finish()
        else:
            self.queue.add_consumer(self, self._selector if self.queue.filter is None else None)

    def has_room(self) -> bool:
        """Return True if one more message can be dispatched now."""
        return self._client.may_deliver and self.prefetch.has_room(len(self._out))

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self._client.wait_for(batch)

    def deliver(self, entry: Entry) -> None:
        entry.deliveries += 1
        self.queue.unsettled += 1
        self._send(entry)

    def show(self, entry: Entry) -> None:
        """Dispatch a copy of one message if the selector selects it."""
        if self._selector is None or self._selector.matches(entry.message):
            self._send(entry)

    def _send(self, entry: Entry) -> None:
        fields = fields_of(entry.message)
        key = fields.id.key if fields.id is not None else entry.message.number
        self._keep(key, entry)
        self.prefetch.dispatched()
        redeliveries = entry.failures + entry.earlier + fields.redeliveries
        version = self._client.version
        data = fields.encode(version, entry.message.number, redeliveries)
        self._dispatch(YES, data, int32(redeliveries))

    def _keep(self, key: object, entry: Entry) -> None:
        self._place = serial_numbers.add(self._place, 1)
        self._order.append(self._place, self._keys, len(self._keys))
        self._keys.pop(self._places.get(key, 0), None)
        self._places[key] = self._place
        self._keys[self._place] = key
        self._out[key] = entry

    def _dispatch(self, *message: bytes) -> None:
        self._client.send(command(codes.DISPATCH, self._head, *message))

    def nothing(self) -> None:
        """Report that there is no message, in answer to a pull or at the end of a browse."""
        self.prefetch.pulled = 0
        self._dispatch(NO, int32(0))

    def offer(self) -> None:
        """Take waiting messages while they can be sent."""
        if self.browses:
            self.queue.browsers.offer(self)
            self._finish()
        else:
            self.queue.dispatch()

    def _finish(self) -> None:
        if (
            not self._ended
            and self.has_room()
            and not self.queue.browsers.unseen(self, self._selector)
        ):
            self._ended = True
            self.nothing()

    # --- acknowledgements -------------------------------------------------------------------------

    def covered(
        self, first: MessageId | None, last: MessageId | None, *, one: bool
    ) -> tuple[int, int]:
        """Return the places of held messages from ``first`` (or the oldest) to ``last``, or with
        ``one`` only that one.

        Raises Refusal. Only :meth:`settle` visits the places in between, because acknowledgements
        may repeat the same long range.
        """
        end = None if last is None else last.key
        if end not in self._out:
            raise Refusal(FAILED, f"consumer {self.id} has no unacknowledged message {last}")
        high = self._places[end]
        if one:
            return high, high
        begin = None if first is None else first.key
        if begin is None:
            return serial_numbers.add(high, 1 - serial_numbers.HALF), high
        if begin not in self._out:
            raise Refusal(FAILED, f"consumer {self.id} has no unacknowledged message {first}")
        low = self._places[begin]
        if serial_numbers.before(high, low):
            raise Refusal(FAILED, f"message {first} reached consumer {self.id} after {last}")
        return low, high

    def settle(self, places: tuple[int, int], outcome: Outcome) -> None:
        """End the deliveries in ``places`` that are still held. Returned messages are not
        dispatched."""
        entries: list[Entry] = []
        for place in self._order.between(*places, self._keys):
            key = self._keys.pop(place)
            del self._places[key]
            entries.append(self._out.pop(key))
        self.prefetch.acknowledged(len(entries))
        if not self.browses:
            self.queue.settle(entries, outcome)

    def undone(self, places: tuple[int, int]) -> None:
        """Roll back an acknowledgement, so that the messages in ``places`` are still held."""
        self.prefetch.acknowledged(len(self._order.between(*places, self._keys)))

    def close(self, last: int | None) -> None:
        """Leave the queue. Unacknowledged messages return; those dispatched up to the message
        ``last`` become failed deliveries (None: all; an unknown message: none)."""
        if self.browses:
            self.queue.browsers.remove(self)
            return
        self.queue.remove_consumer(self)
        entries = list(self._out.values())
        self._out.clear()
        self._places.clear()
        self._keys.clear()
        numbers = [entry.message.number for entry in entries]
        tried = len(entries)
        if last is not None:
            tried = numbers.index(last) + 1 if last in numbers else 0
        self.queue.settle(entries[:tried], Outcome.MODIFIED)
        self.queue.settle(entries[tried:], Outcome.RELEASED)
        self.queue.dispatch()
