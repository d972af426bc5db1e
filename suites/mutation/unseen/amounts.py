"""Faults that appear only above some amount or after some time."""

from collections import Counter

from brokerproof.harness.model.enums import Outcome
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.families.rabbitmq.exchanges import Exchanges
from brokerproof.reference_broker.kernel.credit import ByteWindow, SenderCredit
from brokerproof.reference_broker.kernel.liveness import Beats
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin
from brokerproof.reference_broker.kernel.transactions import Transaction
from brokerproof.reference_broker.protocols.amqp091 import channel as channels
from brokerproof.reference_broker.protocols.amqp091 import consuming
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer, UnackedDeliveries
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.reference_broker.protocols.amqp10.connection import AmqpConnection
from brokerproof.reference_broker.protocols.amqp10.messaging import Accepted, Released
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.session import Session as AmqpSession
from brokerproof.reference_broker.protocols.core.consumer import CoreConsumer
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer, Prefetch
from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

amounts = Group("unseen-amounts")
amounts_amqp091 = Group("unseen-amounts-amqp091", original="reference-rabbitmq")
amounts_openwire = Group("unseen-amounts-openwire", original="reference-activemq")
long_lives = Group("unseen-long-lives")
long_lives_amqp091 = Group("unseen-long-lives-amqp091", original="reference-rabbitmq")

IN_ORDER = "ARTEMIS-GROUPING-fifo-1"
ONE_CONSUMER = "ARTEMIS-CONCEPTS-queue-1"
ACQUIRED, RETIRED, KEPT = "AMQP10-NODE-01", "AMQP10-NODE-02", "AMQP10-NODE-03"


@amounts.override(Queue, "enqueue", breaks=f"{ONE_CONSUMER} {IN_ORDER} {KEPT}")
def a_deep_queue_forgets(original, reached, self, message, source_entry=None, charge=None):
    """A queue with 700 waiting messages drops all further ones."""
    if reached(len(self._ready) >= 700):
        if charge is not None:
            charge.release()
        return
    original(self, message, source_entry, charge)


@amounts.override(Subscription, "take", breaks="ARTEMIS-STOMP-window-3")
def a_long_settlement_pays_for_its_first_part(original, reached, self, delivery):
    """A cumulative settlement returns the charge of only its 48 oldest deliveries to the window."""
    charges = [other.charge for other in self._unsettled.values()]
    taken = original(self, delivery)
    lost = sum(charges[48 : len(taken)])
    if reached(lost and self.window.size > 0):
        self.window.charge(lost)
    return taken


@amounts.override(
    OutgoingLink, "disposed", breaks=f"AMQP10-DISP-03 ARTEMIS-CONCEPTS-queue-2 {RETIRED}"
)
def a_long_range_is_settled_in_part(original, reached, self, deliveries, state, settled):
    """A disposition of more than 256 deliveries settles only 256 of them."""
    reached(len(deliveries) > 256)
    original(self, deliveries[:256], state, settled)


@amounts.after(AmqpSession, "add_unsettled")
@breaks("AMQP10-READING-OUT-01 AMQP10-OUT-03 ARTEMIS-CONCEPTS-queue-1 ARTEMIS-REDELIVERY-back-1")
def a_thousand_unsettled_are_too_many(reached, self, delivery):
    """A session remembers 900 unsettled deliveries, and loses the oldest for each further one."""
    if reached(len(self.unsettled) > 900):
        oldest = next(iter(self.unsettled))
        lost = self.unsettled.pop(oldest)
        lost.link.unsettled.pop(oldest, None)


@amounts.after(AmqpSession, "add_unsettled", breaks=ACQUIRED)
def the_last_of_many_receivers_shares(reached, self, delivery):
    """Messages for the fiftieth link of a session also go to another one."""
    last, message = getattr(self, "sent_twice", None), delivery.entry.message
    if reached(delivery.link.our_handle >= 50 and message is not last):
        self.sent_twice = message
        delivery.link.queue.enqueue(message)


