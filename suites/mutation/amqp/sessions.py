"""Faults of AMQP sessions and links: both windows, handles, attaching, detaching, stealing."""

from __future__ import annotations

from functools import partial
from typing import Any

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.link import AttachedLinks, Link, LinkState
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Source
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    Attach,
    Begin,
    Detach,
    Error,
    Flow,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Fault, Refusal, Scope
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frame_changes import saying, with_fields
from brokerproof.suites.mutation.mutant import Group

amqp_sessions = Group("amqp-sessions")
amqp_links = Group("amqp-links")

USED, STARTS, AFRESH = "AMQP10-WIN-02", "AMQP10-WIN-08", "AMQP10-WIN-07"


# --- sessions -------------------------------------------------------------------------------------


@amqp_sessions.mutant("AMQP10-SESS-02")
def begin_without_remote_channel(patch, reached):
    """The begin that answers one has no remote-channel."""
    with_fields(patch, reached, Begin, remote_channel=None)


@amqp_sessions.override(Session, "fail", breaks="AMQP10-SESS-04 AMQP10-SESS-03")
def failed_sessions_go_on(original, reached, self, problem):
    """A session that ended with an error takes what still comes."""
    original(self, problem)
    reached()
    self._discarding = False


@amqp_sessions.override(Session, "_link", breaks="AMQP10-SESS-05 AMQP10-SESS-03")
def unattached_handles_end_the_connection(original, reached, self, handle, what):
    """A frame for a handle that is not attached ends the whole connection."""
    if handle not in self.links:
        reached()
        fault = Fault(
            Scope.CONNECTION, refusal.UNATTACHED.condition, refusal.UNATTACHED.requirement
        )
        raise Refusal(fault, "no such handle")
    return original(self, handle, what)


@amqp_sessions.override(Session, "_link", breaks="AMQP10-SESS-05 AMQP10-SESS-03")
def unattached_handles_passed_over(original, reached, self, handle, what):
    """A frame for a handle that is not attached is passed over."""
    if handle not in self.links:
        reached()
        return None
    return original(self, handle, what)


@amqp_sessions.override(Session, "_link", breaks="AMQP10-SESS-06")
def errant_links_borne(original, reached, self, handle, what):
    """Frames for a link that was detached with an error are ignored."""
    link = self.links.get(handle)
    if link is not None and link.state is LinkState.BROKEN:
        reached()
        return None
    return original(self, handle, what)


@amqp_sessions.override(Session, "_attach", breaks="AMQP10-SESS-07")
def handles_taken_over(original, reached, self, attach):
    """An attach with a handle in use takes the handle over."""
    if attach.handle in self.links:
        reached()
        self._release(self.links.pop(attach.handle))
    original(self, attach)


# --- the peer's window ----------------------------------------------------------------------------


@amqp_sessions.mutant("AMQP10-WIN-02 AMQP10-WIN-07")
def window_ignored(patch, reached):
    """Transfers are sent whatever the peer's incoming-window."""

    def ignore(self, value):
        if value < 100:
            reached()

    patch.set(Session, "remote_incoming_window", property(lambda self: 1_000_000, ignore))


@amqp_sessions.mutant("AMQP10-WIN-02 AMQP10-WIN-07")
def window_one_larger(patch, reached):
    """One transfer more is sent than the peer's incoming-window allows."""

    @patch.override(Session)
    def __init__(original, self, connection, begun, channel, our_channel):
        original(self, connection, begun, channel, our_channel)
        self.remote_incoming_window += 1
        reached()

    @patch.override(Session)
    def _flow(original, self, flow):
        flow.incoming_window += 1
        original(self, flow)


@amqp_sessions.mutant("AMQP10-WIN-07 AMQP10-WIN-02")
def window_one_smaller(patch, reached):
    """One transfer less is sent than the peer's incoming-window allows."""

    @patch.override(Session)
    def __init__(original, self, connection, begun, channel, our_channel):
        original(self, connection, begun, channel, our_channel)
        self.remote_incoming_window -= 1
        reached()

    @patch.override(Session)
    def _flow(original, self, flow):
        flow.incoming_window -= 1
        original(self, flow)


