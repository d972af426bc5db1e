"""Credit, session window and settlement together. Each example draws a plan. After each step a
model computes what must have arrived; independent oracles judge the whole trace."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hypothesis import strategies as st

from brokerproof.harness.oracles import amqp_credit, amqp_deliveries, amqp_windows
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.suites.amqp10.steps import QUIET, control_whole, granted, returns_by_default
from brokerproof.suites.amqp10.wrapping_ids import WRAP, at_the_end, wrapping
from brokerproof.suites.api import (
    PATIENCE,
    RECONFIGURABLE,
    Bench,
    Clock,
    RoutingType,
    Target,
    Where,
    case,
    listed,
    over,
    shown,
)
from brokerproof.suites.api.amqp10 import RECEIVER, AmqpPeer, Delivery, Link, Node, frame
from brokerproof.suites.steps import hindrances, small_addresses, stalls
from brokerproof.suites.steps.queue_model import MEMORY, PAGED, SOON_PAGED, place_names
from brokerproof.suites.steps.stalls import STALLED
from brokerproof.suites.steps.traces import judge_trace

CREDIT_FORMULA = "AMQP10-CREDIT-03"
NO_TRANSFER_WITHOUT_CREDIT = "AMQP10-CREDIT-09"
DRAIN_ANSWERED = "AMQP10-CREDIT-12"
DISK_IS_AVAILABLE = "AMQP10-READING-CREDIT-01"
REMOTE_INCOMING_WINDOW = "AMQP10-WIN-02"
WINDOW_FORMULA = "AMQP10-WIN-07"
RELEASED_AVAILABLE = "AMQP10-OUT-09"


WINDOW_HOLDS = "the window holds up deliveries for which there is credit"
CREDIT_HOLDS = "a link without credit has messages that wait"
BOTH_LINKS = "both links have credit for what waits, and the window does not take both"
TAKEN_BACK = "credit is taken back while messages wait"
DRAIN_LEFT = "a drain finds less than its credit"
DRAIN_USED = "a drain uses all of its credit"
AGAIN = "a delivery that was given back arrives again"
WRAPPED = "a delivery-id runs over the end"
DRAINED_UNREAD = "a link is drained whose peer does not read"
SITUATIONS = (WINDOW_HOLDS, CREDIT_HOLDS, BOTH_LINKS, TAKEN_BACK, DRAIN_LEFT, DRAIN_USED, AGAIN)
UNREAD = (STALLED, DRAINED_UNREAD)
"""Situations that can be reached only in virtual time."""
ON_DISK = (PAGED, SOON_PAGED)
TOPIC, WILDCARD, TEMPORARY = "topic", "wildcard", "temporary"
"""Nodes that disappear with their links: a topic, topics of a pattern, and a dynamic node."""
PATTERNS = {TOPIC: ("", ""), WILDCARD: (".below", ".*")}
"""Suffixes of a topic's address, as senders and receivers name it."""


@dataclass(frozen=True)
class Send:
    """The producer sends this many messages to one of the two queues."""

    queue: int
    count: int


@dataclass(frozen=True)
class Grant:
    queue: int
    credit: int
    echo: bool = False


@dataclass(frozen=True)
class Drain:
    """Set the credit of one of the two links and drain it; ``echo``: request a single answering
    flow."""

    queue: int
    credit: int
    echo: bool = False

    def __str__(self) -> str:
        return f"a drain of {self.credit}"


@dataclass(frozen=True)
class Open:
    """Set the session's incoming-window."""

    window: int


@dataclass(frozen=True)
class Settle:
    """Settle one or all of the deliveries that one of the two links holds."""

    queue: int
    which: int
    outcome: str
    all: bool


@dataclass(frozen=True)
class Stall:
    """The receiver does not read while messages are sent and its credit, window and deliveries
    change. ``drained``: one of its links is then drained; the receiver sees the answer later."""

    steps: tuple[Send | Grant | Open | Settle, ...]
    drained: Drain | None = None


