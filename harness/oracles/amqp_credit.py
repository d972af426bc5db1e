"""Link credit and drain (part 2, 2.6.7): the credit is never exceeded, and every drain is answered.

link-credit of the sender = delivery-count of the receiver + its link-credit - delivery-count of the
sender, modulo 2**32.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10.fact_reader import (
    MOST,
    WRAP,
    Granted,
    Link,
    Placed,
    Side,
    WireFrame,
    ahead,
    placed,
)
from brokerproof.harness.trace.events import ConnectionAbandoned, ConnectionClosed, Event

NOT_BEHIND_DRAIN, NOT_WITHOUT, FORMULA, FIRST, COUNT, DRAIN = (
    "AMQP10-CREDIT-24",
    "AMQP10-CREDIT-09",
    "AMQP10-CREDIT-03",
    "AMQP10-CREDIT-14",
    "AMQP10-CREDIT-16",
    "AMQP10-CREDIT-12",
)


@dataclass
class _Account:
    """The credit of one link, as the sender should calculate it."""

    link: Link
    granted: Granted
    delivery_count: int
    flowed: bool = False
    going_on: bool = False
    draining: tuple[int, int] | None = None
    """An unanswered drain: the position of the request, and the limit that it concerns."""
    drained: bool = False
    """True if the sender has answered a drain and no credit has been given since."""
    drains: int = 0
    is_vast: bool = False
    """True once more credit was granted than serial numbers can compare, or credit was granted
    relative to a delivery-count that the sender never had. The formula still applies."""

    def has_had(self, count: int | None) -> bool:
        initial = self.link.initial_delivery_count
        return count is None or (count - initial) % WRAP <= (self.delivery_count - initial) % WRAP

    def begins(self, frame: WireFrame) -> bool:
        """Record a transfer; return whether it begins a delivery."""
        first = not self.going_on
        self.going_on = frame.flag("more") and not frame.flag("aborted")
        return first


class _Accounts:
    def __init__(self, side: Side) -> None:
        self._side = side
        self._by_link: dict[Link, _Account] = {}

    def of(self, link: Link) -> _Account:
        initial = link.initial_delivery_count
        if link not in self._by_link:
            granted = Granted(initial, crossing=self._side is Side.BROKER)
            self._by_link[link] = _Account(link, granted, initial)
        return self._by_link[link]

    def settle_for(self, step: Placed) -> None:
        """Settle a session's accounts. An answer proves that the sender knows all credit granted in
        the session before the question. Sessions are independent: one may be answered while another
        still has unread frames."""
        if step.answers is not None and step.frame.side is self._side:
            for link, account in self._by_link.items():
                if link.session is step.session:
                    account.granted.known(step.answers)

    def all(self) -> list[_Account]:
        return list(self._by_link.values())

    def steps(self, events: Sequence[Event], conn: int) -> Iterator[tuple[Placed, _Account]]:
        """Yield every step on links on which the side is the sender, with the link's account."""
        for step in placed(events, conn):
            self.settle_for(step)
            if step.link is not None and step.link.sender is self._side:
                yield step, self.of(step.link)


def _limit(step: Placed, link: Link) -> int:
    base = step.frame.number("delivery-count")
    start = link.initial_delivery_count if base is None else base
    return (start + min(step.frame.number("link-credit") or 0, MOST)) % WRAP


