"""Common part of all links: how they begin and how they end (2.6).

Rules
-----
* A link lives from the peer's ``attach`` to the peer's ``detach``. We never attach first, with one
  exception: see the wart.
* What a link does in between is in ``outgoing.py`` (the peer receives), ``incoming.py`` (the peer
  sends) and ``coordinator.py`` (the peer controls transactions).
* A mistake on a link is a :class:`Refusal` raised by the link and caught by the session, which
  breaks the link.

Theory ------ The specification lets the two ends of a link detach and resume, with their state of
unsettled deliveries. Our ends never outlive their handle: a terminus here ends when it is detached,
and announces that (``durable`` none, ``expiry-policy`` link-detach; AMQP10-LINK-04,
AMQP10-LINK-05). So a second attach with the same name finds nothing to resume, our side of the
unsettled map is empty, and a handle is in one of three states:

=============  =====================  ========================  ==========================
input          ATTACHED               REFUSED                   BROKEN
=============  =====================  ========================  ==========================
flow           ``flow()``             ignored                   errant-link ends session
transfer       ``transfer()``         ignored                   errant-link ends session
disposition    settles                (it has no deliveries)    errant-link ends session
detach         answered, GONE         GONE                      GONE
same name      stolen: -> BROKEN      new link                  new link
session ends   GONE                   GONE                      GONE
=============  =====================  ========================  ==========================

* REFUSED: the attach was answered without a terminus, and with a closing detach (AMQP10-LINK-12). A
  peer that pipelines its first credit after its attach makes no mistake, so that flow is ignored.
* BROKEN: we closed a live link with an error. The specification is strict about later input
  (AMQP10-SESS-06), although the peer may not have known: anything but detach ends the session.

Wart
----
If we close a link and the peer answers with a detach that does not close, the peer believes that it
may resume. The specification then requires us to attach once more, only to detach with closed=true
(AMQP10-LINK-11)."""

from __future__ import annotations

import enum
from collections import Counter, OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeAlias

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.amqp10.composite import Composite
from brokerproof.reference_broker.protocols.amqp10.delivery import Delivery
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    FIRST,
    RECEIVER,
    Attach,
    Detach,
    Error,
    Flow,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.refusal import Refusal
from brokerproof.reference_broker.protocols.amqp10.transaction import LiveTransaction
from brokerproof.reference_broker.settings.acceptor import Acceptor


class LinkState(enum.Enum):
    ATTACHED = enum.auto()
    REFUSED = enum.auto()
    BROKEN = enum.auto()
    GONE = enum.auto()


class Frames(Protocol):
    """The frames of one delivery, made when they can be sent. An empty frame is not ready yet."""

    def __next__(self) -> bytes: ...

    def close(self) -> None:
        """Drop the frames that were not sent."""


class Connection(Protocol):
    """The connection of a session. ``held`` is true while the peer does not read."""

    conn: int
    acceptor: Acceptor
    shared: BrokerContext
    container: str
    peer_max_frame_size: int
    held: bool
    stalled: bool
    transactions: dict[bytes, LiveTransaction]
    new_incoming_link: NewLink
    posting: Counter[bytes]
    """The number of deliveries that have begun but not ended, by the txn-id of their state."""

    unfinished_bytes: int
    """Bytes of incomplete deliveries on all links."""

    def check_links(self) -> None:
        """Refuse a link, which its session already has, if there are more than the quota."""

    def receive(self, now: Instant, data: bytes) -> None:
        """Read ``data``, and the input that waited while the connection was stalled."""

    def send(self, data: bytes) -> None:
        """Queue bytes for sending."""

    def observe(self, requirement: str, detail: str) -> None:
        """Record that ``requirement`` determined a branch."""

    def touch(self, session: Session) -> None:
        """Flush ``session`` at the end of this input."""

    def broken(self) -> None:
        """Report that an outgoing message cannot be sent in full."""

    def on_store_failed(self, reason: str) -> None:
        """Close, because the peer's request cannot be stored."""


