"""Deliveries, outgoing and incoming, and their dispositions (2.6.12 to 2.6.14, 2.8.6)."""

from __future__ import annotations

import struct
from collections.abc import Generator
from typing import TYPE_CHECKING, Any, Protocol

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.message import Entry, Section
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp10.framing import HEADER, frame, pieces
from brokerproof.reference_broker.protocols.amqp10.performatives import Disposition, Transfer

if TYPE_CHECKING:
    from brokerproof.reference_broker.kernel.large_body import ArrivingBody, LargeBody
    from brokerproof.reference_broker.protocols.amqp10.sections import BadMessage


class Session(Protocol):
    def settled_by_us(self, deliveries: list[Delivery], state: Any) -> None: ...


class SendingLink(Protocol):
    queue: Queue
    default_outcome: Any

    @property
    def session(self) -> Session: ...

    @property
    def is_attached(self) -> bool: ...

    def disposed(self, deliveries: list[Delivery], state: Any, settled: bool) -> None:
        """Apply what the peer reports on ``deliveries``."""

    def forget(self, deliveries: list[Delivery]) -> None:
        """Remove ``deliveries`` from the unsettled deliveries."""

    def apply(self, deliveries: list[Delivery], state: Any) -> None:
        """Settle ``deliveries`` in their queue."""

    def offer(self) -> None:
        """Send as many waiting messages as possible."""

    def resume(self) -> None:
        """Continue, because the session may send again."""


class Transaction(Protocol):
    def settled_meanwhile(self, delivery: Delivery, settled: bool) -> None:
        """Record that the peer settled ``delivery`` or that its link ended."""


class Scan(Protocol):
    """Finds the sections of a large body."""

    footer: bytearray

    def feed(self, data: bytes) -> None:
        """Examine the next bytes."""

    def finish(self) -> tuple[Section, ...]: ...


class Delivery:
    """One message that was sent and waits for its settlement. ``id`` is the delivery-id.

    ``transaction`` is the live transaction, if any, in which the peer sent an outcome.
    """

    __slots__ = ("entry", "id", "link", "transaction")

    def __init__(self, id: int, link: SendingLink, entry: Entry) -> None:
        self.id = id
        self.link = link
        self.entry = entry
        self.transaction: Transaction | None = None


class Arrival:
    """One arriving message, in one transfer or several."""

    __slots__ = (
        "_parts",
        "_problem",
        "_scan",
        "_spool",
        "id",
        "next_look",
        "resumed",
        "settled",
        "size",
        "state",
        "tag",
    )

    def __init__(self, first: Transfer) -> None:
        assert first.delivery_id is not None
        assert first.delivery_tag is not None
        self.id = first.delivery_id
        self.tag = first.delivery_tag
        self.resumed = first.resume
        self.settled = False
        self.state = first.state
        self.size = 0
        self.next_look = 0
        """The size at which to look for the start of the body again."""
        self._parts: list[bytes] = []
        self._spool: ArrivingBody | None = None
        self._scan: Scan | None = None
        self._problem: BadMessage | None = None

    @property
    def goes_elsewhere(self) -> bool:
        """True if further payload is not held in memory."""
        return self._spool is not None or self._problem is not None

    def spoil(self, problem: BadMessage) -> None:
        """Drop an invalid message completely. :meth:`finish` will report ``problem``."""
        self._problem = problem
        self._parts.clear()
        self.abandon()
        self._spool = None

    def spool_from(self, body_at: int, spool: ArrivingBody, scan: Scan) -> None:
        """Write the body, which begins at byte ``body_at`` of :meth:`payload`, and all later
        payload to ``spool``. Raises ``BadMessage`` for bytes that are not a body."""
        data = self.payload()
        self._parts = [data[:body_at]]
        self._spool, self._scan = spool, scan
        self._pour(spool, scan, data[body_at:])

    @staticmethod
    def _pour(spool: ArrivingBody, scan: Scan, data: bytes) -> None:
        scan.feed(data)
        spool.write(data)

    def finish(self) -> tuple[LargeBody, tuple[Section, ...], bytes] | None:
        """Return a large message's body, sections and footer; None if the message is not large.
        Raises ``BadMessage``."""
        if self._problem is not None:
            raise self._problem
        if self._spool is None or self._scan is None:
            return None
        body = self._spool.finish()
        return body, self._scan.finish(), bytes(self._scan.footer)

    def abandon(self) -> None:
        """Drop the rest, which will not arrive or has been refused."""
        if self._spool is not None:
            self._spool.abandon()

    def add(self, transfer: Transfer, payload: bytes) -> None:
        """Add another transfer. A delivery, once settled, stays settled (AMQP10-XFER-08,
        AMQP10-XFER-09)."""
        if transfer.settled:
            self.settled = True
        if transfer.state is not None:
            self.state = transfer.state
        if payload:
            self.size += len(payload)
            if self._spool is not None and self._scan is not None:
                self._pour(self._spool, self._scan, payload)
            elif self._problem is None:
                self._parts.append(payload)

    def payload(self) -> bytes:
        """Return all bytes of the message; for a large message, the bytes before its body."""
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)


