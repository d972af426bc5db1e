"""Deliveries and their settlement (part 2, 2.6.12 and 2.7.5 to 2.7.6): ids, tags, continuations and
outcomes."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from brokerproof.harness.model.finding import Finding
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10.fact_reader import (
    WRAP,
    Link,
    Placed,
    Session,
    Side,
    ahead,
    placed,
)
from brokerproof.harness.trace.events import Event

HAS_ID, SAME_ID, HAS_TAG, TAG_LENGTH, OWN_TAG, HAS_FORMAT, IN_ORDER = (
    "AMQP10-XFER-01",
    "AMQP10-XFER-03",
    "AMQP10-XFER-04",
    "AMQP10-XFER-05",
    "AMQP10-XFER-06",
    "AMQP10-XFER-07",
    "AMQP10-DISP-06",
)
ALL_SETTLED, NONE_SETTLED = "AMQP10-XFER-10", "AMQP10-XFER-11"
DIRECTION, ONCE, TERMINAL = "AMQP10-DISP-01", "AMQP10-DISP-03", "AMQP10-OUT-02"
_OUTCOMES = ("accepted", "rejected", "released", "modified")
_LONGEST_TAG = 32
_MODES = {"0": "unsettled", "1": "settled"}


@dataclass(eq=False)
class _Delivery:
    """One delivery: its sender, and what each side stated about the delivery."""

    link: Link
    id: int
    tag: str | None
    sender: Side
    settled: set[Side] = field(default_factory=set)
    outcome: dict[Side, str] = field(default_factory=dict)


class _Book:
    """The deliveries of one session, by sender and id, and each link's unfinished delivery."""

    def __init__(self) -> None:
        self.by_id: dict[tuple[Side, int], _Delivery] = {}
        self.last: dict[Side, int] = {}
        self.going_on: dict[Link, _Delivery] = {}
        self.tags: dict[tuple[Link, str], _Delivery] = {}
        self.unclear: set[Side] = set()
        """Sides that sent a transfer without a link or an id, which makes it ambiguous."""


class _Books:
    def __init__(self) -> None:
        self._by_session: defaultdict[Session, _Book] = defaultdict(_Book)

    def of(self, session: Session) -> _Book:
        return self._by_session[session]

    def transfer(self, step: Placed) -> tuple[_Delivery, bool] | None:
        """Return a transfer's delivery, and whether the transfer is the first of that delivery;
        None if the transfer belongs to no link."""
        if step.session is None:
            return None
        book, frame = self.of(step.session), step.frame
        if step.link is None:
            book.unclear.add(frame.side)
            return None
        delivery = book.going_on.get(step.link)
        first = delivery is None
        if delivery is None:
            number = frame.number("delivery-id")
            delivery = _Delivery(
                step.link,
                -1 if number is None else number,
                frame.fields.get("delivery-tag"),
                frame.side,
            )
            if number is None:
                book.unclear.add(frame.side)
            else:
                book.by_id[(frame.side, number)] = delivery
        if frame.flag("more") and not frame.flag("aborted"):
            book.going_on[step.link] = delivery
        else:
            book.going_on.pop(step.link, None)
        if frame.flag("settled") or frame.flag("aborted"):
            delivery.settled |= {Side.OURS, Side.BROKER}
        return delivery, first


