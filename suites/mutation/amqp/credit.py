"""Faults of AMQP credit: a receiver's grants, answers to drains, and producers' credit."""

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.credit import ReceiverCredit, SenderCredit
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.amqp10.outgoing import OutgoingLink
from brokerproof.reference_broker.protocols.amqp10.performatives import Flow
from brokerproof.reference_broker.protocols.amqp10.producer_credit import ProducerCredit
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.suites.mutation.amqp.frame_changes import sent
from brokerproof.suites.mutation.mutant import Group, breaks

amqp_credit = Group("amqp-credit")

START = "AMQP10-CREDIT-04"
NONE = "AMQP10-CREDIT-09"
TRUE = "AMQP10-CREDIT-16"
PRODUCERS = "ARTEMIS-FLOW-amqp-1"


# --- a receiver's credit --------------------------------------------------------------------------


def _flowing(patch, reached, wrong):
    """Set the credit after a flow to what ``wrong`` returns for the flow's count and credit."""

    @patch.override(SenderCredit)
    def flow(original, self, count, credit, drain):
        instead = wrong(self, count, credit)
        if not original(self, count, credit, drain):
            return False
        self.credit = reached.instead(self.credit, max(0, instead))
        return True


@amqp_credit.through(_flowing, "AMQP10-CREDIT-03 AMQP10-CREDIT-09")
def one_more(link, count, credit):
    """The broker sends one message more than the credit allows."""
    known = link.first if count is None else count
    return credit - serial_numbers.distance(known, link.count) + (1 if credit else 0)


@amqp_credit.through(_flowing, "AMQP10-CREDIT-03 AMQP10-CREDIT-05")
def one_less(link, count, credit):
    """The broker sends one message less than the credit allows."""
    return credit - serial_numbers.distance(link.first if count is None else count, link.count) - 1


@amqp_credit.through(_flowing, "AMQP10-CREDIT-03 AMQP10-CREDIT-05 AMQP10-CREDIT-09")
def added_up(link, count, credit):
    """A flow's credit is added to the remaining credit."""
    return link.credit + credit


@amqp_credit.through(_flowing, "AMQP10-CREDIT-03 AMQP10-CREDIT-05 AMQP10-CREDIT-09")
def never_taken_back(link, count, credit):
    """A flow that reduces the credit has no effect."""
    return max(link.credit, credit)


@amqp_credit.through(_flowing, "AMQP10-CREDIT-03 AMQP10-CREDIT-09 AMQP10-CREDIT-05")
def under_way_not_counted(link, count, credit):
    """A flow's credit is applied without subtracting deliveries sent since its delivery-count."""
    return credit


@amqp_credit.through(_flowing, START)
def without_count_from_now(link, count, credit):
    """A flow without delivery-count counts from the current delivery-count."""
    return credit - serial_numbers.distance(link.count if count is None else count, link.count)


@amqp_credit.through(_flowing, START)
def without_count_from_zero(link, count, credit):
    """A flow without delivery-count counts from 0, not from initial-delivery-count."""
    return credit - serial_numbers.distance(count or 0, link.count)


@amqp_credit.through(_flowing, breaks=f"AMQP10-CREDIT-03 AMQP10-CREDIT-13 AMQP10-CREDIT-05 {NONE}")
def senders_count_does_not_wrap(link, count, credit):
    """Credit is computed as if the sender's delivery-count never wrapped."""
    return (link.first if count is None else count) + credit - link.count


@amqp_credit.after(OutgoingLink, "_send", breaks=f"AMQP10-CREDIT-03 {NONE} AMQP10-CREDIT-23")
def frames_cost_credit(reached, self, id, payload, large):
    """A message in several transfers takes two credits."""
    if reached(
        len(payload) > self.session.connection.peer_max_frame_size and self.credit.credit > 0
    ):
        self.credit.credit -= 1


@amqp_credit.after(SenderCredit, "__init__", breaks="AMQP10-CREDIT-14 AMQP10-CREDIT-09")
def one_to_begin_with(reached, self, first):
    """A new link has a credit of one."""
    self.credit = 1
    reached()


@amqp_credit.through(_flowing, "AMQP10-CREDIT-25 AMQP10-CREDIT-02 AMQP10-CREDIT-03")
def a_credit_of_none_passed_over(link, count, credit):
    """A flow that withdraws all credit is ignored."""
    return credit if credit else link.credit


@amqp_credit.override(SenderCredit, "spend", breaks=f"{TRUE} AMQP10-CREDIT-03 {NONE}")
def deliveries_not_counted(original, reached, self):
    """The sender's delivery-count never changes."""
    reached()
    self.credit -= 1


