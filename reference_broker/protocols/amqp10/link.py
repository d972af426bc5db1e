"""What all links have in common: how they begin and how they end (2.6).

Rules
-----
* A link lives from the peer's ``attach`` to the peer's ``detach``. We never attach on our own, but
  once: see the wart.
* What a link does in between is in ``outgoing.py`` (the peer receives), ``incoming.py`` (the peer
  sends) and ``coordinator.py`` (the peer controls transactions).
* A mistake on a link is a :class:`Refusal` raised by the link and caught by the session, which
  breaks the link.

Theory ------ The specification lets the two ends of a link detach and come back, with all they know
of unsettled deliveries. Our ends never outlive their handle: a terminus here is gone when it is
detached, and says so (``durable`` none, ``expiry-policy`` link-detach; AMQP10-LINK-04,
AMQP10-LINK-05). So a second attach of the same name finds nothing to resume, our side of the
unsettled map is empty, and a handle is in one of three states:

=============  =====================  ========================  ==========================
what comes     ATTACHED               REFUSED                   BROKEN
=============  =====================  ========================  ==========================
flow           ``flow()``             ignored                   errant-link ends session
transfer       ``transfer()``         ignored                   errant-link ends session
disposition    settles                (it has no deliveries)    errant-link ends session
detach         answered, GONE         GONE                      GONE
same name      stolen: -> BROKEN      new link                  new link
session ends   GONE                   GONE                      GONE
=============  =====================  ========================  ==========================

* REFUSED: the attach was answered without a terminus, and with a closing detach (AMQP10-LINK-12). A
  peer that pipelines its first credit behind its attach has done nothing wrong, so that is ignored.
* BROKEN: the link lived, and we closed it with an error. The specification is stern with what comes
  then (AMQP10-SESS-06), although the peer may not have known: input other than detach ends the
  session.

Wart ---- If we close a link and the peer answers with a detach that does not close, the peer
believes that its end may come back. The specification then has us attach once more, only to detach
closing (AMQP10-LINK-11).
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import TYPE_CHECKING

from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    FIRST,
    RECEIVER,
    Attach,
    Detach,
    Error,
    Flow,
    Transfer,
)

if TYPE_CHECKING:
    from brokerproof.reference_broker.protocols.amqp10.session import Session


class LinkState(enum.Enum):
    """What a handle stands for."""

    ATTACHED = enum.auto()
    REFUSED = enum.auto()
    BROKEN = enum.auto()
    GONE = enum.auto()


class Link:
    """One link. ``role`` is the peer's; ``handle`` the one in what the peer sends, ``our_handle``
    in what we send."""

    in_delivery = False
    """Whether the next transfer continues a delivery."""

    def __init__(self, session: Session, attach: Attach, our_handle: int) -> None:
        self.session = session
        self.name = attach.name
        self.role = attach.role
        self.handle = attach.handle
        self.our_handle = our_handle
        self.snd_settle_mode = attach.snd_settle_mode
        self.rcv_settle_mode = FIRST
        self.state = LinkState.ATTACHED

    # --- what a kind of link does -----------------------------------------------------------------

    def attach(self, attach: Attach) -> None:
        """Answers ``attach``, and begins. Raises :class:`Refusal` *before* it has answered."""
        raise NotImplementedError

    def flow(self, flow: Flow) -> None:
        """The peer's flow state of this link."""
        raise NotImplementedError

    def transfer(self, transfer: Transfer, payload: bytes) -> None:
        """A transfer of the peer."""
        raise NotImplementedError

    def describe(self, flow: Flow) -> None:
        """Adds this link's state to a flow of ours."""
        raise NotImplementedError

    def resume(self) -> None:
        """The session may send again."""

    def stop(self) -> None:
        """Takes no more part in what its queue does. May be called more than once."""

    def give_back(self) -> list[Queue]:
        """Returns what it holds, after ``stop()``; the queues where somebody may want it now."""
        return []

    # --- what all do ------------------------------------------------------------------------------

    def answer(self, attach: Attach) -> Attach:
        """The beginning of an answer to ``attach``: everything but the termini."""
        return Attach(
            name=self.name,
            handle=self.our_handle,
            role=not self.role,
            snd_settle_mode=self.snd_settle_mode,
            rcv_settle_mode=self.rcv_settle_mode,
            initial_delivery_count=0 if self.role is RECEIVER else None,
        )

    def refuse(self, attach: Attach, error: Error) -> None:
        """Answers ``attach`` without a terminus of ours, and closes (AMQP10-LINK-12)."""
        answer = self.answer(attach)
        if self.role is RECEIVER:
            answer.target = attach.target
        else:
            answer.source = attach.source
        self.session.send(answer)
        self.session.send(Detach(handle=self.our_handle, closed=True, error=error))
        self.state = LinkState.REFUSED

    def attach_to_close(self) -> None:
        """See the wart."""
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
    """Takes ``links`` out of their queues; then what they hold goes back; then others may have it.

    In this order no message overtakes an older one on its way back.
    """
    for link in links:
        link.stop()
    queues = dict.fromkeys(queue for link in links for queue in link.give_back())
    for queue in queues:
        queue.dispatch()
        router.tidy(queue)
