"""Faults of AMQP sessions and links: both windows, handles, attaching, detaching, stealing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from brokerproof.reference_broker.assembly import Parts
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
from brokerproof.suites.mutation.amqp.frames import saying, with_fields
from brokerproof.suites.mutation.mutant import Group, Reached

amqp_sessions = Group("amqp-sessions")
amqp_links = Group("amqp-links")

USED, STARTS, AFRESH = "AMQP10-WIN-02", "AMQP10-WIN-08", "AMQP10-WIN-07"


# --- sessions -------------------------------------------------------------------------------------


@amqp_sessions.mutant("AMQP10-SESS-02")
def begin_without_remote_channel(parts: Parts, reached: Reached) -> Parts:
    """The begin that answers one has no remote-channel."""
    return with_fields(parts, reached, Begin, remote_channel=None)


@amqp_sessions.mutant("AMQP10-SESS-04 AMQP10-SESS-03")
def failed_sessions_go_on(parts: Parts, reached: Reached) -> Parts:
    """A session that ended with an error takes what still comes."""

    class Faulty(Session):
        def fail(self, problem: Refusal) -> None:
            super().fail(problem)
            reached()
            self._discarding = False

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-SESS-05 AMQP10-SESS-03")
def unattached_handles_end_the_connection(parts: Parts, reached: Reached) -> Parts:
    """A frame for a handle that is not attached ends the whole connection."""

    class Faulty(Session):
        def _link(self, handle: int, what: str) -> Link | None:
            if handle not in self.links:
                reached()
                fault = Fault(
                    Scope.CONNECTION, refusal.UNATTACHED.condition, refusal.UNATTACHED.requirement
                )
                raise Refusal(fault, "no such handle")
            return super()._link(handle, what)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-SESS-05 AMQP10-SESS-03")
def unattached_handles_passed_over(parts: Parts, reached: Reached) -> Parts:
    """A frame for a handle that is not attached is passed over."""

    class Faulty(Session):
        def _link(self, handle: int, what: str) -> Link | None:
            if handle not in self.links:
                reached()
                return None
            return super()._link(handle, what)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-SESS-06")
def errant_links_borne(parts: Parts, reached: Reached) -> Parts:
    """What comes for a link that was detached with an error is passed over."""

    class Faulty(Session):
        def _link(self, handle: int, what: str) -> Link | None:
            link = self.links.get(handle)
            if link is not None and link.state is LinkState.BROKEN:
                reached()
                return None
            return super()._link(handle, what)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-SESS-07")
def handles_taken_over(parts: Parts, reached: Reached) -> Parts:
    """An attach with a handle in use takes the handle over."""

    class Faulty(Session):
        def _attach(self, attach: Attach) -> None:
            if attach.handle in self.links:
                reached()
                self._leave(self.links.pop(attach.handle))
            super()._attach(attach)

    return replace(parts, session=Faulty)


# --- the peer's window ----------------------------------------------------------------------------


@amqp_sessions.mutant(f"{USED} {AFRESH}")
def window_ignored(parts: Parts, reached: Reached) -> Parts:
    """Transfers are sent whatever the peer's incoming-window."""

    class Faulty(Session):
        @property
        def remote_incoming_window(self) -> int:
            return 1_000_000

        @remote_incoming_window.setter
        def remote_incoming_window(self, value: int) -> None:
            if value < 100:
                reached()

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"{USED} {AFRESH}")
def window_one_larger(parts: Parts, reached: Reached) -> Parts:
    """One transfer more is sent than the peer's incoming-window allows."""

    class Faulty(Session):
        def __init__(self, connection: Any, begun: Begin, channel: int, our_channel: int) -> None:
            super().__init__(connection, begun, channel, our_channel)
            self.remote_incoming_window += 1
            reached()

        def _flow(self, flow: Flow) -> None:
            flow.incoming_window += 1
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"{AFRESH} {USED}")
def window_one_smaller(parts: Parts, reached: Reached) -> Parts:
    """One transfer less is sent than the peer's incoming-window allows."""

    class Faulty(Session):
        def __init__(self, connection: Any, begun: Begin, channel: int, our_channel: int) -> None:
            super().__init__(connection, begun, channel, our_channel)
            self.remote_incoming_window -= 1
            reached()

        def _flow(self, flow: Flow) -> None:
            flow.incoming_window -= 1
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"{AFRESH} {USED}")
def window_added_up(parts: Parts, reached: Reached) -> Parts:
    """A flow's incoming-window is added to what is left of the one before."""

    class Faulty(Session):
        def _flow(self, flow: Flow) -> None:
            if self.remote_incoming_window > 0:
                reached()
                flow.incoming_window += self.remote_incoming_window
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"{STARTS} {AFRESH}")
def start_is_zero(parts: Parts, reached: Reached) -> Parts:
    """Without next-incoming-id a flow counts from 0, wherever the transfer-ids began."""

    class Faulty(Session):
        def _flow(self, flow: Flow) -> None:
            if flow.next_incoming_id is None:
                flow.next_incoming_id = reached.instead(self._initial_outgoing_id, 0)
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"{STARTS} {USED}")
def window_counts_from_now_without_id(parts: Parts, reached: Reached) -> Parts:
    """Without next-incoming-id a flow's window counts from the transfers sent by then."""

    class Faulty(Session):
        def _flow(self, flow: Flow) -> None:
            if flow.next_incoming_id is None:
                flow.next_incoming_id = reached.instead(
                    self._initial_outgoing_id, self.next_outgoing_id
                )
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"{AFRESH} {USED} {STARTS} AMQP10-CREDIT-03 AMQP10-CREDIT-05")
def transfer_ids_do_not_wrap(parts: Parts, reached: Reached) -> Parts:
    """After 2^32 - 1 a next-incoming-id of the peer that is behind is taken for one ahead, and
    refused."""

    class Faulty(Session):
        def _flow(self, flow: Flow) -> None:
            known = (
                self._initial_outgoing_id
                if flow.next_incoming_id is None
                else flow.next_incoming_id
            )
            if known > self.next_outgoing_id:
                reached()
                raise Refusal(refusal.IDS_FROM_THE_FUTURE, "a transfer-id from the future")
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant(f"AMQP10-WIN-04 AMQP10-WIN-12 {USED}")
def only_first_transfers_use_the_window(parts: Parts, reached: Reached) -> Parts:
    """Transfers that continue a delivery take nothing of the peer's window."""

    class Faulty(Session):
        def _transmit_pending(self) -> None:
            before = self.remote_incoming_window
            super()._transmit_pending()
            spent = before - self.remote_incoming_window
            if spent > 1:
                reached()
                self.remote_incoming_window += spent - 1
                if self._pending:
                    super()._transmit_pending()

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-WIN-04 AMQP10-WIN-12 AMQP10-WIN-01")
def transfer_ids_count_messages(parts: Parts, reached: Reached) -> Parts:
    """next-outgoing-id goes up by one for each message, however many transfers it takes."""

    class Faulty(Session):
        def transmit_all(self, link: OutgoingLink, frames: Iterator[bytes]) -> None:
            before = self.next_outgoing_id
            super().transmit_all(link, frames)
            self.next_outgoing_id = reached.instead(
                self.next_outgoing_id, serial_numbers.add(before, 1)
            )

    return replace(parts, session=Faulty)


