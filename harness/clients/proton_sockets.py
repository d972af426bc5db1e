"""Proton's own I/O over real sockets: ``BlockingConnection``, and ``Container`` in its own thread.

Both are unmodified; we only observe Proton's I/O handler to record the bytes."""

import functools
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

import proton
from proton import _reactor, reactor, utils
from proton._handlers import IOHandler  # Container uses it; it has no public name
from proton.handlers import MessagingHandler, TransactionHandler

from brokerproof.harness.clients.proton_engine import has_tls
from brokerproof.harness.clients.proton_events import Arrived, ProtonEvent
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.harness.protocols.amqp10.trace_recorder import PROTOCOL, AmqpTraceRecorder
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Conversation,
    Judge,
    Match,
    Requirements,
    Symptom,
    Violated,
)
from brokerproof.harness.trace.events import ConnectionAbandoned, ConnectionOpened
from brokerproof.harness.worlds.real import RealWorld
from brokerproof.harness.worlds.socket_close import SocketCloseTracker
from brokerproof.harness.worlds.thread_bridge import ThreadBridge
from brokerproof.harness.worlds.tls import Certificate, TlsFailed
from brokerproof.harness.worlds.world import Unreachable

T = TypeVar("T")
Tell = Callable[[str, Any], None]
# A Container creates two TLS domains. Each reads the system's certificate authorities; both take
# 0.1 s of processor time. Our Containers share two; a connection with TLS gets another.
_reactor.SSLConfig = functools.cache(_reactor.SSLConfig)  # type: ignore[misc, assignment]
_JOIN_S = 5.0


class _ObservedIO(IOHandler):
    """Proton's I/O, with reports of ``bytes`` received, bytes ``sent``, and how the connection was
    ``closed``."""

    def __init__(self, tell: Tell) -> None:
        super().__init__()
        self._tell = tell
        self._observed: list[Any] = []

    def close_sockets(self) -> None:
        """Close the sockets that an ended container leaves open. Otherwise the broker would take
        them for live connections."""
        for selectable in self._observed:
            selectable.close()

    def on_selectable_readable(self, event: Any) -> None:
        self._observe(event.selectable)
        super().on_selectable_readable(event)

    def on_selectable_writable(self, event: Any) -> None:
        self._observe(event.selectable)
        super().on_selectable_writable(event)

    def _observe(self, selectable: Any) -> None:
        known = vars(selectable)
        if known.get("_transport") is None or "recv" in known:
            return
        self._observed.append(selectable)
        recv, send, ending = selectable.recv, selectable.send, SocketCloseTracker()

        def tapped_recv(size: int) -> bytes:
            try:
                data: bytes = recv(size)
            except OSError as problem:
                self._tell("closed", ending.finish(problem))
                raise
            if data:
                self._tell("bytes", data)
            else:
                self._tell("closed", ending.finish())
            return data

        def tapped_send(data: bytes) -> int:
            try:
                count: int = send(data)
            except OSError as problem:
                ending.unsent(problem)
                raise
            self._tell("sent", bytes(data[:count]))
            return count

        selectable.recv, selectable.send = tapped_recv, tapped_send


def _endpoint(world: Any, acceptor: str) -> tuple[str, int]:
    if not isinstance(world, RealWorld):
        raise ControlFailed("Proton over sockets needs a target that has sockets")
    try:
        return world.endpoint(acceptor)
    except Unreachable as problem:
        raise ControlFailed(str(problem)) from None


def _credentials(login: str | None, passcode: str | None, mechanism: str) -> dict[str, Any]:
    if mechanism == codec.NO_SASL:
        return {"sasl_enabled": False}
    options: dict[str, Any] = {"allowed_mechs": mechanism, "allow_insecure_mechs": True}
    if login is not None:
        options |= {"user": login, "password": passcode or ""}
    return options