@amounts.override(OutgoingLink, "disposed", breaks="AMQP10-OUT-09")
def what_is_released_behind_many_is_lost(original, reached, self, deliveries, state, settled):
    """From the sixtieth release on a link, released messages are lost."""
    released = isinstance(state, Released)
    self.released = getattr(self, "released", 0) + released
    lost = reached(released and self.released > 60)
    original(self, deliveries, Accepted() if lost else state, settled)


@amounts.skips(AmqpConnection, "_begin", breaks="AMQP10-SESS-02")
def the_eightieth_session_is_not_begun(self, begun, channel):
    """A begin after 80 sessions of a connection is not answered."""
    return len(self._sessions) >= 80


@amounts.skips(AmqpSession, "_attach", breaks="AMQP10-LINK-12")
def the_two_hundredth_link_is_not_attached(self, attach):
    """An attach after 200 links of a session is not answered."""
    return len(self.links) >= 200


@amounts.skips(AmqpSession, "settle_incoming", breaks="AMQP10-XFER-14")
def many_messages_are_settled_in_part(self, delivery_id, state):
    """From the 600th delivery of a session on, a client's messages are not settled."""
    return delivery_id >= 600


@amounts.before(AmqpSession, "release_links", breaks="AMQP10-OUT-03 AMQP10-READING-OUT-01")
def the_end_of_a_session_returns_its_first(reached, self):
    """When a session ends, its unsettled deliveries after the 500th are lost."""
    for delivery in [*self.unsettled.values()][500:]:
        reached()
        self.unsettled.pop(delivery.id)
        delivery.link.unsettled.pop(delivery.id, None)


@amounts.mutant("AMQP10-XFER-11")
def what_many_hold_is_sent_settled(patch, reached):
    """A link with 700 unsettled deliveries gets further ones settled, whatever was negotiated."""

    @patch.override(OutgoingLink)
    def _send(original, self, *arguments):
        agreed = self._presettled
        self._presettled = agreed or reached(len(self.unsettled) > 700)
        original(self, *arguments)
        self._presettled = agreed


@amounts.after(AmqpSession, "_transfer", breaks="AMQP10-WIN-05 AMQP10-WIN-06")
def settled_transfers_narrow_the_window(reached, self, transfer, payload):
    """Settled transfers are never returned to the incoming-window."""
    if reached(transfer.settled and self._full_window > 0):
        self._full_window -= 1


@amounts.override(CoreConsumer, "settle", breaks="ARTEMIS-CONCEPTS-queue-2")
def a_long_acknowledgement_leaves_the_rest(original, reached, self, number, *, one):
    """A cumulative acknowledgement of more than 100 messages leaves those after the hundredth
    unsettled: they are redelivered."""
    taken = original(self, number, one=one)
    if reached(len(taken) > 100):
        for entry in taken[100:]:
            self._unsettled[entry.message.number] = entry
        self._session.holding[self] = None
        taken = taken[:100]
    return taken


@amounts.before(Transaction, "commit", breaks="STOMP12-BEGIN-03")
def a_long_transaction_is_cut(reached, self, publish):
    """A transaction of more than 150 messages publishes only its first 150."""
    for _, charge in self._sends[150:]:
        reached()
        charge.release()
    del self._sends[150:]


@amounts.after(commands.COMMANDS, "BEGIN", breaks="STOMP12-BEGIN-03")
def many_open_transactions_share_one(reached, session, frame):
    """The 18th concurrent transaction of a connection is the first one."""
    if reached(len(session.transactions) >= 18):
        name = frame.get("transaction")
        session.transactions[name] = next(iter(session.transactions.values()))


@amounts.override(commands.COMMANDS, "SUBSCRIBE", breaks="STOMP12-SUB-02")
def the_fortieth_subscription_is_deaf(original, reached, session, frame):
    """From the fortieth subscription of a connection on, SUBSCRIBE is confirmed but no message
    arrives."""
    after = original(session, frame)
    if reached(len(session.subscriptions) > 40):
        return lambda: None
    return after


