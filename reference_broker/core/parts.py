"""The parts a broker is built from, each replaceable by a subclass: ``replace(STANDARD, window=MyWindow)``.

This is how seeded faults are made: a mutant overrides one method of one part and is handed in here. The broker itself
knows nothing of it. Each part is called like the class that stands here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harness.words import Duration, Instant
from reference_broker.amqp.connection import AmqpConnection
from reference_broker.amqp.coordinator import CoordinatorLink
from reference_broker.amqp.incoming import IncomingLink
from reference_broker.amqp.outgoing import OutgoingLink
from reference_broker.amqp.performatives import Attach, Begin
from reference_broker.amqp.producer_credit import ProducerCredit
from reference_broker.amqp.sasl import SaslServer
from reference_broker.amqp.session import Session
from reference_broker.amqp.waiting import WaitingLink
from reference_broker.amqp091 import dead_letters
from reference_broker.amqp091.channel import Channel
from reference_broker.amqp091.connection import Amqp091Connection
from reference_broker.amqp091.consumer import Consumer, Prefetch
from reference_broker.amqp091.heartbeat import HeartBeats
from reference_broker.amqp091.paging import PagingOut
from reference_broker.amqp091.throttle import Throttle
from reference_broker.amqp091.which import WhichAmqp
from reference_broker.config.activemq_settings import Cursor as Kind
from reference_broker.config.settings import Acceptor, HeartBeatRules, Settings, StompLimits
from reference_broker.core.accounting import Accounting
from reference_broker.core.admission import Admission
from reference_broker.core.alarms import Alarms
from reference_broker.core.credit import ByteWindow, MessageWindow, ReceiverCredit, SenderCredit
from reference_broker.core.cursor import CURSORS, Cursor
from reference_broker.core.cursor_queue import CursorQueue
from reference_broker.core.inactivity import InactivityMonitor
from reference_broker.core.liveness import Beats, LivenessMonitor
from reference_broker.core.matching import AddressRules
from reference_broker.core.message import Message
from reference_broker.core.producer_flow import ProducerFlow
from reference_broker.core.queue import Queue, RoundRobin
from reference_broker.core.resources import Resources
from reference_broker.core.router import Router
from reference_broker.core.shared import Shared
from reference_broker.core.topology import Topology
from reference_broker.core.transactions import Transaction
from reference_broker.core.usage_accounting import UsageAccounting
from reference_broker.core_protocol.connection import CoreConnection
from reference_broker.core_protocol.consumer import ConsumerCredit, CoreConsumer
from reference_broker.core_protocol.grants import Grants
from reference_broker.core_protocol.session import Session as CoreSession
from reference_broker.management_api.connection import ManagementConnection
from reference_broker.openwire.client import Client
from reference_broker.openwire.connection import OpenWireConnection
from reference_broker.openwire.consumer import OpenWireConsumer
from reference_broker.openwire.consumer import Prefetch as OpenWirePrefetch
from reference_broker.openwire.producer import Producer
from reference_broker.openwire.signs import Signs
from reference_broker.stomp.activemq import ActiveMqStompConnection, MirroredHeartBeats
from reference_broker.stomp.commands import COMMANDS, Handler
from reference_broker.stomp.connection import StompConnection
from reference_broker.stomp.encoder import FrameEncoder
from reference_broker.stomp.frame import Version
from reference_broker.stomp.grammar import GRAMMARS, OPENING, Grammar
from reference_broker.stomp.heartbeat import HeartBeatNegotiator
from reference_broker.stomp.parser import FrameParser
from reference_broker.stomp.rabbitmq import TwoLooks, WholeSecondBeats
from reference_broker.stomp.subscription import Subscription
from reference_broker.ws.connection import WebSocketConnection


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
    management_api: Callable[[int, Acceptor, Shared, Instant], ManagementConnection] = ManagementConnection
    amqp: Callable[[int, Acceptor, Shared, Instant], AmqpConnection] = AmqpConnection
    sasl: Callable[..., SaslServer] = SaslServer
    session: Callable[[AmqpConnection, Begin, int, int], Session] = Session
    outgoing: Callable[[Session, Attach, int], OutgoingLink] = OutgoingLink
    incoming: Callable[[Session, Attach, int], IncomingLink] = IncomingLink
    coordinator: Callable[[Session, Attach, int], CoordinatorLink] = CoordinatorLink
    sender_credit: Callable[[int], SenderCredit] = SenderCredit
    receiver_credit: Callable[[int], ReceiverCredit] = ReceiverCredit
    producer_credit: Callable[[int, int, Admission, str], ProducerCredit] = ProducerCredit
    admission: Callable[[Accounting], Admission] = Admission
    core: Callable[[int, Acceptor, Shared, Instant], CoreConnection] = CoreConnection
    core_session: Callable[..., CoreSession] = CoreSession
    core_consumer: Callable[..., CoreConsumer] = CoreConsumer
    consumer_credit: Callable[[], ConsumerCredit] = ConsumerCredit
    grants: Callable[..., Grants] = Grants
    alarms: Callable[[], Alarms] = Alarms
    resources: Callable[..., Resources] = Resources
    topology: Callable[..., Topology] = Topology
    dead_letters: Callable[[Shared, Queue, Message, str], None] = dead_letters.bury
    which_amqp: Callable[[int, Acceptor, Shared, Instant], WhichAmqp] = WhichAmqp
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
    inactivity: Callable[[Instant, Duration, Duration, Instant], InactivityMonitor] = InactivityMonitor
    mirrored_beats: Callable[[Acceptor, Settings], MirroredHeartBeats] = MirroredHeartBeats
    whole_second_beats: Callable[[Acceptor, Settings], WholeSecondBeats] = WholeSecondBeats
    two_looks: Callable[[Instant, Duration, Duration, Instant], TwoLooks] = TwoLooks
    activemq_stomp: Callable[[int, Acceptor, Shared, Instant], ActiveMqStompConnection] = ActiveMqStompConnection
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
    ) -> tuple[Callable[..., HeartBeatNegotiator], Callable[..., LivenessMonitor]]:
        """Who agrees on STOMP heart-beats, and who watches for silence, by the rules of a family."""
        match rules:
            case HeartBeatRules.MIRRORED:
                return self.mirrored_beats, self.inactivity
            case HeartBeatRules.WHOLE_SECONDS:
                return self.whole_second_beats, self.two_looks
            case HeartBeatRules.TTL:
                return self.negotiator, self.liveness


STANDARD = Parts()
"""The parts of the reference broker itself."""