@dataclass(frozen=True)
class Reattach:
    """Close one of the two links, which may hold deliveries, and attach a new one."""

    queue: int


Step = Send | Grant | Drain | Open | Settle | Reattach | Stall
QUEUES = st.integers(0, 1)
SEND = st.builds(Send, QUEUES, st.integers(1, 5))
GRANT = st.builds(Grant, QUEUES, st.integers(0, 6), st.booleans())
DRAIN = st.builds(Drain, QUEUES, st.integers(1, 6), st.booleans())
OPEN = st.builds(Open, st.integers(0, 6))
SETTLE = st.builds(
    Settle,
    QUEUES,
    st.integers(0, 9),
    st.sampled_from(["accepted", "released", "failed"]),
    st.booleans(),
)
STALL = st.builds(
    Stall,
    st.lists(st.one_of(SEND, GRANT, OPEN, SETTLE), min_size=1, max_size=5).map(tuple),
    st.one_of(st.none(), DRAIN),
)
STEPS = st.one_of(SEND, GRANT, GRANT, DRAIN, OPEN, SETTLE, st.builds(Reattach, QUEUES), STALL)


_DECIDES: Mapping[type[Step], str] = {
    Open: WINDOW_FORMULA,
    Settle: RELEASED_AVAILABLE,
    Reattach: RELEASED_AVAILABLE,
}
"""The requirement that judges arrivals after a step, where it is not the limit in force."""


@dataclass
class Model:
    """Each queue's waiting, sendable and held messages, and the room in the session window."""

    waiting: list[set[bytes]] = field(default_factory=lambda: [set(), set()])
    credit: list[int] = field(default_factory=lambda: [0, 0])
    held: list[list[Delivery]] = field(default_factory=lambda: [[], []])
    window: int = 0
    number: int = 0

    def new(self, queue: int) -> bytes:
        self.number += 1
        body = b"%d of queue %d" % (self.number, queue)
        self.waiting[queue].add(body)
        return body

    @property
    def within_credit(self) -> int:
        """The number of waiting messages in both queues that have credit."""
        return sum(min(len(waits), credit) for waits, credit in self.by_link())

    def by_link(self) -> list[tuple[set[bytes], int]]:
        """The waiting messages and the credit of each link."""
        return list(zip(self.waiting, self.credit, strict=True))

    @property
    def due(self) -> int:
        """The number of deliveries that must arrive now, from both queues together."""
        return min(self.window, self.within_credit)

    @property
    def limit(self) -> str:
        """The requirement that limits the arrivals to :attr:`due`."""
        return WINDOW_FORMULA if self.window < self.within_credit else CREDIT_FORMULA

    def came(self, queue: int, delivery: Delivery) -> dict[str, str]:
        """Record a delivery; return its faults by the requirement that each breaks."""
        body = delivery.message.body
        if body not in self.waiting[queue]:
            waiting = sorted(self.waiting[queue])
            return {RELEASED_AVAILABLE: f"{body!r} arrived on queue {queue}, where {waiting} wait"}
        self.waiting[queue].discard(body)
        if not delivery.settled:
            self.held[queue].append(delivery)
        self.credit[queue] -= 1
        self.window -= 1
        left = {
            NO_TRANSFER_WITHOUT_CREDIT: ("credit", self.credit[queue]),
            REMOTE_INCOMING_WINDOW: ("window", self.window),
        }
        return {
            requirement: f"{body!r} arrived beyond the {name}"
            for requirement, (name, rest) in left.items()
            if rest < 0
        }