# --- our window and what flows say ----------------------------------------------------------------


@amqp_sessions.mutant("AMQP10-WIN-09")
def window_violation_borne(parts: Parts, reached: Reached) -> Parts:
    """Transfers beyond the announced incoming-window are taken."""

    class Faulty(Session):
        def _transfer(self, transfer: Any, payload: bytes) -> None:
            if self.incoming_window <= 0:
                reached()
                self.incoming_window = 1
            super()._transfer(transfer, payload)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-WIN-05")
def window_never_opened_again(parts: Parts, reached: Reached) -> Parts:
    """The broker's incoming-window is not opened again when it is used up."""

    class Faulty(Session):
        def _transfer(self, transfer: Any, payload: bytes) -> None:
            full, self._full_window = self._full_window, -2
            try:
                super()._transfer(transfer, payload)
            finally:
                self._full_window = full
            if self.incoming_window <= full // 2:
                reached()

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-WIN-10")
def flow_without_next_incoming_id(parts: Parts, reached: Reached) -> Parts:
    """The broker's flows have no next-incoming-id."""
    return with_fields(parts, reached, Flow, next_incoming_id=None)


@amqp_sessions.mutant("AMQP10-WIN-05 AMQP10-WIN-06")
def next_incoming_id_one_behind(parts: Parts, reached: Reached) -> Parts:
    """The broker's flows tell the transfer-id before the right one."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Flow) and performative.next_incoming_id is not None:
            performative.next_incoming_id = serial_numbers.add(performative.next_incoming_id, -1)
        return performative

    return saying(parts, reached, change)


@amqp_sessions.mutant("AMQP10-WIN-06")
def next_outgoing_id_not_looked_at(parts: Parts, reached: Reached) -> Parts:
    """next-outgoing-id of the peer's flows is not looked at: only transfers are counted."""

    class Faulty(Session):
        def _flow(self, flow: Flow) -> None:
            flow.next_outgoing_id = reached.instead(flow.next_outgoing_id, self.next_incoming_id)
            super()._flow(flow)

    return replace(parts, session=Faulty)


