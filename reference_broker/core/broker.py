"""The broker: inputs in, effects out, time as an argument.

Nothing here (nor in anything it imports) reads a clock, opens a socket or a file, or draws a random number: the same
inputs at the same instants give the same effects. A list of ``(now, input)`` is therefore a recording.
"""

from __future__ import annotations

from harness.words import (
    BytesReceived,
    Connected,
    Duration,
    Effect,
    Input,
    Instant,
    PeerGone,
    TimerFired,
    WritePaused,
    WriteResumed,
    ms,
)
from reference_broker.config.settings import Settings
from reference_broker.core.connections import Connection, connect
from reference_broker.core.deadlines import Deadlines
from reference_broker.core.matching import AddressRules
from reference_broker.core.outbox import Outbox
from reference_broker.core.parts import STANDARD, Parts
from reference_broker.core.shared import Shared


class Broker:
    """One broker.

    ``start`` is the instant of its birth: the connection-TTL check passes are counted from it. ``session_seed`` goes into
    the session identifiers; a driver that restarts brokers gives each another one, so that sessions stay unique.
    ``epoch`` and an instant together are the nanoseconds since 1970, which only selectors ask for.
    """

    def __init__(
        self,
        settings: Settings,
        parts: Parts = STANDARD,
        *,
        start: Instant = 0,
        session_seed: str = "",
        epoch: Duration = 0,
    ) -> None:
        self._settings = settings
        self._parts = parts
        self._deadlines = Deadlines()
        self._outbox = Outbox()
        self._connections: dict[int, Connection] = {}
        rules = AddressRules(settings)
        accounting = parts.accounting(settings, rules)
        self._shared = Shared(
            settings=settings,
            parts=parts,
            router=parts.router(settings, rules, parts.queue, parts.dispatcher, accounting),
            deadlines=self._deadlines,
            outbox=self._outbox,
            start=start,
            check_interval=ms(max(1, settings.connection_ttl_check_interval_ms)),
            session_seed=session_seed,
            epoch=epoch,
            accounting=accounting,
            admission=parts.admission(accounting),
        )

    def handle(self, now: Instant, event: Input) -> list[Effect]:
        """What to do about ``event`` at ``now``, which never goes backwards.

        Never raises for what a peer did: that is answered. Input for a connection that is closed or unknown is ignored.
        Raises ``KeyError`` for a :class:`Connected` that names an acceptor which the settings do not have.
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
            case Connected(conn, acceptor, _, certificate):
                if certificate is not None:
                    self._shared.certificates[conn] = certificate
                self._connections[conn] = connect(conn, self._settings.acceptor(acceptor), self._shared, now)
            case PeerGone(conn, _):
                connection = self._connections.get(conn)
                if connection is not None:
                    self._forget(conn)
                    connection.lost()
            case WritePaused(conn) | WriteResumed(conn):
                connection = self._connections.get(conn)
                if connection is not None:
                    connection.hold(isinstance(event, WritePaused))
        while (go_on := shared.admission.next()) is not None:
            go_on()
        for conn in self._outbox.closed:
            if conn in self._connections and not self._connections[conn].is_open:
                self._forget(conn)
        return self._outbox.drain()

    def next_deadline(self) -> Instant | None:
        """When to call ``handle`` with :class:`TimerFired` unless another input comes first; None for never.

        May be earlier than the next thing that really happens (a connection that has been heard since is looked at and
        left alone), never later.
        """
        return self._deadlines.next()

    def _fire(self, now: Instant) -> None:
        while (due := self._deadlines.pop_due(now)) is not None:
            conn, what = due
            connection = self._connections.get(conn)
            if connection is not None:
                connection.due(now, what)
                if not connection.is_open:
                    self._forget(conn)

    def _forget(self, conn: int) -> None:
        del self._connections[conn]
        self._outbox.forget(conn)
        self._shared.certificates.pop(conn, None)