@dataclass
class Run:
    """A plan in progress: the receiver's connection, the producer's, and the model."""

    target: Bench
    place: str
    mode: int | None
    nodes: tuple[Node, Node]
    peer: AmqpPeer
    links: list[Link]
    producer: AmqpPeer
    senders: tuple[Link, Link]
    model: Model = field(default_factory=Model)
    given_back: set[bytes] = field(default_factory=set)
    last_id: int | None = None

    def watch(self, after: str, judged_by: str = "") -> None:
        """Judge whether exactly the due messages arrive, by ``judged_by`` or by :attr:`limit`."""
        due, limit = self.model.due, self.model.limit
        self.target.wait_until(
            lambda: self.peer.ended is not None or len(self.peer.deliveries) >= due, PATIENCE
        )
        self.target.wait_until(
            lambda: self.peer.ended is not None or len(self.peer.deliveries) > due, QUIET
        )
        self._note_situations()
        got = 0
        for queue, link in enumerate(self.links):
            arrived = self.peer.take_deliveries(link)
            control_whole(self.target, self.peer, arrived)
            for delivery in arrived:
                got += 1
                self._note_delivery(delivery)
                faults = self.model.came(queue, delivery)
                for requirement in (NO_TRANSFER_WITHOUT_CREDIT, REMOTE_INCOMING_WINDOW, *faults):
                    fault = faults.get(requirement, "as it should")
                    words = f"after {after}: {fault}"
                    self.target.require(requirement, requirement not in faults, words)
        place = "" if self.place == MEMORY else f" from {self.place}"
        detail = f"after {after}, {got} arrived{place}; expected {due}; {self.peer.instead()}"
        self.target.require(judged_by or limit, got == due, detail)

    def _note_situations(self) -> None:
        """Record the situations that the model sees before the due deliveries are taken."""
        model = self.model
        if model.due < model.within_credit:
            self.target.reached(WINDOW_HOLDS)
            if all(min(len(waits), credit) for waits, credit in model.by_link()):
                self.target.reached(BOTH_LINKS)
        if any(waits and not credit for waits, credit in model.by_link()):
            self.target.reached(CREDIT_HOLDS)

    def _note_delivery(self, delivery: Delivery) -> None:
        if delivery.message.body in self.given_back:
            self.target.reached(AGAIN)
        if WRAPPED in self.target.situations and delivery.id < (self.last_id or 0) - WRAP // 2:
            self.target.reached(WRAPPED)
        self.last_id = delivery.id

    def step(self, step: Step) -> None:
        """Take one step of the plan, in the world and in the model, and wait until it has
        settled."""
        if isinstance(step, Stall):
            if not self.target.virtual:
                return  # a real link's buffers are large
            self._stall(step)
        else:
            self._carry_out(step)
            self.peer.settle()
        self.watch(shown(step), _DECIDES.get(type(step), ""))

    def _stall(self, stall: Stall) -> None:
        """Carry out steps without waiting for answers."""
        drained = stall.drained
        with stalls.amqp(self.target, self.peer, RELEASED_AVAILABLE):
            for step in stall.steps:
                self._carry_out(step)
                self.target.advance(stalls.STEP)
            if drained is not None:
                self._begin_drain(drained)
        if drained is not None:
            self.target.reached(DRAINED_UNREAD)
            self._end_drain(drained)

    def _carry_out(self, step: Send | Grant | Drain | Open | Settle | Reattach) -> None:
        model, peer = self.model, self.peer
        match step:
            case Send(queue, count):
                for _ in range(count):
                    granted(self.target, self.producer, self.senders[queue])
                    self.producer.publish(self.senders[queue], model.new(queue))
            case Grant(queue, credit, echo):
                if self._takes_back(queue, credit):
                    if not self.target.virtual:
                        return  # transfers may be in flight: 2.6.10
                    self.target.reached(TAKEN_BACK)
                peer.flow(self.links[queue], link_credit=credit, echo=echo or None)
                model.credit[queue] = credit
            case Drain():
                self._begin_drain(step)
                self._end_drain(step)
            case Open(window):
                peer.flow(session=peer.session, incoming_window=window)
                model.window = window
            case Settle(queue, which, outcome, all_):
                self._settle(queue, which, outcome, all_)
            case Reattach(queue):
                self._reattach(queue)

    def _takes_back(self, queue: int, credit: int) -> bool:
        """True if messages wait for the credit that ``credit`` withdraws. A real broker may already
        have passed some of them to the session, where they wait for the window to open."""
        return credit < self.model.credit[queue] and bool(self.model.waiting[queue])

    def _begin_drain(self, step: Drain) -> None:
        """Begin a drain. The window has room for all due messages, so the drain can finish."""
        model, link, queue, credit = self.model, self.links[step.queue], step.queue, step.credit
        model.window = sum(map(len, model.waiting)) + 10
        echo = step.echo or None
        window = model.window
        self.peer.flow(link, incoming_window=window, link_credit=credit, drain=True, echo=echo)
        model.credit[queue] = credit
        self.target.reached(DRAIN_LEFT if len(model.waiting[queue]) < credit else DRAIN_USED)

    def _end_drain(self, step: Drain) -> None:
        """Judge whether the drain delivers all due messages and uses up the rest of the credit."""
        model, link, queue = self.model, self.links[step.queue], step.queue
        judged_by = DISK_IS_AVAILABLE if self.place in ON_DISK else DRAIN_ANSWERED
        self.watch(shown(step), judged_by)
        self.target.wait_until(lambda: link.credit <= 0 or self.peer.ended is not None, PATIENCE)
        detail = f"after {step} credits, {link.credit} were left; {self.peer.instead()}"
        self.target.require(DRAIN_ANSWERED, link.credit == 0, detail)
        model.credit[queue] = 0
        self.peer.flow(link, link_credit=0, drain=False)

    def _settle(self, queue: int, which: int, outcome: str, all_: bool) -> None:
        held = self.model.held[queue]
        chosen = list(held) if all_ else [held[which % len(held)]] if held else []
        for delivery in chosen:
            state = (
                codec.composite("modified", delivery_failed=True)
                if outcome == "failed"
                else outcome
            )
            self.peer.disposition(delivery, state)
            held.remove(delivery)
            if outcome != "accepted":
                self._gives_back(queue, delivery)

    def _gives_back(self, queue: int, delivery: Delivery) -> None:
        self.model.waiting[queue].add(delivery.message.body)
        self.given_back.add(delivery.message.body)

    def _reattach(self, queue: int) -> None:
        """Reattach only if the default-outcome makes the link's messages available again."""
        model, link = self.model, self.links[queue]
        if self.place in (TOPIC, WILDCARD, TEMPORARY) or not returns_by_default(link):
            return
        self.peer.detach(link)
        for delivery in model.held[queue]:
            self._gives_back(queue, delivery)
        model.held[queue], model.credit[queue] = [], 0
        self.links[queue] = self.peer.receiver(self.nodes[queue], snd_settle_mode=self.mode)

    def finish(self) -> None:
        """Judge whether these links or, once they have closed, other links can consume every
        remaining message. A node that disappears with its links leaves nothing."""
        model = self.model
        model.window = 1000
        for queue, link in enumerate(self.links):
            self.peer.flow(link, incoming_window=model.window, link_credit=100)
            model.credit[queue] = 100
        self.peer.settle()
        self.watch("plenty of credit and window")
        for queue in (0, 1):
            self._carry_out(Send(queue, 1))
        self.watch("one more message for the credit that is left")
        left = sorted(delivery.message.body for held in model.held for delivery in held)
        if self.place in (TOPIC, WILDCARD, TEMPORARY):
            detail = f"each message of the {self.place} arrived; {listed(left)} are held at the end"
            self.target.record_held(RELEASED_AVAILABLE, self.given_back, detail)
            return
        self.peer.close()
        self.peer.close_socket()  # a broker may wait for this before it redelivers
        other = self.target.amqp()
        for node in self.nodes:
            other.receiver(node, credit=100)
        self.target.wait_until(
            lambda: len(other.deliveries) >= len(left) or other.ended is not None, PATIENCE
        )
        self.target.wait_until(lambda: len(other.deliveries) > len(left), QUIET)
        again = sorted(delivery.message.body for delivery in other.take_deliveries())
        words = f"{listed(left)} were held at the end; {listed(again)} could be received afterwards"
        self.target.record_finding(RELEASED_AVAILABLE, again == left, words)


