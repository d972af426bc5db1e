"""Faults of AMQP sessions and links: both windows, handles, attaching, detaching, and stealing."""

from functools import partial
from unittest import mock

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.link import AttachedLinks, LinkState
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Source
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    Attach,
    Begin,
    Detach,
    Flow,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Fault, Refusal, Scope
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frame_changes import sent
from brokerproof.suites.mutation.mutant import Group, breaks

amqp_sessions = Group("amqp-sessions")
amqp_links = Group("amqp-links")


# --- sessions -------------------------------------------------------------------------------------


@amqp_sessions.through(sent(Begin), "AMQP10-SESS-02")
def begin_without_remote_channel(begin):
    """The broker's begin, which answers the client's, has no remote-channel."""
    begin.remote_channel = None


@amqp_sessions.after(Session, "fail", breaks="AMQP10-SESS-04 AMQP10-SESS-03")
def failed_sessions_go_on(reached, self, problem):
    """A session that ended with an error still handles frames."""
    reached()
    self._discarding = False


@amqp_sessions.before(Session, "_link", breaks="AMQP10-SESS-05 AMQP10-SESS-03")
def unattached_handles_end_the_connection(reached, self, handle, what):
    """A frame for a handle that is not attached ends the whole connection."""
    if reached(handle not in self.links):
        fault = Fault(
            Scope.CONNECTION, refusal.UNATTACHED.condition, refusal.UNATTACHED.requirement
        )
        raise Refusal(fault, "no such handle")


@amqp_sessions.override(Session, "_link", breaks="AMQP10-SESS-05 AMQP10-SESS-03")
def unattached_handles_passed_over(original, reached, self, handle, what):
    """A frame for a handle that is not attached is ignored."""
    return None if reached(handle not in self.links) else original(self, handle, what)


@amqp_sessions.skips(Session, "_link", breaks="AMQP10-SESS-06")
def errant_links_borne(self, handle, what):
    """Frames for a link that was detached with an error are ignored."""
    link = self.links.get(handle)
    return link is not None and link.state is LinkState.BROKEN


@amqp_sessions.before(Session, "_attach", breaks="AMQP10-SESS-07")
def handles_taken_over(reached, self, attach):
    """An attach with a handle in use replaces the link."""
    if reached(attach.handle in self.links):
        self._release(self.links.pop(attach.handle))


# --- the peer's window ----------------------------------------------------------------------------


@amqp_sessions.mutant("AMQP10-WIN-02 AMQP10-WIN-07")
def window_ignored(patch, reached):
    """Transfers are sent regardless of the client's incoming-window."""

    def ignore(self, value):
        reached(value < 100)

    patch.set(Session, "remote_incoming_window", property(lambda self: 1_000_000, ignore))


@amqp_sessions.mutant("AMQP10-WIN-02 AMQP10-WIN-07")
def window_one_larger(patch, reached):
    """The broker sends one transfer more than the client's incoming-window allows."""

    @patch.after(Session)
    def __init__(self, connection, begun, channel, our_channel):
        self.remote_incoming_window += 1
        reached()

    @patch.before(Session)
    def _flow(self, flow):
        flow.incoming_window += 1


@amqp_sessions.mutant("AMQP10-WIN-07 AMQP10-WIN-02")
def window_one_smaller(patch, reached):
    """The broker sends one transfer less than the client's incoming-window allows."""

    @patch.after(Session)
    def __init__(self, connection, begun, channel, our_channel):
        self.remote_incoming_window -= 1
        reached()

    @patch.before(Session)
    def _flow(self, flow):
        flow.incoming_window -= 1


@amqp_sessions.before(Session, "_flow", breaks="AMQP10-WIN-07 AMQP10-WIN-02")
def window_added_up(reached, self, flow):
    """A flow's incoming-window is added to the remaining window."""
    if reached(self.remote_incoming_window > 0):
        flow.incoming_window += self.remote_incoming_window


@amqp_sessions.before(Session, "_detach", breaks="AMQP10-WIN-02 AMQP10-WIN-07")
def window_opens_with_a_detach(reached, self, detach):
    """Deliveries that a link holds when it is detached make room in the window."""
    link = self.links.get(detach.handle)
    held = sum(delivery.link is link for delivery in self.unsettled.values())
    if reached(held):
        self.remote_incoming_window += held
        self.resume()


@amqp_sessions.before(Session, "_flow", breaks="AMQP10-WIN-08 AMQP10-WIN-07")
def start_is_zero(reached, self, flow):
    """A flow without next-incoming-id counts from 0, not from the first transfer-id."""
    if flow.next_incoming_id is None:
        flow.next_incoming_id = reached.instead(self._initial_outgoing_id, 0)


