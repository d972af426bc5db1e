"""Smallest packets of CORE and smallest commands of OpenWire."""

from dataclasses import replace
from typing import Any

from brokerproof.harness.protocols.core import codec as core_codec
from brokerproof.harness.protocols.core.messages import Message
from brokerproof.harness.protocols.core.tables import NEWEST
from brokerproof.harness.protocols.openwire.codec import Structure, encode_command
from brokerproof.harness.protocols.openwire.raw_peer import OPTIONS, queue
from brokerproof.reference_broker.config.activemq import activemq_xml, connector
from brokerproof.reference_broker.settings.settings import Acceptor, Settings
from brokerproof.suites.units.drivers.smallest_frames.feed import SCENARIOS, Feed, scenario

SEND_CONTINUATION = 73
CORE = Settings(acceptors=(Acceptor("core", protocols=("CORE",)), Acceptor("stomp")))


def packet(name: str, channel: int = core_codec.FIRST, /, **fields: Any) -> bytes:
    return core_codec.encode_packet(name, fields, channel=channel, version=NEWEST)


def core(*packets: bytes, **session: Any) -> Feed:
    feed = Feed(CORE, "core")
    fields = {"name": "s", "session_channel": core_codec.FIRST, "version": NEWEST}
    fields |= {"window_size": -1, "auto_commit_sends": True, "auto_commit_acks": True} | session
    feed.send(core_codec.MAGIC, packet("create-session", core_codec.SESSIONS, **fields))
    feed.send(packet("session-start"), core_queue("q"), *packets)
    return feed


def core_queue(name: str) -> bytes:
    return packet(
        "create-queue-v2",
        address=name,
        queue=name,
        requires_response=True,
        max_consumers=-1,
        routing_type=1,
        auto_delete=False,
    )


def core_deliveries(count: int) -> tuple[Feed, list[int]]:
    feed = core(
        packet("create-consumer", consumer=0, queue="q", requires_response=True),
        packet("consumer-credits", consumer=0, credits=-1),
    )
    reader = core_codec.Reader()
    received = reader.feed(feed.send(core_send() * count))
    return feed, [event.message.id for event in received if event.name == "receive"]


def core_send(address: str = "q") -> bytes:
    return packet("send", message=Message(address, b""), requires_response=False, correlation=-1)


@scenario("CORE: parts of large messages")
def core_large(n: int) -> Feed:
    data = (1).to_bytes(4) + b"x" + b"\1" + b"\0" + (-1).to_bytes(8, signed=True)
    return core().measure(core_codec.frame(SEND_CONTINUATION, core_codec.FIRST, data) * n)


@scenario("CORE: acknowledgements up to each")
def core_acks(n: int) -> Feed:
    feed, numbers = core_deliveries(n)
    return feed.measure(
        packet("acknowledge", consumer=0, message=number, requires_response=False)
        for number in numbers
    )


@scenario("CORE: individual acknowledgements, the newest first")
def core_individual_acks(n: int) -> Feed:
    feed, numbers = core_deliveries(n)
    return feed.measure(
        packet("acknowledge-one", consumer=0, message=number, requires_response=False)
        for number in reversed(numbers)
    )


Q = queue("Q")


def openwire_settings() -> Settings:
    settings = activemq_xml.default()
    acceptors = tuple(
        connector.acceptor(name, (name.upper(),)) for name in ("stomp", "amqp", "openwire")
    )
    return replace(settings, acceptors=acceptors)


def command(name: str, **fields: Any) -> bytes:
    return encode_command(name, {"commandId": 1, "responseRequired": False, **fields}, version=12)


def identity(kind: str, **fields: Any) -> Structure:
    return Structure(kind, {"connectionId": "ID:1", **fields})


SESSION = identity("SessionId", value=1)
PRODUCER = identity("ProducerId", value=1, sessionId=1)
CONSUMER = identity("ConsumerId", value=1, sessionId=1)


def openwire(*commands: bytes) -> Feed:
    feed = Feed(openwire_settings(), "openwire")
    feed.send(encode_command("WireFormatInfo", {"version": 12, "marshalledProperties": OPTIONS}))
    connection = Structure("ConnectionId", {"value": "ID:1"})
    feed.send(command("ConnectionInfo", connectionId=connection, clientId="bench"))
    feed.send(command("SessionInfo", sessionId=SESSION))
    feed.send(command("ProducerInfo", producerId=PRODUCER, destination=Q, windowSize=0), *commands)
    return feed


def openwire_message(number: int, **fields: Any) -> bytes:
    return command(
        "ActiveMQBytesMessage",
        producerId=PRODUCER,
        destination=Q,
        messageId=message_id(number),
        content=b"",
        priority=4,
        **fields,
    )


def message_id(number: int) -> Structure:
    return Structure(
        "MessageId", {"producerId": PRODUCER, "producerSequenceId": number, "brokerSequenceId": 0}
    )