class Session(Protocol):
    shared: BrokerContext
    our_channel: int
    next_delivery_id: int
    blocked: OrderedDict[Link, None]
    """Links that wait only for the window or the peer; each is resumed when it can send."""

    @property
    def connection(self) -> Connection: ...

    def can_send(self) -> bool:
        """True if the window and the peer allow another transfer."""

    def send(self, performative: Composite) -> None:
        """Send one frame without payload."""

    def flush(self) -> None:
        """Send the collected dispositions of received deliveries."""

    def flow(self, link: Link | None = None) -> None:
        """Send the flow state of the session, or of ``link``."""

    def add_unsettled(self, delivery: Delivery) -> None:
        """Keep ``delivery``, which was sent, until it is settled."""

    def forget(self, deliveries: list[Delivery]) -> None:
        """Drop ``deliveries``, because they are settled."""

    def settle_incoming(self, delivery_id: int, state: Any) -> None: ...

    def settled_by_us(self, deliveries: list[Delivery], state: Any) -> None: ...

    def transmit(self, data: bytes) -> None:
        """Send one transfer."""

    def transmit_all(self, link: Link, frames: Frames) -> None:
        """Send transfers as the window allows."""

    def resume(self) -> None:
        """Send the waiting frames, as the window allows."""

    def break_link(self, link: Link, problem: Refusal) -> None:
        """Close ``link`` and report an error."""

    def stolen(self, link: Link) -> None:
        """Close ``link``, because its name was attached elsewhere."""


class Link:
    """One link. ``role`` and ``handle`` are the peer's; ``our_handle`` is ours."""

    in_delivery = False
    """True if the next transfer continues a delivery."""

    def __init__(self, session: Session, attach: Attach, our_handle: int) -> None:
        self.session = session
        self.name = attach.name
        self.role = attach.role
        self.handle = attach.handle
        self.our_handle = our_handle
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = FIRST
        self.state = LinkState.ATTACHED
        self.unsettled: dict[int, Delivery] = {}
        """Unsettled deliveries sent on this link, by delivery-id, in ascending order."""

    @property
    def is_attached(self) -> bool:
        return self.state is LinkState.ATTACHED

    # --- decided by each kind of link
    # -----------------------------------------------------------------

    def attach(self, attach: Attach) -> None:
        """Answer ``attach`` and begin. A :class:`Refusal` is raised *before* the answer."""
        raise NotImplementedError

    def flow(self, flow: Flow) -> None:
        """Handle the peer's flow state for this link."""
        raise NotImplementedError

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        raise NotImplementedError

    def describe(self, flow: Flow) -> None:
        """Add the state of this link to a flow of ours."""
        raise NotImplementedError

    def resume(self) -> None:
        """Send the waiting frames, because the session may send again."""

    def stop(self) -> None:
        """Leave the queue. May be called more than once."""

    def give_back(self) -> list[Queue]:
        """Return deliveries to their queues after ``stop()``; return the queues to dispatch."""
        return []

    # --- common to all links
    # --------------------------------------------------------------------------

    def answer(self, attach: Attach) -> Attach:
        """Return the answer to ``attach`` without the termini."""
        return Attach(
            name=self.name,
            handle=self.our_handle,
            role=not self.role,
            snd_settle_mode=self.snd_settle_mode,
            rcv_settle_mode=self.rcv_settle_mode,
            initial_delivery_count=0 if self.role is RECEIVER else None,
        )

    def refuse(self, attach: Attach, error: Error) -> None:
        """Answer ``attach`` without a terminus of ours, and then close (AMQP10-LINK-12)."""
        answer = self.answer(attach)
        if self.role is RECEIVER:
            answer.target = attach.target
        else:
            answer.source = attach.source
        self.session.send(answer)
        self.session.send(Detach(handle=self.our_handle, closed=True, error=error))
        self.state = LinkState.REFUSED

    def attach_to_close(self) -> None:
        """Attach only in order to detach with closed=true; see the wart above."""
        self.session.send(
            Attach(
                name=self.name,
                handle=self.our_handle,
                role=not self.role,
                initial_delivery_count=0 if self.role is RECEIVER else None,
            )
        )
        self.session.send(Detach(handle=self.our_handle, closed=True))


def part(links: Sequence[Link], router: Router) -> None:
    """Take ``links`` out of their queues, return their deliveries, then dispatch.

    In this order, no returned message is overtaken by a newer one.
    """
    for link in links:
        link.stop()
    queues = dict.fromkeys(queue for link in links for queue in link.give_back())
    for queue in queues:
        queue.dispatch()
        router.addresses.tidy(queue)


NewLink: TypeAlias = Callable[[Session, Attach, int], Link]
"""Makes a link from an attach and the handle that we give the link."""


class AttachedLinks(dict[tuple[str, str, bool], Link]):
    """A broker's attached links by identity: the peer's container, the name and the peer's role."""
