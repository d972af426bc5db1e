"""Faults of AMQP transfers: what names a delivery, what settles it, what aborts it, and what
messages carry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.large_body import LargeBody
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.amqp10.delivery import Arrival
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.link import Link
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import SECOND, Transfer
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frames import saying
from brokerproof.suites.mutation.mutant import Group, Reached

amqp_transfers = Group("amqp-transfers")


def _sending(parts: Parts, reached: Reached, change: Callable[[Transfer], None]) -> Parts:
    """``change`` is made to every transfer of ours."""

    def changed(performative: Any) -> Any:
        if isinstance(performative, Transfer):
            change(performative)
        return performative

    return saying(parts, reached, changed)


def _first(**fields: Any) -> Callable[[Transfer], None]:
    def change(transfer: Transfer) -> None:
        if transfer.delivery_id is not None:
            for name, value in fields.items():
                setattr(transfer, name, value)

    return change


# --- on the way out -------------------------------------------------------------------------------


@amqp_transfers.mutant("AMQP10-XFER-01")
def no_delivery_id(parts: Parts, reached: Reached) -> Parts:
    """The first transfer of a delivery has no delivery-id."""
    return _sending(parts, reached, _first(delivery_id=None))


@amqp_transfers.mutant("AMQP10-XFER-04")
def no_delivery_tag(parts: Parts, reached: Reached) -> Parts:
    """The first transfer of a delivery has no delivery-tag."""
    return _sending(parts, reached, _first(delivery_tag=None))


@amqp_transfers.mutant("AMQP10-XFER-06")
def one_tag_for_all(parts: Parts, reached: Reached) -> Parts:
    """All deliveries have the same delivery-tag."""
    return _sending(parts, reached, _first(delivery_tag=b"tag"))


@amqp_transfers.mutant("AMQP10-XFER-05")
def long_tags(parts: Parts, reached: Reached) -> Parts:
    """Delivery-tags have 36 octets."""

    def change(transfer: Transfer) -> None:
        if transfer.delivery_tag is not None:
            transfer.delivery_tag = transfer.delivery_tag * 9

    return _sending(parts, reached, change)


@amqp_transfers.mutant("AMQP10-XFER-07")
def no_message_format(parts: Parts, reached: Reached) -> Parts:
    """The first transfer of a delivery has no message-format."""
    return _sending(parts, reached, _first(message_format=None))


@amqp_transfers.mutant("AMQP10-DISP-06")
def delivery_ids_skip(parts: Parts, reached: Reached) -> Parts:
    """delivery-ids go up by two."""

    class Faulty(OutgoingLink):
        def deliver(self, entry: Entry) -> None:
            super().deliver(entry)
            self.session.next_delivery_id = serial_numbers.add(self.session.next_delivery_id, 1)
            reached()

    return replace(parts, outgoing=Faulty)


@amqp_transfers.mutant("AMQP10-DISP-06 AMQP10-MFS-05 AMQP10-WIN-12")
def delivery_ids_count_transfers(parts: Parts, reached: Reached) -> Parts:
    """A message in several transfers takes two delivery-ids."""

    class Faulty(OutgoingLink):
        def _send(self, id: int, payload: bytes, large: LargeBody | None) -> None:
            super()._send(id, payload, large)
            if len(payload) > self.session.connection.peer_max_frame_size:
                reached()
                self.session.next_delivery_id = serial_numbers.add(self.session.next_delivery_id, 1)

    return replace(parts, outgoing=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-10")
def settled_is_not_said(parts: Parts, reached: Reached) -> Parts:
    """On a link agreed as settled no transfer is settled."""

    class Faulty(OutgoingLink):
        def _send(self, id: int, payload: bytes, large: LargeBody | None) -> None:
            before, self._presettled = self._presettled, False
            reached.instead(before, False)
            super()._send(id, payload, large)
            self._presettled = before

    return replace(parts, outgoing=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-11")
def settled_where_unsettled_was_agreed(parts: Parts, reached: Reached) -> Parts:
    """On a link agreed as unsettled deliveries are settled when they are sent."""

    class Faulty(OutgoingLink):
        def _send(self, id: int, payload: bytes, large: LargeBody | None) -> None:
            before = self._presettled
            self._presettled = reached.instead(before, before or self.snd_settle_mode == 0)
            super()._send(id, payload, large)
            self._presettled = before

    return replace(parts, outgoing=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-16")
def second_where_first_was_agreed(parts: Parts, reached: Reached) -> Parts:
    """Transfers say rcv-settle-mode second, whatever was agreed."""
    return _sending(parts, reached, _first(rcv_settle_mode=SECOND))


# --- on the way in --------------------------------------------------------------------------------


@amqp_transfers.mutant("AMQP10-XFER-03 AMQP10-XFER-25 AMQP10-XFER-26")
def names_may_change(parts: Parts, reached: Reached) -> Parts:
    """A transfer that continues a delivery may have another id, tag and format."""

    class Faulty(IncomingLink):
        @staticmethod
        def _check_same(arrival: Arrival, transfer: Transfer) -> None:
            try:
                IncomingLink._check_same(arrival, transfer)
            except Refusal:
                reached()

    return replace(parts, incoming=Faulty)


def _taking(
    parts: Parts, reached: Reached, change: Callable[[IncomingLink, Transfer], None]
) -> Parts:
    """``change`` is made to every transfer of the peer."""

    class Faulty(IncomingLink):
        def transfer(self, transfer: Transfer, payload: bytes) -> None:
            before = transfer.encode()
            change(self, transfer)
            if transfer.encode() != before:
                reached()
            super().transfer(transfer, payload)

    return replace(parts, incoming=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-18 AMQP10-XFER-12")
def aborted_passed_over(parts: Parts, reached: Reached) -> Parts:
    """An aborted transfer is taken for one that is not."""

    def change(link: IncomingLink, transfer: Transfer) -> None:
        transfer.aborted = False

    return _taking(parts, reached, change)


@amqp_transfers.mutant("AMQP10-XFER-12")
def more_counts_before_aborted(parts: Parts, reached: Reached) -> Parts:
    """Of more and aborted more counts: the delivery goes on."""

    def change(link: IncomingLink, transfer: Transfer) -> None:
        transfer.aborted = transfer.aborted and not transfer.more

    return _taking(parts, reached, change)


@amqp_transfers.mutant("AMQP10-XFER-18")
def aborted_is_answered(parts: Parts, reached: Reached) -> Parts:
    """An aborted delivery is settled by a disposition."""

    class Faulty(IncomingLink):
        def transfer(self, transfer: Transfer, payload: bytes) -> None:
            arrival = self.arriving
            super().transfer(transfer, payload)
            if transfer.aborted and arrival is not None:
                reached()
                self.session.settle_incoming(arrival.id, None)

    return replace(parts, incoming=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-09")
def only_the_last_transfer_settles(parts: Parts, reached: Reached) -> Parts:
    """A delivery is settled only if its last transfer says so."""

    class Faulty(IncomingLink):
        def _check_settled(self, arrival: Arrival) -> None:
            arrival.settled = reached.instead(arrival.settled, self.settles)
            super()._check_settled(arrival)

        def transfer(self, transfer: Transfer, payload: bytes) -> None:
            self.settles = bool(transfer.settled)
            super().transfer(transfer, payload)

    return replace(parts, incoming=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-09")
def only_the_first_transfer_settles(parts: Parts, reached: Reached) -> Parts:
    """A delivery is settled only if its first transfer says so."""

    def change(link: IncomingLink, transfer: Transfer) -> None:
        if link.arriving is not None:
            transfer.settled = None

    return _taking(parts, reached, change)


@amqp_transfers.mutant("AMQP10-XFER-08 AMQP10-XFER-14")
def settled_where_nothing_is_said(parts: Parts, reached: Reached) -> Parts:
    """A delivery that does not say whether it is settled is."""

    def change(link: IncomingLink, transfer: Transfer) -> None:
        if transfer.settled is None:
            transfer.settled = True

    return _taking(parts, reached, change)


@amqp_transfers.mutant("AMQP10-XFER-14")
def waits_for_the_sender(parts: Parts, reached: Reached) -> Parts:
    """The broker tells an outcome and leaves it to the sender to settle."""

    class Faulty(Session):
        def settle_incoming(self, delivery_id: int, state: Any) -> None:
            reached()
            super().settle_incoming(delivery_id, state)
            self._batch.take = _unsettled(self._batch.take)  # type: ignore[method-assign]

    def _unsettled(right: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
        def take() -> list[Any]:
            said = right()
            for each in said:
                each.settled = None
            return said

        return take

    return replace(parts, session=Faulty)


@amqp_transfers.mutant("AMQP10-XFER-17")
def mode_of_settled_transfers_read(parts: Parts, reached: Reached) -> Parts:
    """A settled transfer that says second on a link of mode first is refused."""

    class Faulty(IncomingLink):
        def transfer(self, transfer: Transfer, payload: bytes) -> None:
            settled = transfer.settled
            if transfer.rcv_settle_mode == SECOND and settled:
                reached()
                transfer.settled = None
            super().transfer(transfer, payload)

    return replace(parts, incoming=Faulty)


@amqp_transfers.mutant("AMQP10-SESS-03 AMQP10-CLOSE-01")
def transfers_for_nothing_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A transfer for a handle that is not attached, or on which the broker sends, is passed
    over."""

    class Sending(OutgoingLink):
        def transfer(self, transfer: Transfer, payload: bytes) -> None:
            reached()

    class Faulty(Session):
        def _link(self, handle: int, what: str) -> Link | None:
            if what == "a transfer" and handle not in self.links:
                reached()
                return None
            return super()._link(handle, what)

    return replace(parts, outgoing=Sending, session=Faulty)


