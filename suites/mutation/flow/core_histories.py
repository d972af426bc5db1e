"""Faults of CORE's consumers that only certain histories of a session reveal: credit granted while
the session is stopped, and deliveries settled in part, rolled back, or repeated."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.core.consumer import ConsumerCredit, CoreConsumer
from brokerproof.reference_broker.protocols.core.session import Session
from brokerproof.suites.mutation.mutant import Group

core_histories = Group("core-histories")

WINDOW = "ARTEMIS-FLOW-consumer-1"
EACH_ONCE, GONE = "ARTEMIS-CONCEPTS-queue-1", "ARTEMIS-CONCEPTS-queue-2"


@core_histories.skips(CoreConsumer, "given", breaks=WINDOW)
def credit_of_a_stopped_session_is_lost(self, credits):
    """Credit granted while the session is stopped is lost."""
    return not self._session.may_deliver


@core_histories.skips(CoreConsumer, "given", breaks=WINDOW)
def credit_of_a_stopped_session_is_not_taken_back(self, credits):
    """A credit of 0 has no effect while the session is stopped."""
    return credits == 0 and not self._session.may_deliver and self.credit.has_room()


@core_histories.before(CoreConsumer, "rolled_back", breaks=WINDOW)
def a_rollback_gives_credit(reached, self, outcome):
    """A rolled-back acknowledgement returns credit."""
    if reached(self._unsettled and self.credit.credit is not None):
        self.credit.credit += 200 * len(self._unsettled)


@core_histories.override(CoreConsumer, "_send", breaks=WINDOW)
def what_comes_again_is_not_charged(original, reached, self, entry):
    """A redelivered message costs no credit."""
    before = self.credit.credit
    original(self, entry)
    if reached(entry.deliveries > 1):
        self.credit.credit = before


@core_histories.skips(ConsumerCredit, "given", breaks=WINDOW)
def zero_forgives_what_is_owed_later(self, credits):
    """A credit of 0 does not cancel an overdraft."""
    return credits == 0 and self.credit is not None and self.credit < 0


@core_histories.after(CoreConsumer, "__init__", breaks=WINDOW)
def credit_outlives_its_consumer(reached, self, session, id, *rest):
    """A consumer inherits the remaining credit of the previous one with its id."""
    kept = vars(session).setdefault("last_credits", {})
    if reached(id in kept):
        self.credit = kept[id]
    kept[id] = self.credit


@core_histories.override(Session, "credits", breaks=WINDOW)
def credit_is_for_the_first_consumer(original, reached, self, fields, response):
    """Credit goes to the first consumer of the session, whichever consumer it names."""
    named, credits = self._consumer(fields.int64()), fields.int32()
    first = next(iter(self.consumers.values()))
    reached.instead(named, first).given(credits)


@core_histories.override(CoreConsumer, "settle", breaks=EACH_ONCE)
def cumulative_acknowledgements_end_all(original, reached, self, number, *, one):
    """A cumulative acknowledgement also covers later deliveries."""
    taken = original(self, number, one=one)
    if reached(not one and self._unsettled):
        taken += original(self, next(reversed(self._unsettled)), one=False)
    return taken


@core_histories.amends(CoreConsumer, "settle", breaks=GONE)
def cumulative_acknowledgements_leave_the_first(reached, taken, self, number, *, one):
    """A cumulative acknowledgement of three or more messages omits the first."""
    if reached(len(taken) > 2):
        first = taken.pop(0)
        self._unsettled[first.message.number] = first
        self._session.holding[self] = None


@core_histories.override(CoreConsumer, "settle", breaks=EACH_ONCE)
def a_single_acknowledgement_ends_the_oldest_too(original, reached, self, number, *, one):
    """An acknowledgement of one message ends the oldest one as well."""
    taken = original(self, number, one=one)
    if reached(one and len(self._unsettled) > 1):
        taken += original(self, next(iter(self._unsettled)), one=True)
    return taken


@core_histories.before(Session, "rollback", breaks=EACH_ONCE)
def a_rollback_forgets_what_was_only_delivered(reached, self, fields, response):
    """A rollback loses messages that were delivered but not acknowledged."""
    for consumer in list(self.holding):
        reached()
        consumer.rolled_back(Outcome.ACCEPTED)


@core_histories.before(Session, "rollback", breaks=EACH_ONCE)
def a_rollback_keeps_acknowledgements(reached, self, fields, response):
    """An acknowledgement in a transaction outlives its rollback."""
    for queue, entries, _ in self._transaction._settlements:
        reached()
        queue.settle(entries, Outcome.ACCEPTED)
    self._transaction._settlements.clear()


@core_histories.before(Session, "close_consumer", breaks=EACH_ONCE)
def a_closed_consumer_keeps_all_but_one(reached, self, fields, response):
    """Only one message that a closed consumer held is redelivered."""
    for consumer in self.consumers.values():
        while len(consumer._unsettled) > 1:
            reached()
            consumer.queue.settle([consumer._unsettled.popitem()[1]], Outcome.ACCEPTED)


@core_histories.mutant("ARTEMIS-REDELIVERY-marked-1")
def a_rollback_is_no_failure(patch, reached):
    """Messages that a rolled-back transaction had acknowledged are marked as first deliveries."""
    inside = patch.during(Session, "rollback")

    @patch.override(Queue)
    def settle(original, self, entries, outcome):
        fails = reached(inside and outcome is Outcome.MODIFIED)
        return original(self, entries, Outcome.RELEASED if fails else outcome)
