"""One session: channels, both windows, handles, and the deliveries of all its links (2.5).

Windows
-------
Each transfer frame takes the next number of its session's sequence (AMQP10-WIN-01); the number is
not sent; both sides count. Names are those of the specification; all numbers are serial (RFC 1982):

1. Sending: ``next_outgoing_id`` goes up by one, ``remote_incoming_window`` down by one
   (AMQP10-WIN-02, -04). At zero we wait, possibly within a message.
2. Receiving: ``next_incoming_id`` goes up by one, ``incoming_window`` and
   ``remote_outgoing_window`` down by one (AMQP10-WIN-03, -05). A transfer at a window of zero is a
   violation (AMQP10-WIN-09).
3. A flow states what the peer had received when it sent the flow. Transfers still in transit use up
   the front of the new window::

       remote_incoming_window := flow.next-incoming-id + flow.incoming-window - next_outgoing_id     (AMQP10-WIN-07)

   Without next-incoming-id the peer has not seen our ``begin``: our first number takes its place
   (AMQP10-WIN-08).
4. Our own window is reset to its full size when half of it is used.
5. While the broker is short of memory or disk space our window is 0 (RABBITMQ-FLOW-conn-1): the
   peer gets a flow when an alarm is raised, and when the last is cleared. Transfers in transit when
   the window was closed are accepted, up to a whole window; any more are a violation as usual.

Life
----
=============  ===============================  ==========================
input          MAPPED                           DISCARDING
=============  ===============================  ==========================
end            ``end``, over                    over
a mistake      ``end`` with error, DISCARDING   ignored (AMQP10-SESS-04)
other frames   handled                          ignored
=============  ===============================  ==========================

Handles
-------
An input handle denotes a link from its ``attach`` to its ``detach``. A link that we ended with an
error keeps its handle until the peer's ``detach``, to distinguish an errant link (AMQP10-SESS-06)
from an unattached handle (AMQP10-SESS-05). The same holds for delivery-ids.

Our dispositions of received deliveries are collected until the end of a call, or until another
frame must be sent, and merged into as few as possible (AMQP10-DISP-05: one may cover several
links).
"""  # noqa: E501

import heapq
from collections import OrderedDict, deque
from typing import Any

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.serial_numbers import NumberIndex
from brokerproof.reference_broker.protocols.amqp10 import refusal
from brokerproof.reference_broker.protocols.amqp10.composite import Composite
from brokerproof.reference_broker.protocols.amqp10.coordinator import CoordinatorLink
from brokerproof.reference_broker.protocols.amqp10.delivery import Batch, Delivery, SendingLink
from brokerproof.reference_broker.protocols.amqp10.framing import frame
from brokerproof.reference_broker.protocols.amqp10.link import (
    AttachedLinks,
    Connection,
    Frames,
    Link,
    LinkState,
    part,
)
from brokerproof.reference_broker.protocols.amqp10.messaging import Coordinator, Received
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    RECEIVER,
    SENDER,
    Attach,
    Begin,
    Detach,
    Disposition,
    End,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal, Scope

OUTGOING_WINDOW = 2**31 - 1
"""Our outgoing window: no limit but the peer's."""