# --- what messages carry --------------------------------------------------------------------------


def _arriving(parts: Parts, reached: Reached, change: Callable[[AmqpMessage], None]) -> Parts:
    """``change`` is made to every message that came by AMQP."""

    class Faulty(IncomingLink):
        def _take(self, message: AmqpMessage, send: Any) -> Any:
            before = (
                message.prefix,
                message.ttl,
                message.annotations,
                message.bare,
                message.arrived,
            )
            change(message)
            if before != (
                message.prefix,
                message.ttl,
                message.annotations,
                message.bare,
                message.arrived,
            ):
                reached()
            return super()._take(message, send)

    return replace(parts, incoming=Faulty)


@amqp_transfers.mutant("AMQP10-MSG-01 ARTEMIS-CROSSING-header-1")
def durability_and_priority_lost(parts: Parts, reached: Reached) -> Parts:
    """A header's durable and priority do not go on."""

    def change(message: AmqpMessage) -> None:
        message.prefix = b"\x40\x40"

    return _arriving(parts, reached, change)


@amqp_transfers.mutant("AMQP10-MSG-08")
def ttl_as_it_came(parts: Parts, reached: Reached) -> Parts:
    """A ttl goes on as it came, however long the message waited."""

    class Faulty(OutgoingLink):
        def deliver(self, entry: Entry) -> None:
            message = entry.message
            if isinstance(message, AmqpMessage) and message.ttl is not None:
                reached()
                message.arrived = self.session.shared.now + self.session.shared.epoch
            super().deliver(entry)

    return replace(parts, outgoing=Faulty)