def _secured(
    world: Any, acceptor: str, certificate: Certificate | None, options: dict[str, Any], tell: Tell
) -> tuple[str, dict[str, Any], Tell]:
    """Return the scheme, options and listener for an acceptor, which may use TLS. With TLS, we
    cannot read the bytes. With a ``certificate``, Proton logs in with EXTERNAL. Raises
    :class:`ControlFailed` if Proton lacks TLS."""
    tls = world.tls(acceptor)
    if tls is None:
        return "amqp", options, tell
    if not has_tls():
        without = "this Proton was built without TLS; see brokerproof doctor"
        raise ControlFailed(without, Symptom.ABSENT)
    domain = proton.SSLDomain(proton.SSLDomain.MODE_CLIENT)
    if tls.authority is not None:
        domain.set_trusted_ca_db(str(tls.authority))
    domain.set_peer_authentication(
        proton.SSLDomain.VERIFY_PEER_NAME if tls.verify else proton.SSLDomain.ANONYMOUS_PEER
    )
    try:
        own = tls.shown(certificate)
    except TlsFailed as problem:
        raise ControlFailed(str(problem)) from None
    if own is not None:
        domain.set_credentials(str(own), str(own), None)
    if certificate is not None:
        options = {"allowed_mechs": "EXTERNAL"}

    def on_callback(what: str, content: Any) -> None:
        if what not in ("bytes", "sent"):
            tell(what, content)

    return "amqps", {**options, "ssl_domain": domain}, on_callback


def with_capabilities(names: tuple[str, ...], *, source: bool) -> Any:
    """Return an option for Proton's ``create_sender`` and ``create_receiver``: capabilities of the
    source or target."""

    class Capabilities(reactor.LinkOption):
        def apply(self, link: Any) -> None:
            if names:
                undescribed: Any = proton.UNDESCRIBED
                symbols = proton.Array(undescribed, proton.Data.SYMBOL, *map(proton.symbol, names))
                (link.source if source else link.target).capabilities.put_object(symbols)

    return Capabilities()


