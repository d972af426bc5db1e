"""The broker: takes inputs with their times and returns effects.

Neither this module nor its imports read a clock, open sockets or files, or draw random numbers: the
same inputs at the same instants give the same effects. So a list of ``(now, input)`` is a
recording."""

from functools import partial

from brokerproof.harness.model.broker_io import (
    AlarmElsewhere,
    BytesReceived,
    Connected,
    Effect,
    FileLoaded,
    FilesStored,
    Input,
    LimitsSet,
    PeerGone,
    ResourcesRead,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.reference_broker.kernel.connection_info import Arrival
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.outbox import PauseReason
from brokerproof.reference_broker.kernel.protocol_detection import Become
from brokerproof.reference_broker.kernel.storage_ports import BrokerStorage

RETRY_INTERVAL = NS_PER_S
"""How long the store waits before it retries a failed write."""
FLUSH_WITHIN = 30 * NS_PER_S
"""How long the peer of an ended connection may accept none of the remaining output."""


class Broker:
    """One broker. ``connect`` creates the object for a new connection. ``store`` holds messages
    that exceed memory or must survive a restart; None: no store."""

    def __init__(
        self, context: BrokerContext, connect: Become, store: BrokerStorage | None
    ) -> None:
        self._shared = context
        self._settings = context.settings
        self._clock = context.clock
        self._family = context.family
        self._deadlines = context.deadlines
        self._outbox = context.outbox
        self._connections = context.connections
        self._connect = connect
        self._store = store
        self._choked: set[int] = set()
        self._limited: dict[str, set[int]] = {}
        """The connections of those acceptors that limit the number of connections."""
        self._retry = self._deadlines.timer(lambda now: self._try_files_again())
        self._reading = self._deadlines.timer(lambda now: self._read_pages())
        self._serving = self._deadlines.timer(lambda now: context.router.serving.go_on())

    def handle(self, now: Instant, event: Input) -> list[Effect]:
        """Return the effects of ``event`` at ``now``, which never goes backwards.

        A peer's errors are answered and never raise an exception. Input for a closed or unknown
        connection is ignored. Raises ``KeyError`` for :class:`Connected` with an unknown
        acceptor."""
        shared, clock = self._shared, self._clock
        clock.now = now
        clock.conn = getattr(event, "conn", None)
        shared.router.begin_input()
        match event:
            case BytesReceived(conn, data):
                connection = self._connections.get(conn)
                if connection is not None:
                    connection.receive(now, data)
                    if not connection.is_open:
                        self._forget(conn)
            case TimerFired():
                self._fire(now)
            case Connected():
                self._connected(now, event)
            case PeerGone(conn, _):
                connection = self._connections.get(conn)
                if connection is not None:
                    self._forget(conn)
                    connection.on_peer_gone()
                self._outbox.on_peer_gone(conn)
            case WritePaused(conn) | WriteResumed(conn):
                connection = self._connections.get(conn)
                self._outbox.pause_writing(conn, isinstance(event, WritePaused))
                if connection is not None:
                    connection.pause_delivery(isinstance(event, WritePaused))
            case FilesStored() | FileLoaded():
                self._files(now, event)
            case ResourcesRead():
                self._family.on_resources_read(now, event)
            case LimitsSet():
                self._family.on_limits_set(now, event)
            case AlarmElsewhere(node, resource, short):
                shared.alarms.set(resource, short, node)
        while self._outbox.streams.broken:
            self._cut(self._outbox.streams.broken.pop())
        while (go_on := self._family.next_producer()) is not None:
            go_on()
        for conn in self._outbox.closed:
            if conn in self._connections and not self._connections[conn].is_open:
                self._forget(conn)
        if shared.router.serving.interrupted:
            self._serving.move(now)
        return self._outbox.drain() if self._store is None else self._with_files(now, self._store)

    def end(self) -> list[Effect]:
        """Shut down cleanly: end all connections and store the remaining durable data.

        Afterwards, results of file operations must still be passed in until ``is_idle``."""
        for conn in list(self._connections):
            self._connections.pop(conn).on_peer_gone()
        self._shared.router.ending()
        return (
            self._outbox.drain()
            if self._store is None
            else self._with_files(self._clock.now, self._store)
        )

    @property
    def is_idle(self) -> bool:
        """Return True if nothing waits to be stored, or nothing can be stored."""
        return self._store is None or self._store.is_idle or self._store.refuses

    # --- files ------------------------------------------------------------------------------------

    def _with_files(self, now: Instant, store: BrokerStorage) -> list[Effect]:
        """Return the effects of an input, followed by the effects on files."""
        conn = self._clock.conn
        if conn is not None and store.much_waits and conn in self._connections:
            self._choked.add(conn)
            self._outbox.stop_reading(conn, PauseReason.FILES)
        if conn is not None:
            self._outbox.concern(conn)
        batch = store.batch if store.seal() else 0
        effects = self._outbox.drain(batch)
        effects += store.effects()
        if store.unfinished:
            self._reading.move(now)
        if store.wants_another_try and self._retry.at is None:
            self._retry.move(now + RETRY_INTERVAL)
        return effects

    def _files(self, now: Instant, event: FilesStored | FileLoaded) -> None:
        store = self._store
        if store is None:
            return
        if isinstance(event, FileLoaded):
            store.loaded(event)
            return
        good = store.stored(event)
        if good:
            self._outbox.release(store.done)
        else:
            for conn in self._outbox.give_up():
                connection = self._connections.get(conn)
                if connection is not None:
                    connection.on_store_failed(store.problem)
        if store.little_waits and self._choked:
            for conn in self._choked:
                self._outbox.resume_reading(conn, PauseReason.FILES)
            self._choked.clear()

    def next_deadline(self) -> Instant | None:
        """Return when to call ``handle`` with :class:`TimerFired` unless another input comes first;
        None for never.

        The result may be earlier than the next actual event (nothing need be done if a connection
        has been heard from since), but never later."""
        return self._deadlines.next()

    def _try_files_again(self) -> None:
        if self._store is not None:
            self._store.try_again()

    def _read_pages(self) -> None:
        if self._store is not None:
            queues = tuple(self._store.unfinished)
            self._store.unfinished.clear()
            for queue in queues:
                queue.read()

    def _fire(self, now: Instant) -> None:
        while (deadline := self._deadlines.pop_due(now)) is not None:
            conn = deadline.conn
            if conn is None:
                deadline.action(now)
                continue
            connection = self._connections.get(conn)
            if connection is not None:
                self._outbox.concern(conn)
                self._deadlines.run(deadline, now)
                if not connection.is_open:
                    self._forget(conn)

    def _cut_if_stalled(self, conn: int, now: Instant) -> None:
        """Cut ``conn`` off if its peer has read nothing since it ended or since the last check."""
        if self._outbox.streams.stalled(conn):
            self._cut(conn)
        elif conn in self._outbox.streams:
            self._deadlines.call_at(now + FLUSH_WITHIN, partial(self._cut_if_stalled, conn))

    def _connected(self, now: Instant, event: Connected) -> None:
        acceptor = self._settings.acceptor(event.acceptor)
        if acceptor.connections_allowed >= 0:
            limited = self._limited.setdefault(acceptor.name, set())
            if len(limited) >= acceptor.connections_allowed:
                self._outbox.close(event.conn)
                return
            limited.add(event.conn)
        if event.certificate is not None:
            self._shared.certificates[event.conn] = event.certificate
        local = event.local or f"{acceptor.host}:{acceptor.port}"
        self._shared.arrivals[event.conn] = Arrival(event.remote, local, now)
        self._connections[event.conn] = self._connect(event.conn, acceptor, self._shared, now)

    def _forget(self, conn: int) -> None:
        del self._connections[conn]
        self._shared.arrivals.pop(conn, None)
        self._shared.router.addresses.forget_creator(conn)
        self._outbox.forget(conn)
        if conn in self._outbox.streams:
            at = self._clock.now + FLUSH_WITHIN
            self._deadlines.call_at(at, partial(self._cut_if_stalled, conn))
        self._choked.discard(conn)
        for limited in self._limited.values():
            limited.discard(conn)
        self._shared.certificates.pop(conn, None)

    def _cut(self, conn: int) -> None:
        """Close ``conn`` immediately, discarding its queued output."""
        self._outbox.on_peer_gone(conn)
        connection = self._connections.get(conn)
        if connection is not None:
            self._forget(conn)
            connection.on_peer_gone()
        self._outbox.cut(conn)
