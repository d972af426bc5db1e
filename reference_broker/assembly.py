"""The composition root: the only module that knows every protocol and every family.

The parts a broker is built from, each replaceable by a subclass: ``replace(STANDARD,
window=MyWindow)``.

This is how seeded faults are made: a mutant overrides one method of one part and is handed in here.
The broker itself knows nothing of it. Each part is called like the class that stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.reference_broker.families.activemq.cursor import CURSORS, Cursor
from brokerproof.reference_broker.families.activemq.cursor_queue import CursorQueue
from brokerproof.reference_broker.families.activemq.family import ActiveMqFamily
from brokerproof.reference_broker.families.activemq.inactivity import InactivityMonitor
from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
from brokerproof.reference_broker.families.activemq.router_store import SpoolingStored
from brokerproof.reference_broker.families.activemq.usage_accounting import UsageAccounting
from brokerproof.reference_broker.families.artemis.accounting import Accounting
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.artemis.family import ArtemisFamily
from brokerproof.reference_broker.families.artemis.ttl_liveness import Beats, LivenessMonitor
from brokerproof.reference_broker.families.rabbitmq.family import RabbitMqFamily
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.accounting import MemoryAccounting, UnlimitedAccounting
from brokerproof.reference_broker.kernel.admission import AdmissionControl
from brokerproof.reference_broker.kernel.alarms import Alarms
from brokerproof.reference_broker.kernel.broker import Broker
from brokerproof.reference_broker.kernel.connection import Connection
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.kernel.credit import (
    ByteWindow,
    MessageWindow,
    ReceiverCredit,
    SenderCredit,
)
from brokerproof.reference_broker.kernel.deadlines import Deadlines
from brokerproof.reference_broker.kernel.family import BrokerFamily
from brokerproof.reference_broker.kernel.liveness import SilenceMonitor
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.outbox import Outbox
from brokerproof.reference_broker.kernel.protocol_detection import (
    Become,
    Detectable,
    ProtocolDetector,
)
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin
from brokerproof.reference_broker.kernel.router import Router
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.persistence.codec import RECORDS
from brokerproof.reference_broker.persistence.router_store import Stored
from brokerproof.reference_broker.persistence.store import Store
from brokerproof.reference_broker.protocols.amqp091 import dead_letters
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer, Prefetch
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.reference_broker.protocols.amqp091.paging import PagingOut
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.protocols.amqp091.version_detection import AmqpVersionDetector
from brokerproof.reference_broker.protocols.amqp10 import records, statistics
from brokerproof.reference_broker.protocols.amqp10.blocking_link import WaitingLink
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.coordinator import CoordinatorLink
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import Attach, Begin
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.amqp10.sasl import SaslServer
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.core.connection import CoreConnection
from brokerproof.reference_broker.protocols.core.consumer import ConsumerCredit, CoreConsumer
from brokerproof.reference_broker.protocols.core.message import CoreMessage, CoreRecords
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.session import Session as CoreSession
from brokerproof.reference_broker.protocols.management_http.connection import ManagementConnection
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer
from brokerproof.reference_broker.protocols.openwire.consumer import Prefetch as OpenWirePrefetch
from brokerproof.reference_broker.protocols.openwire.keepalive import Signs
from brokerproof.reference_broker.protocols.openwire.message import OpenWireMessage, OpenWireRecords
from brokerproof.reference_broker.protocols.openwire.producer import Producer
from brokerproof.reference_broker.protocols.stomp.activemq import (
    ActiveMqStompConnection,
    MirroredHeartBeats,
)
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS, Handler
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS, OPENING, Grammar
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.rabbitmq import TwoLooks, WholeSecondBeats
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.reference_broker.protocols.websocket.connection import WebSocketConnection
from brokerproof.reference_broker.protocols.websocket.upgrade import METHODS
from brokerproof.reference_broker.settings.activemq import Cursor as Kind
from brokerproof.reference_broker.settings.address_rules import AddressRules
from brokerproof.reference_broker.settings.settings import (
    AMQP091,
    HTTP,
    OPENWIRE,
    Acceptor,
    HeartBeatRules,
    Settings,
    StompLimits,
)


@dataclass(frozen=True, slots=True)
class Parts:
    """One factory or table per part."""

    queue: Callable[..., Queue] = Queue
    dispatcher: Callable[[], RoundRobin] = RoundRobin
    router: Callable[..., Router] = Router
    accounting: Callable[[Settings, AddressRules], Accounting] = Accounting
    transaction: Callable[[], Transaction] = Transaction
    window: Callable[[int], ByteWindow] = ByteWindow
    liveness: Callable[[Instant, Duration, Duration, Instant], LivenessMonitor] = LivenessMonitor
    beats: Callable[[Duration, Instant], Beats] = Beats
    negotiator: Callable[[Acceptor, Settings], HeartBeatNegotiator] = HeartBeatNegotiator
    opening: Grammar = OPENING
    """The rules for the first frame, when no version is agreed yet."""
    grammars: Mapping[Version, Grammar] = field(default_factory=lambda: GRAMMARS)
    parser: Callable[[Grammar, StompLimits], FrameParser] = FrameParser
    encoder: Callable[[Version | None], FrameEncoder] = FrameEncoder
    commands: Mapping[str, Handler] = field(default_factory=lambda: COMMANDS)
    subscription: Callable[..., Subscription] = Subscription
    stomp: Callable[[int, Acceptor, Shared, Instant], StompConnection] = StompConnection
    web_socket: Callable[..., WebSocketConnection] = WebSocketConnection
    management_api: Callable[[int, Acceptor, Shared, Instant], ManagementConnection] = (
        ManagementConnection
    )
    amqp: Callable[[int, Acceptor, Shared, Instant], AmqpConnection] = AmqpConnection
    sasl: Callable[..., SaslServer] = SaslServer
    session: Callable[[AmqpConnection, Begin, int, int], Session] = Session
    outgoing: Callable[[Session, Attach, int], OutgoingLink] = OutgoingLink
    incoming: Callable[[Session, Attach, int], IncomingLink] = IncomingLink
    coordinator: Callable[[Session, Attach, int], CoordinatorLink] = CoordinatorLink
    sender_credit: Callable[[int], SenderCredit] = SenderCredit
    receiver_credit: Callable[[int], ReceiverCredit] = ReceiverCredit
    producer_credit: Callable[[int, int, AdmissionControl, str], ProducerCredit] = ProducerCredit
    admission: Callable[[MemoryAccounting], Admission] = Admission
    core: Callable[[int, Acceptor, Shared, Instant], CoreConnection] = CoreConnection
    core_session: Callable[..., CoreSession] = CoreSession
    core_consumer: Callable[..., CoreConsumer] = CoreConsumer
    consumer_credit: Callable[[], ConsumerCredit] = ConsumerCredit
    grants: Callable[..., Grants] = Grants
    alarms: Callable[[], Alarms] = Alarms
    resources: Callable[..., Resources] = Resources
    topology: Callable[..., Topology] = Topology
    dead_letters: Callable[[Shared, Queue, Message, str], None] = dead_letters.bury
    which_amqp: Callable[..., AmqpVersionDetector] = AmqpVersionDetector
    amqp091: Callable[[int, Acceptor, Shared, Instant], Amqp091Connection] = Amqp091Connection
    channel091: Callable[[Amqp091Connection, int], Channel] = Channel
    consumer091: Callable[..., Consumer] = Consumer
    prefetch091: Callable[[int], Prefetch] = Prefetch
    usage_accounting: Callable[..., UsageAccounting] = UsageAccounting
    cursors: Mapping[Kind, type[Cursor]] = field(default_factory=lambda: CURSORS)
    waiting_incoming: Callable[[Session, Attach, int], WaitingLink] = WaitingLink
    cursor_queue: Callable[..., CursorQueue] = CursorQueue
    producer_flow: Callable[..., ProducerFlow] = ProducerFlow
    prefetch: Callable[[int], MessageWindow] = MessageWindow
    inactivity: Callable[[Instant, Duration, Duration, Instant], InactivityMonitor] = (
        InactivityMonitor
    )
    mirrored_beats: Callable[[Acceptor, Settings], MirroredHeartBeats] = MirroredHeartBeats
    whole_second_beats: Callable[[Acceptor, Settings], WholeSecondBeats] = WholeSecondBeats
    two_looks: Callable[[Instant, Duration, Duration, Instant], TwoLooks] = TwoLooks
    activemq_stomp: Callable[[int, Acceptor, Shared, Instant], ActiveMqStompConnection] = (
        ActiveMqStompConnection
    )
    heart_beats091: Callable[[int, Instant], HeartBeats] = HeartBeats
    openwire: Callable[[int, Acceptor, Shared, Instant], OpenWireConnection] = OpenWireConnection
    openwire_client: Callable[[OpenWireConnection], Client] = Client
    openwire_producer: Callable[..., Producer] = Producer
    openwire_consumer: Callable[..., OpenWireConsumer] = OpenWireConsumer
    openwire_prefetch: Callable[[int], OpenWirePrefetch] = OpenWirePrefetch
    openwire_signs: Callable[[Duration, Instant], Signs] = Signs
    paging_out: Callable[..., PagingOut] = PagingOut
    throttle091: Callable[[Amqp091Connection], Throttle] = Throttle

    def stomp_heart_beats(
        self, rules: HeartBeatRules
    ) -> tuple[Callable[..., HeartBeatNegotiator], Callable[..., SilenceMonitor]]:
        """Who agrees on STOMP heart-beats, and who watches for silence, by the rules of a
        family."""
        match rules:
            case HeartBeatRules.MIRRORED:
                return self.mirrored_beats, self.inactivity
            case HeartBeatRules.WHOLE_SECONDS:
                return self.whole_second_beats, self.two_looks
            case HeartBeatRules.TTL:
                return self.negotiator, self.liveness


STANDARD = Parts()
"""The parts of the reference broker itself."""

records.register()
RECORDS.register(CoreMessage.record_kind, CoreRecords())
RECORDS.register(OpenWireMessage.record_kind, OpenWireRecords())


def create_broker(
    settings: Settings,
    parts: Parts = STANDARD,
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
    since 1970, which only selectors ask for. ``store`` is where messages go that do not fit into
    memory or have to survive a restart; what it found of an earlier broker is there again at once.
    Without it everything is kept in memory. ``linked``: other brokers must know of its alarms.
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
        accounting = parts.usage_accounting(settings, rules, parts.cursors)
        router = parts.router(settings, rules, parts.cursor_queue, parts.dispatcher, accounting)
        flow = parts.producer_flow(accounting, deadlines, now, settings.stalls_at_the_store)
        family = ActiveMqFamily(accounting, AdmissionControl(), flow)
        if settings.activemq.statistics:
            statistics.answered_by(router, accounting)
        if store is not None:
            storage = SpoolingStored(store)
            flow.storing = storage.judge
    elif linked or _is_rabbitmq(settings):  # only RabbitMQ's brokers are linked
        accounting = UnlimitedAccounting(rules)
        router = parts.router(settings, rules, parts.queue, parts.dispatcher, accounting)
        alarms = parts.alarms()
        family = RabbitMqFamily(
            accounting,
            AdmissionControl(),
            alarms,
            parts.resources(
                alarms, deadlines, settings.memory_high_watermark, settings.disk_free_limit
            ),
            parts.topology(router, deadlines, now, settings.queue_rate),
        )
        if store is not None:
            storage = Stored(store)
            ratio = settings.memory_paging_ratio
            if ratio is not None:
                family.paging = parts.paging_out(
                    family.topology, family.resources, alarms, deadlines, store.large, ratio
                )
    else:
        accounting = parts.accounting(settings, rules)
        router = parts.router(settings, rules, parts.queue, parts.dispatcher, accounting)
        family = ArtemisFamily(accounting, parts.admission(accounting))
        family.add_management_address(router)
        if store is not None:
            storage = family.storage(store, settings, rules)
    context = Shared(
        settings=settings,
        parts=parts,
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
    if isinstance(family, RabbitMqFamily):
        family.topology.dead = partial(parts.dead_letters, context)
    if linked:
        family.alarms.tell = outbox.alarm
    if storage is not None:
        router.store_in(storage)
        family.admission.storing = storage.judge
    return Broker(context, _connector(parts, family), store)


def _is_rabbitmq(settings: Settings) -> bool:
    return any(
        AMQP091 in acceptor.protocols
        or HTTP in acceptor.protocols
        or acceptor.manners.heart_beats is HeartBeatRules.WHOLE_SECONDS
        for acceptor in settings.acceptors
    )


def _connector(parts: Parts, family: BrokerFamily) -> Become:
    """Return what makes a connection, by the protocols that its acceptor speaks."""
    stomp: Become = parts.activemq_stomp if family.stalls_producers else parts.stomp
    first_bytes: dict[str, tuple[bytes, Become]] = {
        "AMQP": (b"AMQP", parts.amqp),
        "CORE": (b"ARTEMIS", parts.core),
    }

    def connect(conn: int, acceptor: Acceptor, context: Shared, now: Instant) -> Connection:
        spoken = acceptor.protocols
        if HTTP in spoken:
            return parts.management_api(conn, acceptor, context, now)
        if OPENWIRE in spoken and family.stalls_producers:
            return parts.openwire(conn, acceptor, context, now)
        if AMQP091 in spoken:
            amqp10 = parts.amqp if "AMQP" in spoken else None
            return parts.which_amqp(conn, acceptor, context, now, parts.amqp091, amqp10)
        detected = dict(first_bytes[name] for name in first_bytes if name in spoken)
        if "STOMP" in spoken:
            protocols = Detectable(detected, stomp, METHODS, parts.web_socket)
        elif len(detected) == 1:
            return next(iter(detected.values()))(conn, acceptor, context, now)
        else:
            protocols = Detectable(detected, parts.amqp)
        return ProtocolDetector(conn, acceptor, context, now, protocols)

    return connect
