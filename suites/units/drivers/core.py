"""A CORE client for unit tests of the reference broker. It writes and reads packets with the
harness's codec."""

from typing import Any, Self

from brokerproof.harness.model.broker_io import Effect, SendBytes
from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.core.codec import (
    FIRST,
    LIVENESS,
    MAGIC,
    SESSIONS,
    Packet,
    Reader,
    encode_packet,
)
from brokerproof.harness.protocols.core.fact_reader import FORCED
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.core.tables import NEWEST
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver

CORE = Acceptor("core", protocols=("CORE",))


class CoreClient:
    """A connection of ``driver``. ``inbox`` has the unread packets; ``beside`` is another client of
    the same driver."""

    def __init__(
        self,
        driver: Driver,
        conn: int = 1,
        acceptor: str = "core",
        version: int = NEWEST,
        beside: Self | None = None,
    ) -> None:
        self.driver, self.conn, self.version = driver, conn, version
        self._all: list[CoreClient] = [] if beside is None else beside._all
        self._all.append(self)
        self.inbox: list[Packet] = []
        self._reader = Reader()
        self.saw(driver.open(conn, acceptor=acceptor))

    def saw(self, effects: list[Effect]) -> None:
        """Read the effects that may concern this client."""
        for effect in effects:
            if isinstance(effect, SendBytes) and effect.conn == self.conn:
                for read in self._reader.feed(effect.data):
                    assert isinstance(read, Packet), read
                    self.inbox.append(read)

    def feed(self, data: bytes) -> list[Packet]:
        """Feed bytes to the broker; return the packets that have arrived at this client since its
        last read. Other clients receive their own packets."""
        effects = self.driver.feed(self.conn, data)
        for client in self._all:
            client.saw(effects)
        return self.taken()

    def taken(self) -> list[Packet]:
        found, self.inbox = self.inbox, []
        return found

    def say(self, name: str, channel: int = FIRST, /, **fields: Any) -> list[Packet]:
        return self.feed(encode_packet(name, fields, channel=channel, version=self.version))

    def session(self, channel: int = FIRST, *, start: bool = True, **fields: Any) -> list[Packet]:
        """Create a session; send the magic letters before the first."""
        said = {"name": "s", "session_channel": channel, "version": self.version, "window_size": -1}
        said |= {"auto_commit_sends": True, "auto_commit_acks": True}
        data = encode_packet(
            "create-session", said | fields, channel=SESSIONS, version=self.version
        )
        came = self.feed((MAGIC if channel == FIRST else b"") + data)
        if start:
            self.say("session-start", channel)
        return came

    def queue(
        self,
        name: str,
        address: str = "",
        routing: RoutingType = RoutingType.ANYCAST,
        **fields: Any,
    ) -> list[Packet]:
        said = {
            "address": address or name,
            "queue": name,
            "requires_response": True,
            "max_consumers": -1,
        }
        said |= {"routing_type": int(routing is RoutingType.ANYCAST), "auto_delete": False}
        return self.say("create-queue-v2", **said | fields)

    def consumer(
        self, queue: str, id: int = 0, *, credit: int | None = None, **fields: Any
    ) -> list[Packet]:
        came = self.say(
            "create-consumer", consumer=id, queue=queue, requires_response=True, **fields
        )
        return came if credit is None else came + self.credit(credit, id)

    def credit(self, credits: int, id: int = 0) -> list[Packet]:
        return self.say("consumer-credits", consumer=id, credits=credits)

    def publish(self, address: str, body: bytes = b"", **fields: Any) -> list[Packet]:
        return self.say(
            "send", message=Message(address, body, **fields), requires_response=True, correlation=7
        )

    def ping(self, ttl_ms: int) -> list[Packet]:
        return self.say("ping", LIVENESS, connection_ttl=ttl_ms)

    def at(self, now: Instant) -> None:
        self.saw(self.driver.at(now))


def client(settings: Settings | None = None, **session: Any) -> CoreClient:
    one = CoreClient(Driver(settings or Settings(acceptors=(CORE,))))
    one.session(**session)
    one.taken()
    return one


def names(packets: list[Packet]) -> list[str]:
    return [packet.name for packet in packets]


def bodies(packets: list[Packet]) -> list[bytes]:
    return [
        packet.message.body
        for packet in packets
        if packet.name == "receive" and FORCED not in packet.message.properties
    ]