@amqp_sessions.override(Session, "_flow", breaks="AMQP10-WIN-07 AMQP10-WIN-02")
def window_added_up(original, reached, self, flow):
    """A flow's incoming-window is added to what is left of the one before."""
    if self.remote_incoming_window > 0:
        reached()
        flow.incoming_window += self.remote_incoming_window
    original(self, flow)


@amqp_sessions.override(Session, "_flow", breaks="AMQP10-WIN-08 AMQP10-WIN-07")
def start_is_zero(original, reached, self, flow):
    """Without next-incoming-id a flow counts from 0, wherever the transfer-ids began."""
    if flow.next_incoming_id is None:
        flow.next_incoming_id = reached.instead(self._initial_outgoing_id, 0)
    original(self, flow)


@amqp_sessions.override(Session, "_flow", breaks="AMQP10-WIN-08 AMQP10-WIN-02")
def window_counts_from_now_without_id(original, reached, self, flow):
    """Without next-incoming-id a flow's window counts from the transfers sent by then."""
    if flow.next_incoming_id is None:
        flow.next_incoming_id = reached.instead(self._initial_outgoing_id, self.next_outgoing_id)
    original(self, flow)


@amqp_sessions.override(
    Session,
    "_flow",
    breaks="AMQP10-WIN-07 AMQP10-WIN-02 AMQP10-WIN-08 AMQP10-CREDIT-03 AMQP10-CREDIT-05",
)
def transfer_ids_do_not_wrap(original, reached, self, flow):
    """After 2^32 - 1 a next-incoming-id of the peer that is behind is taken for one ahead, and
    refused."""
    known = self._initial_outgoing_id if flow.next_incoming_id is None else flow.next_incoming_id
    if known > self.next_outgoing_id:
        reached()
        raise Refusal(refusal.IDS_FROM_THE_FUTURE, "a transfer-id from the future")
    original(self, flow)


@amqp_sessions.override(
    Session, "_transmit_pending", breaks="AMQP10-WIN-04 AMQP10-WIN-12 AMQP10-WIN-02"
)
def only_first_transfers_use_the_window(original, reached, self):
    """Transfers that continue a delivery take nothing of the peer's window."""
    before = self.remote_incoming_window
    original(self)
    spent = before - self.remote_incoming_window
    if spent > 1:
        reached()
        self.remote_incoming_window += spent - 1
        if self._pending:
            original(self)


@amqp_sessions.override(Session, "transmit_all", breaks="AMQP10-WIN-04 AMQP10-WIN-12 AMQP10-WIN-01")
def transfer_ids_count_messages(original, reached, self, link, frames):
    """next-outgoing-id goes up by one for each message, however many transfers it takes."""
    before = self.next_outgoing_id
    original(self, link, frames)
    self.next_outgoing_id = reached.instead(self.next_outgoing_id, serial_numbers.add(before, 1))


# --- our window and what flows say ----------------------------------------------------------------


@amqp_sessions.override(Session, "_transfer", breaks="AMQP10-WIN-09")
def window_violation_borne(original, reached, self, transfer, payload):
    """Transfers beyond the announced incoming-window are taken."""
    if self.incoming_window <= 0:
        reached()
        self.incoming_window = 1
    original(self, transfer, payload)


@amqp_sessions.override(Session, "_transfer", breaks="AMQP10-WIN-05")
def window_never_opened_again(original, reached, self, transfer, payload):
    """The broker's incoming-window is not opened again when it is used up."""
    full, self._full_window = self._full_window, -2
    try:
        original(self, transfer, payload)
    finally:
        self._full_window = full
    if self.incoming_window <= full // 2:
        reached()


@amqp_sessions.mutant("AMQP10-WIN-10")
def flow_without_next_incoming_id(patch, reached):
    """The broker's flows have no next-incoming-id."""
    with_fields(patch, reached, Flow, next_incoming_id=None)


