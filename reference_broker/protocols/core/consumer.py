"""Consumers of the CORE protocol, and their credit in bytes.

Credit (ARTEMIS-FLOW-consumer-1): a consumer begins with none. The client's grants are added to it;
-1 removes the limit permanently, and 0 voids the remaining credit. A message is delivered while the
credit is above zero, and costs the bytes of its whole packet, so the credit may become negative.
The client builds its windows on this basis: with a window of W bytes, it grants W, and then the
bytes that it has consumed; with a window of 0 it grants 1 for each waiting receive call, and voids
that credit when no call waits. Acknowledgements return no credit: only the client grants credit.
"""

from collections import OrderedDict
from typing import Protocol

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.java_fields import int32, int64
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.core import codes
from brokerproof.reference_broker.protocols.core.encoding import packet
from brokerproof.reference_broker.protocols.core.message import encoded
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.selector.selector import Selector


class Session(Protocol):
    shared: BrokerContext
    channel: int
    holding: "OrderedDict[CoreConsumer, None]"

    @property
    def may_deliver(self) -> bool:
        """True if the session has been started and the peer reads."""

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""

    def send(self, data: bytes) -> None: ...


class ConsumerCredit:
    """``credit`` is in bytes; None means unlimited."""

    __slots__ = ("credit",)

    def __init__(self) -> None:
        self.credit: int | None = 0

    def has_room(self) -> bool:
        """Return True if one more message of any size may be delivered."""
        return self.credit is None or self.credit > 0

    def given(self, credits: int) -> None:
        if credits == -1:
            self.credit = None
        elif self.credit is not None:
            self.credit = 0 if credits == 0 else self.credit + credits

    def charge(self, size: int) -> None:
        """Charge a packet of ``size`` bytes."""
        if self.credit is not None:
            self.credit -= size


class CoreConsumer:
    """A :class:`brokerproof.reference_broker.kernel.queue.Consumer`, or a ``Browser`` if it only
    ``browses``."""

    def __init__(
        self,
        session: Session,
        id: int,
        queue: Queue,
        selector: Selector | None,
        browses: bool,
        acknowledged: bool,
    ) -> None:
        self.id = id
        self.queue = queue
        self.browses = browses
        self.cursor = 0
        self.credit = ConsumerCredit()
        self._session = session
        self._selector = selector
        self._acknowledged = acknowledged
        self._unsettled: OrderedDict[int, Entry] = OrderedDict()

    def attach(self) -> None:
        if self.browses:
            self.queue.browsers.add(self)
        else:
            self.queue.add_consumer(self, self._selector)

    def has_room(self) -> bool:
        """Return True if one more message can be sent now."""
        return self._session.may_deliver and self.credit.has_room()

    def wait_for(self, batch: int) -> None:
        """Hold output until ``batch`` is stored."""
        self._session.wait_for(batch)

    def deliver(self, entry: Entry) -> None:
        """Send one message. A message in a file is left to other consumers, because CORE would need
        a large message for it."""
        if entry.message.large is not None:
            entry.barred = (*(entry.barred or ()), self)
            self.queue.unsettled += 1
            self.queue.settle([entry], Outcome.RELEASED)
            return
        entry.deliveries += 1
        self._send(entry)
        if self._acknowledged:
            self.queue.discard(entry)
        else:
            self._unsettled[entry.message.number] = entry
            self._session.holding[self] = None
            self.queue.unsettled += 1

    def show(self, entry: Entry) -> None:
        """Send a copy of one message if the selector selects it."""
        if entry.message.large is None and (
            self._selector is None or self._selector.matches(entry.message)
        ):
            self._send(entry)

    def _send(self, entry: Entry) -> None:
        attempt = 1 + entry.failures + entry.earlier
        data = packet(
            codes.RECEIVE,
            self._session.channel,
            encoded(entry.message),
            int64(self.id),
            int32(attempt),
        )
        self.credit.charge(len(data))
        self._session.send(data)

    def given(self, credits: int) -> None:
        """Apply the client's credit, and deliver."""
        self.credit.given(credits)
        self.offer()

    def offer(self) -> None:
        """Take waiting messages while they can be sent."""
        if self.browses:
            self.queue.browsers.offer(self)
        else:
            self.queue.dispatch()

    def settle(self, number: int, *, one: bool) -> list[Entry]:
        """Remove and return the entries up to the message ``number``, or with ``one`` only that
        one. Raises :class:`Refusal`."""
        if self.browses:
            return []
        if number not in self._unsettled:
            raise Refusal(
                codes.ILLEGAL_STATE, f"consumer {self.id} holds no unacknowledged message {number}"
            )
        taken: list[Entry] = []
        last = None
        if one:
            taken.append(self._unsettled.pop(number))
        else:
            while last != number:
                last, entry = self._unsettled.popitem(last=False)
                taken.append(entry)
        if not self._unsettled:
            self._session.holding.pop(self, None)
        return taken

    def rolled_back(self, outcome: Outcome) -> None:
        """Return all unacknowledged messages to the queue, but do not dispatch them."""
        entries = list(self._unsettled.values())
        self._unsettled.clear()
        self._session.holding.pop(self, None)
        self.queue.settle(entries, outcome)

    def close(self) -> None:
        """Leave the queue. Nothing is sent afterwards."""
        if self.browses:
            self.queue.browsers.remove(self)
        else:
            self.queue.remove_consumer(self)