@amqp_sessions.before(Session, "_flow", breaks="AMQP10-WIN-08 AMQP10-WIN-02")
def window_counts_from_now_without_id(reached, self, flow):
    """A flow without next-incoming-id counts from the transfers sent so far."""
    if flow.next_incoming_id is None:
        flow.next_incoming_id = reached.instead(self._initial_outgoing_id, self.next_outgoing_id)


@amqp_sessions.before(Session, "_flow")
@breaks("AMQP10-WIN-07 AMQP10-WIN-02 AMQP10-WIN-08 AMQP10-CREDIT-03 AMQP10-CREDIT-05")
def transfer_ids_do_not_wrap(reached, self, flow):
    """After a wrap of transfer-ids, an older next-incoming-id counts as too high, and is
    refused."""
    known = self._initial_outgoing_id if flow.next_incoming_id is None else flow.next_incoming_id
    if reached(known > self.next_outgoing_id):
        raise Refusal(refusal.IDS_FROM_THE_FUTURE, "a transfer-id from the future")


@amqp_sessions.override(Session, "_transmit_pending")
@breaks("AMQP10-WIN-04 AMQP10-WIN-12 AMQP10-WIN-02")
def only_first_transfers_use_the_window(original, reached, self):
    """Transfers that continue a delivery do not count against the client's window."""
    before = self.remote_incoming_window
    original(self)
    spent = before - self.remote_incoming_window
    if reached(spent > 1):
        self.remote_incoming_window += spent - 1
        if self._pending:
            original(self)


@amqp_sessions.override(Session, "transmit_all", breaks="AMQP10-WIN-04 AMQP10-WIN-12 AMQP10-WIN-01")
def transfer_ids_count_messages(original, reached, self, link, frames):
    """next-outgoing-id counts messages instead of transfers."""
    before = self.next_outgoing_id
    original(self, link, frames)
    self.next_outgoing_id = reached.instead(self.next_outgoing_id, serial_numbers.add(before, 1))


# --- our window, and the fields of flows ----------------------------------------------------------


@amqp_sessions.before(Session, "_transfer", breaks="AMQP10-WIN-09")
def window_violation_borne(reached, self, transfer, payload):
    """Transfers beyond the announced incoming-window are accepted."""
    if reached(self.incoming_window <= 0):
        self.incoming_window = 1


