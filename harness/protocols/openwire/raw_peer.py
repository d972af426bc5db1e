"""A raw peer for OpenWire, ActiveMQ's own protocol, which can speak correctly or send arbitrary
bytes.

Unlike ActiveMQ's own client, this peer does nothing on its own: unless a case says so, it respects
no window, acknowledges nothing and sends no KeepAliveInfo. :meth:`OpenWirePeer.send` and
:meth:`OpenWirePeer.write` send anything else. Ids are structures, and all ids of a peer contain its
connection id.
"""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.model.time import Duration, Instant
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    Conversation,
    Judge,
    Match,
    Requirements,
)
from brokerproof.harness.protocols.openwire import codec
from brokerproof.harness.protocols.openwire.codec import Structure
from brokerproof.harness.protocols.openwire.tables import NEWEST
from brokerproof.harness.protocols.openwire.trace_recorder import (
    KEEP_ALIVE,
    PROTOCOL,
    UNREADABLE,
    WIRE_FORMAT,
    OpenWireTraceRecorder,
)
from brokerproof.harness.protocols.openwire.values import Typed, encode_map, long_utf

OPTIONS: dict[str, Any] = {
    "TightEncodingEnabled": False,
    "CacheEnabled": False,
    "StackTraceEnabled": False,
    "SizePrefixDisabled": False,
    "TcpNoDelayEnabled": True,
    "CacheSize": Typed("int", 1024),
    "MaxFrameSize": (1 << 63) - 1,
    "MaxInactivityDuration": 0,
    "MaxInactivityDurationInitalDelay": 10_000,
}
"""The options in the peer's WireFormatInfo, as the protocol spells them. Durations are in
milliseconds; 0 requests no signs of life."""
RESPONSES = (
    "Response",
    "ExceptionResponse",
    "DataResponse",
    "DataArrayResponse",
    "IntegerResponse",
)
DELIVERED, POISON, STANDARD, REDELIVERED, INDIVIDUAL = 0, 1, 2, 3, 4
"""The types of a MessageAck."""


def queue(name: str) -> Structure:
    return Structure("ActiveMQQueue", {"physicalName": name})


def topic(name: str) -> Structure:
    return Structure("ActiveMQTopic", {"physicalName": name})


def command(name: str, /, **fields: Any) -> Match[Structure]:
    words = " ".join([name, *(f"{key}={value}" for key, value in fields.items())])
    return Match(
        words,
        lambda command: (
            command.name == name and all(command.get(key) == value for key, value in fields.items())
        ),
    )


def answer(number: int) -> Match[Structure]:
    """Match the response to command ``number``, even if it is an exception."""
    return Match(
        f"the answer to command {number}",
        lambda command: command.get("correlationId") == number and command.name in RESPONSES,
    )


def dispatch(consumer: Structure | None = None) -> Match[Structure]:
    return Match(
        "a message" if consumer is None else f"a message for consumer {consumer}",
        lambda command: (
            command.name == "MessageDispatch"
            and (consumer is None or command["consumerId"] == consumer)
        ),
    )


