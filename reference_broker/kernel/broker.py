"""The broker: inputs in, effects out, time as an argument.

Nothing here (nor in anything it imports) reads a clock, opens a socket or a file, or draws a random
number: the same inputs at the same instants give the same effects. A list of ``(now, input)`` is
therefore a recording.
"""

from __future__ import annotations

from collections.abc import Callable
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
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant, ms
from brokerproof.reference_broker.assembly import STANDARD, Parts
from brokerproof.reference_broker.kernel.connection_info import Arrival
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.outbox import Outbox, PauseReason
from brokerproof.reference_broker.kernel.protocol_detection import AMQP091, Connection, connect
from brokerproof.reference_broker.persistence.router_store import Stored
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.protocols.amqp091.paging import PagingOut
from brokerproof.reference_broker.protocols.amqp10 import statistics
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings

RETRY_INTERVAL = NS_PER_S
"""How long the store waits before it tries again to write what could not be written."""
FLUSH_WITHIN = 30 * NS_PER_S
"""How long the peer of a connection that has ended may take nothing of what is still to be sent."""


def _limited(rules: AddressRules, settings: Settings, name: str) -> bool:
    """Whether the address ``name`` can get full."""
    rule = rules.of(name)
    limits = (
        *(rule.max_size_bytes, rule.max_size_messages),
        *(settings.global_max_size_bytes, settings.global_max_messages),
    )
    return any(each >= 0 for each in limits)


