"""Faults of AMQP transfers: identification, settlement and abortion of deliveries, and the content
of messages."""

from collections.abc import Callable
from typing import Any
from unittest import mock

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.protocols.amqp10.incoming import ACCEPTED, IncomingLink
from brokerproof.reference_broker.protocols.amqp10.message import AmqpMessage
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import SECOND, Error, Transfer
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frame_changes import sent
from brokerproof.suites.mutation.mutant import Group, breaks

amqp_transfers = Group("amqp-transfers")


def _first_sent(patch, reached, change):
    """Apply ``change`` to the first transfer of each of the broker's deliveries."""

    def first(transfer: Transfer) -> None:
        if transfer.delivery_id is not None:
            change(transfer)

    sent(Transfer)(patch, reached, first)


@amqp_transfers.before(Session, "_transfer", breaks="AMQP10-MSG-02")
def one_delivery_at_a_time(reached, self, transfer, payload):
    """A transfer continues the delivery that another link of its session has begun."""
    for handle, link in self.links.items():
        if isinstance(link, IncomingLink) and link.arriving and reached(handle != transfer.handle):
            transfer.handle = handle


@amqp_transfers.override(IncomingLink, "transfer", breaks="AMQP10-MSG-02")
def the_ninth_piece_is_the_eighth(original, reached, self, transfer, payload):
    """The ninth transfer of a delivery has the content of the eighth, if that has the same
    length."""
    self.pieces = 1 if self.arriving is None else self.pieces + 1
    same = self.pieces == 9 and len(payload) == len(self.last_piece)
    if same and reached(payload != self.last_piece):
        payload = self.last_piece
    self.last_piece = payload
    original(self, transfer, payload)


# --- on the way out -------------------------------------------------------------------------------


@amqp_transfers.through(_first_sent, "AMQP10-XFER-01")
def no_delivery_id(transfer):
    """The first transfer of a delivery has no delivery-id."""
    transfer.delivery_id = None


@amqp_transfers.through(_first_sent, "AMQP10-XFER-04")
def no_delivery_tag(transfer):
    """The first transfer of a delivery has no delivery-tag."""
    transfer.delivery_tag = None


@amqp_transfers.through(_first_sent, "AMQP10-XFER-06")
def one_tag_for_all(transfer):
    """All deliveries have the same delivery-tag."""
    transfer.delivery_tag = b"tag"


@amqp_transfers.through(sent(Transfer), "AMQP10-XFER-05")
def long_tags(transfer):
    """Delivery-tags have 36 bytes."""
    if transfer.delivery_tag is not None:
        transfer.delivery_tag = transfer.delivery_tag * 9


@amqp_transfers.through(_first_sent, "AMQP10-XFER-07")
def no_message_format(transfer):
    """The first transfer of a delivery has no message-format."""
    transfer.message_format = None


@amqp_transfers.after(OutgoingLink, "deliver", breaks="AMQP10-DISP-06")
def delivery_ids_skip(reached, self, entry):
    """delivery-ids go up by two."""
    self.session.next_delivery_id = serial_numbers.add(self.session.next_delivery_id, 1)
    reached()


@amqp_transfers.after(OutgoingLink, "_send", breaks="AMQP10-DISP-06 AMQP10-MFS-05 AMQP10-WIN-12")
def delivery_ids_count_transfers(reached, self, id, payload, large):
    """A message in several transfers takes two delivery-ids."""
    if reached(len(payload) > self.session.connection.peer_max_frame_size):
        self.session.next_delivery_id = serial_numbers.add(self.session.next_delivery_id, 1)


@amqp_transfers.override(OutgoingLink, "_send", breaks="AMQP10-XFER-10")
def settled_is_not_said(original, reached, self, id, payload, large):
    """On a link negotiated as settled, no transfer is settled."""
    before, self._presettled = self._presettled, False
    reached.instead(before, False)
    original(self, id, payload, large)
    self._presettled = before


@amqp_transfers.override(OutgoingLink, "_send", breaks="AMQP10-XFER-11")
def settled_where_unsettled_was_agreed(original, reached, self, id, payload, large):
    """On a link negotiated as unsettled, deliveries are sent settled."""
    settled = reached.instead(self._presettled, self._presettled or self.snd_settle_mode == 0)
    with mock.patch.object(self, "_presettled", settled):
        original(self, id, payload, large)


@amqp_transfers.through(_first_sent, "AMQP10-XFER-16")
def second_where_first_was_agreed(transfer):
    """Transfers state rcv-settle-mode second, whatever was negotiated."""
    transfer.rcv_settle_mode = SECOND


# --- on the way in --------------------------------------------------------------------------------


def _taking(patch, reached, change):
    """Apply ``change`` to every transfer of the client."""

    @patch.before(IncomingLink, "transfer")
    def incominglink_transfer(self, transfer, payload):
        before = transfer.encode()
        change(self, transfer)
        reached(transfer.encode() != before)


@amqp_transfers.through(_taking, "AMQP10-XFER-18 AMQP10-XFER-12")
def aborted_passed_over(link, transfer):
    """aborted is ignored."""
    transfer.aborted = False


@amqp_transfers.through(_taking, "AMQP10-XFER-12")
def more_counts_before_aborted(link, transfer):
    """If both more and aborted are set, the delivery continues."""
    transfer.aborted = transfer.aborted and not transfer.more


