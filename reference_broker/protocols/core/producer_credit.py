"""Credit of producers, in octets: what one session may send to one address (manual, chapter on flow
control).

A producer asks for credit, and pays for a message what its encoding has in octets
(ARTEMIS-FLOW-producer-1). Nobody looks here whether it keeps to it: that is the client's part
(ARTEMIS-FLOW-block-5).

1. An address that is not full gives what was asked for. One that is full under BLOCK gives it when
   it has room again; what was asked for first is given first. One that is full under FAIL refuses
   it, and the client tells its user.
2. *Within the room*: of an address with a maximum size under BLOCK a producer gets no more than its
   room, what it has and did not use taken off (ARTEMIS-FLOW-producer-2). The rest is given when
   there is more room. So one producer that keeps to its credit can pass the maximum by what a
   message is charged beyond its octets, and several by about their windows together
   (ARTEMIS-FLOW-producer-3).

Rule 2 is the manual's. Release 2.56.0 gives all that was asked for as long as the address is not
full (ServerSessionImpl.requestProducerCredits, PagingStoreImpl.checkMemory):
``core_grants_within_room`` turns the rule off.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl


class Grants:
    """The credit of one session at one address. ``grant`` and ``refuse`` tell the peer, in octets;
    ``observe`` is told of branches with their requirements."""

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
        """What was granted and not spent; 0 or more."""
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
        """The peer asks for as much."""
        account = self._accounting.find(self._address)
        if account.policy is FullPolicy.FAIL and account.full:
            self._refuse(credits)
            return
        self._due.append(credits)
        if len(self._due) == 1:
            self.offer()

    def spent(self, octets: int) -> None:
        """A message of as many octets came."""
        self.outstanding = max(0, self.outstanding - octets)

    def offer(self) -> None:
        """Gives what is due, as far as that is possible now."""
        while self._due:
            if not self._admission.has_room(self._address, self._on_room):
                self._observe(
                    "ARTEMIS-FLOW-block-1",
                    f"{self._address} is full: {self._due[0]} octets are not granted",
                )
                return
            wanted = self._due[0]
            credits = min(wanted, self.most())
            if credits > 0 or not wanted:
                self.outstanding += credits
                self._grant(credits)
            if credits < wanted:
                self._observe(
                    "ARTEMIS-FLOW-producer-2",
                    f"{self._address} has room for {credits} octets of {wanted}",
                )
                self._due[0] = wanted - credits
                self._admission.wait_for_change(self._address, self._on_room)
                return
            self._due.popleft()

    def most(self) -> int:
        """How much can be given at once."""
        account = self._accounting.find(self._address)
        room = account.room if self._within_room and account.policy is FullPolicy.BLOCK else None
        return 2**31 - 1 if room is None else max(0, room - self.outstanding)

    def close(self) -> None:
        """The session is over."""
        self._due.clear()
        self._admission.forget(self._on_room)