@amqp_credit.after(OutgoingLink, "describe", breaks="AMQP10-CREDIT-26")
def available_is_one_more(reached, self, flow):
    """``available`` in a flow is one too high."""
    flow.available = reached.instead(flow.available, (flow.available or 0) + 1)


@amqp_credit.after(OutgoingLink, "describe", breaks="AMQP10-CREDIT-26")
def available_is_what_credit_allows(reached, self, flow):
    """``available`` in a flow is no more than the credit."""
    flow.available = reached.instead(flow.available, min(flow.available or 0, self.credit.credit))


@amqp_credit.before(Session, "_flow", breaks="AMQP10-CREDIT-22")
def echo_passed_over(reached, self, flow):
    """A flow that requests an echo is not answered."""
    if reached(flow.echo):
        flow.echo = False


# --- drain ----------------------------------------------------------------------------------------


@amqp_credit.before(OutgoingLink, "flow", recreates="ARTEMIS-46")
@breaks("AMQP10-CREDIT-12 AMQP10-CREDIT-24")
def drain_passed_over(reached, self, flow):
    """A drain is not answered when there is nothing to send."""
    if reached(flow.drain):
        flow.drain = False


@amqp_credit.before(OutgoingLink, "flow", recreates="QPID-7962")
@breaks("AMQP10-CREDIT-12 AMQP10-CREDIT-24")
def drain_passed_over_beside_others(reached, self, flow):
    """A drain is not answered if its queue has another consumer."""
    if reached(flow.drain and self.queue.consumers > 1):
        flow.drain = False


@amqp_credit.override(SenderCredit, "drained", breaks=f"AMQP10-CREDIT-12 {TRUE} AMQP10-CREDIT-24")
def drained_without_counting(original, reached, self):
    """The answer to a drain removes the credit without raising delivery-count."""
    reached()
    self.credit = 0


@amqp_credit.override(SenderCredit, "drained", breaks=f"AMQP10-CREDIT-12 AMQP10-CREDIT-24 {TRUE}")
def drained_one_short(original, reached, self):
    """The answer to a drain raises delivery-count to one before the limit."""
    reached()
    self.count = serial_numbers.add(self.count, self.credit - 1)
    self.credit = 1


@amqp_credit.mutant("AMQP10-CREDIT-24 AMQP10-CREDIT-16 AMQP10-CREDIT-03 AMQP10-CREDIT-09")
def credit_kept_over_a_drain(patch, reached):
    """The answer to a drain raises delivery-count, but the credit remains usable."""
    kept = {}

    @patch.before(SenderCredit)
    def drained(self):
        kept[self] = self.credit

    @patch.after(SenderCredit)
    def flow(self, count, credit, drain):
        if reached(kept.get(self) and not drain):
            self.credit += kept.pop(self)


@amqp_credit.override(OutgoingLink, "flow", breaks="AMQP10-CREDIT-12 AMQP10-CREDIT-24")
def drained_before_what_waits(original, reached, self, flow):
    """A drain uses up the credit immediately, without sending waiting messages."""
    if flow.drain and flow.link_credit:
        self.credit.flow(flow.delivery_count, flow.link_credit, True)
        reached(self.queue.available(self))
        self.credit.drained()
        self.session.flow(self)
    else:
        original(self, flow)


@amqp_credit.mutant("AMQP10-CREDIT-03 AMQP10-CREDIT-11 AMQP10-CREDIT-12")
def drained_for_good(patch, reached):
    """Once a link has been drained, credit without drain is used up too."""
    drained = set()

    @patch.before(OutgoingLink)
    def flow(self, flow):
        if flow.drain:
            drained.add(self)
        elif flow.link_credit and reached(self in drained):
            flow.drain = True


@amqp_credit.after(OutgoingLink, "describe", breaks="AMQP10-CREDIT-11")
def drain_not_told(reached, self, flow):
    """The flow that answers a drain has drain set to false."""
    flow.drain = reached.instead(flow.drain, False)


# --- producers' credit ----------------------------------------------------------------------------


def _refilling(patch, reached, wrong):
    """Change the refill: ``wrong`` gets the rule, the remaining credit, the unanswered deliveries
    and the correct refill."""

    @patch.result(ProducerCredit)
    def refill(right, self, credit, unanswered, on_room):
        return reached.instead(right, wrong(self, credit.credit, unanswered, right))


@amqp_credit.through(_refilling, PRODUCERS)
def more_than_configured(rule, left, under_way, right):
    """Producers get one credit more than amqpCredits."""
    return right + 1 if right else 0


