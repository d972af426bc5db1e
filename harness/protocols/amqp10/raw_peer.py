"""A raw AMQP 1.0 peer, which can speak correctly or send arbitrary bytes.

Every verb fills in the values of a correct peer, from state that is updated with each frame sent
and received. Callers can change every field (None omits it), and ``send`` and ``write`` send
anything else. The state does not judge: a wrong number is recorded as sent.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.finding import shown
from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant
from brokerproof.harness.protocols.amqp10 import codec, messages, types
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER, Frame
from brokerproof.harness.protocols.amqp10.endpoint_state import Delivery, Endpoint, Link, Session
from brokerproof.harness.protocols.amqp10.habits import Habits
from brokerproof.harness.protocols.amqp10.trace_recorder import (
    PROTOCOL,
    UNREADABLE,
    AmqpTraceRecorder,
)
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Conversation,
    Judge,
    Match,
    Requirements,
    Symptom,
)

HEADER = "protocol-header"
SASL_ID = 3


@dataclass(frozen=True, slots=True)
class Node:
    """An address, and the capabilities that show this broker family its kind."""

    address: str
    capabilities: tuple[str, ...] = ()


def frame(
    performative: str, /, *, link: Link | None = None, channel: int | None = None, **fields: Any
) -> Match[Frame]:
    """Match a frame by name, by the channel and handle that the broker uses for ``link``, and by
    plain field values.

    If a field is given as None, it must be absent.
    """
    expected = {key.replace("_", "-"): value for key, value in fields.items()}
    role = "receiver" if expected.get("role") else "sender"
    given = (f"{key}={role if key == 'role' else shown(of)}" for key, of in expected.items())
    words = " ".join([performative, *given])
    if link is not None:
        words += f" of link {link.name}"

    def accepts(candidate: Frame) -> bool:
        if candidate.name != performative or (channel is not None and candidate.channel != channel):
            return False
        if link is not None and not link.is_of(candidate):
            return False
        return all(candidate.get(key) == value for key, value in expected.items())

    return Match(words, accepts)


def ending(what: str, condition: str | None = None) -> Match[Frame]:
    """Match a detach, end or close with an error: any error, or one with that condition."""
    words = f"{what} with {condition or 'an error'}"
    return Match(
        words,
        lambda frame: (
            frame.name == what
            and frame.condition is not None
            and (condition is None or frame.condition == condition)
        ),
    )


ANY_BUT_FLOW: Match[Frame] = Match("frame but flow", lambda frame: frame.name != "flow")
"""A flow may arrive at any time, requested or not."""


class AmqpConnection(Conversation[Frame]):
    """One AMQP connection of the harness with its sessions and links, but without deliveries."""

    protocol = PROTOCOL
    habits = Habits()

    def __init__(
        self, judge: Judge, conn: int, acceptor: str, container: str = "brokerproof"
    ) -> None:
        super().__init__(judge, conn, acceptor)
        self.require: Callable[[str], None] = lambda capability: None
        """Raises :class:`ControlFailed` for an extension that the broker does not offer."""
        self.mechanism = ""  # of SASL, or codec.NO_SASL
        self.container = container
        """Our container-id; one per peer, because link names are unique only between two ids."""
        self.endpoint = Endpoint()
        self.keeps_alive = False
        """True if empty frames keep the broker's idle-time-out, until a wrong frame or a close."""
        self.sent_fields: dict[str, Any] = {}
        self._recorder = AmqpTraceRecorder(judge, conn)
        self._names = 0

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        for item in self._recorder.on_bytes_received(at, data):
            self.inbox.append(item)
            self.endpoint.on_frame(item)

    @property
    def opened(self) -> Frame | None:
        return self.endpoint.opened

    @property
    def sessions(self) -> dict[int, Session]:
        return self.endpoint.sessions

    def fatal(self, frame: Frame) -> bool:
        return (
            frame.name in ("close", UNREADABLE)
            or (frame.name in ("end", "detach") and frame.condition is not None)
            or (frame.name == "sasl-outcome" and frame.get("code") != 0)
        )

    def words(self, frame: Frame) -> str:
        return frame.brief()

    def expect_nothing(
        self,
        *,
        for_: Duration,
        of: Match[Frame] | None = None,
        proves: Requirements | None = None,
        why: str = "",
    ) -> None:
        """Expect silence as :class:`Conversation` does; without ``of``, flows may arrive."""
        super().expect_nothing(for_=for_, of=of or ANY_BUT_FLOW, proves=proves, why=why)

    # sending

    def header(self, id: int = 0, major: int = 1, minor: int = 0, revision: int = 0) -> None:
        """Send the protocol header ``id``: 0 for AMQP, 2 for TLS, 3 for SASL."""
        fields = {"id": id, "major": major, "minor": minor, "revision": revision}
        listed = tuple((name, str(value)) for name, value in fields.items())
        self._recorder.record_frame_sent(self.world.now(), HEADER, listed, b"", codec.HEADER_SIZE)
        self.write(codec.protocol_header(id, major, minor, revision), as_event=False)

    def send(
        self,
        performative: str,
        fields: Mapping[str, Any] | None = None,
        payload: bytes = b"",
        *,
        channel: int = 0,
        type: int | None = None,
        doff: int | None = None,
        size: int | None = None,
        extended: bytes = b"",
        also: Callable[[bytes], bytes] | None = None,
    ) -> None:
        """Send a frame with exactly these fields. ``doff``, ``size`` and ``type`` may be wrong;
        ``also`` may change its bytes. A wrong frame is recorded as bytes."""
        body = codec.composite(performative, fields)
        kind = (
            (codec.SASL_FRAME if performative.startswith("sasl-") else codec.AMQP_FRAME)
            if type is None
            else type
        )
        data = codec.encode_frame(
            types.encode(body) + payload,
            channel=channel,
            type=kind,
            doff=doff,
            size=size,
            extended=extended,
        )
        changed = data if also is None else also(data)
        honest = doff is None and size is None and type is None and changed == data
        if honest:
            listed = codec.field_list(codec.fields_of(body), channel)
            self._recorder.record_frame_sent(
                self.world.now(), performative, listed, payload, len(data)
            )
        else:
            self._recorder.record_bytes_sent(self.world.now(), changed)
        self.keeps_alive &= honest and performative != "close"
        self.write(changed, as_event=False)

    def write(self, data: bytes, *, as_event: bool = True) -> None:
        self.keeps_alive &= not as_event
        super().write(data, as_event=as_event)

    def close_socket(self, how: CloseHow = CloseHow.EOF) -> None:
        self.keeps_alive = False
        super().close_socket(how)

    def keep_alive(self) -> None:
        """Send empty frames as the broker's open requires, as long as ``keeps_alive`` is true."""
        announced = self.opened and self.opened.get("idle-time-out")
        idle = announced * NS_PER_MS if isinstance(announced, int) else 0
        if 0 < idle <= 2 * PATIENCE:  # a case never waits longer than half of a longer time-out
            # Late in the interval, because the broker may be busy with a case's earlier request.
            self._keep_alive(idle * 3 // 4)

    def _keep_alive(self, every: Duration) -> None:
        """Send an empty frame if nothing was sent for ``every``, and schedule the next check."""
        if not self.keeps_alive or self.ended is not None:
            return
        assert self.spoke_at is not None
        if self.world.now() - self.spoke_at >= every:
            self.beat()
        self.world.at(self.spoke_at + every, partial(self._keep_alive, every))

    def beat(self, data: bytes = codec.encode_frame(b"")) -> None:
        super().beat(data)

    # connections

    def sasl(
        self,
        mechanism: str = "ANONYMOUS",
        response: bytes | None = None,
        *,
        hostname: str | None = None,
        proves: Requirements | None = None,
    ) -> Frame:
        """Carry out the SASL exchange, whose outcome must be ok."""
        self.header(SASL_ID)
        self.expect(frame(HEADER, id=SASL_ID), proves=proves)
        self.expect(frame("sasl-mechanisms"), proves=proves)
        self.send(
            "sasl-init",
            {"mechanism": mechanism, "initial-response": response, "hostname": hostname},
        )
        return self.expect(frame("sasl-outcome", code=0), proves=proves)

    def authenticate(self, login: str | None, passcode: str | None) -> None:
        """Log in by :attr:`mechanism`; do nothing if the broker has no SASL layer."""
        if self.mechanism == "PLAIN":
            self.sasl("PLAIN", f"\0{login}\0{passcode or ''}".encode())
        elif self.mechanism != codec.NO_SASL:
            self.sasl()

    def open(
        self, *, answered: bool = True, proves: Requirements | None = None, **fields: Any
    ) -> Frame | None:
        """Exchange protocol headers and send an open; by default wait for the broker's open."""
        self.header()
        if answered:
            self.expect(frame(HEADER, id=0, major=1, minor=0, revision=0), proves=proves)
        self.sent_fields = {"container-id": self.container, **_hyphens(fields)}
        self.send("open", self.sent_fields)
        if not answered:
            return None
        opened = self.expect(frame("open"), proves=proves)
        self.keep_alive()
        return opened

    def close(
        self, *, answered: bool = True, proves: Requirements | None = None, error: Any = None
    ) -> Frame | None:
        """Send a close; by default wait for the broker's close."""
        self.send("close", {"error": error})
        return self.expect(frame("close"), proves=proves) if answered else None

    # sessions

    def begin(
        self,
        channel: int = 0,
        *,
        answered: bool = True,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Session:
        """Begin a session; by default wait for the broker's begin. Windows start wide open. Raises
        :class:`ControlFailed` if the channel of an awaited begin exceeds the broker's
        channel-max."""
        if answered:
            self._within(channel, self.opened, "channel-max", 65535)
        session, filled = self.endpoint.begin(channel, _hyphens(fields))
        self.send("begin", filled, channel=channel)
        if answered:
            self.expect(frame("begin", remote_channel=channel), proves=proves)
        return session

    def end(
        self,
        session: Session | None = None,
        *,
        answered: bool = True,
        proves: Requirements | None = None,
        error: Any = None,
    ) -> Frame | None:
        """End a session; by default wait for the broker's end."""
        session = session or self.session
        self.send("end", {"error": error}, channel=session.channel)
        return (
            self.expect(frame("end", channel=session.theirs), proves=proves) if answered else None
        )

    @property
    def session(self) -> Session:
        """The session on the lowest channel on which we began one."""
        return self.sessions[min(self.sessions)]

    def settle(self) -> None:
        """Wait, via a session on a spare channel, until the broker has read all earlier frames and
        its own have arrived (a barrier). Its scheduled actions, such as settling, may follow later.
        Not every broker answers the echo of a flow (AMQP10-CREDIT-22)."""
        channel = self.endpoint.spare_channel()
        if channel is None:
            self._await_echo()
            return
        scratch = self.begin(channel)
        self.end(scratch)
        del self.sessions[scratch.channel]

    def _await_echo(self) -> None:
        """A weaker barrier on a broker without a spare channel."""
        session, earlier = self.session, {id(one) for one in self.inbox}
        sent = session.next_outgoing_id
        answer = frame("flow", channel=session.theirs, handle=None, next_incoming_id=sent)
        self.flow(session=session, echo=True)
        self.watch_for(
            Match(answer.words, lambda one: id(one) not in earlier and answer.accepts(one))
        )

    # links

    def attach(
        self,
        role: bool,
        node: Node | str | None = None,
        *,
        session: Session | None = None,
        answered: bool = True,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Link:
        """Attach a link, as ``SENDER`` to a target, with rcv-settle-mode first (0), or as
        ``RECEIVER`` from a source; by default wait for the answer. Raises :class:`ControlFailed` if
        the attach should be answered but its handle exceeds the broker's handle-max."""
        session = session or self.session
        node = Node(node) if isinstance(node, str) else node
        if node is None and role is SENDER and "target" not in fields:
            self.require("amqp-anonymous")
        self._names += 1
        filled: dict[str, Any] = {
            "name": f"link-{self.conn}-{self._names}",
            "handle": session.free_handle(self.habits.first_handle),
            "role": role,
            "rcv-settle-mode": 0 if role is SENDER else None,
            "source": codec.composite("source", _terminus(node if role is RECEIVER else None)),
            "target": codec.composite("target", _terminus(node if role is SENDER else None)),
            **self.habits.link(role),
            **_hyphens(fields),
        }
        if answered:
            self._within(filled["handle"], session.answer, "handle-max", 2**32 - 1)
        link = session.attaching(filled)
        self.send("attach", filled, channel=session.channel)
        if answered:
            self.expect(
                frame("attach", channel=session.theirs, name=link.name, role=not role),
                proves=proves,
            )
        return link

    @staticmethod
    def _within(number: Any, told: Frame | None, name: str, default: int) -> None:
        most = default if told is None else told.get(name, default)
        if isinstance(number, int) and number > most:
            words = f"the case needs {name} {number}; the broker's is {most}"
            raise ControlFailed(words, Symptom.ABSENT)

    def sender(self, node: Node | str | None, **more: Any) -> Link:
        return self.attach(SENDER, node, **more)

    def receiver(self, node: Node | str | None, *, credit: int = 0, **more: Any) -> Link:
        """Attach as a receiver, and grant ``credit`` unless it is 0."""
        link = self.attach(RECEIVER, node, **more)
        if credit:
            self.flow(link, link_credit=credit)
        return link

    def detach(
        self,
        link: Link,
        *,
        answered: bool = True,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Frame | None:
        """Detach, closing the link unless ``closed`` is False; by default wait for the answer."""
        theirs = link.their_handle
        self.send(
            "detach",
            {"handle": link.handle, "closed": True, **_hyphens(fields)},
            channel=link.session.channel,
        )
        link.session.released(link)
        if not answered:
            return None
        return self.expect(
            frame("detach", channel=link.session.theirs, handle=theirs), proves=proves
        )

    def flow(
        self, link: Link | None = None, *, session: Session | None = None, **fields: Any
    ) -> None:
        """Send the flow state of a session, or of a link too: by default, the current state."""
        session = link.session if link is not None else session or self.session
        fields = self.endpoint.flow(session, link, _hyphens(fields))
        self.send("flow", fields, channel=session.channel)


class AmqpPeer(AmqpConnection):
    """One AMQP connection of the harness that also sends, receives and settles messages."""

    @property
    def deliveries(self) -> list[Delivery]:
        """Complete deliveries that no expectation has consumed, oldest first."""
        return self.endpoint.deliveries

    def transfer(self, link: Link, payload: bytes = b"", **fields: Any) -> int:
        """Send a transfer frame, unsettled unless ``settled``; return the delivery-id.

        The transfer begins a new delivery, or continues the one whose last frame had ``more``.
        Raises :class:`ControlFailed` if the broker accepts no frame of this size."""
        if self.protocol == PROTOCOL and len(payload) >= (most := self.endpoint.max_frame_size):
            words = f"the broker takes frames of {most} bytes, this transfer has {len(payload)}"
            raise ControlFailed(words, Symptom.ABSENT)
        delivery_id, filled = self.endpoint.transfer(link, _hyphens(fields))
        self.send("transfer", filled, payload, channel=link.session.channel)
        return delivery_id

    def publish(
        self,
        link: Link,
        body: Any = b"",
        *,
        settled: bool = False,
        sections: Mapping[str, Any] | None = None,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Frame | None:
        """Send a message in as many frames as the broker's max-frame-size requires. Unless
        ``settled``, wait until the broker has accepted the message; return that disposition."""
        delivery = self.post(link, body, settled=settled, sections=sections)
        if settled:
            return None
        return self.confirmed(link.session, delivery, within=within, proves=proves)

    def post(
        self,
        link: Link,
        body: Any = b"",
        *,
        settled: bool = False,
        sections: Mapping[str, Any] | None = None,
    ) -> int:
        """Like :meth:`publish`, but do not wait; return the delivery-id."""
        payload = messages.message(body, **self.habits.sections(sections))
        pieces = self.habits.cut(payload, self.endpoint.most_payload)
        delivery = 0
        for number, piece in enumerate(pieces):
            delivery = self.transfer(
                link, piece, settled=settled or None, more=number < len(pieces) - 1 or None
            )
        return delivery

    def settled(self, session: Session, delivery: int, state: str | None = None) -> Match[Frame]:
        """Match a receiver's disposition that settles ``delivery``, perhaps with other deliveries,
        and with that outcome if given. :meth:`confirmed` also finds a disposition that an earlier
        expectation took."""

        def accepts(candidate: Frame) -> bool:
            if (candidate.name, candidate.channel) != ("disposition", session.theirs):
                return False
            if not candidate.get("role"):
                return False
            first = candidate["first"]
            inside = (delivery - first) % 2**32 <= (candidate.get("last", first) - first) % 2**32
            settled = candidate.get("settled") is True
            return inside and settled and state in (None, candidate.kind("state"))

        words = f"disposition of delivery {delivery}, settled{', ' + state if state else ''}"
        return Match(words, accepts)

    def confirmed(
        self,
        session: Session,
        delivery: int,
        state: str | None = "accepted",
        *,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Frame:
        """Wait until the broker has settled our delivery with that outcome. Return the disposition,
        which may also cover other deliveries."""
        failed = self.arrival(self.fatal)
        self.world.wait_until(
            lambda: bool(session.outcomes.get(delivery)) or self.ended is not None or failed(),
            self.world.now() + within,
        )
        outcome = session.outcomes.get(delivery)
        expected = f"delivery {delivery} to be settled{f' as {state}' if state else ''}"
        if outcome is None:
            self._unmet(f"expected {expected}, but {self.instead()}", proves)
        assert outcome is not None
        if state is not None and outcome.kind("state") != state:
            self._unmet(f"expected {expected}, but got {outcome.brief()}", proves)
        if proves is not None:
            self.judge.record_held(proves, outcome, f"got {outcome.brief()}")
        return outcome

    def delivery(
        self,
        link: Link | None = None,
        *,
        body: Any = None,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Delivery:
        """Return the next complete delivery (of ``link``, with that body); remove its frames from
        the inbox."""

        def fits(delivery: Delivery) -> bool:
            return (link is None or delivery.link is link) and (
                body is None or delivery.has_body(body)
            )

        def wanted() -> Delivery | None:
            return next((delivery for delivery in self.deliveries if fits(delivery)), None)

        failed = self.arrival(self.fatal)
        self.world.wait_until(
            lambda: wanted() is not None or self.ended is not None or failed(),
            self.world.now() + within,
        )
        delivery = wanted()
        of = "" if link is None else f" on link {link.name}"
        of += "" if body is None else f" of {body!r}"
        if delivery is None:
            self._unmet(f"expected a delivery{of}, but {self.instead()}", proves)
        assert delivery is not None
        self.deliveries.remove(delivery)
        mine = {id(frame) for frame in delivery.frames}
        self.inbox = [frame for frame in self.inbox if id(frame) not in mine]
        if proves is not None:
            self.judge.record_held(
                proves, delivery, f"got delivery {delivery.id}{of}: {delivery.payload[:60]!r}"
            )
        return delivery

    def take_deliveries(self, link: Link | None = None) -> list[Delivery]:
        """Return and remove every complete delivery (of ``link``, if given), in order."""
        taken = self.endpoint.take_deliveries(link)
        mine = {id(frame) for delivery in taken for frame in delivery.frames}
        self.inbox = [frame for frame in self.inbox if id(frame) not in mine]
        return taken

    def disposition(
        self, delivery: Delivery | int | None = None, state: Any = "accepted", **fields: Any
    ) -> None:
        """Settle a delivery that we received. ``state`` is the name of an outcome without fields, a
        composite, or None."""
        given = _hyphens(fields)
        channel = given.pop("channel", None)
        session = delivery.link.session if isinstance(delivery, Delivery) else self.session
        filled: dict[str, Any] = {
            "role": RECEIVER,
            "first": delivery.id if isinstance(delivery, Delivery) else delivery,
            "settled": True,
            "state": codec.composite(state) if isinstance(state, str) else state,
            **given,
        }
        self.send("disposition", filled, channel=session.channel if channel is None else channel)


def _terminus(node: Node | None) -> dict[str, Any]:
    if node is None:
        return {}
    return {"address": node.address, "capabilities": node.capabilities or None}


def _hyphens(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name.replace("_", "-"): value for name, value in fields.items()}
