"""python-qpid-proton, the common AMQP 1.0 client for Python, as an engine without a socket or a
thread.

Its transport writes to and reads from a harness channel; its timers use the world's deadlines. So a
case drives the real client reproducibly in virtual time, and the same code runs over sockets. The
trace contains the traffic as the harness's codec reads it, whereas expectations use Proton's
reports."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import proton

from brokerproof.harness.clients.proton_events import Arrived, ProtonEvent, event_named
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.trace_recorder import PROTOCOL, AmqpTraceRecorder
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Conversation,
    Judge,
    Match,
    Requirements,
)
from brokerproof.harness.trace.events import Noted

_CLOCK_BEGINS_MS = 1_000
"""To Proton, the instant 0 means "none", so its clock runs this far ahead of the world's."""

_STATES = {
    "accepted": proton.Delivery.ACCEPTED,
    "rejected": proton.Delivery.REJECTED,
    "released": proton.Delivery.RELEASED,
    "modified": proton.Delivery.MODIFIED,
    "received": proton.Delivery.RECEIVED,
}
_NAMES = {int(state): name for name, state in _STATES.items()} | {0: None}

_TOLD = frozenset(
    {
        *(
            "connection_remote_open",
            "session_remote_open",
            "link_remote_open",
            "link_remote_detach",
            "link_flow",
        ),
        *(
            "transport_authenticated",
            "transport_head_closed",
            "transport_tail_closed",
            "transport_closed",
        ),
    }
)
"""Events that expectations may see, besides those about closes and deliveries. Other events are
internal to Proton."""

_FATAL = frozenset(
    {"transport_error", "connection_remote_close", "session_remote_close", "link_remote_close"}
)


def has_tls() -> bool:
    """True if this build of Proton has TLS: a build without OpenSSL's headers silently omits it."""
    return bool(proton.SSL.present())


@dataclass(eq=False)
class Sent:
    """A delivery that the client sent, and its outcome."""

    delivery: Any
    state: str | None = None
    """accepted, rejected, released or modified; None until it is known."""
    settled: bool = False


