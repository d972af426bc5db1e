"""Clients on trial: a driver that a case controls, and the server to which the driver's library
connects."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from brokerproof.harness.cases.connections import Connections
from brokerproof.harness.cases.findings import MeasurementJudge
from brokerproof.harness.clients.client_event import ClientEvent, event_named
from brokerproof.harness.clients.driver import Driver, body_fields, ready
from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.protocols.amqp091.codec import Method
from brokerproof.harness.protocols.amqp091.scripted_server import HEADER, Amqp091Server
from brokerproof.harness.protocols.amqp10.codec import Frame as AmqpFrame
from brokerproof.harness.protocols.amqp10.endpoint_state import Link
from brokerproof.harness.protocols.amqp10.scripted_server import Amqp10Server
from brokerproof.harness.protocols.conversation import PATIENCE, ControlFailed, Judge, Requirements
from brokerproof.harness.protocols.scripted import Scripted
from brokerproof.harness.protocols.stomp.codec import Frame, HeadersLike
from brokerproof.harness.protocols.stomp.scripted_server import CONNECTING, StompServer
from brokerproof.harness.trace.events import ConnectionOpened
from brokerproof.harness.worlds.begun_trial import BegunTrial
from brokerproof.harness.worlds.real import Accepted
from brokerproof.harness.worlds.world import Channel, Receiver, World

TRIALS = frozenset({"stomp-client", "amqp091-client", "amqp10-client"})
"""Capabilities that only clients have. A case that needs one of them puts a client on trial."""
LOGIN, PASSCODE = "ann", "a:b\\c"
"""The login of clients on trial."""


@runtime_checkable
class TriesClients(Protocol):
    def begin_trial(self, world: World, driver: Receiver, accepted: Accepted) -> BegunTrial:
        """Start a driver in ``world``. The connections of its library are passed to
        ``accepted``."""


S = TypeVar("S", bound=Scripted[Any])


class ClientTrial(Generic[S]):
    """One client on trial: the driver, and our end of each connection that the client opened."""

    def __init__(self, bench: ClientTrials, make: Callable[[Judge, int], S]) -> None:
        self._bench = bench
        self._make = make
        self.servers: list[S] = []
        bench.example_record.wire.unkept = "a client under test runs in its own process"
        self.driver = Driver(bench, 0, "driver")
        target = bench.target
        if not isinstance(target, TriesClients):
            raise ControlFailed("the target is not a client")
        self._begun = target.begin_trial(bench.world, self.driver, self._accepted)
        self.driver.use(self._begun.driver)
        ready(self.driver)
        self._begun.loaded()

    def _accepted(self) -> tuple[S, Callable[[Channel], None]]:
        server = self._make(self._bench, self._bench.next_connection())

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
    def server(self) -> S:
        """Our end of the latest connection. Raises :class:`ControlFailed` if the client has opened
        none."""
        if not self.servers:
            raise ControlFailed("the client opened no connection")
        return self.servers[-1]

    def _dial(self, **options: Any) -> None:
        """Make the client connect, and wait for its connection."""
        where = {"host": self._begun.host, "port": self._begun.port}
        self.driver.do("connect", **where, **options)
        world = self._bench.world
        world.wait_until(lambda: bool(self.servers), world.now() + PATIENCE)

    def message(self) -> ClientEvent:
        """Return the client's report of its next message. If none arrives, a control has failed."""
        return self.driver.expect(event_named("message"))

    @property
    def lost(self) -> bool:
        return self.server.ended is not None or bool(self.driver.reports("disconnected"))

    def signs_since(self, since: Instant) -> list[Instant]:
        """Return ``since`` and all later instants at which bytes from the client arrived."""
        return [since, *(at for at, _ in self.server.heard if at > since)]

    def judge_signs(self, proves: Requirements, interval: Duration, since: Instant) -> None:
        """Check that the client was never silent for longer than ``interval`` after ``since``."""
        bench = self._bench
        most = interval + bench.punctuality(interval)
        instants, now = self.signs_since(since), bench.now()
        bench.judge_period(proves, "silence of the client", instants, (0, most), until=now)

    def judge_stays(self, proves: Requirements, promised: Duration, why: str) -> None:
        """Check that the client stayed connected. This holds only if we were never silent for
        longer than ``promised``."""
        self._bench.record_finding(
            proves,
            not self.lost,
            f"{why}, and the client {'left' if self.lost else 'stayed'}; {self.driver.instead()}",
            uncertain=self.server.overdue(promised),
        )


