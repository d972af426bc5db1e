"""Counts the memory that each address's messages use, as every family does, whatever its limits.

An account exists as long as its address does or anything is charged to it."""

from abc import ABC, abstractmethod

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.kernel.message import LargeBodyClaim, Message, ResourceClaim
from brokerproof.reference_broker.settings.address_rules import AddressRules, Rule


class MemoryAccount(ABC):
    """The memory of one address. ``size`` is in bytes; ``messages`` is the number of copies."""

    def __init__(self, name: str, rule: Rule, accounting: "MemoryAccounting") -> None:
        self.name = name
        self.policy: FullPolicy = rule.address_full_policy
        self.accounting = accounting
        self.size = 0
        self.messages = 0
        self.wanted = 0
        """The number of addresses with that name that exist now: 0 or 1, briefly 2."""

    @property
    def full(self) -> bool:
        """Return True if the policy applies to the next message."""
        return False

    @property
    def room(self) -> int | None:
        """Return the bytes until the address is full: 0 if it is full, None if it is unlimited."""
        return None

    @property
    def rejects(self) -> bool:
        """Return True if messages are refused even if their producer had credit."""
        return False

    @abstractmethod
    def charge(self, message: Message, queues: int) -> ResourceClaim:
        """Charge ``message`` for this many queues, at least one."""

    @abstractmethod
    def charge_transaction(self, message: Message) -> ResourceClaim: ...


class MemoryAccounting(ABC):
    """The memory of all addresses of a broker. ``size`` in bytes, ``messages`` are copies."""

    def __init__(self, rules: AddressRules) -> None:
        self.size = 0
        self.messages = 0
        self._rules = rules
        self._accounts: dict[str, MemoryAccount] = {}

    @abstractmethod
    def new_account(self, name: str, rule: Rule) -> MemoryAccount: ...

    @property
    def full(self) -> bool:
        """Return True if all addresses together have reached a limit."""
        return False

    @property
    def room(self) -> int | None:
        """Return the bytes until all addresses together reach their limit; None if unlimited."""
        return None

    def open(self, name: str) -> MemoryAccount:
        account = self._accounts[name] = self.find(name)
        account.wanted += 1
        return account

    def close(self, account: MemoryAccount) -> None:
        """Record the end of an address. Its account stays while anything is charged to it."""
        account.wanted -= 1
        self.forget(account)

    def find(self, name: str) -> MemoryAccount:
        """Return the account of an address, or a temporary empty one if it does not exist."""
        return self._accounts.get(name) or self.new_account(name, self._rules.of(name))

    def forget(self, account: MemoryAccount) -> None:
        """Drop ``account`` if it is unused."""
        if (
            not account.wanted
            and not account.messages
            and self._accounts.get(account.name) is account
        ):
            del self._accounts[account.name]


class Charge:
    """The memory charged for one message at its address until all ``holders`` (places in queues,
    or a transaction) have released it."""

    __slots__ = ("_account", "_holders", "_reference", "_size")

    def __init__(self, account: MemoryAccount, size: int, holders: int, reference: int) -> None:
        self._account = account
        self._size = size
        self._holders = holders
        self._reference = reference
        size += holders * reference
        account.size += size
        account.messages += 1
        everything = account.accounting
        everything.size += size
        everything.messages += 1

    def release(self) -> None:
        """Release the share of one holder. Each holder calls this once."""
        account, size = self._account, self._reference
        everything = account.accounting
        self._holders -= 1
        if not self._holders:
            size += self._size
            account.messages -= 1
            everything.messages -= 1
            if not account.wanted:
                everything.forget(account)
        account.size -= size
        everything.size -= size

    def failed(self, failures: int) -> None:
        """Do nothing, because a failed delivery does not change memory."""


class UnlimitedAccount(MemoryAccount):
    """An address that is never full; the bytes of its messages are counted."""

    def charge(self, message: Message, queues: int) -> ResourceClaim:
        charge = Charge(self, message.size(), queues, 0)
        return charge if message.large is None else LargeBodyClaim(charge, message.large, queues)

    def charge_transaction(self, message: Message) -> ResourceClaim:
        return self.charge(message, 1)


class UnlimitedAccounting(MemoryAccounting):
    """The memory of a broker without address limits."""

    def new_account(self, name: str, rule: Rule) -> MemoryAccount:
        return UnlimitedAccount(name, rule, self)
