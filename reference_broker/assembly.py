"""The composition root: the only module that knows every protocol and every family."""

from __future__ import annotations

from functools import partial

from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.reference_broker.families.activemq.cursor import CURSORS
from brokerproof.reference_broker.families.activemq.cursor_queue import CursorQueue
from brokerproof.reference_broker.families.activemq.family import ActiveMqFamily
from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
from brokerproof.reference_broker.families.activemq.router_store import SpoolingStored
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccounting
from brokerproof.reference_broker.families.artemis.accounting import Accounting
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.artemis.family import ArtemisFamily
from brokerproof.reference_broker.families.rabbitmq.family import RabbitMqFamily
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting, UnlimitedAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.broker import Broker
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
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.persistence.codec import RECORDS
from brokerproof.reference_broker.persistence.router_store import Stored
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.protocols.amqp091 import dead_letters
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.paging import PagingOut
from brokerproof.reference_broker.protocols.amqp091.version_detection import AmqpVersionDetector
from brokerproof.reference_broker.protocols.amqp10 import statistics, stored_messages
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.core.connection import CoreConnection
from brokerproof.reference_broker.protocols.core.message import CoreMessage, CoreRecords
from brokerproof.reference_broker.protocols.management_http.connection import ManagementConnection
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.openwire.message import OpenWireMessage, OpenWireRecords
from brokerproof.reference_broker.protocols.stomp.activemq import (
    ActiveMqStompConnection,
)
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.websocket.connection import WebSocketConnection
from brokerproof.reference_broker.protocols.websocket.upgrade import METHODS
from brokerproof.reference_broker.settings.acceptor import AMQP091, HTTP, OPENWIRE, Acceptor
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import Settings

stored_messages.register()
RECORDS.register(CoreMessage.record_kind, CoreRecords())
RECORDS.register(OpenWireMessage.record_kind, OpenWireRecords())


def create_broker(
    settings: Settings,
    *,
    start: Instant = 0,
    session_seed: str = "",
    epoch: Duration = 0,
    store: Store | None = None,
    linked: bool = False,
) -> Broker:
    """Return a broker of the family that ``settings`` are for.

    ``start`` is the instant of its birth: the connection-TTL check passes are counted from it.
    ``session_seed`` goes into the session identifiers; a driver that restarts brokers gives each
    another one, so that sessions stay unique. ``epoch`` and an instant together are the nanoseconds
    since 1970, by which messages expire. ``store`` is where messages go that do not fit into
    memory or have to survive a restart; what it found of an earlier broker is there again at once.
    Without it everything is kept in memory. ``linked``: it reports its alarms to the
    other nodes of a RabbitMQ cluster.
    """
    rules = AddressRules.for_(settings)
    deadlines = Deadlines()
    outbox = Outbox()

    def now() -> Instant:
        return context.now

    accounting: MemoryAccounting
    family: BrokerFamily
    storage: Stored | None = None
    if settings.activemq is not None:
        accounting = UsageAccounting(settings, rules, CURSORS)
        router = Router(settings, rules, CursorQueue, RoundRobin, accounting)
        flow = ProducerFlow(accounting, deadlines, now, settings.activemq.stalls_at_the_store)
        family = ActiveMqFamily(accounting, AdmissionControl(), flow)
        if settings.activemq.statistics:
            statistics.answered_by(router, accounting)
        if store is not None:
            storage = SpoolingStored(store)
            flow.storing = storage.judge
            flow.disk_problem = storage.problem
    elif settings.rabbitmq is not None:
        accounting = UnlimitedAccounting(rules)
        router = Router(settings, rules, Queue, RoundRobin, accounting)
        alarms = Alarms()
        family = RabbitMqFamily(
            accounting,
            AdmissionControl(),
            alarms,
            Resources(
                alarms,
                deadlines,
                settings.rabbitmq.memory_high_watermark,
                settings.rabbitmq.disk_free_limit,
            ),
            Topology(router, deadlines, now, settings.rabbitmq.queue_rate),
        )
        if store is not None:
            storage = Stored(store)
            family.paging = PagingOut(
                family.topology,
                family.resources,
                alarms,
                deadlines,
                store.large,
                settings.rabbitmq.memory_paging_ratio,
            )
    else:
        accounting = Accounting(settings, rules)
        router = Router(settings, rules, Queue, RoundRobin, accounting)
        family = ArtemisFamily(accounting, Admission(accounting))
        family.add_management_address(router)
        if store is not None:
            storage = family.storage(store, settings, rules)
    context = BrokerContext(
        settings=settings,
        family=family,
        router=router,
        deadlines=deadlines,
        outbox=outbox,
        start=start,
        check_interval=ms(max(1, settings.connection_ttl_check_interval_ms)),
        session_seed=session_seed,
        accounting=accounting,
        admission=family.admission,
        alarms=family.alarms,
        epoch=epoch,
        large=None if store is None or family.stalls_producers else store.large,
    )
    router.creator = lambda: context.conn
    if settings.rabbitmq is None:
        router.expire_by(lambda: context.now + context.epoch)
    if isinstance(family, RabbitMqFamily):
        family.topology.dead = partial(dead_letters.dead_letter, context)
    if linked:
        family.alarms.tell = outbox.alarm
    if storage is not None:
        router.store_in(storage)
        family.admission.storing = storage.judge
        family.admission.disk_problem = storage.problem
    return Broker(context, _connector(family), store)


def _connector(family: BrokerFamily) -> Become:
    """Return what makes a connection, by the protocols that its acceptor speaks."""
    stomp: Become = ActiveMqStompConnection if family.stalls_producers else StompConnection
    first_bytes: dict[str, tuple[bytes, Become]] = {
        "AMQP": (b"AMQP", AmqpConnection),
        "CORE": (b"ARTEMIS", CoreConnection),
    }

    def connect(conn: int, acceptor: Acceptor, context: BrokerContext, now: Instant) -> Connection:
        spoken = acceptor.protocols
        if HTTP in spoken:
            return ManagementConnection(conn, acceptor, context, now)
        if OPENWIRE in spoken and family.stalls_producers:
            return OpenWireConnection(conn, acceptor, context, now)
        if AMQP091 in spoken:
            amqp10 = AmqpConnection if "AMQP" in spoken else None
            return AmqpVersionDetector(conn, acceptor, context, now, Amqp091Connection, amqp10)
        detected = dict(first_bytes[name] for name in first_bytes if name in spoken)
        if "STOMP" in spoken:
            protocols = Detectable(detected, stomp, METHODS, WebSocketConnection)
        elif len(detected) == 1:
            return next(iter(detected.values()))(conn, acceptor, context, now)
        else:
            protocols = Detectable(detected, AmqpConnection)
        return ProtocolDetector(conn, acceptor, context, now, protocols)

    return connect