def all_places(target: Target) -> list[str]:
    needs = {TOPIC: "multicast", WILDCARD: "wildcard-topics", TEMPORARY: "amqp-dynamic"}
    capabilities = target.identity.capabilities
    return [*place_names(target), *(place for place, name in needs.items() if name in capabilities)]


WINDOW_FIRST: list[Step] = [
    *(Send(0, 4), Send(1, 2), Grant(0, 3), Grant(1, 1), Open(2), Settle(0, 0, "released", True))
]
DRAINS_FIRST: list[Step] = [
    *(Send(0, 3), Drain(0, 2), Drain(0, 5, echo=True), Grant(0, 0, echo=True), Send(0, 1)),
    Settle(0, 0, "failed", True),
]


def corners_placed(target: Target) -> list[dict[str, object]]:
    """Credit is used up, withdrawn and drained, with redelivered messages, at each place."""
    steps: list[Step] = [
        *(Send(0, 5), Grant(0, 2), Settle(0, 1, "released", False)),
        *(Settle(0, 0, "accepted", False), Grant(0, 3), Grant(1, 3), Send(1, 2), Grant(1, 1)),
        *(Send(1, 3), Drain(1, 4, echo=True), Settle(0, 0, "failed", True), Drain(0, 6)),
        *(Open(0), Send(0, 2), Grant(0, 1), Open(1)),
    ]
    return [plan(target, 9, steps, place=place) for place in all_places(target)]


