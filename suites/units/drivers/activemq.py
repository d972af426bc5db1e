"""An ActiveMQ-like reference broker for unit tests, configured by hand: the destinations Q and T,
and others, have policies."""

from dataclasses import replace
from typing import Any

from brokerproof.harness.model.broker_io import (
    Effect,
    LoadFile,
    ResumeReading,
    StopReading,
    StoreFiles,
)
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.config.activemq import activemq_xml, connector
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccount
from brokerproof.reference_broker.persistence.memory import MemoryDisk
from brokerproof.reference_broker.persistence.store_from_settings import store
from brokerproof.reference_broker.settings.activemq import ActiveMq, DestinationPolicy, SystemUsage
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, Received, frames

COST = 1024 + 4 + 1
"""The charge of a text message of one byte."""
SPOOLED = 78
"""The bytes that such a message to Q uses in the temporary store."""
RECEIPT = "receipt:{}\n"


def policy(pattern: str, **fields: Any) -> DestinationPolicy:
    return DestinationPolicy(pattern, **fields)


def configured(*policies: DestinationPolicy, persistent: bool = True, **usage: Any) -> ActiveMq:
    return ActiveMq(
        persistent=persistent, policies=policies, usage=SystemUsage(**usage), statistics=True
    )


def settings(activemq: ActiveMq, **values: Any) -> Settings:
    """Return acceptors ``stomp`` and ``amqp`` with these parameters of :class:`Settings`."""
    acceptors = tuple(
        connector.acceptor(protocol, (protocol.upper(),)) for protocol in ("stomp", "amqp")
    )
    made = replace(activemq_xml.default(), activemq=activemq, acceptors=acceptors)
    return with_parameters(made, **values)


class SpoolingDriver(Driver):
    """A driver whose broker has a disk in memory that answers immediately."""

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.disk = MemoryDisk()
        self.broker = create_broker(settings, start=self.now, store=store(settings))

    def note(self, effects: list[Effect]) -> list[Effect]:
        every = list(effects)
        for effect in every:  # which grows during the loop
            if isinstance(effect, StoreFiles | LoadFile):
                every += self.broker.handle(self.now, self.disk.carry(self.now, effect)[1])
        return super().note(every)


def broker(activemq: ActiveMq, conns: int = 1, **fields: Any) -> SpoolingDriver:
    driver = SpoolingDriver(settings(activemq, **fields))
    for conn in range(1, conns + 1):
        driver.connect(conn)
    return driver


def send(body: str = "m", to: str = "/queue/Q", headers: str = "") -> str:
    return f"SEND\ndestination:{to}\n{headers}\n{body}\0"


def sync(number: int, to: str = "/queue/Q", headers: str = "", body: str = "m") -> str:
    """Return a SEND that requests the receipt ``number``."""
    return send(body, to, RECEIPT.format(number) + headers)


def subscribe(
    to: str = "/queue/Q", ack: str = "client-individual", headers: str = "", id: str = "0"
) -> str:
    return f"SUBSCRIBE\nid:{id}\ndestination:{to}\nack:{ack}\n{headers}\n\0"


def ack(message: Received) -> str:
    return f"ACK\nid:{message['ack']}\n\n\0"


def receipts(effects: list[Effect], conn: int = 1) -> list[int]:
    return [
        int(frame["receipt-id"]) for frame in frames(effects, conn) if frame.command == "RECEIPT"
    ]


def errors(effects: list[Effect], conn: int = 1) -> list[str | None]:
    """Return the receipt-ids of the ERRORs (None for an ERROR without one)."""
    return [
        frame.headers.get("receipt-id")
        for frame in frames(effects, conn)
        if frame.command == "ERROR"
    ]


def messages(effects: list[Effect], conn: int = 1) -> list[Received]:
    return [frame for frame in frames(effects, conn) if frame.command == "MESSAGE"]


def reading(effects: list[Effect], conn: int = 1) -> list[type]:
    """Return the requests to stop or resume reading a connection."""
    return [
        type(effect)
        for effect in effects
        if isinstance(effect, StopReading | ResumeReading) and effect.conn == conn
    ]


def account(driver: Any, name: str = "queue://Q") -> UsageAccount:
    found = driver.broker._shared.accounting.find(name)
    assert isinstance(found, UsageAccount)
    return found


def used(driver: Any, name: str = "queue://Q") -> tuple[int, int, int]:
    """Return the memory of the destination, the store and the temporary store, in messages of one
    byte."""
    usage = account(driver, name)
    return (
        usage.memory.used // COST,
        usage.usage.store.used // COST,
        usage.usage.temp.used // SPOOLED,
    )