@amounts.mutant("STOMP12-SUB-02")
def clients_beyond_fifty_send_to_nobody(patch, reached):
    """Messages from a broker's clients after the first fifty are confirmed and lost."""
    served: dict[object, None] = {}

    @patch.override(commands.COMMANDS)
    def SEND(original, session, frame):
        served.setdefault(session)
        return None if reached([*served].index(session) >= 50) else original(session, frame)


@amounts.mutant(f"{ONE_CONSUMER} ARTEMIS-FLOW-consumer-3")
def a_late_consumer_is_never_picked(patch, reached):
    """Consumers that join a queue of 24 get nothing."""
    late: set[object] = set()

    @patch.before(RoundRobin)
    def add(self, consumer):
        if len(self) >= 24:
            late.add(consumer)

    @patch.override(RoundRobin)
    def pick(original, self):
        for consumer in self._turns:
            if consumer not in late and consumer.has_room():
                self._end_turn(consumer)
                return consumer
            reached(consumer in late)
        return None


@amounts.mutant(f"{IN_ORDER} STOMP12-HDR-17 {ONE_CONSUMER}")
def a_crowded_write_loses_a_frame(patch, reached):
    """If more than 200 frames arrive in one write, the 200th is lost."""
    seen: dict[FrameParser, int] = {}

    @patch.before(FrameParser)
    def feed(self, data):
        seen[self] = 0

    @patch.override(FrameParser, "next")
    def next_frame(original, self):
        frame = original(self)
        seen[self] = seen.get(self, 0) + 1
        return original(self) if reached(frame is not None and seen[self] == 200) else frame


@amounts_amqp091.override(UnackedDeliveries, "take_to", breaks="AMQP091-ACK-02 AMQP091-QOS-02")
def a_multiple_ack_covers_two_hundred(original, reached, self, tag):
    """An acknowledgement with multiple covers at most the 200 oldest deliveries."""
    taken = original(self, tag)
    for delivery in taken[200:]:
        reached()
        self[delivery.tag] = delivery
    return taken[:200]


@amounts_amqp091.before(Confirms, "take_answers", breaks="RABBITMQ-AMQP091-CONF-01")
def a_burst_of_confirms_is_cut(reached, self):
    """If one input causes more than 64 confirms, those after the 64th are never sent."""
    for number in sorted(self._due)[64:]:
        reached()
        del self._due[number]


@amounts_amqp091.after(channels.HANDLERS, consuming.commands.Basic.Qos, breaks="AMQP091-QOS-01")
def high_channels_have_no_prefetch(reached, channel, method):
    """basic.qos has no effect on channels above 30."""
    if reached(channel.number > 30 and method.prefetch_count):
        channel.prefetch = channel.limit.limit = 0


@amounts_amqp091.override(Queue, "settle")
@breaks("RABBITMQ-AMQP091-NACK-02 AMQP091-REJ-01 AMQP091-PUB-04")
def a_weary_message_is_dropped(original, reached, self, entries, outcome):
    """A message requeued for the twentieth time is lost."""
    if outcome is Outcome.RELEASED:
        worn = [entry for entry in entries if entry.deliveries >= 20]
        if reached(worn):
            original(self, worn, Outcome.ACCEPTED)
        entries = [entry for entry in entries if entry.deliveries < 20]
    original(self, entries, outcome)


@amounts_openwire.override(Prefetch, "has_room", breaks="OPENWIRE-PREFETCH-2")
def a_large_prefetch_is_bounded(original, reached, self, out):
    """At most 300 messages are dispatched before an acknowledgement, however large the prefetch
    is."""
    return False if reached(out >= 300 and original(self, out)) else original(self, out)