class ProtonPeer(Conversation[ProtonEvent]):
    """One connection of Proton's engine. :attr:`connection` and :attr:`transport` are Proton's own
    objects."""

    protocol = PROTOCOL
    is_raw = False

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        super().__init__(judge, conn, acceptor)
        self.connection: Any = proton.Connection()
        self.transport: Any = proton.Transport()
        self.sent: list[Sent] = []
        """Deliveries in the order of sending."""
        self._collector = proton.Collector()
        self.connection.collect(self._collector)
        self._recorder = AmqpTraceRecorder(judge, conn)
        self._left = False
        self._next_tick: Instant | None = None
        self._tags = 0

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        self._recorder.on_bytes_received(at, data)
        while data:
            capacity = self._capacity()
            if capacity <= 0:
                self.judge.record(
                    Noted(
                        at_ns=at, conn=self.conn, detail=f"Proton reads no more ({len(data)} bytes)"
                    )
                )
                break
            with suppress(proton.TransportException):  # reported as transport_error
                self.transport.push(data[:capacity])
            data = data[capacity:]
            self._collect(at)
        self.work()

    def _capacity(self) -> int:
        try:
            return int(self.transport.capacity())
        except proton.TransportException:
            return -1

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        super().channel_closed(at, how)
        with suppress(proton.TransportException):
            self.transport.close_tail()
        self.work()

    def fatal(self, frame: ProtonEvent) -> bool:
        return frame.name in _FATAL and (
            frame.condition is not None or frame.name == "connection_remote_close"
        )

    def words(self, frame: ProtonEvent) -> str:
        place = f" of link {frame.link}" if frame.link else ""
        condition = f" ({frame.condition})" if frame.condition else ""
        body = ""
        if isinstance(frame.subject, Arrived):
            carried = frame.subject.message.body
            # The bytes of a view may be freed by now, and its address means nothing.
            body = (
                f" {carried.nbytes} bytes"
                if isinstance(carried, memoryview)
                else f" {carried!r}"[:100]
            )
        return f"{frame.name}{place}{condition}{body}"

    def close_socket(self, how: CloseHow = CloseHow.EOF) -> None:
        self._left = True
        super().close_socket(how)

    # the engine

    def work(self) -> None:
        """Let Proton process due timers, then write its output. Call this method after using
        Proton's objects."""
        now = self.world.now()
        self._collect(now)
        if self._left:
            return
        self._tick(now)
        self._collect(now)
        while True:
            try:
                pending = self.transport.pending()
            except proton.TransportException:
                pending = -1
            if pending <= 0:
                break
            data = bytes(self.transport.peek(pending))
            self._recorder.on_bytes_sent(now, data)
            self.write(data, as_event=False)
            self.transport.pop(len(data))
        self._collect(now)
        if pending < 0:
            self._capacity()  # also notices the broker's close
            if self.transport.closed and self.ended is None:
                self.close_socket()

    def _tick(self, now: Instant) -> None:
        due = self.transport.tick((now // NS_PER_MS + _CLOCK_BEGINS_MS) / 1000)
        if due:
            at = (round(due * 1000) - _CLOCK_BEGINS_MS) * NS_PER_MS
            if at > now and (
                self._next_tick is None or at < self._next_tick or self._next_tick <= now
            ):
                self._next_tick = at
                self.world.at(at, self.work)

    def _collect(self, now: Instant) -> None:
        while (event := self._collector.peek()) is not None:
            self._happened(now, event)
            self._collector.pop()

    def _happened(self, now: Instant, event: Any) -> None:
        name = event.type.name.removeprefix("PN_").lower()
        match name:
            case "delivery":
                self._delivery(now, event.delivery)
                return
            case "transport_error":
                self._tell(now, name, event.transport, event.transport.condition)
            case "connection_remote_close" | "session_remote_close" | "link_remote_close":
                self._tell(now, name, event.context, event.context.remote_condition)
            case _ if name in _TOLD:
                self._tell(now, name, event.context, None)

    def _tell(self, now: Instant, name: str, subject: Any, condition: Any) -> None:
        self.inbox.append(
            ProtonEvent(name, now, subject, None if condition is None else condition.name)
        )

    def _delivery(self, now: Instant, delivery: Any) -> None:
        if delivery.link.is_sender:
            for sent in self.sent:
                if sent.delivery == delivery:
                    sent.state = _NAMES.get(int(delivery.remote_state), str(delivery.remote_state))
                    sent.settled = delivery.settled
            self._tell(now, "delivery", delivery, None)
        elif delivery.aborted:
            delivery.settle()
            self._tell(now, "aborted", delivery, None)
        elif delivery.readable and not delivery.partial:
            data = delivery.link.recv(delivery.pending) or b""
            delivery.link.advance()
            message = proton.Message()
            message.decode(data)
            self.inbox.append(
                ProtonEvent("message", now, Arrived(delivery, message, data, delivery.settled))
            )

    # connecting

    def connect(
        self,
        *,
        login: str | None = None,
        passcode: str | None = None,
        mechanism: str,
        idle_timeout: Duration = 0,
        max_frame_size: int | None = None,
        channel_max: int | None = None,
        container: str | None = None,
        proves: Requirements | None = None,
    ) -> None:
        """Log in (SASL), open, and wait for the broker's open. Proton enforces ``idle_timeout`` and
        announces half that time."""
        if mechanism != codec.NO_SASL:
            sasl = self.transport.sasl()
            sasl.allow_insecure_mechs = True
            sasl.allowed_mechs(mechanism)
        if mechanism == "PLAIN":  # Proton begins with SASL if there is a user
            self.connection.user, self.connection.password = login, passcode or ""
        self.connection.container = container or f"brokerproof-{self.conn}"
        if idle_timeout:
            self.transport.idle_timeout = idle_timeout / NS_PER_MS / 1000
        if max_frame_size is not None:
            self.transport.max_frame_size = max_frame_size
        if channel_max is not None:
            self.transport.channel_max = channel_max
        self.transport.bind(self.connection)
        self.connection.open()
        self.work()
        self.expect(event_named("connection_remote_open"), proves=proves)

    def close(self, *, proves: Requirements | None = None) -> None:
        self.connection.close()
        self.work()
        self.expect(event_named("connection_remote_close"), proves=proves)

    # sessions and links

    def session(self, *, incoming_bytes: int | None = None, answered: bool = True) -> Any:
        """Begin a session. ``incoming_bytes`` limits incoming data; from this, Proton derives its
        window in frames."""
        made = self.connection.session()
        if incoming_bytes is not None:
            made.incoming_capacity = incoming_bytes
        made.open()
        self.work()
        if answered:
            self.expect(
                Match("session_remote_open", lambda event: event.name == "session_remote_open")
            )
        return made

    def sender(
        self,
        session: Any,
        address: str | None,
        *,
        capabilities: tuple[str, ...] = (),
        name: str | None = None,
        settled: bool = False,
        proves: Requirements | None = None,
    ) -> Any:
        """Attach a sender and wait for the broker's attach. With ``settled``, all its messages are
        sent settled."""
        link = session.sender(name or self._name())
        link.target.address = address
        self._capabilities(link.target, capabilities)
        if settled:
            link.snd_settle_mode = proton.Link.SND_SETTLED
        return self._opened(link, proves)

    def receiver(
        self,
        session: Any,
        address: str | None,
        *,
        credit: int = 0,
        capabilities: tuple[str, ...] = (),
        name: str | None = None,
        browse: bool = False,
        proves: Requirements | None = None,
    ) -> Any:
        """Attach a receiver, wait for the broker's attach, and grant ``credit``. With ``browse``,
        messages stay on the queue."""
        link = session.receiver(name or self._name())
        link.source.address = address
        self._capabilities(link.source, capabilities)
        if browse:
            link.source.distribution_mode = proton.Terminus.DIST_MODE_COPY
        self._opened(link, proves)
        if credit:
            self.grant(link, credit)
        return link

    def _capabilities(self, terminus: Any, names: tuple[str, ...]) -> None:
        if names:
            undescribed: Any = proton.UNDESCRIBED
            terminus.capabilities.put_object(
                proton.Array(undescribed, proton.Data.SYMBOL, *map(proton.symbol, names))
            )

    def _opened(self, link: Any, proves: Requirements | None) -> Any:
        link.open()
        self.work()
        self.expect(event_named("link_remote_open", link), proves=proves)
        return link

    def _name(self) -> str:
        self._tags += 1
        return f"proton-{self.conn}-{self._tags}"

    def detach(self, link: Any, *, proves: Requirements | None = None) -> None:
        """Close a link and wait for the broker's detach."""
        link.close()
        self.work()
        self.expect(event_named("link_remote_close", link), proves=proves)

    # credit and messages

    def grant(self, receiver: Any, credit: int) -> None:
        receiver.flow(credit)
        self.work()

    def drain(
        self,
        receiver: Any,
        credit: int = 0,
        *,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> int:
        """Add ``credit`` and drain the link. Wait until the broker has used or returned all credit;
        return how much was returned."""
        receiver.drain(credit)
        self.work()
        self.world.wait_until(
            lambda: not receiver.draining() or self.ended is not None, self.world.now() + within
        )
        answered = not receiver.draining()
        if not answered:
            observed = self.instead()
            trouble = next((self.words(event) for event in self.inbox if self.fatal(event)), "")
            if trouble and trouble not in observed:
                observed += f", {trouble}"
            self._unmet(f"the drain of {receiver.name} was not answered; {observed}", proves)
        back = int(receiver.drained())
        receiver.drain_mode = False
        if proves is not None:
            words = f"the drain of {receiver.name} returned {back} credits unused"
            self.judge.record_finding(proves, answered, words)
        return back

    def send(
        self,
        sender: Any,
        body: Any = b"",
        *,
        properties: Mapping[str, Any] | None = None,
        settled: bool = False,
    ) -> Sent:
        """Send a message. ``properties`` are attributes of Proton's message. Without credit, Proton
        queues the message."""
        message = proton.Message(body=body, **dict(properties or {}))
        delivery = sender.send(message)
        sent = Sent(delivery)
        self.sent.append(sent)
        if settled:
            delivery.settle()
        self.work()
        return sent

    def publish(
        self, sender: Any, body: Any = b"", *, proves: Requirements | None = None, **properties: Any
    ) -> Sent:
        """Send a message and wait until the broker has accepted it."""
        sent = self.send(sender, body, properties=properties)
        self.confirmed(sent, proves=proves)
        if sent.state != "accepted":
            self._unmet(f"expected the message to be accepted, it was {sent.state}", proves)
        sent.delivery.settle()
        self.work()
        return sent

    def confirmed(
        self, sent: Sent, *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> Sent:
        """Wait until the broker has settled all sent messages."""
        failed = self.arrival(self.fatal)
        self.world.wait_until(
            lambda: sent.settled or self.ended is not None or failed(), self.world.now() + within
        )
        if not sent.settled:
            self._unmet(f"expected a message to be settled, but {self.instead()}", proves)
        if proves is not None:
            self.judge.record_held(proves, sent.state, f"the message was settled as {sent.state}")
        return sent

    def message(
        self,
        receiver: Any = None,
        *,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Arrived:
        event = self.expect(event_named("message", receiver), within=within, proves=proves)
        assert isinstance(event.subject, Arrived)
        return event.subject

    def take_messages(self, receiver: Any = None) -> list[Arrived]:
        """Return and remove all messages received so far (by that receiver, if given), in order."""
        what = event_named("message", receiver)
        taken = [event.subject for event in self.inbox if what.accepts(event)]
        self.inbox = [event for event in self.inbox if not what.accepts(event)]
        return taken

    def settle(
        self,
        arrived: Arrived,
        outcome: str = "accepted",
        *,
        failed: bool = False,
        here: bool = True,
    ) -> None:
        """Settle a message. ``modified`` may state that the delivery failed, or that the message
        must not be redelivered ``here``."""
        if outcome not in _STATES:
            raise ControlFailed(
                f"{outcome!r} is not an outcome; the outcomes are {', '.join(_STATES)}"
            )
        delivery = arrived.delivery
        if outcome == "modified":
            delivery.local.failed, delivery.local.undeliverable = failed, not here
        delivery.update(_STATES[outcome])
        delivery.settle()
        self.work()


# --- its codec alone ------------------------------------------------------------------------------


def decode(raw: bytes) -> Any:
    """Decode one value with Proton into its Python objects. Raises ``ValueError`` for invalid
    bytes."""
    data = proton.Data()
    try:
        used = data.decode(raw)
    except proton.DataException as problem:
        raise ValueError(str(problem)) from None
    if used != len(raw):
        raise ValueError(f"Proton read {used} of {len(raw)} bytes")
    data.rewind()
    data.next()
    return _kept(data.get_object())


def _kept(value: Any) -> Any:
    """Copy Proton's binaries, since they are views of memory that Proton frees."""
    match value:
        case memoryview():
            return bytes(value)
        case proton.Described():
            return proton.Described(_kept(value.descriptor), _kept(value.value))
        case proton.Array():
            return proton.Array(value.descriptor, value.type, *map(_kept, value.elements))
        case list():
            return [_kept(item) for item in value]
        case dict():
            return {_kept(key): _kept(item) for key, item in value.items()}
    return value


def recode(raw: bytes) -> bytes:
    """Return the value in ``raw`` as Proton encodes it again."""
    data = proton.Data()
    try:
        data.decode(raw)
    except proton.DataException as problem:
        raise ValueError(str(problem)) from None
    return bytes(data.encode())