@amqp_sessions.mutant("AMQP10-WIN-05 AMQP10-WIN-06")
def next_incoming_id_one_behind(patch, reached):
    """The broker's flows tell the transfer-id before the right one."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Flow) and performative.next_incoming_id is not None:
            performative.next_incoming_id = serial_numbers.add(performative.next_incoming_id, -1)
        return performative

    saying(patch, reached, change)


@amqp_sessions.override(Session, "_flow", breaks="AMQP10-WIN-06")
def next_outgoing_id_not_looked_at(original, reached, self, flow):
    """next-outgoing-id of the peer's flows is not looked at: only transfers are counted."""
    flow.next_outgoing_id = reached.instead(flow.next_outgoing_id, self.next_incoming_id)
    original(self, flow)


@amqp_sessions.mutant("AMQP10-CREDIT-15 AMQP10-CREDIT-19 AMQP10-CREDIT-20 AMQP10-CREDIT-21")
def session_flows_with_credit(patch, reached):
    """A flow of the session, without handle, has link-credit, delivery-count, available and drain
    of 0."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Flow) and performative.handle is None:
            performative.link_credit = performative.delivery_count = performative.available = 0
        return performative

    saying(patch, reached, change)


@amqp_sessions.mutant("AMQP10-FRAME-08 AMQP10-WIN-11")
def flow_without_outgoing_window(patch, reached):
    """The broker's flows have no outgoing-window."""
    with_fields(patch, reached, Flow, outgoing_window=None)


# --- links ----------------------------------------------------------------------------------------


@amqp_links.mutant("AMQP10-LINK-13 AMQP10-FRAME-08")
def attach_without_delivery_count(patch, reached):
    """The broker's attach as a sender has no initial-delivery-count."""
    with_fields(patch, reached, Attach, initial_delivery_count=None)


@amqp_links.override(OutgoingLink, "attach", breaks="AMQP10-LINK-14")
def receivers_count_taken(original, reached, self, attach):
    """An initial-delivery-count in a receiver's attach sets the sender's own."""
    original(self, attach)
    if attach.initial_delivery_count:
        reached()
        self.credit.count = self.credit.first = attach.initial_delivery_count


@amqp_links.mutant("AMQP10-LINK-08")
def closing_answered_without_closing(patch, reached):
    """A closing detach is answered by one that does not close."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Detach) and performative.error is None:
            performative.closed = False
        return performative

    saying(patch, reached, change)


@amqp_links.override(Session, "stolen", breaks="AMQP10-LINK-02")
def stolen_links_live_on(original, reached, self, link):
    """A link whose name is attached again elsewhere lives on."""
    reached()


@amqp_links.override(Session, "_attach", breaks="AMQP10-LINK-01")
def a_name_is_for_one_direction(original, reached, self, attach):
    """A receiver of the same name takes the sender's link over, and the other way round."""
    original(self, attach)
    other = self.shared.state(AttachedLinks).get(
        (self.connection.container, attach.name, not attach.role)
    )
    if other is not None:
        reached()
        other.session.stolen(other)


@amqp_links.override(Session, "_attach", breaks="AMQP10-LINK-01")
def names_for_the_whole_broker(original, reached, self, attach):
    """A link takes over another container's link of its name and direction."""
    links = self.shared.state(AttachedLinks).items()
    same = (attach.name, attach.role)
    others = [other for (_, *identity), other in links if tuple(identity) == same]
    original(self, attach)
    for other in others:
        reached()
        other.session.stolen(other)


def _refusing(patch, reached, refuse):
    """A link that cannot be made is answered by ``refuse``, which gets the right answer too."""

    def replacement(original, self, attach, error):
        reached()
        refuse(self, partial(original, self), attach, error)

    for kind in (OutgoingLink, IncomingLink):
        patch.override(kind, "refuse")(replacement)


