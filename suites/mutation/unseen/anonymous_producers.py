"""Faults of producers without an address of their own, which name one in each message."""

from __future__ import annotations

from brokerproof.reference_broker.families.activemq.producer_flow import (
    ProducerFlow,
    SendOutcome,
)
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.persistence.pages import PagingStore
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.throttle import Throttle
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.session import Session
from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.producer import Producer
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.suites.mutation.mutant import Group

anonymous_producers = Group("anonymous-producers")
anonymous_publishers = Group("anonymous-publishers", "reference-rabbitmq")
anonymous_senders = Group("anonymous-senders", "reference-activemq-flow")

NO_CREDIT, THRESHOLD = "ARTEMIS-FLOW-amqp-2", "ARTEMIS-FLOW-amqp-4"
POLICIES = "ARTEMIS-PAGING-8"


def _is_anonymous(link):
    """Return True if ``link`` has no address of its own."""
    return link._route is None


# --- AMQP 1.0 -------------------------------------------------------------------------------------


@anonymous_producers.override(IncomingLink, "arrived", breaks=NO_CREDIT)
def the_first_address_counts(original, reached, self, arrival):
    """An anonymous producer is held back for the address that it named first, and no other."""
    before = self._rule.address
    state = original(self, arrival)
    if _is_anonymous(self) and before and self._rule.address != before:
        reached()
        self._rule.address = before
    return state


@anonymous_producers.override(ProducerCredit, "refill", breaks=NO_CREDIT)
def credit_that_is_used_up_comes_back(original, reached, self, credit, unanswered, on_room):
    """An anonymous producer whose credit is used up gets it although its last address is full: it
    may name another one."""
    if (
        credit.credit
        or unanswered
        or not self.address
        or getattr(on_room, "__self__", None) is None
    ):
        return original(self, credit, unanswered, on_room)
    if not _is_anonymous(on_room.__self__):
        return original(self, credit, unanswered, on_room)
    more = original(self, credit, unanswered, on_room)
    if not more:
        reached()
        self._admission.forget(on_room)
        return self.most
    return more


@anonymous_producers.mutant(THRESHOLD)
def no_threshold_without_credit_at_the_address(patch, reached):
    """max-size-bytes-reject-threshold does not count for anonymous producers: nothing was granted
    to them at that address."""
    asking: list[IncomingLink] = []

    @patch.override(IncomingLink)
    def arrived(original, self, arrival):
        asking.append(self)
        try:
            return original(self, arrival)
        finally:
            asking.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if asking and _is_anonymous(asking[-1]) and verdict is Verdict.REFUSE:
            return reached.instead(verdict, original(self, address, by_credit=False))
        return verdict


@anonymous_producers.mutant(POLICIES)
def the_address_of_the_target_is_judged(patch, reached):
    """The policy of a full address is that of the link's target, and an anonymous one has none:
    nothing is refused, and nothing dropped."""
    asking: list[IncomingLink] = []

    @patch.override(IncomingLink)
    def arrived(original, self, arrival):
        asking.append(self)
        try:
            return original(self, arrival)
        finally:
            asking.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if asking and _is_anonymous(asking[-1]) and verdict is not Verdict.WAIT:
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


@anonymous_producers.mutant(POLICIES)
def a_dropped_message_is_rejected(patch, reached):
    """Under DROP an anonymous producer is told that its message was not taken."""
    asking: list[IncomingLink] = []

    @patch.override(IncomingLink)
    def arrived(original, self, arrival):
        asking.append(self)
        try:
            return original(self, arrival)
        finally:
            asking.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if asking and _is_anonymous(asking[-1]) and verdict is Verdict.DROP:
            return reached.instead(verdict, Verdict.REFUSE)
        return verdict


@anonymous_producers.override(
    IncomingLink, "_own_route", breaks="AMQP10-MSG-02 ARTEMIS-CONCEPTS-queue-1"
)
def the_remembered_addresses_run_over(original, reached, self, payload):
    """Beyond the 256 addresses that an anonymous producer's link remembers a message goes to the
    address of the message before."""
    known = len(self._routes)
    last = getattr(self, "_last", None)
    route = original(self, payload)
    if last is not None and known >= 256 and len(self._routes) == 1:
        reached()
        return last
    self._last = route
    return route


@anonymous_producers.override(IncomingLink, "publish", breaks="AMQP10-TXN-06 AMQP10-TXN-13")
def a_post_without_an_address_is_published_at_once(original, reached, self, message, send):
    """What an anonymous producer posts in a transaction can be had before the discharge."""
    if send is not None and _is_anonymous(self):
        reached()
        return original(self, message, None)
    return original(self, message, send)