@amqp_sessions.override(Session, "_transfer", breaks="AMQP10-WIN-05")
def window_never_opened_again(original, reached, self, transfer, payload):
    """The broker's incoming-window is not reset when it is used up."""
    with mock.patch.object(self, "_full_window", -2):
        original(self, transfer, payload)
    reached(self.incoming_window <= self._full_window // 2)


@amqp_sessions.override(Session, "_transfer", recreates="QPID-8518")
@breaks("AMQP10-WIN-05 AMQP10-WIN-06")
def window_reset_behind_whole_deliveries_alone(original, reached, self, transfer, payload):
    """The broker's incoming-window is not reset within a delivery."""
    window = -2 if reached(transfer.more) else self._full_window
    with mock.patch.object(self, "_full_window", window):
        original(self, transfer, payload)


@amqp_sessions.through(sent(Flow), "AMQP10-WIN-10")
def flow_without_next_incoming_id(flow):
    """The broker's flows have no next-incoming-id."""
    flow.next_incoming_id = None


@amqp_sessions.through(sent(Flow), "AMQP10-WIN-05 AMQP10-WIN-06")
def next_incoming_id_one_behind(flow):
    """next-incoming-id in the broker's flows is one too low."""
    if flow.next_incoming_id is not None:
        flow.next_incoming_id = serial_numbers.add(flow.next_incoming_id, -1)


@amqp_sessions.before(Session, "_flow", breaks="AMQP10-WIN-06")
def next_outgoing_id_not_looked_at(reached, self, flow):
    """next-outgoing-id in the client's flows is ignored: only transfers are counted."""
    flow.next_outgoing_id = reached.instead(flow.next_outgoing_id, self.next_incoming_id)


@amqp_sessions.through(sent(Flow))
@breaks("AMQP10-CREDIT-15 AMQP10-CREDIT-19 AMQP10-CREDIT-20 AMQP10-CREDIT-21")
def session_flows_with_credit(flow):
    """A flow of the session, without handle, has link-credit, delivery-count, available and drain
    of 0."""
    if flow.handle is None:
        flow.link_credit = flow.delivery_count = flow.available = 0


@amqp_sessions.through(sent(Flow), "AMQP10-FRAME-08 AMQP10-WIN-11")
def flow_without_outgoing_window(flow):
    """The broker's flows have no outgoing-window."""
    flow.outgoing_window = None


# --- links ----------------------------------------------------------------------------------------


@amqp_links.through(sent(Attach), "AMQP10-LINK-13 AMQP10-FRAME-08")
def attach_without_delivery_count(attach):
    """The broker's attach as a sender has no initial-delivery-count."""
    attach.initial_delivery_count = None


@amqp_links.after(OutgoingLink, "attach", breaks="AMQP10-LINK-14")
def receivers_count_taken(reached, self, attach):
    """An initial-delivery-count in a receiver's attach sets the sender's own."""
    if reached(attach.initial_delivery_count):
        self.credit.count = self.credit.first = attach.initial_delivery_count


@amqp_links.through(sent(Detach), "AMQP10-LINK-08")
def closing_answered_without_closing(detach):
    """A closing detach is answered by one that does not close."""
    if detach.error is None:
        detach.closed = False


@amqp_links.override(Session, "stolen", breaks="AMQP10-LINK-02")
def stolen_links_live_on(original, reached, self, link):
    """A link continues although its name is attached again elsewhere."""
    reached()


@amqp_links.after(Session, "_attach", breaks="AMQP10-LINK-01")
def a_name_is_for_one_direction(reached, self, attach):
    """A receiver with the same name takes over the sender's link, and vice versa."""
    other = self.shared.state(AttachedLinks).get(
        (self.connection.container, attach.name, not attach.role)
    )
    if reached(other is not None):
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
    """Answer a refused attach by ``refuse``, which also gets the correct answer."""

    def replacement(original, self, attach, error):
        reached()
        refuse(self, partial(original, self), attach, error)

    for kind in (OutgoingLink, IncomingLink):
        patch.override(kind, "refuse")(replacement)


@amqp_links.through(_refusing, "AMQP10-LINK-12 AMQP10-LINK-09")
def refused_without_attach(link, right, attach, error):
    """A refused attach is answered with detach alone."""
    link.session.send(Detach(handle=link.our_handle, closed=True, error=error))
    link.state = LinkState.REFUSED


@amqp_links.through(_refusing, "AMQP10-LINK-12")
def refused_without_detach(link, right, attach, error):
    """A refused attach is answered without terminus, but without a detach."""
    link.session.send(link.answer(attach))
    link.state = LinkState.REFUSED


@amqp_links.through(_refusing, "AMQP10-LINK-09")
def refused_without_reason(link, right, attach, error):
    """The detach after a refused attach has no error."""
    link.session.send(link.answer(attach))
    link.session.send(Detach(handle=link.our_handle, closed=True))
    link.state = LinkState.REFUSED


@amqp_links.override(Session, "_link_failed", breaks="AMQP10-LINK-15")
def link_errors_end_the_session(original, reached, self, link, problem):
    """A mistake on a link ends its session."""
    reached()
    fault = problem.fault
    raise Refusal(Fault(Scope.SESSION, fault.condition, fault.requirement), problem.detail)


@amqp_links.mutant("AMQP10-LINK-03")
def unsettled_deliveries_made_up(patch, reached):
    """The broker's attach repeats the client's unsettled deliveries as its own."""
    patch.set(Session, "told", None)

    @patch.before(Session)
    def _attach(self, attach):
        self.told = attach.unsettled

    @patch.before(Session)
    def send(self, performative):
        if reached(isinstance(performative, Attach) and self.told):
            performative.unsettled = self.told


@amqp_links.after(IncomingLink, "attach", breaks="AMQP10-LINK-15")
def large_messages_taken(reached, self, attach):
    """Messages above the announced max-message-size are accepted."""
    reached(self._largest < 10_000)
    self._largest = 2**40


@amqp_links.before(OutgoingLink, "attach", breaks="AMQP10-LINK-15")
def zero_is_a_largest_size(reached, self, attach):
    """A max-message-size of 0 is read as one byte."""
    if reached(attach.max_message_size == 0):
        self._largest = 1


@amqp_links.through(sent(Attach), "AMQP10-TERM-04 AMQP10-LINK-05")
def mode_not_told(attach):
    """The broker's source always says move, whatever the distribution-mode."""
    if isinstance(attach.source, Source):
        mode = attach.source.distribution_mode
        if mode == "copy":
            attach.source.distribution_mode = type(mode)("move")


@amqp_links.through(sent(Attach), "AMQP10-TERM-02")
def dynamic_nodes_share_an_address(attach):
    """All dynamic nodes share one address."""
    for node in (attach.source, attach.target):
        if getattr(node, "dynamic", False):
            node.address = "dynamic"


@amqp_links.through(sent(Attach), "AMQP10-OUT-16 AMQP10-OUT-17")
def outcomes_with_numbers(attach):
    """The outcomes of the broker's source are names without their domain."""
    if attach.role is not RECEIVER and attach.source is not None:
        names = tuple(type(outcome)(Accepted.NAME) for outcome in attach.source.outcomes)
        attach.source.outcomes = names
