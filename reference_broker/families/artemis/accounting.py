"""The memory charged to an address for its messages, and when the address is full.

What is charged
---------------
All queues of an address share one copy of a message (ARTEMIS-PAGING-9). In bytes::

    charge = MESSAGE + size of the message + REFERENCE * queues that have it

:data:`MESSAGE` and :data:`REFERENCE` are the overheads of release 2.56.0. The size of the message
is ``Message.size()``:

* from STOMP, the body, and the names and values of the user's headers (all except
  :data:`brokerproof.reference_broker.protocols.stomp.encoder.OURS`), unescaped, in UTF-8;
* from AMQP, the message as received, without header and delivery-annotations, which are rewritten.

* for a large message, everything but its body, which is in a file
  (:mod:`brokerproof.reference_broker.kernel.large_body`).

Each copy counts as one message, whatever the number of queues.

When
----
A message is charged when it is routed to at least one queue. Each queue releases its reference when
the message leaves it permanently: acknowledged, delivered without need of an acknowledgement,
dropped, or deleted with its queue. A delivered but unsettled message still counts. The charge ends
with the last reference.

A message sent in a transaction is charged, without references, until the transaction ends.

Full
----
An address is full while it has ``max-size-bytes`` bytes or more, or ``max-size-messages`` messages
or more, or while all addresses together have ``global-max-size`` bytes or ``global-max-messages``
messages or more. The mark is the same for rising and falling usage, and is checked before a message
is added: so with messages of equal charge c and a limit of m bytes, ceil(m / c) are accepted, one
of which may exceed the mark (ARTEMIS-PAGING-1, its note). -1 means no limit; an address with a
limit of 0 is always full.
"""

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.kernel.accounting import Charge, MemoryAccount, MemoryAccounting
from brokerproof.reference_broker.kernel.message import LargeBodyClaim, Message, ResourceClaim
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule
from brokerproof.reference_broker.settings.settings import Settings

MESSAGE = 352
"""Bytes charged for a message in addition to its size."""
REFERENCE = 72
"""Bytes charged for a message's place in a queue."""


class AddressAccount(MemoryAccount):
    def __init__(self, name: str, rule: Rule, accounting: "Accounting") -> None:
        super().__init__(name, rule, accounting)
        self._max_size = rule.max_size_bytes
        self._max_messages = rule.max_size_messages
        self._threshold = rule.max_size_bytes_reject_threshold

    @property
    def full(self) -> bool:
        return (
            0 <= self._max_size <= self.size
            or 0 <= self._max_messages <= self.messages
            or self.accounting.full
        )

    @property
    def room(self) -> int | None:
        """Bytes until the address is full, 0 once it is; None if nothing limits it."""
        if self.full:
            return 0
        left = [
            room for room in (self.accounting.room, self._max_size - self.size) if room is not None
        ]
        return min(left) if self._max_size >= 0 else self.accounting.room

    @property
    def rejects(self) -> bool:
        """Return True if ``max-size-bytes-reject-threshold``, which applies to BLOCK, is reached
        (ARTEMIS-FLOW-amqp-4)."""
        return self.policy is FullPolicy.BLOCK and 0 <= self._threshold <= self.size

    def charge(self, message: Message, queues: int) -> ResourceClaim:
        charge = Charge(self, MESSAGE + message.size(), queues, REFERENCE)
        return charge if message.large is None else LargeBodyClaim(charge, message.large, queues)

    def charge_transaction(self, message: Message) -> ResourceClaim:
        charge = Charge(self, MESSAGE + message.size(), 1, 0)
        return charge if message.large is None else LargeBodyClaim(charge, message.large, 1)


class Accounting(MemoryAccounting):
    """The memory of all addresses of a broker, with the limits that they share."""

    def __init__(self, settings: Settings, rules: AddressRules) -> None:
        super().__init__(rules)
        self._max_size = settings.global_max_size_bytes
        self._max_messages = settings.global_max_messages

    def new_account(self, name: str, rule: Rule) -> AddressAccount:
        return AddressAccount(name, rule, self)

    @property
    def full(self) -> bool:
        """Return True if all addresses together have reached a global limit."""
        return 0 <= self._max_size <= self.size or 0 <= self._max_messages <= self.messages

    @property
    def room(self) -> int | None:
        """Return the bytes until the global limit is reached; None if there is none."""
        return self._max_size - self.size if self._max_size >= 0 else None