@anonymous_producers.mutant("ARTEMIS-PAGING-11 ARTEMIS-PAGING-1")
def it_writes_past_the_pages(patch, reached):
    """What an anonymous producer sends to a paging address stays in memory, before what is on
    pages, as long as there is room again."""
    posting: list[IncomingLink] = []

    @patch.override(IncomingLink)
    def publish(original, self, message, send):
        posting.append(self)
        try:
            return original(self, message, send)
        finally:
            posting.pop()

    @patch.override(PagingStore)
    def takes(original, self, message, queues, source_entry, full):
        if posting and _is_anonymous(posting[-1]) and self.pages and not full:
            reached()
            return False
        return original(self, message, queues, source_entry, full)


@anonymous_producers.mutant("ARTEMIS-FLOW-amqp-2 ARTEMIS-FLOW-block-3")
def who_waits_is_refused_elsewhere(patch, reached):
    """While an anonymous producer waits for room at one address, what it sends to others with the
    credit that it has left is refused."""
    asking: list[IncomingLink] = []

    @patch.override(IncomingLink)
    def arrived(original, self, arrival):
        asking.append(self)
        try:
            return original(self, arrival)
        finally:
            asking.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if asking and _is_anonymous(asking[-1]) and verdict is Verdict.TAKE:
            waits_at = self._where.get(asking[-1]._on_room)
            if waits_at is not None and waits_at != address:
                reached()
                return Verdict.REFUSE
        return verdict


@anonymous_producers.override(IncomingLink, "stop", breaks="AMQP10-LINK-08 AMQP10-SESS-05")
def it_still_waits_when_it_has_gone(original, reached, self):
    """An anonymous producer that waits at a full address is granted credit when there is room,
    although its link is detached."""
    admission = self.session.shared.admission
    where = getattr(admission, "_where", {}).get(self._on_room)
    original(self)
    if where is None or not _is_anonymous(self) or self.state.name != "ATTACHED":
        return

    def refill():
        if self.session.connection.is_open:
            reached()
            self.refill()

    admission._wait(where, refill, None)


# --- CORE and STOMP -------------------------------------------------------------------------------


@anonymous_producers.mutant("ARTEMIS-FLOW-block-1 ARTEMIS-FLOW-producer-1")
def a_message_is_paid_at_the_address_asked_last(patch, reached):
    """A CORE session that sends to several addresses pays for its messages with the credit of the
    one for which it asked last."""
    last: dict[Session, Grants] = {}
    owner: dict[Grants, Session] = {}

    @patch.override(Session)
    def request_credits(original, self, fields, response):
        asking.append(self)
        try:
            original(self, fields, response)
        finally:
            asking.pop()

    asking: list[Session] = []

    @patch.override(Grants)
    def request(original, self, credits):
        if asking:
            owner[self] = asking[-1]
            last[asking[-1]] = self
        original(self, credits)

    @patch.override(Grants)
    def spent(original, self, size):
        session = owner.get(self)
        paying = self if session is None else last[session]
        if paying is not self:
            reached()
        original(paying, size)


@anonymous_producers.mutant(f"{POLICIES} ARTEMIS-PAGING-13")
def a_transaction_passes_a_full_address(patch, reached):
    """A SEND in a transaction is taken by a full address, whose policy is FAIL or DROP."""
    in_transaction: list[bool] = []

    @patch.override(COMMANDS, "SEND")
    def send(original, session, frame):
        in_transaction.append(frame.head.first.get("transaction") is not None)
        try:
            return original(session, frame)
        finally:
            in_transaction.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if in_transaction and in_transaction[-1] and verdict in (Verdict.REFUSE, Verdict.DROP):
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


# --- AMQP 0-9-1 -----------------------------------------------------------------------------------


@anonymous_publishers.mutant("RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-conn-1")
def an_alarm_does_not_hold_transactions(patch, reached):
    """What is published on a transactional channel is read on during an alarm."""
    transactional: list[bool] = []

    @patch.override(Channel)
    def _content(original, self, type, payload, publish):
        transactional.append(self.transaction is not None)
        try:
            original(self, type, payload, publish)
        finally:
            transactional.pop()

    @patch.override(Throttle)
    def published(original, self):
        if transactional and transactional[-1] and self._connection.shared.alarms.raised:
            reached()
            return
        original(self)


@anonymous_publishers.mutant("RABBITMQ-FLOW-mem-1 RABBITMQ-FLOW-conn-1")
def an_alarm_does_not_hold_who_names_an_exchange(patch, reached):
    """During an alarm only those are held who publish to the exchange without a name."""
    named: list[bool] = []

    @patch.override(Channel)
    def _content(original, self, type, payload, publish):
        named.append(bool(publish.exchange))
        try:
            original(self, type, payload, publish)
        finally:
            named.pop()

    @patch.override(Throttle)
    def published(original, self):
        if named and named[-1] and self._connection.shared.alarms.raised:
            reached()
            return
        original(self)


@anonymous_publishers.override(Topology, "route", breaks="AMQP091-EXCH-04 RABBITMQ-AMQP091-LEN-02")
def a_full_queue_stops_the_rest(original, reached, self, message, queues):
    """Of the queues that a message is for, those behind one that refuses it do not get it."""
    for number, queue in enumerate(queues):
        if not original(self, message, [queue]):
            if queues[number + 1 :]:
                reached()
            return False
    return True