class Session:
    """One session, begun by the peer on ``channel`` and answered on ``our_channel``."""

    def __init__(
        self, connection: Connection, begun: Begin, channel: int, our_channel: int
    ) -> None:
        acceptor = connection.acceptor
        self.connection = connection
        self.shared = connection.shared
        self.channel = channel
        self.our_channel = our_channel
        self.is_over = False
        self.next_incoming_id = begun.next_outgoing_id
        self._full_window = acceptor.amqp.incoming_window
        self.incoming_window = 0 if self.shared.alarms.raised else self._full_window
        self._under_way = 0  # at most so many transfers were in transit when we closed the window
        self.next_outgoing_id = self._initial_outgoing_id = acceptor.amqp.first_transfer_id
        self.remote_incoming_window = begun.incoming_window
        self.remote_outgoing_window = begun.outgoing_window
        self.next_delivery_id = acceptor.amqp.first_delivery_id
        self.unsettled: dict[int, Delivery] = {}
        """Unsettled deliveries that were sent, by delivery-id, in ascending order."""
        self._unsettled_ids = NumberIndex()
        self.blocked: OrderedDict[Link, None] = OrderedDict()
        self.links: dict[int, Link] = {}
        self._closing: dict[tuple[str, bool], Link] = {}
        self._free_handles: list[int] = []
        self._handles = 0
        self._handle_max = min(begun.handle_max, acceptor.amqp.handle_max)
        self._expected_delivery_id: int | None = None
        self._errant: dict[int, Link] = {}  # by delivery-id
        self._errant_ids = NumberIndex()
        self._errant_of: dict[Link, list[int]] = {}
        self._pending: deque[tuple[Link, Frames]] = deque()
        self._batch = Batch(RECEIVER)
        self._discarding = False
        self.shared.alarms.watchers[self.alarmed] = None
        self.send(
            Begin(
                remote_channel=channel,
                next_outgoing_id=self.next_outgoing_id,
                incoming_window=self.incoming_window,
                outgoing_window=OUTGOING_WINDOW,
                handle_max=acceptor.amqp.handle_max,
            )
        )

    # --- output -----------------------------------------------------------------------------------

    def send(self, performative: Composite) -> None:
        """Send one frame without payload, after all settlements collected so far."""
        self.flush()
        self.connection.send(frame(self.our_channel, performative.encode()))

    def flush(self) -> None:
        if self._batch:
            for disposition in self._batch.take():
                self.connection.send(frame(self.our_channel, disposition.encode()))

    def settle_incoming(self, delivery_id: int, state: Any) -> None:
        if not self._batch:
            self.connection.touch(self)
        self._batch.add(delivery_id, state)

    def flow(self, link: Link | None = None) -> None:
        """Send our flow state and that of ``link``."""
        flow = Flow(
            next_incoming_id=self.next_incoming_id,
            incoming_window=self.incoming_window,
            next_outgoing_id=self.next_outgoing_id,
            outgoing_window=OUTGOING_WINDOW,
        )
        if link is not None:
            link.describe(flow)
        self.send(flow)

    def alarmed(self, short: bool) -> None:
        """Close our window if the broker is ``short`` of a resource; otherwise open it."""
        self._under_way = self._full_window if short else 0
        self.incoming_window = 0 if short else self._full_window
        self.connection.observe(
            "RABBITMQ-FLOW-conn-1", f"the session's window is {self.incoming_window}"
        )
        self.flow()

    # --- transfers out ----------------------------------------------------------------------------

    def can_send(self) -> bool:
        """Return True if a transfer may be sent now."""
        return self.remote_incoming_window > 0 and not self._pending and not self.connection.held

    def transmit(self, data: bytes) -> None:
        """Send one transfer frame. Call ``can_send()`` just before."""
        self.next_outgoing_id = (self.next_outgoing_id + 1) & serial_numbers.MASK
        self.remote_incoming_window -= 1
        self.connection.send(data)

    def transmit_all(self, link: Link, frames: Frames) -> None:
        """Send the transfer frames of one delivery as the window allows. An empty frame is not
        ready yet; :meth:`resume` is called when the frame is ready."""
        self._pending.append((link, frames))
        self._transmit_pending()

    def _transmit_pending(self) -> None:
        while self._pending and self.remote_incoming_window > 0 and not self.connection.held:
            data = next(self._pending[0][1], None)
            if data is None:
                self._pending.popleft()
            elif data:
                self.transmit(data)
            else:
                return

    def resume(self) -> None:
        """Send the waiting frames, because the window or the connection may have room."""
        self._transmit_pending()
        while self.blocked and self.can_send():
            self.blocked.popitem(last=False)[0].resume()

    # --- input ------------------------------------------------------------------------------------

    def handle(self, performative: Any, body: bytes, at: int) -> None:
        """Handle a frame of this session; the payload begins at ``at``. Raises :class:`Refusal` of
        session or connection scope."""
        if self._discarding:
            if isinstance(performative, End):
                self.is_over = True
            return
        match performative:
            case Transfer():
                self._transfer(performative, body[at:] if at < len(body) else b"")
            case Disposition():
                self._disposition(performative)
            case Flow():
                self._flow(performative)
            case Attach():
                self._attach(performative)
            case Detach():
                self._detach(performative)
            case End():
                part(self.release_links(), self.shared.router)
                self.send(End())
                self.is_over = True

    def _link(self, handle: int, what: str) -> Link | None:
        """Return the link with that handle; None if the frame must be ignored."""
        link = self.links.get(handle)
        if handle > self.connection.acceptor.amqp.handle_max:
            raise Refusal(refusal.HANDLE_TOO_HIGH, f"got {what} for handle {handle}")
        if link is None:
            raise Refusal(
                refusal.UNATTACHED, f"got {what} for handle {handle}, which is not attached"
            )
        if link.state is LinkState.ATTACHED:
            return link
        if link.state is LinkState.BROKEN:
            raise Refusal(
                refusal.ERRANT,
                f"got {what} for link {refusal.shown(link.name)}, which ended with an error",
            )
        return None

    def _transfer(self, transfer: Transfer, payload: bytes) -> None:
        if self.incoming_window > 0:
            self.incoming_window -= 1
        elif self._under_way > 0:
            self._under_way -= 1
        else:
            detail = (
                "got a transfer beyond the window of"
                f" {0 if self.shared.alarms.raised else self._full_window}"
            )
            raise Refusal(refusal.WINDOW_VIOLATED, detail)
        self.next_incoming_id = (self.next_incoming_id + 1) & serial_numbers.MASK
        self.remote_outgoing_window -= 1
        link = self._link(transfer.handle, "a transfer")
        if link is None:
            if transfer.delivery_id is not None:
                self._expected_delivery_id = None
        else:
            if not link.in_delivery:
                self._check_delivery_id(transfer.delivery_id)
            try:
                link.transfer(transfer, payload)
            except Refusal as problem:
                self._link_failed(link, problem)
        if self.incoming_window <= self._full_window // 2 and not self.shared.alarms.raised:
            self.incoming_window = self._full_window
            self.flow()

    def _check_delivery_id(self, delivery_id: int | None) -> None:
        """Check that a session's deliveries have consecutive ids, from the peer's first one on."""
        if delivery_id is None:
            raise Refusal(
                refusal.DELIVERY_ID_MISSING, "the first transfer of a delivery has no delivery-id"
            )
        expected = self._expected_delivery_id
        if expected is not None and delivery_id != expected:
            detail = f"got delivery-id {delivery_id}, expected {expected}"
            raise Refusal(refusal.DELIVERY_ID_OUT_OF_ORDER, detail)
        self._expected_delivery_id = (delivery_id + 1) & serial_numbers.MASK

    def _flow(self, flow: Flow) -> None:
        known = (
            self._initial_outgoing_id if flow.next_incoming_id is None else flow.next_incoming_id
        )
        if serial_numbers.before(self.next_outgoing_id, known):
            detail = (
                f"next-incoming-id {known} is ahead of our next-outgoing-id {self.next_outgoing_id}"
            )
            raise Refusal(refusal.IDS_FROM_THE_FUTURE, detail)
        was_blocked = not self.can_send()
        on_the_way = serial_numbers.distance(known, self.next_outgoing_id)
        self.remote_incoming_window = max(0, flow.incoming_window - on_the_way)
        self.next_incoming_id = flow.next_outgoing_id
        self.remote_outgoing_window = flow.outgoing_window
        link = None
        if flow.handle is None:
            if (
                flow.link_credit is not None
                or flow.delivery_count is not None
                or flow.available is not None
                or flow.drain
            ):
                raise Refusal(
                    refusal.LINK_FIELDS_WITHOUT_HANDLE, "a flow without a handle has link fields"
                )
        else:
            link = self._link(flow.handle, "a flow")
        if link is not None:
            try:
                link.flow(flow)
            except Refusal as problem:
                self._link_failed(link, problem)
        elif flow.echo:
            self.flow()
        if was_blocked:
            self.resume()

    def _disposition(self, disposition: Disposition) -> None:
        """Apply the peer's disposition of a range of ids (AMQP10-DISP-02, -06).

        Settled ids are skipped. A disposition by the sender has no effect: we settle deliveries
        before the peer can.
        """
        first, last = (
            disposition.first,
            disposition.first if disposition.last is None else disposition.last,
        )
        if serial_numbers.before(last, first):
            raise Refusal(
                refusal.DELIVERY_ID_OUT_OF_ORDER,
                f"a disposition names {first} to {last}, in descending order",
            )
        if disposition.role is not RECEIVER or (
            disposition.state is None and not disposition.settled
        ):
            return
        if self._errant:
            for id in self._errant_ids.between(first, last, self._errant):
                detail = f"got a disposition for delivery {id}, whose link ended with an error"
                raise Refusal(refusal.ERRANT, detail)
        if isinstance(disposition.state, Received) and not disposition.settled:
            return  # it states how much has arrived, and changes nothing
        unsettled = self.unsettled
        if first == last:
            deliveries = [unsettled[first]] if first in unsettled else []
        else:
            ids = self._unsettled_ids.between(first, last, unsettled)
            deliveries = [unsettled[id] for id in ids]
        links: dict[SendingLink, list[Delivery]] = {}
        for delivery in deliveries:
            links.setdefault(delivery.link, []).append(delivery)
        for link, mine in links.items():
            try:
                link.disposed(mine, disposition.state, disposition.settled)
            except Refusal as problem:
                assert isinstance(link, Link)
                self._link_failed(link, problem)
        for link in links:
            link.offer()

    def add_unsettled(self, delivery: Delivery) -> None:
        """Keep ``delivery``, which was sent, until it is settled."""
        self._unsettled_ids.append(delivery.id, self.unsettled, len(self.unsettled))
        self.unsettled[delivery.id] = delivery

    def forget(self, deliveries: list[Delivery]) -> None:
        """Drop ``deliveries``, which are settled as far as the session is concerned."""
        for delivery in deliveries:
            self.unsettled.pop(delivery.id, None)

    def settled_by_us(self, deliveries: list[Delivery], state: Any) -> None:
        """Report to the peer that deliveries of ours are settled."""
        batch = Batch(SENDER)
        for delivery in deliveries:
            batch.add(delivery.id, state)
        for disposition in batch.take():
            self.send(disposition)

    # --- links ------------------------------------------------------------------------------------

    def _attach(self, attach: Attach) -> None:
        handle_max = self.connection.acceptor.amqp.handle_max
        if attach.handle > handle_max:
            detail = f"handle {attach.handle} is above the handle-max of {handle_max}"
            raise Refusal(refusal.HANDLE_TOO_HIGH, detail)
        if attach.handle in self.links:
            raise Refusal(refusal.HANDLE_USED, f"handle {attach.handle} is already attached")
        closing = self._closing.pop((attach.name, attach.role), None)
        if closing is not None:  # the answer to our attach, which was only needed to close the link
            closing.handle = attach.handle
            self.links[attach.handle] = closing
            return
        ours = heapq.heappop(self._free_handles) if self._free_handles else self._handles
        if ours > self._handle_max:
            raise Refusal(
                refusal.NO_HANDLE_LEFT,
                f"no handle up to {self._handle_max} is free for the answer to attach",
            )
        self._handles = max(self._handles, ours + 1)
        identity = (self.connection.container, attach.name, attach.role)
        other = self.shared.state(AttachedLinks).get(identity)
        if attach.role is RECEIVER:
            link: Link = OutgoingLink(self, attach, ours)
        elif isinstance(attach.target, Coordinator):
            link = CoordinatorLink(self, attach, ours)
        else:
            link = self.connection.new_incoming_link(self, attach, ours)
        self.links[attach.handle] = link
        try:
            self.connection.check_links()
            link.attach(attach)
        except Refusal as problem:
            if problem.fault.scope is not Scope.LINK:
                raise
            self.connection.observe(problem.fault.requirement, problem.detail)
            link.refuse(attach, problem.error)
            return
        self.shared.state(AttachedLinks)[identity] = link
        if other is not None:
            other.session.stolen(other)

    def stolen(self, link: Link) -> None:
        """End ``link``, because another attach with the same name took it over (AMQP10-LINK-02)."""
        self._link_failed(
            link, Refusal(refusal.STOLEN, f"link {refusal.shown(link.name)} was attached elsewhere")
        )

    def _link_failed(self, link: Link, problem: Refusal) -> None:
        """End one link with an error, or re-raise an error with a wider scope (AMQP10-LINK-09)."""
        if problem.fault.scope is not Scope.LINK:
            raise problem
        self.connection.observe(problem.fault.requirement, problem.detail)
        self.break_link(link, problem)

    def break_link(self, link: Link, problem: Refusal) -> None:
        """End ``link`` from our side. Its deliveries return to the queue."""
        for id in link.unsettled:
            self._errant[id] = link
            self._errant_ids.add(id)
        self._errant_of[link] = list(link.unsettled)
        link.state = LinkState.BROKEN
        self._release(link)
        self.send(Detach(handle=link.our_handle, closed=True, error=problem.error))

    def _detach(self, detach: Detach) -> None:
        link = self.links.pop(detach.handle, None)
        if link is None:
            raise Refusal(
                refusal.UNATTACHED,
                f"got a detach for handle {detach.handle}, which is not attached",
            )
        if link.state is LinkState.ATTACHED:
            self._release(link)
            self.send(Detach(handle=link.our_handle, closed=detach.closed))
            heapq.heappush(self._free_handles, link.our_handle)
            link.state = LinkState.GONE
            return
        for id in self._errant_of.pop(link, ()):
            del self._errant[id]
        if detach.closed:
            heapq.heappush(self._free_handles, link.our_handle)
            return
        # We closed the link, but the peer only detached: it must be attached once more to be closed
        # (AMQP10-LINK-11).
        self.connection.observe(
            "AMQP10-LINK-11",
            f"link {refusal.shown(link.name)}: closed by us, only detached by the peer",
        )
        link.state = LinkState.REFUSED
        self._closing[link.name, link.role] = link
        link.attach_to_close()

    def _release(self, link: Link) -> None:
        """Detach ``link`` from its queue and return its deliveries."""
        if self._pending:
            for holder, frames in self._pending:
                if holder is link:
                    frames.close()
            self._pending = deque(pending for pending in self._pending if pending[0] is not link)
        self._forget(link)
        part([link], self.shared.router)

    def _forget(self, link: Link) -> None:
        identity = (self.connection.container, link.name, link.role)
        if self.shared.state(AttachedLinks).get(identity) is link:
            del self.shared.state(AttachedLinks)[identity]

    # --- the end ----------------------------------------------------------------------------------

    def fail(self, problem: Refusal) -> None:
        """End the session with an error (AMQP10-SESS-03), and ignore all frames before ``end``."""
        self.connection.observe(problem.fault.requirement, problem.detail)
        part(self.release_links(), self.shared.router)
        self.send(End(error=problem.error))
        self._discarding = True

    def release_links(self) -> list[Link]:
        """Drop all links; return those that must be detached from their queues."""
        self.shared.alarms.watchers.pop(self.alarmed, None)
        links = [link for link in self.links.values() if link.state is LinkState.ATTACHED]
        for link in links:
            link.state = LinkState.GONE
            self._forget(link)
        for _, frames in self._pending:
            frames.close()
        self._pending.clear()
        self.links.clear()
        self._closing.clear()
        self._errant.clear()
        self._errant_of.clear()
        self.blocked.clear()
        return links
