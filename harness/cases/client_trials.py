"""Clients on trial: a driver that a case commands, and the server that its library connects to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from brokerproof.harness.cases.connections import Connections
from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.clients.driver import Driver, ready
from brokerproof.harness.protocols.conversation import PATIENCE, ControlFailed
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike
from brokerproof.harness.protocols.stomp.scripted_server import CONNECTING, StompServer
from brokerproof.harness.trace.events import ConnectionOpened
from brokerproof.harness.worlds.begun_trial import BegunTrial
from brokerproof.harness.worlds.real import Accepted
from brokerproof.harness.worlds.world import Channel, Receiver, World

TRIALS = frozenset({"stomp-client"})
"""Capabilities that only clients have: a case that needs one puts a client on trial."""
LOGIN, PASSCODE = "ann", "a:b\\c"
"""What clients are told to log in with."""


@runtime_checkable
class TriesClients(Protocol):
    """A target that is a client."""

    def begin_trial(self, world: World, driver: Receiver, accepted: Accepted) -> BegunTrial:
        """Start a driver in ``world``. ``accepted`` is called for each connection that its library
        opens."""


class StompTrial:
    """One client on trial: its driver, and our end of each connection that it opened."""

    def __init__(self, bench: ClientTrials, version: str) -> None:
        self._bench = bench
        self.version = version
        self.servers: list[StompServer] = []
        bench.example_record.wire.unkept = "a client on trial has a process of its own"
        self.driver = Driver(bench, 0, "driver")
        target = bench.target
        if not isinstance(target, TriesClients):
            raise ControlFailed("the target is not a client")
        self._begun = target.begin_trial(bench.world, self.driver, self._accepted)
        self.driver.use(self._begun.driver)
        ready(self.driver)
        self._begun.loaded()

    def _accepted(self) -> tuple[StompServer, Callable[[Channel], None]]:
        server = StompServer(self._bench, self._bench.next_connection())

        def use(channel: Channel) -> None:
            self._bench.record(
                ConnectionOpened(
                    at_ns=self._bench.now(),
                    conn=server.conn,
                    protocol=server.protocol,
                    acceptor=server.acceptor,
                    remote=channel.remote,
                )
            )
            server.use(channel)
            self.servers.append(server)

        return server, use

    @property
    def server(self) -> StompServer:
        """Our end of the newest connection. Raises :class:`ControlFailed` before the first."""
        if not self.servers:
            raise ControlFailed("the client opened no connection")
        return self.servers[-1]

    def dial(
        self, heart_beat: tuple[int, int] = (0, 0), login: str = LOGIN, passcode: str = PASSCODE
    ) -> Frame:
        """Tell the client to connect; return its first frame, which is not answered yet."""
        self.driver.do(
            "connect",
            host=self._begun.host,
            port=self._begun.port,
            version=self.version,
            heart_beat=list(heart_beat),
            login=login,
            passcode=passcode,
            vhost=self._begun.host,
        )
        world = self._bench.world
        world.wait_until(lambda: bool(self.servers), world.now() + PATIENCE)
        return self.server.expect(CONNECTING)

    def connect(
        self,
        heart_beat: tuple[int, int] = (0, 0),
        answer: tuple[int, int] | None = (0, 0),
        headers: HeadersLike = (),
    ) -> Frame:
        """Let the client connect, and answer with CONNECTED; return its CONNECT frame."""
        first = self.dial(heart_beat)
        self.server.accept(self.version, answer, headers)
        self.driver.expect(event_named("connected"))
        return first

    def subscribe(self, destination: str = "/queue/a", ack: str = "auto", id: str = "s1") -> Frame:
        """Let the client subscribe; return its SUBSCRIBE."""
        self.driver.done("subscribe", destination=destination, id=id, ack=ack)
        return self.server.received("SUBSCRIBE")

    def message(self) -> ClientEvent:
        """The client's report of its next message. It is a control that it comes."""
        return self.driver.expect(event_named("message"))

    @property
    def lost(self) -> bool:
        """True if the client ended its connection, or says that it lost it."""
        return self.server.ended is not None or bool(self.driver.reports("disconnected"))


class ClientTrials(Connections):
    """The part of a bench that puts clients on trial."""

    def stomp_client(self, version: str) -> StompTrial:
        """A client whose driver runs and that has not connected yet."""
        return StompTrial(self, version)