class Broker:
    """One broker.

    ``start`` is the instant of its birth: the connection-TTL check passes are counted from it.
    ``session_seed`` goes into the session identifiers; a driver that restarts brokers gives each
    another one, so that sessions stay unique. ``epoch`` and an instant together are the nanoseconds
    since 1970, which only selectors ask for. ``store`` is where messages go that do not fit into
    memory or have to survive a restart; what it found of an earlier broker is there again at once.
    Without it everything is kept in memory. ``linked`` says that others are to know of its alarms.
    """

    def __init__(
        self,
        settings: Settings,
        parts: Parts = STANDARD,
        *,
        start: Instant = 0,
        session_seed: str = "",
        epoch: Duration = 0,
        store: Store | None = None,
        linked: bool = False,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._deadlines = Deadlines()
        self._outbox = Outbox()
        self._connections: dict[int, Connection] = {}
        self._choked: set[int] = set()
        self._retry = self._deadlines.timer(lambda now: self._try_files_again())
        self._reading = self._deadlines.timer(lambda now: self._read_pages())
        rules = AddressRules.for_(settings)
        usages = (
            None
            if settings.activemq is None
            else parts.usage_accounting(settings, rules, parts.cursors)
        )
        accounting = usages or parts.accounting(settings, rules)
        queue = parts.queue if usages is None else parts.cursor_queue
        self._shared = Shared(
            settings=settings,
            parts=parts,
            router=parts.router(settings, rules, queue, parts.dispatcher, accounting),
            deadlines=self._deadlines,
            outbox=self._outbox,
            start=start,
            check_interval=ms(max(1, settings.connection_ttl_check_interval_ms)),
            session_seed=session_seed,
            epoch=epoch,
            accounting=accounting,
            admission=parts.admission(accounting),
            alarms=parts.alarms(),
        )
        if usages is not None:
            self._shared.flow = parts.producer_flow(
                usages, self._deadlines, lambda: self._shared.now, settings.stalls_at_the_store
            )
            if usages.activemq.statistics:
                statistics.answered_by(self._shared.router, usages)
        if any(AMQP091 in each.protocols for each in settings.acceptors):
            self._shared.topology = parts.topology(
                self._shared.router, self._deadlines, lambda: self._shared.now, settings.queue_rate
            )
            self._shared.topology.dead = partial(parts.dead_letters, self._shared)
        short = settings.memory_high_watermark, settings.disk_free_limit
        self._resources = parts.resources(self._shared.alarms, self._deadlines, *short)
        self._shared.resources, self._shared.connections = self._resources, self._connections
        if linked:
            self._shared.alarms.tell = self._outbox.alarm
        self._store = store
        self._paging: PagingOut | None = None
        if store is not None:
            stored = Stored(store, partial(_limited, rules, settings))
            self._shared.router.store_in(stored)
            self._shared.admission.storing = stored.judge
            if self._shared.flow is None:
                self._shared.large = store.large
            else:
                self._shared.flow.storing = stored.judge
            ratio, topology = settings.memory_paging_ratio, self._shared.topology
            if ratio is not None and topology is not None:
                alarms = self._shared.alarms
                self._paging = parts.paging_out(
                    topology, self._resources, alarms, self._deadlines, store.large, ratio
                )

    def handle(self, now: Instant, event: Input) -> list[Effect]:
        """What to do about ``event`` at ``now``, which never goes backwards.

        Never raises for what a peer did: that is answered. Input for a connection that is closed or
        unknown is ignored. Raises ``KeyError`` for a :class:`Connected` that names an acceptor
        which the settings do not have.
        """
        shared = self._shared
        shared.now = now
        shared.conn = getattr(event, "conn", None)
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
                first = self._resources.reading is None
                self._resources.read(now, event)
                if first and self._paging is not None:
                    self._paging.look(now)
            case LimitsSet(memory, disk, paging):
                self._resources.set(now, memory, disk)
                if paging is not None and self._paging is not None:
                    self._paging.ratio = paging
            case AlarmElsewhere(node, resource, short):
                shared.alarms.set(resource, short, node)
        while self._outbox.streams.broken:
            self._cut(self._outbox.streams.broken.pop())
        while (go_on := self._next()) is not None:
            go_on()
        for conn in self._outbox.closed:
            if conn in self._connections and not self._connections[conn].is_open:
                self._forget(conn)
        return self._outbox.drain() if self._store is None else self._with_files(now, self._store)

    def _next(self) -> Callable[[], None] | None:
        """One of the producers that waited and may go on now."""
        flow = self._shared.flow
        return self._shared.admission.next() or (None if flow is None else flow.next())

    def end(self) -> list[Effect]:
        """The broker ends in order: everybody is parted from, and the last of what is durable is to
        be stored.

        Answers of files are still to be handed in afterwards, until ``is_idle``.
        """
        for conn in list(self._connections):
            self._connections.pop(conn).on_peer_gone()
        self._shared.router.ending()
        return (
            self._outbox.drain()
            if self._store is None
            else self._with_files(self._shared.now, self._store)
        )

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits to be stored, or nothing can be."""
        return self._store is None or self._store.is_idle or self._store.refuses

    # --- files ------------------------------------------------------------------------------------

    def _with_files(self, now: Instant, store: Store) -> list[Effect]:
        """What comes out of an input, and what is to be done with files."""
        conn = self._shared.conn
        if conn is not None and store.much_waits and conn in self._connections:
            self._choked.add(conn)
            self._outbox.stop_reading(conn, PauseReason.FILES)
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
        """When to call ``handle`` with :class:`TimerFired` unless another input comes first; None
        for never.

        May be earlier than the next thing that really happens (a connection that has been heard
        since is looked at and left alone), never later.
        """
        return self._deadlines.next()

    def _try_files_again(self) -> None:
        if self._store is not None:
            self._store.try_again()

    def _read_pages(self) -> None:
        if self._store is not None:
            queues, self._store.unfinished = self._store.unfinished, {}
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
                self._deadlines.run(deadline, now)
                if not connection.is_open:
                    self._forget(conn)

    def _cut_if_stalled(self, conn: int, now: Instant) -> None:
        """Cut ``conn`` off if its peer has taken nothing since it ended, or since the last look."""
        if self._outbox.streams.stalled(conn):
            self._cut(conn)
        elif conn in self._outbox.streams:
            self._deadlines.call_at(now + FLUSH_WITHIN, partial(self._cut_if_stalled, conn))

    def _connected(self, now: Instant, event: Connected) -> None:
        acceptor = self._settings.acceptor(event.acceptor)
        if event.certificate is not None:
            self._shared.certificates[event.conn] = event.certificate
        local = event.local or f"{acceptor.host}:{acceptor.port}"
        self._shared.arrivals[event.conn] = Arrival(event.remote, local, now)
        self._connections[event.conn] = connect(event.conn, acceptor, self._shared, now)

    def _forget(self, conn: int) -> None:
        del self._connections[conn]
        self._shared.arrivals.pop(conn, None)
        self._outbox.forget(conn)
        if conn in self._outbox.streams:
            at = self._shared.now + FLUSH_WITHIN
            self._deadlines.call_at(at, partial(self._cut_if_stalled, conn))
        self._choked.discard(conn)
        self._shared.certificates.pop(conn, None)

    def _cut(self, conn: int) -> None:
        """What is on its way to ``conn`` cannot be sent to its end: the connection is closed as it
        is."""
        self._outbox.on_peer_gone(conn)
        connection = self._connections.get(conn)
        if connection is not None:
            self._forget(conn)
            connection.on_peer_gone()
        self._outbox.cut(conn)
