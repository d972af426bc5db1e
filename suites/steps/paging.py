"""Paging addresses: fill them, check that they page, consume everything.

The broker's management reports whether an address paged. If it did not page, the case judges
nothing.
"""

from collections.abc import Sequence

from hypothesis import strategies as st

from brokerproof.harness.clients.artemis_management import Admin
from brokerproof.suites.api import PATIENCE, RECONFIGURABLE, Bench, Duration, Target, Where
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer
from brokerproof.suites.steps import small_addresses
from brokerproof.suites.steps.queues import QUIET

SIZE = 1000
"""Size of a body in bytes. A full address or a page holds ten to fifteen of them."""


def send(
    to: Destination,
    peer: StompPeer,
    numbers: Sequence[int],
    size: int = SIZE,
    headers: dict[str, str] | None = None,
) -> None:
    """Send messages that contain their numbers, in order. The receipt of the last confirms all."""
    for number in numbers:
        peer.publish(
            to, small_addresses.body(number, size), headers or {}, receipt=number == numbers[-1]
        )


def paged(target: Bench, admin: Admin, name: str) -> bool:
    """True if the address entered page mode and has pages."""
    state, reached = admin.until(name, lambda status: status.paging and status.pages > 0)
    if not reached:
        target.record_note(f"nothing to judge: {name} wrote no page ({state})")
    return reached


def left(target: Bench, admin: Admin, name: str) -> bool:
    """True if the address has left page mode; brokers clean up in the background."""
    state, reached = admin.until(name, lambda status: not status.paging)
    target.record_note(f"{name} {'left' if reached else 'did not leave'} page mode: {state}")
    return reached


def everywhere(target: Target) -> list[Where]:
    """Return the usual acceptor and, if there is one, an acceptor whose addresses page
    everything."""
    acceptor = target.identity.default_amqp_acceptor
    usual = Where(acceptor)
    if not {RECONFIGURABLE, "paging"} <= target.identity.capabilities:
        return [usual]
    return [usual, Where(acceptor, {"address": {"max_size_bytes": 0}})]


def places_of_all(target: Target) -> st.SearchStrategy[Where]:
    """Draw one of :func:`everywhere`."""
    return st.sampled_from(everywhere(target))


class Taker:
    """A STOMP subscription that acknowledges each message on arrival and records its number."""

    def __init__(
        self,
        target: Bench,
        to: Destination,
        *,
        window: int = -1,
        headers: dict[str, str] | None = None,
    ) -> None:
        self._target = target
        self.peer = target.stomp()
        self.found: list[int] = []
        self.marked: set[int] = set()
        more = {"consumer-window-size": str(window), **(headers or {})}
        self.peer.subscribe(to, ack="client-individual", headers=more)

    def take(self, count: int, *, within: Duration = PATIENCE) -> list[int]:
        """Acknowledge until ``count`` messages have arrived or none arrives ``within``; return
        all."""
        while len(self.found) < count and self._some(within):
            self._acknowledge(count - len(self.found))
        return self.found

    def rest(self) -> list[int]:
        """Return the messages that arrive for a while after the last expected one."""
        while self._some(QUIET):
            self._acknowledge(10**6)
        return self.found

    def waiting(self) -> list[Frame]:
        """Return the unacknowledged messages once no more have arrived for a while."""
        self._some(PATIENCE)
        count = 0
        while count != len(self._messages()):
            count = len(self._messages())
            self._target.wait_until(lambda: len(self._messages()) > count, QUIET)  # noqa: B023 (called at once)
        return self._messages()

    def _messages(self) -> list[Frame]:
        return [received for received in self.peer.inbox if received.command == "MESSAGE"]

    def _some(self, within: Duration) -> bool:
        self._target.wait_until(
            lambda: bool(self._messages()) or self.peer.ended is not None, within
        )
        return bool(self._messages())

    def _acknowledge(self, most: int) -> None:
        for message in self._messages()[:most]:
            self.peer.inbox.remove(message)
            self.found.append(small_addresses.number_of(message.body))
            if message.get("redelivered") == "true":
                self.marked.add(self.found[-1])
            self.peer.ack(message)

    def all(self, count: int) -> list[int]:
        """Return ``count`` messages, and any surplus."""
        self.take(count)
        return self.rest()


def brief(numbers: Sequence[int]) -> str:
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    text = ", ".join(
        f"{first}" if first == last else f"{first}-{last}" for first, last in runs[:20]
    )
    return (text or "nothing") + (" …" if len(runs) > 20 else "")