class StompTrial(ClientTrial[StompServer]):
    def __init__(self, bench: ClientTrials, version: str) -> None:
        super().__init__(bench, StompServer)
        self.version = version

    def dial(
        self, heart_beat: tuple[int, int] = (0, 0), login: str = LOGIN, passcode: str = PASSCODE
    ) -> Frame:
        """Make the client connect; return its unanswered first frame."""
        self._dial(
            vhost=self._begun.host,
            version=self.version,
            heart_beat=list(heart_beat),
            login=login,
            passcode=passcode,
        )
        return self.server.expect(CONNECTING)

    def connect(
        self,
        heart_beat: tuple[int, int] = (0, 0),
        answer: tuple[int, int] | None = (0, 0),
        headers: HeadersLike = (),
    ) -> Frame:
        """Let the client connect, answer CONNECTED, and return the client's CONNECT frame."""
        first = self.dial(heart_beat)
        self.server.accept(self.version, answer, headers)
        self.driver.expect(event_named("connected"))
        return first

    def subscribe(self, destination: str = "/queue/a", ack: str = "auto", id: str = "s1") -> Frame:
        """Let the client subscribe; return its SUBSCRIBE."""
        self.driver.done("subscribe", destination=destination, id=id, ack=ack)
        return self.server.received("SUBSCRIBE")


class Amqp091Trial(ClientTrial[Amqp091Server]):
    def __init__(self, bench: ClientTrials) -> None:
        super().__init__(bench, Amqp091Server)

    def dial(self, heartbeat: int = 0) -> Method:
        """Make the client connect; return its unanswered protocol header."""
        self._dial(vhost="/", heartbeat=heartbeat, login=LOGIN, passcode=PASSCODE)
        return self.server.expect(HEADER)

    def connect(self, heartbeat: int = 0, **limits: int) -> Method:
        """Let the client connect and open channel 1; return its tune-ok."""
        self.dial(heartbeat)
        agreed = self.server.tune(heartbeat, **limits)
        self.driver.expect(event_named("connected"))
        self.open_channel()
        return agreed

    def open_channel(self, channel: int = 1) -> Method:
        """Let the application open the channel with this number; return channel.open."""
        self.driver.done("channel", channel=channel)
        opened = self.server.received("channel.open")
        self.driver.expect(event_named("channel-open", channel=channel))
        return opened

    def consume(self, queue: str = "q", channel: int = 1, no_ack: bool = False) -> Method:
        """Let the application consume from a queue; return basic.consume."""
        self.driver.done("consume", channel=channel, queue=queue, no_ack=no_ack)
        return self.server.received("basic.consume", queue=queue)

    def publish(self, body: bytes = b"x", queue: str = "q", channel: int = 1) -> None:
        """Let the application publish to a queue through the default exchange."""
        self.driver.done("publish", channel=channel, queue=queue, **body_fields(body))

    def published(self, body: bytes, proves: Requirements | None = None) -> Method:
        """Let the application publish ``body``; return the frames received."""
        self.publish(body)
        return self.server.received("basic.publish", proves=proves)


class Amqp10Trial(ClientTrial[Amqp10Server]):
    def __init__(self, bench: ClientTrials) -> None:
        self.offered: dict[str, dict[str, Any]] = {"open": {}, "begin": {}, "attach": {}}
        """Fields of our open, begin and attach in addition to the usual ones."""
        super().__init__(bench, lambda judge, conn: Amqp10Server(judge, conn, self.offered))

    def connect(self, idle_ms: int = 0, max_frame: int = 0) -> AmqpFrame:
        """Let the client connect; return its open."""
        limits = {"idle_ms": idle_ms, "max_frame": max_frame}
        self._dial(login=LOGIN, passcode=PASSCODE, **limits)
        opened = self.server.received("open")
        self.driver.expect(event_named("connected"))
        return opened

    def sender(self, link: str = "out", mode: str = "unsettled") -> Link:
        """Let the application attach a sender; return our end of the link."""
        return self._attached("sender", link, mode=mode)

    def receiver(self, credit: int = 10, link: str = "in") -> Link:
        """Let the application attach a receiver with a window of ``credit``; return our end."""
        return self._attached("receiver", link, credit=credit)

    def _attached(self, what: str, link: str, **options: Any) -> Link:
        self.driver.done(what, link=link, address="q", **options)
        attach = self.server.received("attach")
        self.driver.expect(event_named("link-open", link=link))
        made = self.server.link_of(attach)
        assert made is not None
        return made

    def send(self, body: bytes = b"x", link: str = "out") -> None:
        self.driver.done("send", link=link, **body_fields(body))


class ClientTrials(Connections, MeasurementJudge):
    def stomp_client(self, version: str) -> StompTrial:
        """Return a client whose driver is running but has not connected yet."""
        return StompTrial(self, version)

    def amqp091_client(self) -> Amqp091Trial:
        """Return a client whose driver is running but has not connected yet."""
        return Amqp091Trial(self)

    def amqp10_client(self) -> Amqp10Trial:
        """Return a client whose driver is running but has not connected yet."""
        return Amqp10Trial(self)
