"""An OpenWire client for unit tests of the reference broker. It writes and reads commands with the
harness's codec."""

from dataclasses import replace
from typing import Any, Self

from brokerproof.harness.model.broker_io import Effect, SendBytes
from brokerproof.harness.model.time import Instant
from brokerproof.harness.protocols.openwire.codec import Reader, Structure, encode_command
from brokerproof.harness.protocols.openwire.raw_peer import OPTIONS, queue
from brokerproof.reference_broker.config.activemq import connector
from brokerproof.reference_broker.settings.activemq import ActiveMq
from brokerproof.suites.units.drivers.activemq import configured, settings
from brokerproof.suites.units.drivers.broker import Driver

Q = queue("Q")


def driver(activemq: ActiveMq | None = None, **acceptor: Any) -> Driver:
    about = settings(activemq or configured())
    ours = connector.acceptor("openwire", ("OPENWIRE",), **acceptor)
    return Driver(replace(about, acceptors=(*about.acceptors, ours)))


class OpenWireClient:
    """A connection of ``driver``, by default negotiated and with session 1; ``inbox`` has the
    unread commands.

    ``beside`` is another client of the same driver.
    """

    def __init__(
        self,
        driver: Driver,
        conn: int = 1,
        *,
        version: int = 12,
        start: bool = True,
        beside: Self | None = None,
        **options: Any,
    ) -> None:
        self.driver, self.conn, self.version, self.name = driver, conn, version, f"ID:{conn}"
        self._all: list[OpenWireClient] = [] if beside is None else beside._all
        self._all.append(self)
        self.inbox: list[Structure] = []
        self._reader = Reader()
        self._number = self._messages = 0
        self.saw(driver.open(conn, acceptor="openwire"))
        if start:
            self.negotiate(**options)
            self.say(
                "ConnectionInfo",
                connectionId=Structure("ConnectionId", {"value": self.name}),
                clientId=self.name,
            )
            self.say(
                "SessionInfo",
                sessionId=Structure("SessionId", {"connectionId": self.name, "value": 1}),
            )
            self.inbox.clear()

    def negotiate(self, **options: Any) -> list[Structure]:
        """Send our WireFormatInfo; return the answers, including the broker's own."""
        said = {**OPTIONS, **options}
        # The broker's WireFormatInfo is here; later answers have this version.
        self._reader.version = min(12, self.version)
        self.feed(
            encode_command(
                "WireFormatInfo", {"version": self.version, "marshalledProperties": said}
            )
        )
        return self.taken()

    def saw(self, effects: list[Effect]) -> None:
        """Read the effects that may concern this client."""
        for effect in effects:
            if isinstance(effect, SendBytes) and effect.conn == self.conn:
                for read in self._reader.feed(effect.data):
                    assert isinstance(read, Structure), read
                    self.inbox.append(read)

    def feed(self, data: bytes) -> None:
        """Feed bytes to the broker. Other clients receive their own commands."""
        self.told(self.driver.feed(self.conn, data))

    def told(self, effects: list[Effect]) -> None:
        """Pass effects to this driver's clients."""
        for client in self._all:
            client.saw(effects)

    def taken(self) -> list[Structure]:
        found, self.inbox = self.inbox, []
        return found

    def say(self, name: str, *, response: bool = True, **fields: Any) -> list[Structure]:
        self._number += 1
        said = {"commandId": self._number, "responseRequired": response, **fields}
        self.feed(encode_command(name, said, version=self.version))
        return self.taken()

    def producer(self, window: int = 0, destination: Structure = Q, value: int = 1) -> Structure:
        made = Structure("ProducerId", {"connectionId": self.name, "value": value, "sessionId": 1})
        self.say("ProducerInfo", producerId=made, destination=destination, windowSize=window)
        return made

    def consumer(
        self, prefetch: int = 10, destination: Structure = Q, value: int = 1, **fields: Any
    ) -> list[Structure]:
        made = self.consumer_id(value)
        return self.say(
            "ConsumerInfo",
            consumerId=made,
            destination=destination,
            prefetchSize=prefetch,
            **fields,
        )

    def consumer_id(self, value: int = 1) -> Structure:
        return Structure("ConsumerId", {"connectionId": self.name, "sessionId": 1, "value": value})

    def publish(
        self,
        producer: Structure,
        content: bytes = b"m",
        *,
        destination: Structure = Q,
        response: bool = False,
        name: str = "ActiveMQBytesMessage",
        **fields: Any,
    ) -> list[Structure]:
        self._messages += 1
        id = Structure("MessageId", {"producerId": producer, "producerSequenceId": self._messages})
        said = {
            "producerId": producer,
            "destination": destination,
            "messageId": id,
            "content": content,
            "priority": 4,
        }
        return self.say(name, response=response, **said | fields)

    def ack(self, dispatched: Structure, type: int = 2, **fields: Any) -> list[Structure]:
        said = {
            "destination": dispatched["destination"],
            "consumerId": dispatched["consumerId"],
            "ackType": type,
        }
        said |= {"lastMessageId": dispatched["message"]["messageId"], "messageCount": 1}
        return self.say("MessageAck", **said | fields)

    def at(self, now: Instant) -> list[Structure]:
        self.told(self.driver.at(now))
        return self.taken()


def client(activemq: ActiveMq | None = None, **options: Any) -> OpenWireClient:
    return OpenWireClient(driver(activemq), **options)


def names(commands: list[Structure]) -> list[str]:
    return [command.name for command in commands]


def contents(commands: list[Structure]) -> list[bytes]:
    return [
        command["message"]["content"]
        for command in commands
        if command.name == "MessageDispatch" and command["message"]
    ]