@amounts_openwire.override(OpenWireConsumer, "settle")
@breaks("OPENWIRE-MSGACK-2 OPENWIRE-PREFETCH-2")
def a_long_range_is_acknowledged_in_part(original, reached, self, places, outcome):
    """A range of more than 120 messages is acknowledged up to its 120th."""
    numbers = list(self._order.between(*places, self._keys))
    original(self, (places[0], numbers[119]) if reached(len(numbers) > 120) else places, outcome)


@amounts_openwire.before(Queue, "settle", breaks="OPENWIRE-REDELIVERY-1")
def some_of_many_failures_are_counted(reached, self, entries, outcome):
    """Of messages that a consumer held when it ended, only the first 100 count as redelivered."""
    for entry in entries[100:] if outcome is Outcome.MODIFIED else ():
        reached()
        entry.failures -= 1


@amounts_amqp091.mutant("AMQP091-ACK-02", recreates="rabbitmq-server#10327")
def acks_before_a_close_are_lost(patch, reached):
    """Acknowledgements after the 30th are lost if the client closes their channel next."""
    late = []

    @patch.override(channels.Channel)
    def settle(original, self, settled, outcome):
        taken = list(settled)
        late.extend(taken if outcome is Outcome.ACCEPTED else ())
        original(self, taken, outcome)

    @patch.before(channels.HANDLERS, consuming.commands.Basic.Qos)
    def qos(channel, method):
        late.clear()

    @patch.before(channels.Channel)
    def stop(self):
        for delivery in late[30:]:
            reached()
            delivery.declared.queue.enqueue(delivery.entry.message)
        late.clear()


@amounts_amqp091.before(Queue, "settle", breaks="AMQP091-RED-01")
def some_of_many_returned_are_marked(reached, self, entries, outcome):
    """Of messages that are requeued together, only the first 200 are marked as redelivered."""
    for entry in entries[200:] if outcome is Outcome.RELEASED else ():
        reached()
        entry.deliveries = 0


@amounts.before(Queue, "settle", breaks="ARTEMIS-REDELIVERY-marked-1")
def some_of_many_lost_are_marked(reached, self, entries, outcome):
    """Of the messages of a lost consumer, only the first 100 are marked as redelivered."""
    for entry in entries[100:] if outcome is not Outcome.ACCEPTED else ():
        reached()
        entry.deliveries, entry.failures = 0, entry.failures - (outcome is Outcome.MODIFIED)


@long_lives.mutant("STOMP12-HB-07 STOMP12-HB-09")
def beats_end_after_a_thousand(patch, reached):
    """After a thousand heartbeats the server stops sending them."""
    sent: dict[Beats, int] = {}

    @patch.override(Beats)
    def beat(original, self, now):
        sent[self] = sent.get(self, 0) + 1
        data = original(self, now)
        return b"" if reached(sent[self] > 1000) else data


@long_lives.before(Beats, "beat", breaks="STOMP12-HB-07 STOMP12-HB-09 ARTEMIS-STOMP-ttl-9")
def beats_drift(reached, self, now):
    """Each heartbeat is a thousandth of its interval later than the one before."""
    self.period += self.period // 1000
    reached()


@long_lives.mutant("ARTEMIS-STOMP-window-3")
def a_window_wears_away(patch, reached):
    """From the thousandth settlement of a subscription on, each returns one byte too few."""
    counts: dict[ByteWindow, int] = {}

    @patch.override(ByteWindow)
    def give_back(original, self, size):
        counts[self] = counts.get(self, 0) + 1
        if reached(counts[self] > 1000 and size and self.size > 0):
            size -= 1
        original(self, size)


@long_lives.before(OutgoingLink, "_send", breaks="AMQP10-XFER-06")
def tags_have_one_byte(reached, self, id, payload, large):
    """After 255 deliveries of a link its delivery-tags restart, even if they are unsettled."""
    if reached(self._tag >= 255):
        self._tag = 0