@amqp_sessions.mutant("AMQP10-CREDIT-15 AMQP10-CREDIT-19 AMQP10-CREDIT-20 AMQP10-CREDIT-21")
def session_flows_with_credit(parts: Parts, reached: Reached) -> Parts:
    """A flow of the session, without handle, has link-credit, delivery-count, available and drain
    of 0."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Flow) and performative.handle is None:
            performative.link_credit = performative.delivery_count = performative.available = 0
        return performative

    return saying(parts, reached, change)


@amqp_sessions.mutant("AMQP10-FRAME-08 AMQP10-WIN-11")
def flow_without_outgoing_window(parts: Parts, reached: Reached) -> Parts:
    """The broker's flows have no outgoing-window."""
    return with_fields(parts, reached, Flow, outgoing_window=None)


# --- links ----------------------------------------------------------------------------------------


@amqp_links.mutant("AMQP10-LINK-13 AMQP10-FRAME-08")
def attach_without_delivery_count(parts: Parts, reached: Reached) -> Parts:
    """The broker's attach as a sender has no initial-delivery-count."""
    return with_fields(parts, reached, Attach, initial_delivery_count=None)


@amqp_links.mutant("AMQP10-LINK-14")
def receivers_count_taken(parts: Parts, reached: Reached) -> Parts:
    """An initial-delivery-count in a receiver's attach sets the sender's own."""

    class Faulty(OutgoingLink):
        def attach(self, attach: Attach) -> None:
            super().attach(attach)
            if attach.initial_delivery_count:
                reached()
                self.credit.count = self.credit.first = attach.initial_delivery_count

    return replace(parts, outgoing=Faulty)


@amqp_links.mutant("AMQP10-LINK-08")
def closing_answered_without_closing(parts: Parts, reached: Reached) -> Parts:
    """A closing detach is answered by one that does not close."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Detach) and performative.error is None:
            performative.closed = False
        return performative

    return saying(parts, reached, change)


@amqp_links.mutant("AMQP10-LINK-02")
def stolen_links_live_on(parts: Parts, reached: Reached) -> Parts:
    """A link whose name is attached again elsewhere lives on."""

    class Faulty(Session):
        def stolen(self, link: Link) -> None:
            reached()

    return replace(parts, session=Faulty)


@amqp_links.mutant("AMQP10-LINK-01")
def a_name_is_for_one_direction(parts: Parts, reached: Reached) -> Parts:
    """A receiver of the same name takes the sender's link over, and the other way round."""

    class Faulty(Session):
        def _attach(self, attach: Attach) -> None:
            super()._attach(attach)
            other = self.shared.state(AttachedLinks).get(
                (self.connection.container, attach.name, not attach.role)
            )
            if other is not None:
                reached()
                other.session.stolen(other)

    return replace(parts, session=Faulty)


def _refusing(parts: Parts, reached: Reached, refuse: Any) -> Parts:
    class Out(OutgoingLink):
        def refuse(self, attach: Attach, error: Error) -> None:
            reached()
            refuse(self, super().refuse, attach, error)

    class In(IncomingLink):
        def refuse(self, attach: Attach, error: Error) -> None:
            reached()
            refuse(self, super().refuse, attach, error)

    return replace(parts, outgoing=Out, incoming=In)


