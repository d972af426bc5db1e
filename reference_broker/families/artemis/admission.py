"""Admission of messages to an address, checked before producers get credit and before each message.

=======  ===========================================================================================================
policy   of a full address (:mod:`brokerproof.reference_broker.families.artemis.accounting`)
=======  ===========================================================================================================
PAGE     accepts everything; :class:`brokerproof.reference_broker.kernel.address.Pages` store what exceeds memory
BLOCK    gives producers no credit; in protocols without credit, they wait with their message. Messages sent with earlier
         credit are accepted (ARTEMIS-FLOW-amqp-2, -3), up to ``max-size-bytes-reject-threshold`` (ARTEMIS-FLOW-amqp-4)
FAIL     refuses each message and notifies its producer
DROP     accepts each message and discards it
=======  ===========================================================================================================

Only BLOCK makes producers wait (ARTEMIS-FLOW-block-3). Waiting producers continue when there is
room again: at the end of the input that made room, in order of waiting, as long as there is room.
"""  # noqa: E501

from collections.abc import Callable

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl, Disk, Verdict

_OF_FULL = {
    FullPolicy.BLOCK: Verdict.WAIT,
    FullPolicy.FAIL: Verdict.REFUSE,
    FullPolicy.DROP: Verdict.DROP,
}


class Admission(AdmissionControl):
    """Makes producers wait if the policy of a full address requires it."""

    def __init__(self, accounting: MemoryAccounting, disk: Disk | None = None) -> None:
        super().__init__(disk)
        self._accounting = accounting
        self._waiting: dict[str, dict[Callable[[], None], int | None]] = {}
        """Waiting producers by address, each with the address size at which it was last refused."""
        self._where: dict[Callable[[], None], str] = {}

    def has_room(self, address: str, on_room: Callable[[], None]) -> bool:
        if self._is_open(address):
            return True
        self._wait(address, on_room, None)
        return False

    def wait_for_change(self, address: str, on_room: Callable[[], None]) -> None:
        self._wait(address, on_room, self._accounting.find(address).size)

    def _wait(self, address: str, on_room: Callable[[], None], size: int | None) -> None:
        self.forget(on_room)
        self._waiting.setdefault(address, {})[on_room] = size
        self._where[on_room] = address

    def forget(self, on_room: Callable[[], None]) -> None:
        address = self._where.pop(on_room, None)
        if address is not None:
            waiting = self._waiting[address]
            del waiting[on_room]
            if not waiting:
                del self._waiting[address]

    def judge(self, address: str, *, by_credit: bool) -> Verdict:
        if self.storing is not None:
            verdict = self.storing(address)
            if verdict is not Verdict.TAKE:
                return verdict
        account = self._accounting.find(address)
        policy = account.policy
        if policy is FullPolicy.PAGE:
            return Verdict.TAKE
        if by_credit and account.rejects:
            return Verdict.REFUSE
        return _OF_FULL[policy] if account.full else Verdict.TAKE

    def next(self) -> Callable[[], None] | None:
        for address, waiting in self._waiting.items():
            if self._is_open(address):
                size = self._accounting.find(address).size
                on_room = next(
                    (callback for callback, then in waiting.items() if then != size), None
                )
                if on_room is not None:
                    self.forget(on_room)
                    return on_room
        return None

    def _is_open(self, address: str) -> bool:
        if not address:
            return True
        account = self._accounting.find(address)
        return account.policy is not FullPolicy.BLOCK or not account.full
