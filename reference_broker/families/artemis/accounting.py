"""How much memory the messages of an address occupy, and when the address is full.

What is charged
---------------
All queues of an address share one copy of a message (ARTEMIS-PAGING-9). In octets::

    charge = MESSAGE + size of the message + REFERENCE * queues that have it

:data:`MESSAGE` and :data:`REFERENCE` stand for what is kept beside the octets that came; they are
the numbers of release 2.56.0. The size of the message is ``Message.size()``:

* from STOMP, the body, and the names and values of its headers without those that are not the
  user's (:data:`brokerproof.reference_broker.protocols.stomp.encoder.OURS`), unescaped, in UTF-8;
* from AMQP, the message as it came, without its header and its delivery-annotations, which are not
  kept as they came.

* of a large message, everything but its body, which lies in a file
  (:mod:`brokerproof.reference_broker.kernel.large_body`).

Each copy counts as one message, whatever the number of queues.

When ---- A message is charged when it is routed to at least one queue. Each queue gives its
reference back when the message has left it for good: acknowledged, delivered where nothing is to be
acknowledged, given up, or gone with its queue. A message that was delivered and is not settled
still counts. With its last reference the message is gone, and its charge with it.

A message that was sent in a transaction is charged, without references, from then on until the
transaction ends.

Full ---- An address is full while it has ``max-size-bytes`` octets or more, or
``max-size-messages`` messages or more, or while all addresses together have ``global-max-size``
octets or ``global-max-messages`` messages or more. The mark is the same on the way up and on the
way down, and is looked at before a message is added: so with messages of equal charge c and a limit
of m octets, ceil(m / c) are taken, one of which may go beyond the mark (ARTEMIS-PAGING-1, its
note). A limit of -1 is none, and an address with a limit of 0 is always full.
"""

from __future__ import annotations

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.families.artemis.address_settings import AddressRules, Rule
from brokerproof.reference_broker.kernel.large_body import Held
from brokerproof.reference_broker.kernel.message import Claim, Message
from brokerproof.reference_broker.settings.settings import Settings

MESSAGE = 352
"""Octets charged for a message beside its size."""
REFERENCE = 72
"""Octets charged for its place in a queue."""


class Charge:
    """What one message occupies at its address, as long as ``holders`` (places in queues, or a
    transaction) have it."""

    __slots__ = ("_account", "_holders", "_octets", "_reference")

    def __init__(self, account: Account, octets: int, holders: int, reference: int) -> None:
        self._account = account
        self._octets = octets
        self._holders = holders
        self._reference = reference
        octets += holders * reference
        account.size += octets
        account.messages += 1
        everything = account.accounting
        everything.size += octets
        everything.messages += 1

    def release(self) -> None:
        """One holder has it no more. Called once by each."""
        account, octets = self._account, self._reference
        everything = account.accounting
        self._holders -= 1
        if not self._holders:
            octets += self._octets
            account.messages -= 1
            everything.messages -= 1
            if not account.wanted:
                everything.forget(account)
        account.size -= octets
        everything.size -= octets

    def failed(self, failures: int) -> None:
        """A delivery that failed changes nothing about memory."""


class Account:
    """The memory of one address. ``size`` in octets, ``messages`` are copies."""

    new_charge = Charge

    def __init__(self, name: str, rule: Rule, accounting: Accounting) -> None:
        self.name = name
        self.policy = rule.address_full_policy
        self.size = self.messages = 0
        self.wanted = 0
        """How many addresses of that name exist now: 0 or 1, or 2 for a moment."""
        self._max_size = rule.max_size_bytes
        self._max_messages = rule.max_size_messages
        self._threshold = rule.max_size_bytes_reject_threshold
        self.accounting = accounting

    @property
    def full(self) -> bool:
        """Whether the policy counts for the next message."""
        return (
            0 <= self._max_size <= self.size
            or 0 <= self._max_messages <= self.messages
            or self.accounting.full
        )

    @property
    def room(self) -> int | None:
        """Octets until the address is full, 0 once it is; None without a limit of its own or for
        all addresses."""
        if self.full:
            return 0
        left = [
            each for each in (self.accounting.room, self._max_size - self.size) if each is not None
        ]
        return min(left) if self._max_size >= 0 else self.accounting.room

    @property
    def rejects(self) -> bool:
        """Whether ``max-size-bytes-reject-threshold`` is reached. It belongs to BLOCK
        (ARTEMIS-FLOW-amqp-4)."""
        return self.policy is FullPolicy.BLOCK and 0 <= self._threshold <= self.size

    def charge(self, message: Message, queues: int) -> Claim:
        """Charges ``message`` for as many queues, at least one."""
        charge = self.new_charge(self, MESSAGE + message.size(), queues, REFERENCE)
        return charge if message.large is None else Held(charge, message.large, queues)

    def hold(self, message: Message) -> Claim:
        """Charges ``message`` for a transaction that has not ended."""
        charge = self.new_charge(self, MESSAGE + message.size(), 1, 0)
        return charge if message.large is None else Held(charge, message.large, 1)


class Accounting:
    """The memory of all addresses of a broker. ``size`` in octets, ``messages`` are copies."""

    new_account = Account

    def __init__(self, settings: Settings, rules: AddressRules) -> None:
        self.size = self.messages = 0
        self._max_size = settings.global_max_size_bytes
        self._max_messages = settings.global_max_messages
        self._rules = rules
        self._accounts: dict[str, Account] = {}

    @property
    def full(self) -> bool:
        """Whether all addresses together have reached a global limit."""
        return 0 <= self._max_size <= self.size or 0 <= self._max_messages <= self.messages

    @property
    def room(self) -> int | None:
        """Octets until the global limit is reached; None without one."""
        return self._max_size - self.size if self._max_size >= 0 else None

    def open(self, name: str) -> Account:
        """The account of an address that exists from now on."""
        account = self._accounts[name] = self.find(name)
        account.wanted += 1
        return account

    def close(self, account: Account) -> None:
        """The address does not exist any more. Its account stays while something is charged to
        it."""
        account.wanted -= 1
        self.forget(account)

    def find(self, name: str) -> Account:
        """The account of an address, or an empty one that nobody keeps if there is no such
        address."""
        return self._accounts.get(name) or self.new_account(name, self._rules.of(name), self)

    def forget(self, account: Account) -> None:
        """Keeps ``account`` no longer if it is of no use."""
        if (
            not account.wanted
            and not account.messages
            and self._accounts.get(account.name) is account
        ):
            del self._accounts[account.name]