def credit(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that ``side``, as a sender, never exceeded its credit.

    Each delivery is checked at its first transfer. A sender may still use withdrawn credit as long
    as a transfer may have been in flight. If a flow has a delivery-count that the sender never had,
    the standard does not limit the credit that the formula yields."""
    accounts, findings = _Accounts(side), []
    for step, account in accounts.steps(events, conn):
        if (
            step.frame.name == "flow"
            and step.frame.side is side.other
            and step.frame.number("link-credit") is not None
        ):
            account.granted.grant(step.position, _limit(step, account.link))
            account.flowed, account.drained = True, False
            account.is_vast |= not account.has_had(step.frame.number("delivery-count"))
        elif step.frame.name == "flow" and step.frame.side is side:
            count = step.frame.number("delivery-count")
            if count is not None:
                account.drained |= ahead(count, account.delivery_count) > 0
                account.delivery_count = count
        elif step.frame.name == "transfer" and step.frame.side is side:
            findings += _spent(account, step) if account.begins(step.frame) else []
    return findings or [Finding(NOT_WITHOUT, Seen.NEVER_REACHED, "no delivery was sent")]


def _spent(account: _Account, step: Placed) -> list[Finding]:
    room = account.granted.room(account.delivery_count)
    account.delivery_count = (account.delivery_count + 1) % WRAP
    what = f"delivery {step.frame.fields.get('delivery-id', '?')} on link {account.link.name}"
    if room > 0:
        return [Finding(NOT_WITHOUT, Seen.HELD, f"{what} was sent with a credit of {room} left")]
    if not account.flowed:
        return [
            Finding(requirement, Seen.VIOLATED, f"{what} was sent before any credit was given")
            for requirement in (FIRST, NOT_WITHOUT)
        ]
    if account.is_vast:
        return []
    what += f" exceeded the credit by {1 - room}"
    if account.drained:
        what += ", which a drain had used up"
    rules = (NOT_BEHIND_DRAIN, NOT_WITHOUT) if account.drained else (NOT_WITHOUT,)
    return [Finding(requirement, Seen.VIOLATED, what) for requirement in rules]


def counts(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that the flows that ``side`` sends as a sender state the true delivery-count and
    link-credit.

    delivery-count is the number of deliveries sent; only after a drain may it be higher. Together
    with link-credit it must add up to a limit that the receiver granted."""
    accounts, findings = _Accounts(side), []
    for step, account in accounts.steps(events, conn):
        if step.frame.name == "transfer" and step.frame.side is side:
            account.delivery_count = (account.delivery_count + account.begins(step.frame)) % WRAP
        elif step.frame.name == "flow" and step.frame.side is side.other:
            account.granted.grant(step.position, _limit(step, account.link))
            account.is_vast |= (step.frame.number("link-credit") or 0) > MOST
            account.is_vast |= not account.has_had(step.frame.number("delivery-count"))
            account.drains += step.frame.flag("drain")
        elif step.frame.name == "flow":
            findings += _stated_counts(account, step)
    return findings or [Finding(COUNT, Seen.NEVER_REACHED, "no flow of a sender arrived")]


def _stated_counts(account: _Account, step: Placed) -> list[Finding]:
    count = step.frame.number("delivery-count")
    flow = f"a flow on link {account.link.name}"
    if count is None:
        return [Finding(COUNT, Seen.VIOLATED, f"{flow} has no delivery-count")]
    where = f"{flow} has delivery-count {count}"
    advanced, room = ahead(count, account.delivery_count), account.granted.room(count)
    # 2.6.7 counts a message that "is sent", which may mean its first transfer or its last.
    if advanced == -1 and account.going_on:
        return [Finding(COUNT, Seen.HELD, f"{where} in the middle of a delivery")]
    wrong = None
    if advanced < 0:
        wrong = f"{where}, although an earlier one was {account.delivery_count}"
    elif advanced and not account.drains:
        wrong = f"{where}, {advanced} above the deliveries sent, without a drain"
    elif advanced and room < 0:  # deliveries beyond the credit count too
        wrong = f"{where}, which exceeds the granted limit by {-room}"
    if wrong is not None:
        return [Finding(COUNT, Seen.VIOLATED, wrong)]
    account.delivery_count = count
    findings = [Finding(COUNT, Seen.HELD, where)]
    left = None if account.is_vast else step.frame.number("link-credit")
    if left is not None:
        seen = Seen.VIOLATED if left > max(0, room) else Seen.HELD
        words = f"{flow} reports link-credit {left}; expected at most {max(0, room)}"
        findings.append(Finding(FORMULA, seen, words))
    return findings


def drains(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that ``side``, as a sender, answered every drain: by using up the credit, or by a flow
    whose delivery-count equals the limit. A drain needs no answer if it is withdrawn or if its link
    or connection ends first."""
    accounts, findings = _Accounts(side), []
    for step, account in accounts.steps(events, conn):
        if step.frame.name == "transfer" and step.frame.side is side:
            account.delivery_count = (account.delivery_count + account.begins(step.frame)) % WRAP
        elif step.frame.name == "detach":
            account.draining = None
        elif step.frame.name == "flow" and step.frame.side is side.other:
            limit = _limit(step, account.link)
            account.draining = (step.position, limit) if step.frame.flag("drain") else None
        elif step.frame.name == "flow":
            count = step.frame.number("delivery-count")
            account.delivery_count = account.delivery_count if count is None else count
        if account.draining is not None and ahead(account.delivery_count, account.draining[1]) >= 0:
            words = f"the drain of link {account.link.name} reached {account.draining[1]}"
            findings.append(Finding(DRAIN, Seen.HELD, words))
            account.draining = None
    cut = any(
        isinstance(event, (ConnectionClosed, ConnectionAbandoned)) and event.conn == conn
        for event in events
    )
    for account in accounts.all():
        if account.draining is not None and not account.link.session.ended and not cut:
            left = ahead(account.draining[1], account.delivery_count)
            words = f"a drain of link {account.link.name} was not answered; credit left: {left}"
            findings.append(Finding(DRAIN, Seen.VIOLATED, words))
    return findings or [Finding(DRAIN, Seen.NEVER_REACHED, "no drain was requested")]