def plan(target: Target, window: int, steps: list[Step], **others: object) -> dict[str, object]:
    where = Where(target.identity.default_amqp_acceptor)
    usual = {"where": where, "place": MEMORY, "hindered_by": [], "mode": None}
    return {**usual, "window": window, "steps": steps, **others}


def corners_attached(target: Target) -> list[dict[str, object]]:
    """Links that hold deliveries are closed while the window is small, with settled and unsettled
    messages; after a drain, the credit waits for a message."""
    steps: list[Step] = [
        *(Send(0, 5), Send(1, 1), Grant(0, 3), Grant(1, 3), Reattach(0), Send(1, 1), Grant(0, 4)),
        *(Open(1), Drain(0, 6), Drain(1, 3), Grant(0, 2), Send(0, 1)),
    ]
    return [plan(target, 3, steps, mode=mode) for mode in (0, 1)]


def corners_unread(target: Target) -> list[dict[str, object]]:
    """A receiver that does not read is sent messages, settles some, and drains one link with
    waiting messages and one without."""
    steps: list[Step] = [
        Send(0, 6),
        Grant(0, 2),
        Stall((Send(1, 2), Grant(1, 3), Settle(0, 0, "released", False), Grant(0, 1), Open(4))),
        Stall((Send(0, 2), Settle(0, 0, "accepted", True), Open(0)), Drain(0, 3)),
        Stall((Send(1, 1), Grant(0, 0)), Drain(1, 6)),
        Grant(1, 2),
        Send(1, 3),
    ]
    return [plan(target, 9, steps)]


def nodes_of(
    target: Bench, place: str, name: str, peer: AmqpPeer, mode: int | None
) -> tuple[tuple[Node, Node], list[Link]]:
    """Create two nodes of this kind, the first with this name if possible. Return their names for
    senders, and their receiving links."""
    names = name, target.fresh_name()
    if place == TEMPORARY:
        capabilities = target.node().capabilities
        terminus = codec.composite("source", dynamic=True, capabilities=capabilities or None)
        links = [peer.attach(RECEIVER, source=terminus, snd_settle_mode=mode) for _ in range(2)]
        first, second = (Node(made_address(target, link), capabilities) for link in links)
        return (first, second), links
    if place in PATTERNS:
        (below, pattern), topic = PATTERNS[place], RoutingType.MULTICAST
        nodes = [target.node(topic, name=name + below) for name in names]
        sources = [target.node(topic, name=name + pattern) for name in names]
    elif place == MEMORY:
        nodes = sources = [target.node(name=name) for name in names]
    else:
        nodes = sources = [small_addresses.node(target, place) for _ in names]
    links = [peer.receiver(source, snd_settle_mode=mode) for source in sources]
    return (nodes[0], nodes[1]), links


