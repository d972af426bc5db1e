"""Producers' credit, in bytes: what one session may send to one address (manual, chapter on flow
control).

A producer requests credit, and each message costs the bytes of its encoding
(ARTEMIS-FLOW-producer-1). The broker does not check this: the client enforces its own credit
(ARTEMIS-FLOW-block-5).

1. An address that is not full grants the request. One that is full under BLOCK grants it once it
   has room again, in order of request. One that is full under FAIL refuses it, and the client
   reports that to its user.
2. *Within the room*: if an address has a maximum size under BLOCK, a producer gets no more than its
   room, less the producer's unused credit (ARTEMIS-FLOW-producer-2). The rest is granted when there
   is more room. So one producer within its credit can exceed the maximum only by the overhead
   charged for each message, several by about the sum of their windows (ARTEMIS-FLOW-producer-3).

Rule 2 is the manual's. Release 2.56.0 grants every request in full while the address is not full
(ServerSessionImpl.requestProducerCredits, PagingStoreImpl.checkMemory): ``core_grants_within_room``
turns the rule off.
"""

from collections import deque
from collections.abc import Callable

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl


class Grants:
    """The credit of one session at one address. ``grant`` and ``refuse`` report bytes to the peer;
    ``observe`` records branches with their requirements."""

    def __init__(
        self,
        address: str,
        accounting: MemoryAccounting,
        admission: AdmissionControl,
        within_room: bool,
        grant: Callable[[int], None],
        refuse: Callable[[int], None],
        observe: Callable[[str, str], None],
    ) -> None:
        self.outstanding = 0
        """Credit granted but not yet spent; 0 or more."""
        self._address = address
        self._accounting = accounting
        self._admission = admission
        self._within_room = within_room
        self._grant = grant
        self._refuse = refuse
        self._observe = observe
        self._due: deque[int] = deque()
        self._on_room = self.offer

    def request(self, credits: int) -> None:
        """Grant ``credits`` when possible, or refuse them."""
        account = self._accounting.find(self._address)
        if account.policy is FullPolicy.FAIL and account.full:
            self._refuse(credits)
            return
        self._due.append(credits)
        if len(self._due) == 1:
            self.offer()

    def spent(self, size: int) -> None:
        """Subtract the cost of a message from the outstanding credit."""
        self.outstanding = max(0, self.outstanding - size)

    def offer(self) -> None:
        """Grant the requested credit as far as possible now."""
        while self._due:
            if not self._admission.has_room(self._address, self._on_room):
                self._observe(
                    "ARTEMIS-FLOW-block-1",
                    f"{self._address} is full: {self._due[0]} bytes are not granted",
                )
                return
            requested = self._due[0]
            credits = min(requested, self.most())
            if credits > 0 or not requested:
                self.outstanding += credits
                self._grant(credits)
            if credits < requested:
                self._observe(
                    "ARTEMIS-FLOW-producer-2",
                    f"{self._address} has room for {credits} bytes of {requested}",
                )
                self._due[0] = requested - credits
                self._admission.wait_for_change(self._address, self._on_room)
                return
            self._due.popleft()

    def most(self) -> int:
        """Return how much can be granted now."""
        account = self._accounting.find(self._address)
        room = account.room if self._within_room and account.policy is FullPolicy.BLOCK else None
        return 2**31 - 1 if room is None else max(0, room - self.outstanding)

    def close(self) -> None:
        """Drop all requests, because the session is closed."""
        self._due.clear()
        self._admission.forget(self._on_room)