@amqp_links.mutant("AMQP10-LINK-12 AMQP10-LINK-09")
def refused_without_attach(patch, reached):
    """A link that cannot be made is detached at once, without an attach before."""

    def refuse(link: Link, right: Any, attach: Attach, error: Error) -> None:
        link.session.send(Detach(handle=link.our_handle, closed=True, error=error))
        link.state = LinkState.REFUSED

    _refusing(patch, reached, refuse)


@amqp_links.mutant("AMQP10-LINK-12")
def refused_without_detach(patch, reached):
    """A link that cannot be made is attached without terminus and left like that."""

    def refuse(link: Link, right: Any, attach: Attach, error: Error) -> None:
        link.session.send(link.answer(attach))
        link.state = LinkState.REFUSED

    _refusing(patch, reached, refuse)


@amqp_links.mutant("AMQP10-LINK-09")
def refused_without_reason(patch, reached):
    """The detach of a link that cannot be made has no error."""

    def refuse(link: Link, right: Any, attach: Attach, error: Error) -> None:
        link.session.send(link.answer(attach))
        link.session.send(Detach(handle=link.our_handle, closed=True))
        link.state = LinkState.REFUSED

    _refusing(patch, reached, refuse)


@amqp_links.override(Session, "_link_failed", breaks="AMQP10-LINK-09 AMQP10-LINK-15")
def link_errors_end_the_session(original, reached, self, link, problem):
    """A mistake on a link ends its session."""
    reached()
    fault = problem.fault
    raise Refusal(Fault(Scope.SESSION, fault.condition, fault.requirement), problem.detail)


@amqp_links.mutant("AMQP10-LINK-03")
def unsettled_deliveries_made_up(patch, reached):
    """The broker's attach tells the peer's unsettled deliveries as its own."""
    patch.set(Session, "told", None)

    @patch.override(Session)
    def _attach(original, self, attach):
        self.told = attach.unsettled
        original(self, attach)

    @patch.override(Session)
    def send(original, self, performative):
        if isinstance(performative, Attach) and self.told:
            reached()
            performative.unsettled = self.told
        original(self, performative)


@amqp_links.override(IncomingLink, "attach", breaks="AMQP10-LINK-15")
def large_messages_taken(original, reached, self, attach):
    """Messages above the announced max-message-size are taken."""
    original(self, attach)
    if self._largest < 10_000:
        reached()
    self._largest = 2**40


@amqp_links.override(OutgoingLink, "attach", breaks="AMQP10-LINK-15")
def zero_is_a_largest_size(original, reached, self, attach):
    """A max-message-size of 0 is taken for one byte."""
    if attach.max_message_size == 0:
        reached()
        self._largest = 1
    original(self, attach)


@amqp_links.mutant("AMQP10-TERM-04 AMQP10-LINK-05")
def mode_not_told(patch, reached):
    """The broker's source says move whatever the link's distribution-mode."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Attach) and isinstance(performative.source, Source):
            mode = performative.source.distribution_mode
            if mode == "copy":
                performative.source.distribution_mode = type(mode)("move")
        return performative

    saying(patch, reached, change)


@amqp_links.mutant("AMQP10-TERM-02")
def dynamic_nodes_share_an_address(patch, reached):
    """All nodes made on request have one address."""

    def change(performative: Any) -> Any:
        for side in ("source", "target"):
            node = getattr(performative, side, None)
            if (
                isinstance(performative, Attach)
                and node is not None
                and getattr(node, "dynamic", False)
            ):
                node.address = "dynamic"
        return performative

    saying(patch, reached, change)


@amqp_links.mutant("AMQP10-OUT-16 AMQP10-OUT-17")
def outcomes_with_numbers(patch, reached):
    """The outcomes of the broker's source are names without their domain."""

    def change(performative: Any) -> Any:
        if (
            isinstance(performative, Attach)
            and performative.role is not RECEIVER
            and performative.source is not None
        ):
            outcomes = performative.source.outcomes
            performative.source.outcomes = tuple(
                type(outcome)(Accepted.NAME) for outcome in outcomes
            )
        return performative

    saying(patch, reached, change)
