"""What a raw AMQP peer keeps about its sessions and links: ids, windows and credit, as sent and as
received.

Arithmetic of part 2, 2.5.6 and 2.6.7, modulo 2**32. Nothing is refused here: what was sent is
entered as it was sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from brokerproof.harness.protocols.amqp10 import messages, types
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER, Frame
from brokerproof.harness.protocols.amqp10.messages import Message

WRAP = 2**32
WIDE = 2**31 - 1
"""A window that never closes by itself."""


def plus(number: int, step: int) -> int:
    """Serial number arithmetic (RFC 1982, 32 bits)."""
    return (number + step) % WRAP


@dataclass(eq=False)
class Delivery:
    """One delivery that arrived completely."""

    link: Link
    id: int
    tag: bytes | None
    settled: bool
    frames: list[Frame] = field(default_factory=list)
    aborted: bool = False

    @property
    def payload(self) -> bytes:
        """What its frames carried, joined."""
        return b"".join(each.payload for each in self.frames)

    @property
    def size(self) -> int:
        """Octets of all its frames."""
        return sum(each.size for each in self.frames)

    @cached_property
    def message(self) -> Message:
        """The message; raises :class:`brokerproof.harness.protocols.amqp10.types.Malformed` for
        what is none."""
        return messages.read(self.payload)


class Link:
    """One link of a session. For a sender ``delivery_count`` and ``credit`` are ours; for a
    receiver as we see them."""

    def __init__(self, session: Session, name: str, handle: int, role: bool, initial: int) -> None:
        self.session, self.name, self.handle, self.role = session, name, handle, role
        self.delivery_count = initial
        self.initial_delivery_count = initial
        self.credit = 0
        """Deliveries that may still be sent: granted to us (sender), or by us (receiver). Below 0
        if overdrawn."""
        self.available: int | None = None
        """What the other side said it has."""
        self.drain = False
        self.their_handle: int | None = None
        self.answer: Frame | None = None
        """The broker's attach."""
        self.detached: Frame | None = None
        """The broker's detach."""
        self.open_delivery: int | None = None
        """The delivery-id of a delivery of which more is to be sent."""
        self._arriving: Delivery | None = None

    @property
    def attached(self) -> bool:
        """Whether the broker's attach came."""
        return self.answer is not None

    def is_of(self, frame: Frame) -> bool:
        """Whether the broker sent ``frame`` on this link."""
        return (
            frame.channel == self.session.theirs
            and self.their_handle is not None
            and frame.get("handle") == self.their_handle
        )

    def granting(self, fields: Mapping[str, Any]) -> None:
        """We are about to send these flow fields."""
        if self.role is RECEIVER:
            base, credit = _int(fields.get("delivery-count")), _int(fields.get("link-credit"))
            if credit is not None:
                at = self.initial_delivery_count if base is None else base
                self.credit = _signed(plus(at, credit) - self.delivery_count)
            self.drain = bool(_plain(fields.get("drain")))

    def heard(self, frame: Frame) -> Delivery | None:
        """The broker's frame on this link; a delivery when it completes one."""
        match frame.name:
            case "flow":
                self._flow(frame)
            case "detach":
                self.detached = frame
                self.session.theirs_released(self)
            case "transfer":
                return self._transfer(frame)
        return None

    def _flow(self, frame: Frame) -> None:
        self.available = frame.get("available", self.available)
        if self.role is SENDER:
            at = frame.get("delivery-count", self.initial_delivery_count)
            self.credit = _signed(plus(at, frame.get("link-credit", 0)) - self.delivery_count)
            self.drain = frame.get("drain", False)
        elif frame.get("delivery-count") is not None:
            advanced = _signed(frame["delivery-count"] - self.delivery_count)
            self.delivery_count = frame["delivery-count"]
            self.credit -= advanced

    def _transfer(self, frame: Frame) -> Delivery | None:
        arriving = self._arriving
        if arriving is None:
            arriving = Delivery(
                self, frame.get("delivery-id", -1), frame.get("delivery-tag"), False
            )
            self.delivery_count = plus(self.delivery_count, 1)
            self.credit -= 1
        arriving.frames.append(frame)
        arriving.settled = arriving.settled or frame.get("settled", False)
        arriving.aborted = frame.get("aborted", False)
        going_on = frame.get("more", False) and not arriving.aborted
        self._arriving = arriving if going_on else None
        return None if going_on or arriving.aborted else arriving