def openwire_consumer(value: int = 1, session: int = 1) -> bytes:
    id = identity("ConsumerId", value=value, sessionId=session)
    return command("ConsumerInfo", consumerId=id, destination=Q, prefetchSize=2**30)


def openwire_deliveries(count: int) -> Feed:
    feed = openwire(openwire_consumer())
    feed.send(*(openwire_message(number) for number in range(count)))
    return feed


def openwire_ack(type: int, last: int, first: int | None = None, **fields: Any) -> bytes:
    return command(
        "MessageAck",
        destination=Q,
        consumerId=CONSUMER,
        ackType=type,
        firstMessageId=None if first is None else message_id(first),
        lastMessageId=message_id(last),
        messageCount=1,
        **fields,
    )


@scenario("OpenWire: sessions made and removed in turn, many consumers and producers")
def openwire_sessions(n: int) -> Feed:
    feed = openwire(*(openwire_consumer(value) for value in range(n)))
    other = identity("SessionId", value=2)
    return feed.measure(
        (command("SessionInfo", sessionId=other) + command("RemoveInfo", objectId=other)) * n
    )


@scenario("OpenWire: transactions begun, then rolled back")
def openwire_transactions(n: int) -> Feed:
    feed = openwire()
    for type in (0, 4):
        feed.measure(
            command(
                "TransactionInfo",
                connectionId=Structure("ConnectionId", {"value": "ID:1"}),
                transactionId=transaction(number),
                type=type,
            )
            for number in range(n)
        )
    return feed


def transaction(number: int) -> Structure:
    return Structure(
        "LocalTransactionId",
        {"value": number, "connectionId": Structure("ConnectionId", {"value": "ID:1"})},
    )


SCENARIOS.update(
    {
        "CORE: pings": lambda n: core().measure(
            packet("ping", core_codec.LIVENESS, connection_ttl=60_000) * n
        ),
        "CORE: messages without consumers": lambda n: core().measure(core_send() * n),
        "CORE: messages, byte by byte": lambda n: core().measure(core_send() * (n // 8), piece=1),
        "CORE: requests for credit": lambda n: core().measure(
            packet("request-producer-credits", credits=1, address="q") * n
        ),
        "CORE: credit of a consumer": lambda n: core(
            packet("create-consumer", consumer=0, queue="q", requires_response=True)
        ).measure(packet("consumer-credits", consumer=0, credits=1) * n),
        "CORE: consumers made, then closed": lambda n: (
            core()
            .measure(
                packet("create-consumer", consumer=id, queue="q", requires_response=False)
                for id in range(n)
            )
            .measure(packet("close-consumer", consumer=id) for id in range(n))
        ),
        "CORE: session-start with many consumers": lambda n: core(
            *(
                packet("create-consumer", consumer=id, queue="q", requires_response=False)
                for id in range(n)
            )
        ).measure(packet("session-start") * n),
        "CORE: rollback with many consumers": lambda n: core(
            *(
                packet("create-consumer", consumer=id, queue="q", requires_response=False)
                for id in range(n)
            )
        ).measure(packet("rollback", **{"last-delivered": False}) * n),
        "CORE: queues made": lambda n: core().measure(
            core_queue(f"q{number}") for number in range(n)
        ),
        "CORE: queries for a queue that is not there, many addresses": lambda n: (
            core()
            .after(*(core_send(f"a{number}") for number in range(n)))
            .measure(packet("queue-query", queue="none") * n)
        ),
        "CORE: messages in one transaction, then commit": lambda n: core(
            auto_commit_sends=False
        ).measure(core_send() * n + packet("commit")),
        "OpenWire: signs of life": lambda n: openwire().measure(command("KeepAliveInfo") * n),
        "OpenWire: signs of life, byte by byte": lambda n: openwire().measure(
            command("KeepAliveInfo") * (n // 8), piece=1
        ),
        "OpenWire: messages without consumers": lambda n: openwire().measure(
            openwire_message(number) for number in range(n)
        ),
        "OpenWire: acknowledgements up to each": lambda n: openwire_deliveries(n).measure(
            openwire_ack(2, number) for number in range(n)
        ),
        "OpenWire: acknowledgements of one by range, the newest first": lambda n: (
            openwire_deliveries(n).measure(
                openwire_ack(2, number, number) for number in reversed(range(n))
            )
        ),
        "OpenWire: a long range delivered, again and again": lambda n: openwire_deliveries(
            n
        ).measure(openwire_ack(0, n - 1, 0) * n),
        "OpenWire: individual acknowledgements, the newest first": lambda n: openwire_deliveries(
            n
        ).measure(openwire_ack(4, number) for number in reversed(range(n))),
        "OpenWire: consumers made, then removed": lambda n: (
            openwire()
            .measure(openwire_consumer(value) for value in range(n))
            .measure(
                command("RemoveInfo", objectId=identity("ConsumerId", value=value, sessionId=1))
                for value in range(n)
            )
        ),
    }
)