def delivery_ids(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check how ``side`` identified its deliveries: id, tag and format on the first transfer,
    consecutive ids in a session, tags of at most 32 bytes that are unique among unsettled
    deliveries, and no different id on continuations."""
    books = _Books()
    findings: list[Finding] = []
    for step in placed(events, conn):
        if step.frame.name == "disposition":
            _settle(books, step)
        if step.frame.name != "transfer" or step.session is None:
            continue
        book = books.of(step.session)
        placing = books.transfer(step)
        if placing is None or step.frame.side is not side:
            continue
        delivery, first = placing
        findings += _first(step, book, delivery) if first else _later(step, delivery)
    return findings or [Finding(HAS_ID, Seen.NEVER_REACHED, "no delivery was sent")]


def settle_modes(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that the transfers of ``side`` are settled as its attach agreed."""
    settled: dict[Link, bool] = {}
    findings: list[Finding] = []
    for step in placed(events, conn):
        frame, link = step.frame, step.link
        if frame.name != "transfer" or frame.side is not side or link is None:
            continue
        attach = link.attached.get(side)
        agreed = "" if attach is None else _MODES.get(attach.fields.get("snd-settle-mode", ""), "")
        whole = not frame.flag("more")
        settled[link] = settled.get(link, False) or frame.flag("settled")
        if agreed and not frame.flag("aborted") and (whole or settled[link]):
            held = settled[link] is (agreed == "settled")
            requirement = ALL_SETTLED if agreed == "settled" else NONE_SETTLED
            mode = "settled" if settled[link] else "unsettled"
            detail = f"a delivery on link {link.name} was sent {mode}; {agreed} was agreed"
            findings.append(Finding(requirement, Seen.HELD if held else Seen.VIOLATED, detail))
        if whole:
            del settled[link]
    return findings or [Finding(NONE_SETTLED, Seen.NEVER_REACHED, "no delivery was sent")]


def _first(step: Placed, book: _Book, delivery: _Delivery) -> Iterator[Finding]:
    frame = step.frame
    number, tag = frame.number("delivery-id"), frame.fields.get("delivery-tag")
    what = f"the first transfer of delivery {number}"
    for name, requirement in (
        ("delivery-id", HAS_ID),
        ("delivery-tag", HAS_TAG),
        ("message-format", HAS_FORMAT),
    ):
        seen = Seen.HELD if name in frame.fields else Seen.VIOLATED
        yield Finding(requirement, seen, f"{what} has {'a' if seen is Seen.HELD else 'no'} {name}")
    if number is not None:
        last = book.last.get(frame.side)
        if last is not None:
            seen = Seen.HELD if number == (last + 1) % WRAP else Seen.VIOLATED
            yield Finding(IN_ORDER, seen, f"delivery-id {number} follows {last}")
        book.last[frame.side] = number
    if tag is not None:
        size = (len(tag) - 2) // 2
        seen = Seen.HELD if size <= _LONGEST_TAG else Seen.VIOLATED
        yield Finding(TAG_LENGTH, seen, f"{what} has a delivery-tag of {size} bytes")
        other = book.tags.get((delivery.link, tag))
        other = None if other is None or frame.side.other in other.settled else other
        book.tags[(delivery.link, tag)] = delivery
        detail = (
            f"delivery {number} has the tag {tag} of the unsettled delivery {other.id}"
            if other
            else f"{what} has a tag of its own"
        )
        yield Finding(OWN_TAG, Seen.VIOLATED if other else Seen.HELD, detail)


def _later(step: Placed, delivery: _Delivery) -> Iterator[Finding]:
    number = step.frame.number("delivery-id")
    if number is not None:
        seen = Seen.HELD if number == delivery.id else Seen.VIOLATED
        yield Finding(
            SAME_ID,
            seen,
            f"a transfer that continues delivery {delivery.id} has delivery-id {number}",
        )


def settlement(events: Sequence[Event], conn: int, side: Side = Side.BROKER) -> list[Finding]:
    """Check that ``side`` named only existing deliveries, settled each once, and never changed a
    terminal state."""
    books = _Books()
    findings: list[Finding] = []
    for step in placed(events, conn):
        if step.frame.name == "transfer":
            books.transfer(step)
        elif step.frame.name == "disposition" and step.session is not None:
            if step.frame.side is side:
                findings += _judge(books.of(step.session), step)
            _settle(books, step)
    return findings or [Finding(ONCE, Seen.NEVER_REACHED, "no disposition arrived")]


def _named(book: _Book, step: Placed) -> tuple[int, int, list[_Delivery]]:
    """Return the first and last id of the disposition, and the deliveries in that range."""
    frame = step.frame
    first = frame.number("first") or 0
    last = frame.number("last")
    last = first if last is None else last
    sender = frame.side.other if frame.fields.get("role") == "receiver" else frame.side
    span = max(0, ahead(last, first))
    if span < len(book.by_id):
        inside = (book.by_id.get((sender, (first + offset) % WRAP)) for offset in range(span + 1))
        return first, last, [delivery for delivery in inside if delivery is not None]
    known = [
        delivery
        for (who, id_), delivery in book.by_id.items()
        if who is sender and 0 <= ahead(id_, first) <= span
    ]
    return first, last, known


def _judge(book: _Book, step: Placed) -> Iterator[Finding]:
    frame = step.frame
    first, last, subject = _named(book, step)
    which = f"delivery {first}" if first == last else f"deliveries {first} to {last}"
    if not subject:
        if frame.side.other in book.unclear:
            return
        yield Finding(
            DIRECTION,
            Seen.VIOLATED,
            f"a disposition names {which}, which the other side never sent",
        )
        return
    yield Finding(DIRECTION, Seen.HELD, f"a disposition names {which}")
    if frame.flag("settled"):
        again = all(frame.side in delivery.settled for delivery in subject)
        detail = f"a disposition settles {which} {'again' if again else 'once'}"
        yield Finding(ONCE, Seen.VIOLATED if again else Seen.HELD, detail)
    state = _outcome(frame.fields.get("state"))
    for delivery in subject:
        before = delivery.outcome.get(frame.side)
        if before is not None and state is not None:
            held = before == state
            detail = f"delivery {delivery.id} was {before}{'' if held else f' and became {state}'}"
            yield Finding(TERMINAL, Seen.HELD if held else Seen.VIOLATED, detail)


def _settle(books: _Books, step: Placed) -> None:
    if step.session is None:
        return
    state = _outcome(step.frame.fields.get("state"))
    for delivery in _named(books.of(step.session), step)[2]:
        if step.frame.flag("settled"):
            delivery.settled.add(step.frame.side)
        if state is not None:
            delivery.outcome.setdefault(step.frame.side, state)


def _outcome(text: str | None) -> str | None:
    name = (text or "").partition("(")[0]
    return name if name in _OUTCOMES else None