class BlockingPeer:
    """One ``BlockingConnection``. Its calls block the case, as they would block any caller."""

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        self.judge, self.conn, self.acceptor = judge, conn, acceptor
        self.connection: Any = None
        self.ended: CloseHow | None = None
        self._recorder = AmqpTraceRecorder(judge, conn)

    def _on_callback(self, what: str, content: Any) -> None:
        at = self.judge.world.now()
        match what:
            case "bytes":
                self._recorder.on_bytes_received(at, content)
            case "sent":
                self._recorder.on_bytes_sent(at, content)
            case _:
                self.ended = content

    def _ask(self, words: str, action: Callable[[], T], proves: Requirements | None) -> T:
        """Run ``action``. A failure of Proton violates ``proves`` or, without ``proves``, is a
        failed control."""
        trouble = ""
        try:
            done = action()
        except (proton.ProtonException, OSError) as problem:
            trouble = f" not {words}: {type(problem).__name__}: {problem}"
        detail = f"Proton's BlockingConnection could{trouble or f' {words}'}"
        if trouble and proves is None:
            raise ControlFailed(detail)
        if proves is not None:
            self.judge.record_finding(proves, not trouble, detail)
        if trouble:
            raise Violated(detail)
        return done

    def connect(
        self,
        *,
        login: str | None = None,
        passcode: str | None = None,
        mechanism: str,
        heartbeat: Duration = 0,
        timeout: Duration = PATIENCE,
        certificate: Certificate | None = None,
        proves: Requirements | None = None,
    ) -> None:
        """Connect, log in and open. ``heartbeat`` is the idle time-out that Proton announces."""
        host, port = _endpoint(self.judge.world, self.acceptor)
        remote = f"{host}:{port}"
        self.judge.record(
            ConnectionOpened(
                at_ns=self.judge.world.now(),
                conn=self.conn,
                protocol=PROTOCOL,
                acceptor=self.acceptor,
                remote=remote,
            )
        )
        options = _credentials(login, passcode, mechanism) | (
            {"heartbeat": heartbeat / NS_PER_S} if heartbeat else {}
        )
        scheme, options, tell = _secured(
            self.judge.world, self.acceptor, certificate, options, self._on_callback
        )
        container = reactor.Container(global_handler=_ObservedIO(tell))
        self.connection = self._ask(
            "connect",
            lambda: utils.BlockingConnection(
                f"{scheme}://{remote}", timeout=timeout / NS_PER_S, container=container, **options
            ),
            proves,
        )

    def sender(
        self,
        address: str,
        *,
        capabilities: tuple[str, ...] = (),
        proves: Requirements | None = None,
    ) -> Any:
        option = with_capabilities(capabilities, source=False)
        return self._ask(
            f"attach a sender to {address}",
            lambda: self.connection.create_sender(address, options=option),
            proves,
        )

    def receiver(
        self,
        address: str,
        *,
        credit: int | None = None,
        capabilities: tuple[str, ...] = (),
        proves: Requirements | None = None,
    ) -> Any:
        option = with_capabilities(capabilities, source=True)
        return self._ask(
            f"attach a receiver to {address}",
            lambda: self.connection.create_receiver(address, credit=credit, options=option),
            proves,
        )

    def publish(
        self, sender: Any, body: Any = b"", *, proves: Requirements | None = None, **properties: Any
    ) -> Any:
        """Send a message and wait until it is settled as accepted (or modified)."""
        message = proton.Message(body=body, **properties)
        return self._ask("send a message", lambda: sender.send(message), proves)

    def receive(
        self, receiver: Any, *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> Any:
        """Receive the next message and settle it by the receiver's ``accept``, ``reject`` or
        ``release``."""
        return self._ask(
            "receive a message", lambda: receiver.receive(timeout=within / NS_PER_S), proves
        )

    def close(self, *, proves: Requirements | None = None) -> None:
        """Close and wait for the broker's close."""
        self._ask("close", self.connection.close, proves)
        self.judge.record(
            ConnectionAbandoned(at_ns=self.judge.world.now(), conn=self.conn, how=CloseHow.EOF)
        )


class _Ears(MessagingHandler):
    """A handler that reports the container's callbacks and runs the case's actions in the
    container's thread."""

    def __init__(self, connect: Callable[[Any], Any], tell: Tell) -> None:
        super().__init__(prefetch=0, auto_accept=False)
        self._connect, self.tell = connect, tell
        self.container: Any = None
        self.connection: Any = None
        self.injector = reactor.EventInjector()
        self.once_attached: dict[str, Callable[[], None]] = {}
        """Actions by link name, each due once the broker has attached that link too."""

    def on_start(self, event: Any) -> None:
        self.container = event.container
        self.container.selectable(self.injector)
        self.connection = self._connect(self.container)

    def on_do(self, event: Any) -> None:
        try:
            event.subject(self.container, self.connection)
        except Exception as problem:  # the thread continues, and the case is notified
            self.tell("told", ("failed", None, f"{type(problem).__name__}: {problem}"))

    def on_message(self, event: Any) -> None:
        arrived = Arrived(event.delivery, event.message, b"", event.delivery.settled)
        self.tell("told", ("message", arrived, None))

    def on_transport_error(self, event: Any) -> None:
        condition = event.transport.condition
        self.tell("told", ("transport_error", None, None if condition is None else condition.name))
        super().on_transport_error(event)

    def on_event(self, name: str, event: Any) -> None:
        """Report one of the callbacks in :data:`_HEARD`."""
        if name == "link_opened":
            self.once_attached.pop(event.link.name, lambda: None)()
        endpoint = event.link or event.session or event.connection
        if (
            name == "link_flow"
            and event.link.is_receiver
            and event.link.drain_mode
            and not event.link.draining()
        ):
            self.tell("told", ("drained", event.link.drained(), None))
        condition = None if endpoint is None else endpoint.remote_condition
        self.tell(
            "told",
            (name, event.delivery or event.link, None if condition is None else condition.name),
        )


_HEARD = frozenset(
    {
        *("connection_opened", "session_opened", "link_opened"),
        *("link_flow", "sendable", "accepted", "rejected", "released", "settled"),
        *("link_error", "session_error", "connection_error"),
        *("link_closed", "session_closed", "connection_closed", "disconnected"),
    }
)


def _callback(name: str) -> Callable[[_Ears, Any], None]:
    return lambda ears, event: ears.on_event(name, event)


for _name in _HEARD:  # Proton's handler already has stubs for most callbacks
    setattr(_Ears, f"on_{_name}", _callback(_name))


class _Transacting(TransactionHandler):
    """A handler that works in a transaction, discharges it, and reports the outcome."""

    def __init__(self, work: Callable[[Any], None], commit: bool, tell: Tell) -> None:
        super().__init__()
        self._work, self._commit, self._tell = work, commit, tell

    def on_transaction_declared(self, event: Any) -> None:
        self._work(event.transaction)
        (event.transaction.commit if self._commit else event.transaction.abort)()

    def _ended(self, how: str) -> None:
        self._tell("told", (f"transaction_{how}", None, None))

    def on_transaction_committed(self, event: Any) -> None:
        self._ended("committed")

    def on_transaction_aborted(self, event: Any) -> None:
        self._ended("aborted")

    def on_transaction_declare_failed(self, event: Any) -> None:
        self._ended("declare_failed")

    def on_transaction_commit_failed(self, event: Any) -> None:
        self._ended("commit_failed")


class ContainerPeer(Conversation[ProtonEvent]):
    """A ``Container`` in its own thread. The case's thread receives reports of the callbacks."""

    protocol = PROTOCOL
    is_raw = False

    def __init__(self, judge: Judge, conn: int, acceptor: str) -> None:
        super().__init__(judge, conn, acceptor)
        self._recorder = AmqpTraceRecorder(judge, conn)
        self._ears: _Ears | None = None

    def connect(
        self,
        *,
        login: str | None = None,
        passcode: str | None = None,
        mechanism: str,
        heartbeat: Duration = 0,
        certificate: Certificate | None = None,
        proves: Requirements | None = None,
    ) -> None:
        """Start the thread, connect, and wait until the connection is open."""
        host, port = _endpoint(self.world, self.acceptor)
        assert isinstance(self.world, RealWorld)
        options = _credentials(login, passcode, mechanism) | (
            {"heartbeat": heartbeat / NS_PER_S} if heartbeat else {}
        )
        self.judge.record(
            ConnectionOpened(
                at_ns=self.world.now(),
                conn=self.conn,
                protocol=PROTOCOL,
                acceptor=self.acceptor,
                remote=f"{host}:{port}",
            )
        )
        ready = threading.Event()

        def end_thread() -> None:
            ready.wait(_JOIN_S)
            self.do(lambda container, connection: container.stop())
            thread.join(_JOIN_S)

        bridge = ThreadBridge(self.world, self._hear, end_thread)

        scheme, options, tell = _secured(
            self.world, self.acceptor, certificate, options, bridge.post
        )

        def dial(container: Any) -> Any:
            ready.set()
            return container.connect(f"{scheme}://{host}:{port}", reconnect=False, **options)

        ears = self._ears = _Ears(dial, bridge.post)
        sockets = _ObservedIO(tell)
        container = reactor.Container(ears, global_handler=sockets)

        def run() -> None:
            container.run()
            sockets.close_sockets()

        thread = threading.Thread(target=run, name=f"proton-{self.conn}", daemon=True)
        thread.start()
        self.expect(
            Match("connection_opened", lambda event: event.name == "connection_opened"),
            proves=proves,
        )

    def do(self, action: Callable[[Any, Any], None]) -> None:
        """Run ``action(container, connection)`` in the container's thread: no other thread may use
        its objects."""
        assert self._ears is not None
        with suppress(OSError):  # its pipe is closed because the container has ended
            self._ears.injector.trigger(reactor.ApplicationEvent("do", subject=action))

    def send_all(
        self, address: str, bodies: list[Any], *, capabilities: tuple[str, ...] = ()
    ) -> None:
        """Attach a sender and send messages with these bodies. Without credit, Proton queues
        them."""

        def action(container: Any, connection: Any) -> None:
            sender = container.create_sender(
                connection, address, options=with_capabilities(capabilities, source=False)
            )
            for body in bodies:
                sender.send(proton.Message(body=body))

        self.do(action)

    def receive(self, address: str, credit: int, *, capabilities: tuple[str, ...] = ()) -> None:
        """Attach a receiver and give credit; arrivals are reported as ``message``."""

        def action(container: Any, connection: Any) -> None:
            options = with_capabilities(capabilities, source=True)
            receiver = container.create_receiver(connection, address, options=options)
            self._once_attached(receiver, lambda: receiver.flow(credit))

        self.do(action)

    def drain(self, address: str, credit: int, *, capabilities: tuple[str, ...] = ()) -> None:
        """Attach a receiver, give this credit and drain the link. The credit that the broker
        returns is reported as ``drained``."""

        def action(container: Any, connection: Any) -> None:
            options = with_capabilities(capabilities, source=True)
            receiver = container.create_receiver(connection, address, options=options)
            self._once_attached(receiver, lambda: receiver.drain(credit))

        self.do(action)

    def _once_attached(self, receiver: Any, action: Callable[[], None]) -> None:
        """Run ``action`` after the broker's attach. Before that, Proton's flow would state a
        delivery-count of 0, although Proton cannot know the count yet (2.7.4). If the broker
        started at another count, the credit would differ from what the case grants."""
        assert self._ears is not None
        self._ears.once_attached[receiver.name] = action

    def settle(self, arrived: Arrived, outcome: str = "accepted") -> None:
        """Settle a message with an outcome of Proton's: accepted, rejected, released or
        modified."""

        def action(container: Any, connection: Any) -> None:
            arrived.delivery.update(getattr(proton.Delivery, outcome.upper()))
            arrived.delivery.settle()

        self.do(action)

    def transact(
        self,
        address: str,
        bodies: list[Any],
        taken: list[Arrived],
        *,
        commit: bool,
        capabilities: tuple[str, ...] = (),
    ) -> None:
        """In one transaction, send messages with these bodies, accept the deliveries in ``taken``,
        and commit or abort. The outcome is reported as ``transaction_committed`` and so on. The
        link must have credit for all bodies in advance."""
        assert self._ears is not None
        tell = self._ears.tell

        def action(container: Any, connection: Any) -> None:
            sender = container.create_sender(
                connection, address, options=with_capabilities(capabilities, source=False)
            )

            def work(transaction: Any) -> None:
                for body in bodies:
                    transaction.send(sender, proton.Message(body=body))
                for arrival in taken:
                    transaction.accept(arrival.delivery)

            container.declare_transaction(connection, handler=_Transacting(work, commit, tell))

        self.do(action)

    def close_socket(self, how: CloseHow = CloseHow.EOF) -> None:
        self.judge.record(ConnectionAbandoned(at_ns=self.world.now(), conn=self.conn, how=how))
        self.do(lambda container, connection: container.stop())

    def _hear(self, what: str, at: Instant, content: Any) -> None:
        match what:
            case "bytes":
                self.heard_at = at
                self._recorder.on_bytes_received(at, content)
            case "sent":
                self.spoke_at = at
                self._recorder.on_bytes_sent(at, content)
            case "closed":
                if self.ended is None:
                    self.channel_closed(at, content)
            case _:
                name, subject, condition = content
                self.inbox.append(ProtonEvent(name, at, subject, condition))

    def fatal(self, frame: ProtonEvent) -> bool:
        return frame.name in (
            "transport_error",
            "connection_error",
            "link_error",
            "session_error",
            "disconnected",
            "failed",
        )

    def words(self, frame: ProtonEvent) -> str:
        return f"{frame.name}{f' ({frame.condition})' if frame.condition else ''}"