@amqp_credit.override(ProducerCredit, "__init__", breaks=PRODUCERS, recreates="ARTEMIS-1073")
def not_configurable(original, reached, self, most, low, *more):
    """Producers get 100 credits, refilled at 30, whatever is configured."""
    reached.instead((most, low), (100, 30))
    original(self, 100, 30, *more)


@amqp_credit.through(_refilling, PRODUCERS)
def less_than_configured(rule, left, under_way, right):
    """Producers get one credit less than amqpCredits."""
    return max(1, right - 1) if right else 0


@amqp_credit.through(_refilling, PRODUCERS)
def filled_up_too_early(rule, left, under_way, right):
    """Credit is refilled when one more than amqpLowCredits is left."""
    return right or (
        rule.most - left - under_way if left == rule.low + 1 - under_way and left else 0
    )


@amqp_credit.through(_refilling, PRODUCERS)
def filled_up_too_late(rule, left, under_way, right):
    """Credit is refilled when one less than amqpLowCredits is left."""
    return right if left <= rule.low - under_way - 1 or not left else 0


@amqp_credit.through(_refilling, PRODUCERS, recreates="ARTEMIS-2057")
def filled_up_in_full(rule, left, under_way, right):
    """Credit is refilled by amqpCredits, ignoring the remaining credit."""
    return rule.most if right else 0


@amqp_credit.mutant(PRODUCERS, recreates="ARTEMIS-1898")
def none_after_a_rejection(patch, reached):
    """A producer gets no more credit after a rejection."""
    patch.set(IncomingLink, "rejected", False)

    @patch.before(IncomingLink)
    def _not_taken(self, condition, description):
        self.rejected = True

    @patch.override(IncomingLink)
    def refill(original, self):
        if not reached(self.rejected):
            original(self)


@amqp_credit.mutant("ARTEMIS-FLOW-amqp-1 AMQP10-WIN-05 AMQP10-CREDIT-13")
def filled_up_once(patch, reached):
    """A producer gets credit only once."""
    patch.set(ProducerCredit, "given", False)

    @patch.result(ProducerCredit)
    def refill(right, self, credit, unanswered, on_room):
        if not right or not self.given:
            self.given = self.given or bool(right)
            return right
        reached()
        return 0


@amqp_credit.before(IncomingLink, "arrived")
@breaks("ARTEMIS-FLOW-amqp-1 AMQP10-CREDIT-23 AMQP10-CREDIT-01")
def large_messages_cost_producers_more(reached, self, arrival):
    """A message of more than a thousand bytes costs a producer two credits."""
    if reached(arrival.size > 1000 and self.credit.credit > 0):
        self.credit.credit -= 1
        self.session.flow(self)


@amqp_credit.override(ReceiverCredit, "spend")
@breaks("AMQP10-CREDIT-13 AMQP10-CREDIT-17 AMQP10-CREDIT-01")
def producers_count_does_not_wrap(original, reached, self):
    """A producer's delivery-count stays at 2^32 - 1 instead of wrapping."""
    before = self.count
    done = original(self)
    if reached(done and self.count < before):
        self.count = before
    return done


@amqp_credit.override(ReceiverCredit, "__init__")
@breaks("AMQP10-CREDIT-13 AMQP10-CREDIT-17 AMQP10-CREDIT-01")
def producers_count_from_zero(original, reached, self, count):
    """A producer's delivery-count starts at 0, ignoring its attach."""
    original(self, reached.instead(count, 0))


@amqp_credit.after(IncomingLink, "describe", breaks="AMQP10-CREDIT-06")
def a_receiver_tells_available(reached, self, flow):
    """The broker's flows as a receiver report the credit as available."""
    flow.available = reached.instead(flow.available, self.credit.credit)


@amqp_credit.through(sent(Flow), "AMQP10-CREDIT-17 AMQP10-CREDIT-13")
def a_receiver_tells_no_count(flow):
    """The broker's flows have no delivery-count."""
    flow.delivery_count = None


@amqp_credit.mutant("AMQP10-CREDIT-09 AMQP10-CREDIT-03")
def browsers_need_no_credit(patch, reached):
    """A browsing link gets everything with its first credit."""

    @patch.after(OutgoingLink, "attach")
    def outgoinglink_attach(self, attach):
        self._seen = False

    @patch.result(OutgoingLink)
    def has_room(right, self):
        self._seen = getattr(self, "_seen", False) or right
        if reached(
            self.copies
            and self._seen
            and not right
            and self.session.can_send()
            and not self._stopped
        ):
            return True
        return right
