"""Faults of anonymous producers, which name an address in each message."""

from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.admission import Verdict
from brokerproof.reference_broker.persistence.pages import PagingStore
from brokerproof.reference_broker.protocols.amqp10.incoming import IncomingLink
from brokerproof.reference_broker.protocols.core.session_producers import SessionProducers
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.suites.mutation.mutant import Group

anonymous_producers = Group("anonymous-producers")
anonymous_publishers = Group("anonymous-publishers", "reference-rabbitmq")

THRESHOLD = "ARTEMIS-FLOW-amqp-4"
POLICIES = "ARTEMIS-PAGING-8"


def _anonymous(running):
    """True if a running method belongs to a link that has no address of its own."""
    return bool(running) and running[-1][0]._route is None


# --- AMQP 1.0 -------------------------------------------------------------------------------------


@anonymous_producers.mutant(THRESHOLD)
def no_threshold_without_credit_at_the_address(patch, reached):
    """max-size-bytes-reject-threshold does not apply to anonymous producers, which have no credit
    at that address."""
    asking = patch.during(IncomingLink, "arrived")

    @patch.override(Admission)
    def judge(original, self, address, *, by_credit):
        verdict = original(self, address, by_credit=by_credit)
        if _anonymous(asking) and verdict is Verdict.REFUSE:
            return reached.instead(verdict, original(self, address, by_credit=False))
        return verdict


@anonymous_producers.mutant(POLICIES)
def the_address_of_the_target_is_judged(patch, reached):
    """The policy of a full address is taken from the link's target, which an anonymous producer
    lacks: nothing is refused or dropped."""
    asking = patch.during(IncomingLink, "arrived")

    @patch.result(Admission)
    def judge(verdict, self, address, *, by_credit):
        if _anonymous(asking) and verdict is not Verdict.WAIT:
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


@anonymous_producers.mutant(POLICIES)
def a_dropped_message_is_rejected(patch, reached):
    """Under DROP, an anonymous producer gets a rejection."""
    asking = patch.during(IncomingLink, "arrived")

    @patch.result(Admission)
    def judge(verdict, self, address, *, by_credit):
        if _anonymous(asking) and verdict is Verdict.DROP:
            return reached.instead(verdict, Verdict.REFUSE)
        return verdict


@anonymous_producers.mutant("ARTEMIS-PAGING-11 ARTEMIS-PAGING-1")
def it_writes_past_the_pages(patch, reached):
    """An anonymous producer's messages to a paging address stay in memory, ahead of paged ones, if
    there is room again."""
    posting = patch.during(IncomingLink, "publish")

    @patch.override(PagingStore)
    def takes(original, self, message, queues, source_entry, full):
        if reached(_anonymous(posting) and self.pages and not full):
            return False
        return original(self, message, queues, source_entry, full)


# --- CORE and STOMP -------------------------------------------------------------------------------


@anonymous_producers.mutant(f"{POLICIES} ARTEMIS-PAGING-13")
def a_transaction_passes_a_full_address(patch, reached):
    """A full address with policy FAIL or DROP accepts a SEND in a transaction."""
    sending = patch.during(COMMANDS, "SEND")

    @patch.result(Admission)
    def judge(verdict, self, address, *, by_credit):
        in_transaction = sending and sending[-1][1].get("transaction") is not None
        if in_transaction and verdict in (Verdict.REFUSE, Verdict.DROP):
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


# --- AMQP 0-9-1 -----------------------------------------------------------------------------------


@anonymous_publishers.override(Topology, "route", breaks="AMQP091-EXCH-04 RABBITMQ-AMQP091-LEN-02")
def a_full_queue_stops_the_rest(original, reached, self, message, queues):
    """If one of several queues refuses a message, the queues after it do not get it."""
    for number, queue in enumerate(queues):
        if not original(self, message, [queue]):
            reached(queues[number + 1 :])
            return False
    return True


@anonymous_publishers.override(Topology, "route", breaks="RABBITMQ-AMQP091-LEN-02")
def the_last_queue_decides(original, reached, self, message, queues):
    """A message for several queues is confirmed if the last of them accepts it."""
    answers = [original(self, message, [queue]) for queue in queues]
    return reached.instead(all(answers), answers[-1] if answers else True)


@anonymous_publishers.override(Topology, "route", breaks="RABBITMQ-AMQP091-LEN-02 AMQP091-EXCH-04")
def a_message_is_taken_by_all_or_none(original, reached, self, message, queues):
    """If one of several queues refuses a message, none gets it."""
    refusing = [
        queue
        for queue in queues
        if getattr(queue, "limits", None) is not None
        and queue.limits.overflow == "reject-publish"
        and queue.refuses(message)
    ]
    if reached(refusing and len(queues) > len(refusing)):
        return False
    return original(self, message, queues)


# --- OpenWire -------------------------------------------------------------------------------------


# --- seeded after the suites were strengthened ----------------------------------------------------


@anonymous_producers.mutant(POLICIES)
def what_nobody_answers_is_taken(patch, reached):
    """A full address refuses only unsettled messages: a settled message of a producer without a
    target is accepted."""
    arriving = patch.during(IncomingLink, "arrived")

    @patch.result(Admission)
    def judge(verdict, self, address, *, by_credit):
        refused = verdict in (Verdict.REFUSE, Verdict.DROP)
        if refused and _anonymous(arriving) and arriving[-1][1].settled:
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


@anonymous_producers.mutant(f"{POLICIES} {THRESHOLD} ARTEMIS-PAGING-13")
def a_post_passes_a_full_address(patch, reached):
    """A full address accepts messages posted in a transaction: they are checked before the
    discharge, when there is nobody to ask."""
    arriving = patch.during(IncomingLink, "arrived")

    @patch.result(Admission)
    def judge(verdict, self, address, *, by_credit):
        in_transaction = arriving and hasattr(arriving[-1][1].state, "txn_id")
        if in_transaction and verdict is not Verdict.WAIT:
            return reached.instead(verdict, Verdict.TAKE)
        return verdict


@anonymous_producers.mutant(f"{POLICIES} ARTEMIS-PAGING-13")
def core_is_told_of_what_is_dropped(patch, reached):
    """Under DROP, a CORE producer gets an exception."""
    publishing = patch.during(SessionProducers, "publish")

    @patch.result(Admission)
    def judge(verdict, self, address, *, by_credit):
        if publishing and verdict is Verdict.DROP:
            return reached.instead(verdict, Verdict.REFUSE)
        return verdict