class Batch:
    """Settlements of one side, merged into as few dispositions as their ids and states allow."""

    def __init__(self, role: bool) -> None:
        self._role = role
        self._runs: list[tuple[int, int, Any]] = []

    def __bool__(self) -> bool:
        return bool(self._runs)

    def add(self, delivery_id: int, state: Any) -> None:
        runs = self._runs
        if runs:
            first, last, before = runs[-1]
            if (last + 1) & serial_numbers.MASK == delivery_id and (
                before is state or before == state
            ):
                runs[-1] = (first, delivery_id, state)
                return
        runs.append((delivery_id, delivery_id, state))

    def take(self) -> list[Disposition]:
        runs, self._runs = self._runs, []
        return [
            Disposition(
                role=self._role,
                first=first,
                last=None if first == last else last,
                settled=True,
                state=state,
            )
            for first, last, state in runs
        ]


# --- transfers out --------------------------------------------------------------------------------

# The first transfer of a delivery is the most frequent frame, so it is packed in one call, with
# fields of fixed width: frame header, descriptor and list8; handle, delivery-id, delivery-tag (4
# bytes), message-format 0, settled.
_FIRST = struct.Struct(">IBBH6sBIBI2s4s2s")
_LIST = b"\0\x53\x14\xc0\x13\x05"  # 19 bytes with the count, 5 fields
_LIST_MORE = b"\0\x53\x14\xc0\x14\x06"
_SETTLED, _UNSETTLED = b"\x43\x41", b"\x43\x42"


def whole_transfer(
    channel: int, handle: int, id: int, tag: bytes, settled: bool, payload: bytes
) -> bytes:
    """Return the single frame of a delivery that fits into one. ``tag`` has four bytes."""
    size = _FIRST.size + len(payload)
    mode = _SETTLED if settled else _UNSETTLED
    return (
        _FIRST.pack(size, 2, 0, channel, _LIST, 0x70, handle, 0x70, id, b"\xa0\4", tag, mode)
        + payload
    )


def room(largest: int) -> int:
    """Return how many bytes of a message fit into any transfer frame of ``largest`` bytes."""
    return largest - _FIRST.size - 1


def opening_transfer(
    channel: int, handle: int, id: int, tag: bytes, settled: bool, payload: bytes, *, more: bool
) -> bytes:
    """Return the first frame of a delivery; ``payload`` is at most as long as :func:`room` says."""
    if not more:
        return whole_transfer(channel, handle, id, tag, settled, payload)
    size = _FIRST.size + 1 + len(payload)
    mode = _SETTLED if settled else _UNSETTLED
    head = _FIRST.pack(
        size, 2, 0, channel, _LIST_MORE, 0x70, handle, 0x70, id, b"\xa0\4", tag, mode
    )
    return b"".join((head, b"\x41", payload))


def more_transfer(channel: int, handle: int, payload: bytes, *, more: bool) -> bytes:
    return frame(channel, Transfer(handle=handle, more=more).encode() + payload)


def fits(payload: bytes, largest: int) -> bool:
    """Return True if ``payload`` fits into one frame of at most ``largest`` bytes."""
    return len(payload) + _FIRST.size <= largest


def transfers(
    channel: int, handle: int, id: int, tag: bytes, settled: bool, payload: bytes, largest: int
) -> Generator[bytes]:
    """Yield the frames of a delivery that needs several, none larger than ``largest`` bytes
    (AMQP10-MFS-02, AMQP10-MFS-05).

    Each frame is cut from the message on demand, so a delivery that waits for a window holds no
    second copy.
    """
    more, last = (Transfer(handle=handle, more=more).encode() for more in (True, False))
    left = len(payload)
    opening = _FIRST.size + 1
    for number, piece in enumerate(
        pieces(payload, largest - opening, largest - HEADER.size - len(more))
    ):
        left -= len(piece)
        if number == 0:
            yield opening_transfer(channel, handle, id, tag, settled, bytes(piece), more=True)
        else:
            yield frame(channel, b"".join((more if left else last, piece)))