@amqp_links.mutant("AMQP10-LINK-12 AMQP10-LINK-09")
def refused_without_attach(parts: Parts, reached: Reached) -> Parts:
    """A link that cannot be made is detached at once, without an attach before."""

    def refuse(link: Link, right: Any, attach: Attach, error: Error) -> None:
        link.session.send(Detach(handle=link.our_handle, closed=True, error=error))
        link.state = LinkState.REFUSED

    return _refusing(parts, reached, refuse)


@amqp_links.mutant("AMQP10-LINK-12")
def refused_without_detach(parts: Parts, reached: Reached) -> Parts:
    """A link that cannot be made is attached without terminus and left like that."""

    def refuse(link: Link, right: Any, attach: Attach, error: Error) -> None:
        link.session.send(link.answer(attach))
        link.state = LinkState.REFUSED

    return _refusing(parts, reached, refuse)


@amqp_links.mutant("AMQP10-LINK-09")
def refused_without_reason(parts: Parts, reached: Reached) -> Parts:
    """The detach of a link that cannot be made has no error."""

    def refuse(link: Link, right: Any, attach: Attach, error: Error) -> None:
        link.session.send(link.answer(attach))
        link.session.send(Detach(handle=link.our_handle, closed=True))
        link.state = LinkState.REFUSED

    return _refusing(parts, reached, refuse)


@amqp_links.mutant("AMQP10-LINK-09 AMQP10-LINK-15")
def link_errors_end_the_session(parts: Parts, reached: Reached) -> Parts:
    """A mistake on a link ends its session."""

    class Faulty(Session):
        def _link_failed(self, link: Link, problem: Refusal) -> None:
            reached()
            fault = problem.fault
            raise Refusal(Fault(Scope.SESSION, fault.condition, fault.requirement), problem.detail)

    return replace(parts, session=Faulty)


@amqp_links.mutant("AMQP10-LINK-03")
def unsettled_deliveries_made_up(parts: Parts, reached: Reached) -> Parts:
    """The broker's attach tells the peer's unsettled deliveries as its own."""

    class Faulty(Session):
        told: Any = None

        def _attach(self, attach: Attach) -> None:
            self.told = attach.unsettled
            super()._attach(attach)

        def send(self, performative: Any) -> None:
            if isinstance(performative, Attach) and self.told:
                reached()
                performative.unsettled = self.told
            super().send(performative)

    return replace(parts, session=Faulty)


@amqp_links.mutant("AMQP10-LINK-15")
def large_messages_taken(parts: Parts, reached: Reached) -> Parts:
    """Messages above the announced max-message-size are taken."""

    class Faulty(IncomingLink):
        def attach(self, attach: Attach) -> None:
            super().attach(attach)
            if self._largest < 10_000:
                reached()
            self._largest = 2**40

    return replace(parts, incoming=Faulty)


@amqp_links.mutant("AMQP10-LINK-15")
def zero_is_a_largest_size(parts: Parts, reached: Reached) -> Parts:
    """A max-message-size of 0 is taken for one octet."""

    class Faulty(OutgoingLink):
        def attach(self, attach: Attach) -> None:
            if attach.max_message_size == 0:
                reached()
                self._largest = 1
            super().attach(attach)

    return replace(parts, outgoing=Faulty)


@amqp_links.mutant("AMQP10-TERM-04 AMQP10-LINK-05")
def mode_not_told(parts: Parts, reached: Reached) -> Parts:
    """The broker's source says move whatever the link's distribution-mode."""

    def change(performative: Any) -> Any:
        if isinstance(performative, Attach) and isinstance(performative.source, Source):
            mode = performative.source.distribution_mode
            if mode == "copy":
                performative.source.distribution_mode = type(mode)("move")
        return performative

    return saying(parts, reached, change)


@amqp_links.mutant("AMQP10-TERM-02")
def dynamic_nodes_share_an_address(parts: Parts, reached: Reached) -> Parts:
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

    return saying(parts, reached, change)


@amqp_links.mutant("AMQP10-OUT-16 AMQP10-OUT-17")
def outcomes_with_numbers(parts: Parts, reached: Reached) -> Parts:
    """The outcomes of the broker's source are names without their domain."""

    def change(performative: Any) -> Any:
        if (
            isinstance(performative, Attach)
            and performative.role is not RECEIVER
            and performative.source is not None
        ):
            outcomes = performative.source.outcomes
            performative.source.outcomes = tuple(type(each)(Accepted.NAME) for each in outcomes)
        return performative

    return saying(parts, reached, change)
