"""The composition root: the only module that knows every protocol and every family.

Each row of :data:`FAMILIES` describes a broker family: its settings class, how it is assembled, and
the connection classes for its protocols."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.reference_broker.families.activemq.family import ActiveMqFamily
from brokerproof.reference_broker.families.artemis.family import ArtemisFamily
from brokerproof.reference_broker.families.parts import Parts
from brokerproof.reference_broker.families.rabbitmq.family import RabbitMqFamily
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.kernel.clock import Clock
from brokerproof.reference_broker.kernel.connection import Connection
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.outbox import Outbox
from brokerproof.reference_broker.kernel.protocol_detection import (
    Become,
    Detectable,
    ProtocolDetector,
)
from brokerproof.reference_broker.persistence.codec import RECORDS
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.protocols.amqp091 import dead_letters
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.version_detection import AmqpVersionDetector
from brokerproof.reference_broker.protocols.amqp10 import stored_messages
from brokerproof.reference_broker.protocols.amqp10.blocking_link import WaitingLink
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.statistics import StatisticsCodec
from brokerproof.reference_broker.protocols.core.connection import CoreConnection
from brokerproof.reference_broker.protocols.core.message import CoreMessage, CoreRecords
from brokerproof.reference_broker.protocols.management_http.connection import ManagementConnection
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.openwire.message import OpenWireMessage, OpenWireRecords
from brokerproof.reference_broker.protocols.stomp.activemq import ActiveMqStompConnection
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeats
from brokerproof.reference_broker.protocols.stomp.rabbitmq import RabbitHeartBeats
from brokerproof.reference_broker.protocols.websocket.connection import WebSocketConnection
from brokerproof.reference_broker.protocols.websocket.upgrade import METHODS
from brokerproof.reference_broker.settings.acceptor import AMQP091, HTTP, OPENWIRE, Acceptor
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings

stored_messages.register()
RECORDS.register(CoreMessage.record_kind, CoreRecords())
RECORDS.register(OpenWireMessage.record_kind, OpenWireRecords())


@dataclass(frozen=True, slots=True)
class Protocols:
    """A family's connection factories by protocol; None for protocols that it does not speak."""

    stomp: Become = StompConnection
    amqp10: Become = AmqpConnection
    core: Become = CoreConnection
    amqp091: Become | None = None
    openwire: Become | None = None
    management: Become | None = None


@dataclass(frozen=True, slots=True)
class FamilyRow:
    """One broker family. ``assemble`` creates a broker and its connection factories."""

    has: Callable[[Settings], bool]
    assemble: Callable[[Parts], tuple[BrokerFamily, Protocols]]


def _activemq(parts: Parts) -> tuple[BrokerFamily, Protocols]:
    family = ActiveMqFamily(parts, StatisticsCodec())
    return family, Protocols(
        stomp=partial(ActiveMqStompConnection, flow=family.flow),
        amqp10=partial(AmqpConnection, new_incoming_link=partial(WaitingLink, flow=family.flow)),
        openwire=partial(OpenWireConnection, flow=family.flow),
    )


def _rabbitmq(parts: Parts) -> tuple[BrokerFamily, Protocols]:
    family = RabbitMqFamily(parts, dead_letters.dead_letter)
    topology, resources = family.topology, family.resources
    return family, Protocols(
        stomp=partial(
            StompConnection, heartbeats=HeartBeats(RabbitHeartBeats, "RABBITMQ-STOMP-hb-2")
        ),
        amqp091=partial(Amqp091Connection, topology=topology),
        management=partial(ManagementConnection, topology=topology, resources=resources),
    )


def _artemis(parts: Parts) -> tuple[BrokerFamily, Protocols]:
    return ArtemisFamily(parts), Protocols()


FAMILIES = (
    FamilyRow(lambda settings: settings.activemq is not None, _activemq),
    FamilyRow(lambda settings: settings.rabbitmq is not None, _rabbitmq),
    FamilyRow(lambda settings: True, _artemis),
)
"""A broker belongs to the first row whose settings class it has."""


def create_broker(
    settings: Settings,
    *,
    start: Instant = 0,
    session_seed: str = "",
    epoch: Duration = 0,
    store: Store | None = None,
    linked: bool = False,
) -> Broker:
    """Return a broker of the family of ``settings``.

    Connection-TTL checks are counted from the instant ``start``. ``session_seed`` is part of
    session identifiers; a driver that restarts brokers gives each a different one, so that the
    identifiers stay unique. ``epoch`` plus an instant gives nanoseconds since 1970, by which
    messages expire. ``store`` holds messages that exceed memory or must survive a restart, and
    restores those of an earlier broker immediately. Without a store, everything stays in memory. If
    ``linked``, the broker reports its alarms to the other nodes of a RabbitMQ cluster."""
    outbox = Outbox()
    parts = Parts(
        settings=settings,
        rules=AddressRules.for_(settings),
        clock=Clock(epoch),
        deadlines=Deadlines(),
        alarms=Alarms(outbox.alarm) if linked else Alarms(),
        store=store,
    )
    row = next(row for row in FAMILIES if row.has(settings))
    family, protocols = row.assemble(parts)
    context = BrokerContext(
        settings=settings,
        family=family,
        router=family.router,
        clock=parts.clock,
        deadlines=parts.deadlines,
        outbox=outbox,
        start=start,
        check_interval=ms(max(1, settings.connection_ttl_check_interval_ms)),
        session_seed=session_seed,
        accounting=family.accounting,
        admission=family.admission,
        alarms=parts.alarms,
        large=family.large,
    )
    family.router.restore()
    return Broker(context, partial(_connect, protocols), store)


def _connect(
    protocols: Protocols, conn: int, acceptor: Acceptor, context: BrokerContext, now: Instant
) -> Connection:
    spoken = acceptor.protocols
    if HTTP in spoken and protocols.management is not None:
        return protocols.management(conn, acceptor, context, now)
    if OPENWIRE in spoken and protocols.openwire is not None:
        return protocols.openwire(conn, acceptor, context, now)
    if AMQP091 in spoken and protocols.amqp091 is not None:
        amqp10 = protocols.amqp10 if "AMQP" in spoken else None
        return AmqpVersionDetector(conn, acceptor, context, now, protocols.amqp091, amqp10)
    first_bytes = {"AMQP": (b"AMQP", protocols.amqp10), "CORE": (b"ARTEMIS", protocols.core)}
    detected = dict(first_bytes[name] for name in first_bytes if name in spoken)
    if "STOMP" in spoken:
        detectable = Detectable(detected, protocols.stomp, METHODS, WebSocketConnection)
    elif len(detected) == 1:
        return next(iter(detected.values()))(conn, acceptor, context, now)
    else:
        detectable = Detectable(detected, protocols.amqp10)
    return ProtocolDetector(conn, acceptor, context, now, detectable)
