"""Faults of the two kinds of credit in octets that the CORE protocol has: of consumers, and of
producers."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.protocols.core import codes, queries
from brokerproof.reference_broker.protocols.core.consumer import ConsumerCredit, CoreConsumer
from brokerproof.reference_broker.protocols.core.encoding import Fields
from brokerproof.reference_broker.protocols.core.producer_credit import Grants
from brokerproof.reference_broker.protocols.core.refusal import Refusal
from brokerproof.reference_broker.protocols.core.session import Session, Wanted
from brokerproof.suites.mutation.mutant import Group, Reached

core_credit = Group("core-credit")

BOUND, OVERRIDDEN = "ARTEMIS-FLOW-consumer-1", "ARTEMIS-FLOW-consumer-5"
COST, WITHIN_ROOM = "ARTEMIS-FLOW-producer-1", "ARTEMIS-FLOW-producer-2"
BLOCKS, ONLY_BLOCK, OVERDRAWN = (f"ARTEMIS-FLOW-block-{number}" for number in (1, 3, 5))
SLOW = "ARTEMIS-FLOW-consumer-2"


# --- consumers ------------------------------------------------------------------------------------


@core_credit.mutant(BOUND)
def delivers_at_zero(parts: Parts, reached: Reached) -> Parts:
    """A message begins when the credit is used up to the octet."""

    class Faulty(ConsumerCredit):
        def has_room(self) -> bool:
            return bool(
                reached.instead(super().has_room(), self.credit is None or self.credit >= 0)
            )

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def needs_two_octets(parts: Parts, reached: Reached) -> Parts:
    """The last octet of credit is no credit."""

    class Faulty(ConsumerCredit):
        def has_room(self) -> bool:
            return bool(reached.instead(super().has_room(), self.credit is None or self.credit > 1))

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def messages_charged_without_their_packet(parts: Parts, reached: Reached) -> Parts:
    """A delivery costs what its message cost the producer: the octets of the packet around it are
    forgotten."""

    class Faulty(ConsumerCredit):
        def charge(self, octets: int) -> None:
            reached()
            super().charge(octets - 25)

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def an_octet_too_many_charged(parts: Parts, reached: Reached) -> Parts:
    """Each delivery costs one octet more than it has."""

    class Faulty(ConsumerCredit):
        def charge(self, octets: int) -> None:
            reached()
            super().charge(octets + 1)

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def overdraft_forgiven(parts: Parts, reached: Reached) -> Parts:
    """What the last message overdrew is not owed."""

    class Faulty(ConsumerCredit):
        def charge(self, octets: int) -> None:
            super().charge(octets)
            if self.credit is not None:
                self.credit = reached.instead(self.credit, max(0, self.credit))

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def credit_replaced(parts: Parts, reached: Reached) -> Parts:
    """What a client gives takes the place of what it gave before."""

    class Faulty(ConsumerCredit):
        def given(self, credits: int) -> None:
            super().given(credits)
            if credits > 0 and self.credit is not None:
                self.credit = reached.instead(self.credit, credits)

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def zero_takes_nothing_away(parts: Parts, reached: Reached) -> Parts:
    """A credit of 0 is added like any other."""

    class Faulty(ConsumerCredit):
        def given(self, credits: int) -> None:
            if credits == 0:
                reached()
            else:
                super().given(credits)

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def without_limit_is_a_window(parts: Parts, reached: Reached) -> Parts:
    """-1 is taken for the default window of a mebibyte, and a tenth of it at that."""

    class Faulty(ConsumerCredit):
        def given(self, credits: int) -> None:
            if credits == -1:
                reached()
                super().given(1024 * 1024 // 10)
            else:
                super().given(credits)

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(BOUND)
def acknowledgements_give_credit(parts: Parts, reached: Reached) -> Parts:
    """An acknowledgement gives back what its messages were charged, as it does over STOMP."""

    class Faulty(CoreConsumer):
        def settle(self, number: int, *, one: bool) -> list[Entry]:
            entries = super().settle(number, one=one)
            if entries:
                reached()
                self.given(1000 * len(entries))
            return entries

    return replace(parts, core_consumer=Faulty)


@core_credit.mutant(f"{BOUND} {SLOW}")
def a_first_message_for_nothing(parts: Parts, reached: Reached) -> Parts:
    """A consumer begins with a credit of 1: something lies in a buffer that should not be there."""

    class Faulty(ConsumerCredit):
        def __init__(self) -> None:
            super().__init__()
            reached()
            self.credit = 1

    return replace(parts, consumer_credit=Faulty)


@core_credit.mutant(OVERRIDDEN)
def window_of_the_setting_forgotten(parts: Parts, reached: Reached) -> Parts:
    """Every consumer is told the default window, whatever its address-setting says."""

    class Faulty(Session):
        def _describe(self, name: str) -> None:
            router = self.shared.router
            found = router.named(name)
            rule = router.rule(name if found is None else found[0].name)
            window = reached.instead(rule.default_consumer_window_size, 1024 * 1024)
            rule = replace(rule, default_consumer_window_size=window)
            self.send(queries.of_queue(self.channel, name, rule, found, found is not None))

    return replace(parts, core_session=Faulty)


# --- producers ------------------------------------------------------------------------------------


@core_credit.mutant(COST)
def an_octet_more_than_asked_for(parts: Parts, reached: Reached) -> Parts:
    """Whoever asks is granted one octet more."""

    class Faulty(Grants):
        def request(self, credits: int) -> None:
            reached()
            super().request(min(2**31 - 1, credits + 1))

    return replace(parts, grants=Faulty)


@core_credit.mutant(COST)
def large_requests_cut(parts: Parts, reached: Reached) -> Parts:
    """No more than a window of 65535 octets is granted at once, and the rest never."""

    class Faulty(Grants):
        def request(self, credits: int) -> None:
            super().request(reached.instead(credits, min(credits, 65_535)))

    return replace(parts, grants=Faulty)


@core_credit.mutant(WITHIN_ROOM)
def room_not_looked_at(parts: Parts, reached: Reached) -> Parts:
    """An address that is not full grants whatever it is asked for."""

    class Faulty(Grants):
        def most(self) -> int:
            return int(reached.instead(super().most(), 2**31 - 1))

    return replace(parts, grants=Faulty)


@core_credit.mutant(WITHIN_ROOM)
def one_octet_beyond_the_room(parts: Parts, reached: Reached) -> Parts:
    """The room is reckoned one octet too large."""

    class Faulty(Grants):
        def most(self) -> int:
            most = super().most()
            return int(reached.instead(most, most + (most < 2**31 - 1)))

    return replace(parts, grants=Faulty)


@core_credit.mutant(BLOCKS)
def full_addresses_grant(parts: Parts, reached: Reached) -> Parts:
    """A full address grants what it is asked for."""

    class Faulty(Grants):
        def request(self, credits: int) -> None:
            account = self._accounting.find(self._address)
            if account.policy is FullPolicy.BLOCK and account.full:
                reached()
                self._grant(credits)
            else:
                super().request(credits)

    return replace(parts, grants=Faulty)


@core_credit.mutant(BLOCKS)
def who_waits_is_forgotten(parts: Parts, reached: Reached) -> Parts:
    """What was asked for while the address was full is never granted."""

    class Faulty(Grants):
        def request(self, credits: int) -> None:
            account = self._accounting.find(self._address)
            if account.policy is FullPolicy.BLOCK and account.full:
                reached()
            else:
                super().request(credits)

    return replace(parts, grants=Faulty)


@core_credit.mutant(ONLY_BLOCK)
def refusals_not_told(parts: Parts, reached: Reached) -> Parts:
    """A full address under FAIL says nothing to who asks for credit."""

    class Faulty(Grants):
        def request(self, credits: int) -> None:
            account = self._accounting.find(self._address)
            if account.policy is FullPolicy.FAIL and account.full:
                reached()
            else:
                super().request(credits)

    return replace(parts, grants=Faulty)


@core_credit.mutant(ONLY_BLOCK)
def paging_addresses_wait(parts: Parts, reached: Reached) -> Parts:
    """An address that pages makes its producers wait."""

    class Faulty(Grants):
        def request(self, credits: int) -> None:
            account = self._accounting.find(self._address)
            if account.policy is FullPolicy.PAGE and account.full:
                reached()
            else:
                super().request(credits)

    return replace(parts, grants=Faulty)


@core_credit.mutant(OVERDRAWN)
def without_credit_refused(parts: Parts, reached: Reached) -> Parts:
    """A message that its producer had no credit for is refused."""

    class Faulty(Session):
        def publish(self, fields: Fields, wanted: Wanted) -> None:
            address = self._peeked(fields)
            account = self.shared.accounting.find(address)
            if account.policy is FullPolicy.BLOCK and account.full:
                reached()
                wanted.answer = True
                raise Refusal(codes.ADDRESS_FULL, f"{address} is full")
            super().publish(fields, wanted)

        @staticmethod
        def _peeked(fields: Fields) -> str:
            ahead = Fields(fields.octets, fields.at)
            ahead.take(ahead.int32() - 13)
            ahead.int64()
            return ahead.optional_text() or ""

    return replace(parts, core_session=Faulty)