class OpenWirePeer(Conversation[Structure]):
    """One OpenWire connection of the harness. ``name`` is its connection id, ``version`` the
    version that it announces."""

    protocol = PROTOCOL

    def __init__(
        self, judge: Judge, conn: int, acceptor: str, name: str = "", version: int = NEWEST
    ) -> None:
        super().__init__(judge, conn, acceptor)
        self.name = f"ID:{name or conn}"
        self.version = version
        """The version in which commands are written: first the announced version, then the lower of
        the two sides' versions."""
        self.theirs: Structure | None = None
        """The broker's WireFormatInfo, once it has arrived."""
        self.beats: list[Structure] = []
        """KeepAliveInfos from the broker, oldest first. They are not in the inbox."""
        self._recorder = OpenWireTraceRecorder(judge, conn)
        self._numbers: dict[str, int] = {}

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        for command in self._recorder.on_bytes_received(at, data):
            if command.name == KEEP_ALIVE:
                self.beats.append(command)
            else:
                if command.name == WIRE_FORMAT:
                    self.theirs = command
                self.inbox.append(command)

    def fatal(self, frame: Structure) -> bool:
        return frame.name in ("ConnectionError", "ExceptionResponse", UNREADABLE)

    def words(self, frame: Structure) -> str:
        return frame.brief()

    # sending

    def write(self, data: bytes, *, as_event: bool = True) -> None:
        """Write bytes; record them as commands if they are commands, and otherwise as raw bytes."""
        if as_event:
            self._recorder.on_bytes_sent(self.world.now(), data)
        super().write(data, as_event=False)

    def send(
        self, name: str, fields: Mapping[str, Any] | None = None, *, response: bool = False
    ) -> int:
        """Send a command; return its number, which is new unless ``fields`` gives one."""
        all_fields = {
            "commandId": self._next("command"),
            "responseRequired": response,
            **(fields or {}),
        }
        self.write(codec.encode_command(name, all_fields, version=self.version))
        return int(all_fields["commandId"])

    def request(
        self,
        name: str,
        fields: Mapping[str, Any] | None = None,
        *,
        within: Duration = PATIENCE,
        proves: Requirements | None = None,
    ) -> Structure:
        return self.answered(self.send(name, fields, response=True), within=within, proves=proves)

    def answered(
        self, number: int, *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> Structure:
        """Return the Response to command ``number``, which must not be an ExceptionResponse."""
        return self.expect(command("Response", correlationId=number), within=within, proves=proves)

    def refused(
        self, number: int, *, within: Duration = PATIENCE, proves: Requirements | None = None
    ) -> Structure:
        """Return the ExceptionResponse to command ``number``."""
        return self.expect(
            command("ExceptionResponse", correlationId=number), within=within, proves=proves
        )

    def beat(self, data: bytes = b"") -> None:
        self.keep_alive()

    def keep_alive(self, *, response: bool = False) -> None:
        self.send(KEEP_ALIVE, response=response)

    def _next(self, what: str) -> int:
        self._numbers[what] = self._numbers.get(what, 0) + 1
        return self._numbers[what]

    # connections and sessions

    def wire_format(self, version: int | None = None, **options: Any) -> None:
        """Send our WireFormatInfo; ``options`` are as in :data:`OPTIONS`, and None omits one."""
        info = {name: value for name, value in {**OPTIONS, **options}.items() if value is not None}
        fields = {
            "version": self.version if version is None else version,
            "marshalledProperties": info,
        }
        self.write(codec.encode_command(WIRE_FORMAT, fields))

    def negotiate(self, *, proves: Requirements | None = None, **options: Any) -> Structure:
        """Exchange WireFormatInfos, and use the lower version from then on; return the broker's."""
        self.wire_format(**options)
        theirs = self.expect(command(WIRE_FORMAT), proves=proves)
        self.version = min(self.version, theirs["version"])
        return theirs

    def connect(
        self,
        login: str | None = None,
        passcode: str | None = None,
        *,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> None:
        """Log in, and consume the BrokerInfo that the broker sends."""
        info = {
            "connectionId": self.connection,
            "clientId": self.name,
            "userName": login,
            "password": passcode,
            **fields,
        }
        self.request("ConnectionInfo", info, proves=proves)
        self.expect(command("BrokerInfo"))

    def session(self, number: int = 1) -> Structure:
        """Return the id of the connection's session ``number``."""
        return Structure("SessionId", {"connectionId": self.name, "value": number})

    def open_session(self, number: int = 1, *, proves: Requirements | None = None) -> Structure:
        made = self.session(number)
        self.request("SessionInfo", {"sessionId": made}, proves=proves)
        return made

    @property
    def connection(self) -> Structure:
        return Structure("ConnectionId", {"value": self.name})

    def remove(self, what: Structure, *, proves: Requirements | None = None) -> None:
        """Remove a producer, a consumer, a session or the connection."""
        self.request("RemoveInfo", {"objectId": what}, proves=proves)

    def close(self, *, proves: Requirements | None = None) -> None:
        """End the connection cleanly."""
        self.remove(self.connection, proves=proves)
        self.send("ShutdownInfo")

    def settle(self, *, within: Duration = PATIENCE) -> None:
        """Wait until the broker has executed everything sent earlier and its answers have arrived
        (a barrier).

        ProducerAcks and messages may still be in transit: other threads of ActiveMQ send them.
        """
        self.request("FlushCommand", within=within)

    # producers

    def open_producer(
        self,
        destination: Structure | None,
        *,
        window: int = 0,
        number: int | None = None,
        session: int = 1,
        proves: Requirements | None = None,
    ) -> Structure:
        """Create a producer with a window of that many bytes (0: none); return its id."""
        value = self._next("producer") if number is None else number
        made = Structure(
            "ProducerId", {"connectionId": self.name, "value": value, "sessionId": session}
        )
        fields = {"producerId": made, "destination": destination, "windowSize": window}
        self.request("ProducerInfo", fields, proves=proves)
        return made

    def message(
        self,
        producer: Structure,
        destination: Structure,
        content: bytes | str = b"",
        *,
        properties: Mapping[str, Any] | None = None,
        persistent: bool = False,
        **fields: Any,
    ) -> Structure:
        """Return ``producer``'s next message: a text message for a str, else a bytes message."""
        number = self._next(f"message of {producer}")
        id = Structure("MessageId", {"producerId": producer, "producerSequenceId": number})
        defaults = {
            "producerId": producer,
            "destination": destination,
            "messageId": id,
            "persistent": persistent,
            "priority": 4,
            "content": long_utf(content) if isinstance(content, str) else content,
            "marshalledProperties": encode_map(properties) if properties else None,
        }
        name = "ActiveMQTextMessage" if isinstance(content, str) else "ActiveMQBytesMessage"
        return Structure(name, {**defaults, **fields})

    def publish(self, message: Structure, *, response: bool = False) -> int:
        """Send ``message`` whatever the window, without waiting; return the command's number."""
        return self.send(message.name, message.fields, response=response)

    def acks(self, producer: Structure) -> list[int]:
        """Return and remove the sizes in the ProducerAcks received so far, oldest first."""
        sizes, expected = [], command("ProducerAck", producerId=producer)
        while (one := self.take(expected)) is not None:
            sizes.append(int(one["size"]))
        return sizes

    # consumers

    def open_consumer(
        self,
        destination: Structure,
        *,
        prefetch: int = 1000,
        number: int | None = None,
        session: int = 1,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> Structure:
        """Create a consumer with up to ``prefetch`` unacknowledged messages; return its id."""
        value = self._next("consumer") if number is None else number
        made = Structure(
            "ConsumerId", {"connectionId": self.name, "sessionId": session, "value": value}
        )
        defaults = {
            "consumerId": made,
            "destination": destination,
            "prefetchSize": prefetch,
            "dispatchAsync": True,
        }
        self.request("ConsumerInfo", {**defaults, **fields}, proves=proves)
        return made

    def ack(
        self,
        dispatched: Structure,
        *,
        type: int = STANDARD,
        first: Structure | None = None,
        count: int = 1,
        response: bool = True,
        proves: Requirements | None = None,
        **fields: Any,
    ) -> None:
        """Acknowledge ``dispatched``; with ``first`` and ``count``, also the messages before it,
        from ``first`` on."""
        last = dispatched["message"]["messageId"]
        defaults = {
            "destination": dispatched["destination"],
            "consumerId": dispatched["consumerId"],
            "ackType": type,
            "firstMessageId": None if first is None else first["message"]["messageId"],
            "lastMessageId": last,
            "messageCount": count,
            **fields,
        }
        number = self.send("MessageAck", defaults, response=response)
        if response:
            self.answered(number, proves=proves)

    def dispatched(self, consumer: Structure | None = None) -> list[Structure]:
        """Return and remove the messages received for ``consumer``, oldest first."""
        dispatches, expected = [], dispatch(consumer)
        while (one := self.take(expected)) is not None:
            dispatches.append(one)
        return dispatches