@amqp_transfers.mutant("AMQP10-MSG-10 AMQP10-OUT-13")
def annotations_lost(parts: Parts, reached: Reached) -> Parts:
    """Message-annotations do not go on."""

    def change(message: AmqpMessage) -> None:
        message.annotations = b""

    return _arriving(parts, reached, change)


@amqp_transfers.mutant("AMQP10-MSG-02 AMQP10-MFS-05")
def last_octet_changed(parts: Parts, reached: Reached) -> Parts:
    """The last octet of a message of more than 1000 octets is another one."""

    class Faulty(OutgoingLink):
        def _send(self, id: int, payload: bytes, large: LargeBody | None) -> None:
            if len(payload) > 1000:
                reached()
                payload = payload[:-1] + bytes([payload[-1] ^ 1])
            super()._send(id, payload, large)

    return replace(parts, outgoing=Faulty)


@amqp_transfers.mutant("ARTEMIS-CONCEPTS-queue-1", recreates="ARTEMIS-4820")
def long_ttl_over_at_once(parts: Parts, reached: Reached) -> Parts:
    """A ttl of 2^31 ms and more is taken for a negative one: the message is accepted and expires at
    once."""

    class Faulty(IncomingLink):
        def _take(self, message: AmqpMessage, send: Any) -> Any:
            if message.ttl is None or message.ttl < 2**31:
                return super()._take(message, send)
            reached()
            return ACCEPTED

    return replace(parts, incoming=Faulty)