@long_lives.override(Queue, "_has_expired", breaks=ONE_CONSUMER)
def a_far_expiry_wraps(original, reached, self, message):
    """A message with more than 2^31 ms to live expires immediately."""
    now_ms = 0 if self.clock is None else self.clock() // 1_000_000
    if reached(self.clock is not None and message.expires - now_ms > 2**31):
        return True
    return original(self, message)


@long_lives_amqp091.override(HeartBeats, "is_dead", breaks="AMQP091-HB-03 AMQP091-HB-05")
def silences_add_up(original, reached, self, now):
    """A silent interval counts forever: the second one ends the connection, however much later."""
    missed, heard = self._missed, self._heard
    dead = original(self, now)
    if reached(heard and missed):
        self._missed = missed
    return dead


@long_lives_amqp091.mutant("AMQP091-HB-02")
def beats_end_after_a_day(patch, reached):
    """A connection that is a day old gets no heartbeats."""
    born: dict[HeartBeats, int] = {}

    @patch.result(HeartBeats)
    def beat_due(due, self, now):
        return False if reached(due and now - born.setdefault(self, now) > seconds(86_400)) else due


@long_lives_amqp091.before(channels.Channel, "next_tag", breaks="AMQP091-TAG-01")
def delivery_tags_begin_anew(reached, self):
    """After 511 deliveries the tags of a channel restart at 1."""
    if reached(self._tags >= 511):
        self._tags = 0


@long_lives_amqp091.mutant("AMQP091-QUEUE-13")
def an_idle_consumer_is_forgotten(patch, reached):
    """A consumer to which nothing was delivered for a day gets nothing more."""
    served: dict[Consumer, int] = {}

    @patch.override(Consumer)
    def has_room(original, self):
        now = self.channel.connection.shared.clock.now
        if reached(now - served.setdefault(self, now) > seconds(86_400)):
            return False
        return original(self)

    @patch.before(Consumer)
    def deliver(self, entry):
        served[self] = self.channel.connection.shared.clock.now


@long_lives.mutant("AMQP10-CREDIT-03")
def idle_credit_is_void(patch, reached):
    """Credit unused for two minutes is void."""
    granted: dict[OutgoingLink, int] = {}

    @patch.before(OutgoingLink)
    def flow(self, flow):
        granted[self] = self.session.shared.clock.now

    @patch.override(OutgoingLink)
    def has_room(original, self):
        now = self.session.shared.clock.now
        if reached(now - granted.get(self, now) > seconds(120) and self.credit.credit > 0):
            return False
        return original(self)


@long_lives.mutant("AMQP10-IDLE-20")
def empty_frames_become_rare(patch, reached):
    """After its 60th empty frame the broker sends one in two idle time-outs."""
    sent: Counter[AmqpConnection] = Counter()

    @patch.override(AmqpConnection)
    def _on_beat(original, self, now):
        sent[self] += 1
        original(self, now)
        if reached(sent[self] == 60):
            self._beat_every *= 4


@amounts.after(AmqpSession, "_attach", breaks=ONE_CONSUMER)
def many_links_have_one_credit_each(reached, self, attach):
    """From the 30th link of a session on, a receiver gets one message, whatever its credit."""
    link = self.links.get(attach.handle)
    if reached(len(self.links) >= 30 and isinstance(link, OutgoingLink)):
        link.credit = _OneAtMost(link.credit.first)


class _OneAtMost(SenderCredit):
    __slots__ = ()

    def flow(self, count, credit, drain):
        return super().flow(count, min(credit, 1), drain)


@amounts_amqp091.override(Exchanges, "route", breaks="AMQP091-EXCH-04 AMQP091-EXCH-05")
def an_exchange_passes_on_to_few_queues(original, reached, self, *arguments, **options):
    """An exchange routes a message only to the first 32 matching queues."""
    queues = original(self, *arguments, **options)
    reached(len(queues) > 32)
    return queues[:32]
