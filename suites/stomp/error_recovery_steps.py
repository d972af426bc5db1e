"""How a connection that broke a rule ends, and whether other connections are still served."""

from collections.abc import Sequence
from dataclasses import dataclass

from brokerproof.suites.api import PATIENCE, Bench, CloseHow, Duration, Match, Requirements, ms
from brokerproof.suites.api.stomp import ERROR, Frame, StompPeer, frame

MOMENT: Duration = ms(300)
"""The case waits this long for the broker to react before it asks for a receipt."""
BEFORE_HANDSHAKE_TIMEOUT: Duration = ms(6500)
"""Time within which a refused client must be disconnected. Later, a broker's handshake timeout
(usually 10 s) would end the connection anyway."""


@dataclass(frozen=True)
class Fate:
    """The broker's reaction on a connection: an ERROR, a close, or neither."""

    error: Frame | None
    ended: CloseHow | None
    answered: bool
    """True if a frame sent afterwards was answered as usual."""

    @property
    def refused(self) -> bool:
        """True if the broker sent an ERROR or ended the connection."""
        return self.error is not None or self.ended is not None

    @property
    def explained(self) -> bool:
        """True if an ERROR arrived. If a reset may have overtaken the ERROR (STOMP11-CONNECT-05,
        STOMP12-LINGER-02), the bench reports no violation."""
        return self.error is not None

    def __str__(self) -> str:
        answer = [] if self.error is None else [f"the broker sent {self.error.brief()}"]
        answer += [] if self.ended is None else [f"the connection ended ({self.ended})"]
        answer += (
            ["the connection stayed open"] if self.error is not None and self.ended is None else []
        )
        if not answer:
            answer = [
                "the broker continued without an ERROR"
                if self.answered
                else "the broker fell silent"
            ]
        return " and ".join(answer)


def fate(
    target: Bench, peer: StompPeer, *, within: Duration = PATIENCE, end_within: Duration = PATIENCE
) -> Fate:
    return fates(target, [peer], within=within, end_within=end_within)[0]


def fate_of_stranger(target: Bench, peer: StompPeer) -> Fate:
    """Return the fate of a client that never received CONNECTED."""
    return fate(target, peer, end_within=BEFORE_HANDSHAKE_TIMEOUT)


def fates(
    target: Bench,
    peers: Sequence[StompPeer],
    *,
    within: Duration = PATIENCE,
    end_within: Duration = PATIENCE,
) -> list[Fate]:
    """Give the broker a moment to react on its own. If it does not, ask for a receipt (in an empty
    transaction) and wait ``within``. After an ERROR, wait for the connection to close; the caller
    decides whether the close was required."""

    def refused(peer: StompPeer) -> bool:
        return peer.ended is not None or any(received.command == "ERROR" for received in peer.inbox)

    target.wait_until(lambda: all(refused(peer) for peer in peers), MOMENT)
    probes: dict[int, Match[Frame]] = {}
    for peer in peers:
        if not refused(peer):
            receipt = peer.next_receipt()
            probes[peer.conn] = frame("RECEIPT", {"receipt-id": receipt})
            transaction = f"{peer.transaction}-{receipt}"
            peer.send("BEGIN", {"transaction": transaction, "receipt": receipt})

    def answered(peer: StompPeer) -> bool:
        return peer.conn in probes and any(
            probes[peer.conn].accepts(received) for received in peer.inbox
        )

    target.wait_until(lambda: all(refused(peer) or answered(peer) for peer in peers), within)
    errors = {peer.conn: peer.take(ERROR) for peer in peers}
    reported = [peer for peer in peers if errors[peer.conn] is not None]
    target.wait_until(lambda: all(peer.ended is not None for peer in reported), end_within)
    return [
        Fate(errors[peer.conn], None if peer.ended is None else peer.ended.how, answered(peer))
        for peer in peers
    ]


class Bystander:
    """A well-behaved connection. It publishes to itself before and after the offence."""

    def __init__(self, target: Bench, version: str) -> None:
        self._peer = target.stomp(version)
        self._to = target.destination()
        self._peer.subscribe(self._to, "bystander")
        self._said = 0
        self.check()

    def check(self, *, proves: Requirements | None = None) -> None:
        """Publish once more: the receipt (a control) and the message must arrive."""
        self._said += 1
        body = b"bystander %d" % self._said
        self._peer.publish(self._to, body, proves=proves)
        self._peer.message(body=body, proves=proves)
