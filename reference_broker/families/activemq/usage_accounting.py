"""Charges messages to a broker's limited memory, store and temporary store (ACTIVEMQ-PFC).

What is charged
---------------
A message costs its destination ``minimumMessageSize`` bytes (1024 unless a policy says otherwise)
plus its own size: the content, and the user's properties in OpenWire encoding. For a STOMP message,
each user header costs 5 bytes plus those of name and value, and all headers together 4 bytes; a
body without content-length is text and costs 4 bytes extra. For an AMQP message, it is the content
of its data sections, and all other encoded sections except the header.

Where
-----
A queue charges a message from its addition until it is acknowledged or removed. Depending on the
cursor (:mod:`brokerproof.reference_broker.families.activemq.cursor`) the charge goes to the queue's
memory, the temporary store, or only the store. A persistent message is also charged to the store,
if there is one. A topic charges its memory once per message until the message has been sent to all
its subscriptions. Without a subscription nothing is charged.

The parent of a destination's memory is the broker's memory
(:mod:`brokerproof.reference_broker.families.activemq.usage`)."""

from __future__ import annotations

from collections.abc import Mapping

from brokerproof.reference_broker.families.activemq.cursor import (
    CURSORS,
    ChargedEntry,
    Cursor,
    cursor_of,
)
from brokerproof.reference_broker.families.activemq.usage import BrokerUsage, Usage
from brokerproof.reference_broker.kernel.accounting import MemoryAccount, MemoryAccounting
from brokerproof.reference_broker.kernel.message import Message, ResourceClaim
from brokerproof.reference_broker.kernel.queue_and_topic_names import is_topic
from brokerproof.reference_broker.settings.activemq import Cursor as Kind
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule
from brokerproof.reference_broker.settings.settings import Settings

TEXT = 4
"""Bytes that precede the content of a text message, and the properties, if there are any."""
PROPERTY = 5
"""Bytes of a property in addition to its name and value."""
STANDARD = frozenset(
    {
        *("correlation-id", "expires", "timestamp", "priority", "type", "reply-to", "persistent"),
        *("JMSXUserID", "JMSXGroupID", "JMSXGroupSeq"),
    }
)
"""STOMP headers that become fields of a message, not properties."""


def size_of(message: Message) -> int:
    """Return the size of ``message``, which consists of content and properties."""
    content = message.content()
    if content is not None:
        return content
    user = [header for header in message.envelope.headers if header[0] not in STANDARD]
    size = len(message.body) + (TEXT if message.envelope.text else 0)
    return size + (
        TEXT + sum(PROPERTY + len(name.encode()) + len(value.encode()) for name, value in user)
        if user
        else 0
    )


class TopicClaim:
    """A message of a topic, not yet sent to ``holders`` of its subscriptions."""

    __slots__ = ("_account", "_cost", "_holders", "_unsent")

    def __init__(self, account: UsageAccount, cost: int, holders: int) -> None:
        self._account = account
        self._cost = cost
        self._holders = self._unsent = holders
        account.memory.add(cost)
        account.messages += 1

    def sent(self) -> None:
        """Record that it was sent to one subscription, or discarded. Called once for each."""
        self._unsent -= 1
        if not self._unsent:
            self._account.memory.add(-self._cost)

    def release(self) -> None:
        self._holders -= 1
        if not self._holders:
            self._account.forget_message()

    def failed(self, failures: int) -> None:
        """Do nothing, because memory does not change."""


class HeldClaim:
    """A message sent in a transaction, which is in memory until the transaction ends."""

    __slots__ = ("_account", "_cost")

    def __init__(self, account: UsageAccount, cost: int) -> None:
        self._account = account
        self._cost = cost
        account.memory.add(cost)
        account.messages += 1

    def release(self) -> None:
        """Release the memory, because the transaction has ended."""
        self._account.memory.add(-self._cost)
        self._account.forget_message()

    def failed(self, failures: int) -> None:
        """Do nothing, because memory does not change."""


class UsageAccount(MemoryAccount):
    """The usage of one destination, which has a qualified name."""

    accounting: UsageAccounting

    def __init__(self, name: str, rule: Rule, accounting: UsageAccounting) -> None:
        super().__init__(name, rule, accounting)
        activemq = accounting.activemq
        self.entry = activemq.policy(name)
        usage = self.usage = accounting.usage
        self.memory = Usage(self.entry.memory_limit or usage.memory.limit, usage.memory)
        self.cursor = cursor_of(
            accounting.cursors, self.entry, activemq.persistent, self.memory, usage
        )
        self.sends = self.done = 0
        """The numbers of messages ever added and removed."""

    def cost(self, message: Message) -> int:
        return self.entry.minimum_message_size + size_of(message)

    def charge(self, message: Message, queues: int) -> ResourceClaim:
        cost = self.cost(message)
        if is_topic(self.name):
            self.sends += 1
            return TopicClaim(self, cost, queues)
        self.added()
        claim = ChargedEntry(self.cursor, cost, message.durable, self.forget_message)
        self.cursor.add(claim)
        return claim

    def charge_transaction(self, message: Message) -> ResourceClaim:
        return HeldClaim(self, self.cost(message))

    def added(self, messages: int = 1) -> None:
        self.sends += messages
        self.messages += messages

    def forget_message(self) -> None:
        self.messages -= 1
        self.done += 1
        if not self.wanted:
            self.accounting.forget(self)


class UsageAccounting(MemoryAccounting):
    """The usage of all destinations of a broker. ``cursors`` keep the waiting messages."""

    def __init__(
        self,
        settings: Settings,
        rules: AddressRules,
        cursors: Mapping[Kind, type[Cursor]] = CURSORS,
    ) -> None:
        super().__init__(rules)
        self.cursors = cursors
        assert settings.activemq is not None
        self.activemq = settings.activemq
        self.usage = BrokerUsage(self.activemq)

    def find(self, name: str) -> UsageAccount:
        account = self._accounts.get(name)
        if isinstance(account, UsageAccount):
            return account
        return self.new_account(name, self._rules.of(name))

    def new_account(self, name: str, rule: Rule) -> UsageAccount:
        return UsageAccount(name, rule, self)