@anonymous_publishers.override(Topology, "route", breaks="RABBITMQ-AMQP091-LEN-02")
def the_last_queue_decides(original, reached, self, message, queues):
    """A message for several queues is confirmed if the last of them takes it."""
    answers = [original(self, message, [queue]) for queue in queues]
    return reached.instead(all(answers), answers[-1] if answers else True)


@anonymous_publishers.override(Topology, "route", breaks="RABBITMQ-AMQP091-LEN-02 AMQP091-EXCH-04")
def a_message_is_taken_by_all_or_none(original, reached, self, message, queues):
    """A message for several queues, of which one refuses it, is given to none."""
    refusing = [
        queue
        for queue in queues
        if getattr(queue, "limits", None) is not None
        and queue.limits.overflow == "reject-publish"
        and queue.refuses(message)
    ]
    if refusing and len(queues) > len(refusing):
        reached()
        return False
    return original(self, message, queues)


# --- OpenWire -------------------------------------------------------------------------------------


@anonymous_senders.mutant("ACTIVEMQ-PFC-2 ACTIVEMQ-PFC-4")
def a_producer_without_a_destination_passes(patch, reached):
    """Flow control is that of the producer's destination: one without sends to full places."""
    publishing: list[Client] = []

    @patch.override(Client)
    def publish(original, self, type, fields, request):
        publishing.append(self)
        try:
            original(self, type, fields, request)
        finally:
            publishing.pop()

    @patch.override(ProducerFlow)
    def send(original, self, sending):
        if publishing:
            producer = publishing[-1]._producers.get(sending.message.fields.producer)
            if producer is not None and producer.destination is None:
                account = self.accounting.find(sending.destination)
                if self._closed(account, sending) is not None:
                    reached()
                    sending.publish()
                    return SendOutcome.TAKEN
        return original(self, sending)


@anonymous_senders.mutant("ACTIVEMQ-PFC-4 OPENWIRE-ACK-1")
def a_parked_message_is_acknowledged_twice(patch, reached):
    """A producer with a window, but without a destination, gets a ProducerAck when its message is
    parked, and another when it is added."""

    @patch.override(Client)
    def publish(original, self, type, fields, request):
        original(self, type, fields, request)
        if request.withheld and not request.response and parked:
            producer = self._producers.get(parked.pop())
            if producer is not None and producer.windowed and producer.destination is None:
                reached()
                producer.acknowledge(1)

    parked: list[object] = []

    @patch.override(ProducerFlow)
    def send(original, self, sending):
        outcome = original(self, sending)
        parked.clear()
        if outcome is SendOutcome.PARKED and hasattr(sending.message, "fields"):
            parked.append(sending.message.fields.producer)
        return outcome


@anonymous_senders.mutant("ACTIVEMQ-PFC-4 ACTIVEMQ-PFC-1")
def the_window_of_a_producer_without_a_destination_is_ignored(patch, reached):
    """A producer with a window, but without a destination, stalls its connection at a full place
    as if it had none."""

    @patch.override(Producer)
    def windowed(original, self):
        if self.destination is None:
            return reached.instead(original(self), False)
        return original(self)


# --- seeded after the suites were strengthened ----------------------------------------------------


@anonymous_producers.mutant(POLICIES)
def what_nobody_answers_is_taken(patch, reached):
    """A full address refuses what is sent unsettled: a settled message of a producer without a
    target is taken."""
    arrivals: list[object] = []

    @patch.override(IncomingLink)
    def arrived(original, self, arrival):
        arrivals.append((self, arrival))
        try:
            return original(self, arrival)
        finally:
            arrivals.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if arrivals and verdict in (Verdict.REFUSE, Verdict.DROP):
            link, arrival = arrivals[-1]
            if _is_anonymous(link) and arrival.settled:
                return reached.instead(verdict, Verdict.TAKE)
        return verdict


@anonymous_producers.mutant(f"{POLICIES} {THRESHOLD} ARTEMIS-PAGING-13")
def a_post_passes_a_full_address(patch, reached):
    """What is posted in a transaction is taken by a full address: it is looked at before the
    discharge, and there is nobody to ask then."""
    arrivals: list[object] = []

    @patch.override(IncomingLink)
    def arrived(original, self, arrival):
        arrivals.append(arrival)
        try:
            return original(self, arrival)
        finally:
            arrivals.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if arrivals and hasattr(arrivals[-1].state, "txn_id") and verdict is not Verdict.WAIT:
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


@anonymous_producers.mutant(f"{POLICIES} ARTEMIS-PAGING-13")
def core_is_told_of_what_is_dropped(patch, reached):
    """Under DROP a producer over CORE gets an exception."""
    publishing: list[bool] = []

    @patch.override(Session)
    def publish(original, self, fields, response):
        publishing.append(True)
        try:
            original(self, fields, response)
        finally:
            publishing.pop()

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if publishing and verdict is Verdict.DROP:
            return reached.instead(verdict, Verdict.REFUSE)
        return verdict