def made_address(target: Bench, link: Link) -> str:
    address = "" if link.answer is None else str(link.answer.part("source").get("address") or "")
    target.control(bool(address), "a dynamic source should have an address")
    return address


def situations(target: Target) -> tuple[str, ...]:
    configured = RECONFIGURABLE in target.identity.capabilities
    wraps = (WRAPPED,) if configured else ()
    at = tuple(f"at {place}" for place in all_places(target))
    unread = UNREAD if target.clock is Clock.VIRTUAL else ()
    return (*SITUATIONS, *unread, *at, *wraps, *hindrances.situations(target))


def corners_hindered(target: Target) -> list[dict[str, object]]:
    """A session waits for its window and for its links' credit, which is withdrawn, with each
    hindrance."""
    steps: list[Step] = [
        *(Send(0, 4), Send(1, 2), Grant(0, 3), Grant(1, 1), Grant(0, 0), Open(2)),
        *(Drain(0, 1), Send(0, 2)),
    ]
    history = plan(target, 2, steps, where=at_the_end(target))
    return hindrances.each_once(target, [history])


@case(
    CREDIT_FORMULA,
    NO_TRANSFER_WITHOUT_CREDIT,
    DRAIN_ANSWERED,
    DISK_IS_AVAILABLE,
    REMOTE_INCOMING_WINDOW,
    WINDOW_FORMULA,
    RELEASED_AVAILABLE,
    needs={"amqp", "amqp-redelivery"},
)
@over(
    where=wrapping,
    examples=40,
    always=lambda target: [
        *corners_hindered(target),
        *corners_placed(target),
        *corners_unread(target),
        *corners_attached(target),
        plan(target, 2, WINDOW_FIRST),
        plan(target, 9, DRAINS_FIRST),
    ],
    situations=situations,
    place=lambda target: st.sampled_from(all_places(target)),
    hindered_by=hindrances.pairs,
    mode=st.sampled_from([None, 0, 1]),
    window=st.integers(0, 5),
    steps=st.lists(STEPS, min_size=1, max_size=12),
)
def test_credit_and_window_do_what_the_model_says(
    target: Bench,
    where: Where,
    place: str,
    hindered_by: list[str],
    mode: int | None,
    window: int,
    steps: list[Step],
) -> None:
    """Two links of a session receive from two queues, topics or dynamic nodes, while credit, window
    and settlement change as drawn, links close and other clients interfere. After each step exactly
    the messages that the model predicts have arrived: those that wait, within each link's credit
    and the common session window. A drain uses up the credit. At the end nothing is lost or
    duplicated.

    One scenario: the model combines all these requirements.
    """
    name = target.fresh_name()
    target.reached(f"at {place}")
    if place not in ON_DISK:
        target.record_not_applicable(DISK_IS_AVAILABLE, f"{place} keeps nothing on disk")
    with hindrances.hindered(target, hindered_by, target.destination(name=name)):
        peer, producer = target.amqp(begin=False), target.amqp()
        peer.begin(incoming_window=window)
        nodes, links = nodes_of(target, place, name, peer, mode)
        senders = producer.sender(nodes[0]), producer.sender(nodes[1])
        run = Run(target, place, mode, nodes, peer, links, producer, senders, Model(window=window))
        for step in steps:
            run.step(step)
        if not any(isinstance(step, Drain) for step in steps):
            run.step(Drain(0, 2))
    run.finish()
    judge_trace(
        target,
        peer,
        amqp_credit.credit,
        amqp_credit.drains,
        amqp_windows.windows,
        amqp_deliveries.settlement,
    )
    target.record_note(
        f"the plan had {len(steps)} steps; flows arrived:"
        f" {len([x for x in peer.inbox if frame('flow').accepts(x)])}"
    )