@amqp_transfers.override(IncomingLink, "transfer", breaks="AMQP10-XFER-18")
def aborted_is_answered(original, reached, self, transfer, payload):
    """An aborted delivery is settled by a disposition."""
    arrival = self.arriving
    original(self, transfer, payload)
    if reached(transfer.aborted and arrival is not None):
        self.session.settle_incoming(arrival.id, None)


@amqp_transfers.mutant("AMQP10-XFER-09")
def only_the_last_transfer_settles(patch, reached):
    """A delivery is settled only if its last transfer says so."""

    @patch.before(IncomingLink)
    def _check_settled(self, arrival):
        arrival.settled = reached.instead(arrival.settled, self.settles)

    @patch.before(IncomingLink, "transfer")
    def incominglink_transfer(self, transfer, payload):
        self.settles = bool(transfer.settled)


@amqp_transfers.through(_taking, "AMQP10-XFER-09")
def only_the_first_transfer_settles(link, transfer):
    """A delivery is settled only if its first transfer says so."""
    if link.arriving is not None:
        transfer.settled = None


@amqp_transfers.through(_taking, "AMQP10-XFER-08 AMQP10-XFER-14")
def settled_where_nothing_is_said(link, transfer):
    """A delivery without the field settled counts as settled."""
    if transfer.settled is None:
        transfer.settled = True


@amqp_transfers.mutant("AMQP10-XFER-14")
def waits_for_the_sender(patch, reached):
    """The broker sends an outcome but leaves settling to the sender."""

    @patch.override(Session)
    def settle_incoming(original, self, delivery_id, state):
        reached()
        original(self, delivery_id, state)
        self._batch.take = _unsettled(self._batch.take)  # type: ignore[method-assign]

    def _unsettled(right: Callable[[], list[Any]]) -> Callable[[], list[Any]]:
        def take() -> list[Any]:
            result = right()
            for state in result:
                state.settled = None
            return result

        return take


@amqp_transfers.before(IncomingLink, "transfer", breaks="AMQP10-XFER-17")
def mode_of_settled_transfers_read(reached, self, transfer, payload):
    """A settled transfer that states mode second is refused on a link of mode first."""
    settled = transfer.settled
    if reached(transfer.rcv_settle_mode == SECOND and settled):
        transfer.settled = None


@amqp_transfers.mutant("AMQP10-SESS-03 AMQP10-CLOSE-01")
def transfers_for_nothing_passed_over(patch, reached):
    """A transfer for a handle that is not attached, or on which the broker sends, is ignored."""

    @patch.override(OutgoingLink)
    def transfer(original, self, transfer, payload):
        reached()

    @patch.override(Session)
    def _link(original, self, handle, what):
        if reached(what == "a transfer" and handle not in self.links):
            return None
        return original(self, handle, what)


# --- contents of messages -------------------------------------------------------------------------


def _arriving(patch, reached, change):
    """Apply ``change`` to every message received over AMQP."""

    @patch.before(IncomingLink)
    def _take(self, message, send):
        before = (message.prefix, message.ttl, message.annotations, message.bare, message.arrived)
        change(message)
        reached(
            before
            != (message.prefix, message.ttl, message.annotations, message.bare, message.arrived)
        )


@amqp_transfers.through(_arriving, "AMQP10-MSG-01 ARTEMIS-CROSSING-header-1")
def durability_and_priority_lost(message):
    """A header's durable and priority are not passed on."""
    message.prefix = b"\x40\x40"


@amqp_transfers.before(OutgoingLink, "deliver", breaks="AMQP10-MSG-08")
def ttl_as_it_came(reached, self, entry):
    """A ttl is passed on unchanged, however long the message waited."""
    message = entry.message
    if reached(isinstance(message, AmqpMessage) and message.ttl is not None):
        message.arrived = self.session.shared.clock.unix()


@amqp_transfers.through(_arriving, "AMQP10-MSG-10 AMQP10-OUT-13")
def annotations_lost(message):
    """Message-annotations are not passed on."""
    message.annotations = b""


@amqp_transfers.override(OutgoingLink, "_send", breaks="AMQP10-NODE-03")
def decimal_ends_its_receiver(original, reached, self, id, payload, large):
    """A decimal64 is accepted, and closes the connection that should receive it (RabbitMQ
    4.0.5)."""
    if reached(b"\x84" + bytes(8) in payload):
        self.session.connection.close_with(Error(condition="amqp:internal-error"))
    else:
        original(self, id, payload, large)


@amqp_transfers.override(OutgoingLink, "_send", breaks="AMQP10-MSG-02 AMQP10-MFS-05")
def last_byte_changed(original, reached, self, id, payload, large):
    """The last byte of a message of more than 1000 bytes is changed."""
    if reached(len(payload) > 1000):
        payload = payload[:-1] + bytes([payload[-1] ^ 1])
    original(self, id, payload, large)


@amqp_transfers.override(IncomingLink, "_take", recreates="ARTEMIS-4820")
@breaks("ARTEMIS-CONCEPTS-queue-1")
def long_ttl_over_at_once(original, reached, self, message, send):
    """A ttl of 2^31 ms or more is read as negative: the message is accepted and expires
    immediately."""
    if message.ttl is None or message.ttl < 2**31:
        return original(self, message, send)
    reached()
    return ACCEPTED
