"""Faults of CORE's credit in bytes, for consumers and producers."""

from dataclasses import replace

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.protocols.core import codes, queries
from brokerproof.reference_broker.protocols.core.consumer import ConsumerCredit, CoreConsumer
from brokerproof.reference_broker.protocols.core.encoding import Fields
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.protocols.core.session_producers import SessionProducers
from brokerproof.reference_broker.protocols.core.session_queues import SessionQueues
from brokerproof.suites.mutation.mutant import Group

core_credit = Group("core-credit")

BOUND, OVERRIDDEN = "ARTEMIS-FLOW-consumer-1", "ARTEMIS-FLOW-consumer-5"
COST = "ARTEMIS-FLOW-producer-1"
BLOCKS = "ARTEMIS-FLOW-block-1"
ONLY_BLOCK = "ARTEMIS-FLOW-block-3"
OVERDRAWN = "ARTEMIS-FLOW-block-5"


# --- consumers ------------------------------------------------------------------------------------


@core_credit.result(ConsumerCredit, "has_room", breaks=BOUND)
def delivers_at_zero(right, self):
    """A message is delivered at a credit of exactly zero."""
    return self.credit is None or self.credit >= 0


@core_credit.result(ConsumerCredit, "has_room", breaks=BOUND)
def needs_two_bytes(right, self):
    """A credit of one byte counts as no credit."""
    return self.credit is None or self.credit > 1


@core_credit.override(ConsumerCredit, "charge", breaks=BOUND)
def messages_charged_without_their_packet(original, reached, self, size):
    """A delivery costs the producer's charge, without the bytes of its packet."""
    reached()
    original(self, size - 25)


@core_credit.override(ConsumerCredit, "charge", breaks=BOUND)
def a_byte_too_many_charged(original, reached, self, size):
    """Each delivery costs one byte more than it has."""
    reached()
    original(self, size + 1)


@core_credit.after(ConsumerCredit, "charge", breaks=BOUND)
def overdraft_forgiven(reached, self, size):
    """An overdraft by the last message is forgiven."""
    if self.credit is not None:
        self.credit = reached.instead(self.credit, max(0, self.credit))


@core_credit.after(ConsumerCredit, "given", breaks=BOUND)
def credit_replaced(reached, self, credits):
    """A client's grant replaces the earlier credit."""
    if credits > 0 and self.credit is not None:
        self.credit = reached.instead(self.credit, credits)


@core_credit.skips(ConsumerCredit, "given", breaks=BOUND)
def zero_takes_nothing_away(self, credits):
    """A credit of 0 is added like any other."""
    return credits == 0


@core_credit.override(ConsumerCredit, "given", breaks=BOUND)
def without_limit_is_a_window(original, reached, self, credits):
    """A credit of -1 is treated as a tenth of the default window of one mebibyte."""
    if reached(credits == -1):
        original(self, 1024 * 1024 // 10)
    else:
        original(self, credits)


@core_credit.amends(CoreConsumer, "settle", breaks=BOUND)
def acknowledgements_give_credit(reached, entries, self, number, *, one):
    """An acknowledgement returns the credit of its messages, as over STOMP."""
    if reached(entries):
        self.given(1000 * len(entries))


@core_credit.after(ConsumerCredit, "__init__", breaks=f"{BOUND} ARTEMIS-FLOW-consumer-2")
def a_first_message_for_nothing(reached, self):
    """A consumer begins with a credit of 1, so a message is sent too early."""
    reached()
    self.credit = 1


@core_credit.override(SessionQueues, "describe", breaks=OVERRIDDEN)
def window_of_the_setting_forgotten(original, reached, self, name):
    """Every consumer gets the default window, whatever its address-setting says."""
    router = self._router
    queue = router.addresses.queue_by_name(name)
    rule = router.addresses.settings_for(name if queue is None else queue[0].name)
    window = reached.instead(rule.default_consumer_window_size, 1024 * 1024)
    rule = replace(rule, default_consumer_window_size=window)
    self._connection.send(queries.of_queue(self._channel, name, rule, queue, queue is not None))


# --- producers ------------------------------------------------------------------------------------


@core_credit.override(Grants, "request", breaks=COST)
def a_byte_more_than_asked_for(original, reached, self, credits):
    """Each grant is one byte too large."""
    reached()
    original(self, min(2**31 - 1, credits + 1))


@core_credit.override(Grants, "request", breaks=COST)
def large_requests_cut(original, reached, self, credits):
    """Only 65535 bytes of a request are granted. The rest never is."""
    original(self, reached.instead(credits, min(credits, 65_535)))


@core_credit.override(Grants, "request", breaks=BLOCKS)
def full_addresses_grant(original, reached, self, credits):
    """A full address grants requests."""
    account = self._accounting.find(self._address)
    if reached(account.policy is FullPolicy.BLOCK and account.full):
        self._grant(credits)
    else:
        original(self, credits)


@core_credit.skips(Grants, "request", breaks=BLOCKS)
def who_waits_is_forgotten(self, credits):
    """Credit requested while the address was full is never granted."""
    account = self._accounting.find(self._address)
    return account.policy is FullPolicy.BLOCK and account.full


@core_credit.skips(Grants, "request", breaks=ONLY_BLOCK)
def refusals_not_told(self, credits):
    """A full address under FAIL does not answer requests for credit."""
    account = self._accounting.find(self._address)
    return account.policy is FullPolicy.FAIL and account.full


@core_credit.skips(Grants, "request", breaks=ONLY_BLOCK)
def paging_addresses_wait(self, credits):
    """An address that pages makes its producers wait."""
    account = self._accounting.find(self._address)
    return account.policy is FullPolicy.PAGE and account.full


@core_credit.before(SessionProducers, "publish", breaks=OVERDRAWN)
def without_credit_refused(reached, self, fields, request):
    """A message beyond its producer's credit is refused."""
    ahead = Fields(fields.buffer, fields.at)
    ahead.take(ahead.int32() - 13)
    ahead.int64()
    address = ahead.optional_text() or ""
    account = self._shared.accounting.find(address)
    if reached(account.policy is FullPolicy.BLOCK and account.full):
        request.answer = True
        raise Refusal(codes.ADDRESS_FULL, f"{address} is full")