class Session:
    """One session: what we said and counted, and what the broker said."""

    def __init__(self, channel: int) -> None:
        self.channel = channel
        self.theirs: int | None = None
        """The channel on which the broker answers."""
        self.answer: Frame | None = None
        """The broker's begin."""
        self.ended: Frame | None = None
        """The broker's end."""
        self.next_outgoing_id = 0
        self.outgoing_window = WIDE
        self.initial_outgoing_id = 0
        self.incoming_window = WIDE
        """What we grant, as it stands: every transfer received takes one."""
        self.next_incoming_id: int | None = None
        self.remote_incoming_window = 0
        """How many transfers we may still send. Below 0 if overdrawn."""
        self.remote_outgoing_window = 0
        self.next_delivery_id = 0
        self.outcomes: dict[int, Frame | None] = {}
        """By the ids of what we sent: the disposition that settled it, None while there is none."""
        self.links: dict[int, Link] = {}
        """By our handle."""
        self._by_their_handle: dict[int, Link] = {}

    def said(self, fields: Mapping[str, Any]) -> None:
        """We are about to send these begin fields."""
        self.next_outgoing_id = self.initial_outgoing_id = _int(fields.get("next-outgoing-id")) or 0
        self.next_delivery_id = self.next_outgoing_id
        self.granting(fields)

    def granting(self, fields: Mapping[str, Any]) -> None:
        """We are about to send these windows."""
        window, outgoing = _int(fields.get("incoming-window")), _int(fields.get("outgoing-window"))
        self.incoming_window = self.incoming_window if window is None else window
        self.outgoing_window = self.outgoing_window if outgoing is None else outgoing

    def begun(self, frame: Frame) -> None:
        """The broker's begin."""
        self.answer, self.theirs = frame, frame.channel
        self.next_incoming_id = frame.get("next-outgoing-id")
        self.remote_outgoing_window = frame.get("outgoing-window", 0)
        self.remote_incoming_window = _signed(
            plus(self.initial_outgoing_id, frame.get("incoming-window", 0)) - self.next_outgoing_id
        )

    def heard(self, frame: Frame) -> Delivery | None:
        """The broker's frame on this session; a delivery when it completes one."""
        match frame.name:
            case "end":
                self.ended = frame
                return None
            case "attach":
                self._attached(frame)
                return None
            case "disposition":
                self._settled(frame)
                return None
            case "flow":
                at = frame.get("next-incoming-id", self.initial_outgoing_id)
                self.remote_incoming_window = _signed(
                    plus(at, frame.get("incoming-window", 0)) - self.next_outgoing_id
                )
                self.next_incoming_id = frame.get("next-outgoing-id", self.next_incoming_id)
                self.remote_outgoing_window = frame.get(
                    "outgoing-window", self.remote_outgoing_window
                )
            case "transfer":
                self.next_incoming_id = plus(self.next_incoming_id or 0, 1)
                self.incoming_window = max(0, self.incoming_window - 1)
                self.remote_outgoing_window -= 1
        link = self._by_their_handle.get(frame.get("handle", -1))
        return None if link is None else link.heard(frame)

    def _settled(self, frame: Frame) -> None:
        if frame.get("role") is not RECEIVER or frame.get("settled") is not True:
            return
        first = frame.get("first", 0)
        span = (frame.get("last", first) - first) % WRAP
        for delivery, before in self.outcomes.items():
            if before is None and (delivery - first) % WRAP <= span:
                self.outcomes[delivery] = frame

    # links

    def free_handle(self) -> int:
        """The lowest handle that we do not use."""
        return next(each for each in range(WRAP) if each not in self.links)

    def attaching(self, fields: Mapping[str, Any]) -> Link:
        """We are about to send these attach fields."""
        initial = _int(fields.get("initial-delivery-count")) or 0
        handle = _int(fields.get("handle")) or 0
        link = Link(
            self, str(_plain(fields.get("name"))), handle, bool(_plain(fields.get("role"))), initial
        )
        self.links[handle] = link
        return link

    def _attached(self, frame: Frame) -> None:
        for link in self.links.values():
            if (
                link.name == frame.get("name")
                and link.role is not frame.get("role")
                and not link.attached
            ):
                link.answer, link.their_handle = frame, frame.get("handle", -1)
                if link.role is RECEIVER:
                    link.delivery_count = link.initial_delivery_count = frame.get(
                        "initial-delivery-count", 0
                    )
                self._by_their_handle[frame.get("handle", -1)] = link

    def released(self, link: Link) -> None:
        """We sent detach: the handle is free again."""
        if self.links.get(link.handle) is link:
            del self.links[link.handle]

    def theirs_released(self, link: Link) -> None:
        """The broker sent detach."""
        if link.their_handle is not None:
            self._by_their_handle.pop(link.their_handle, None)

    def sending(self, link: Link, fields: Mapping[str, Any], *, first: bool) -> int:
        """We are about to send these transfer fields; returns the delivery-id."""
        delivery = _int(fields.get("delivery-id")) if first else link.open_delivery
        delivery = self.next_delivery_id if delivery is None else delivery
        self.next_outgoing_id = plus(self.next_outgoing_id, 1)
        self.remote_incoming_window -= 1
        if first:
            self.next_delivery_id = plus(delivery, 1)
            self.outcomes[delivery] = None
            link.delivery_count = plus(link.delivery_count, 1)
            link.credit -= 1
        going_on = bool(_plain(fields.get("more"))) and not _plain(fields.get("aborted"))
        link.open_delivery = delivery if going_on else None
        return delivery


def _plain(value: Any) -> Any:
    if isinstance(value, (types.Value, types.Described, types.Array, types.Raw)):
        return types.plain(value)
    return value


def _int(value: Any) -> int | None:
    found = _plain(value)
    return found if isinstance(found, int) else None


def _signed(number: int) -> int:
    """A difference of serial numbers: positive ahead, negative behind."""
    number %= WRAP
    return number - WRAP if number >= WRAP // 2 else number
