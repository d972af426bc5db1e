"""STOMP subscriptions' windows, acknowledgements and redeliveries together, judged by a model.

Each example draws a plan. After each step the model knows which messages are held, which wait, and
whose window is open. At every stop two things are judged: no message arrived while the window was
closed or after its own ACK; and every subscription with an open window receives messages while any
wait. The broker may choose which of several subscriptions gets a message.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import chain

from hypothesis import strategies as st

from brokerproof.harness.oracles.window import WindowAccount
from brokerproof.suites.api import (
    PATIENCE,
    Bench,
    RoutingType,
    Target,
    case,
    listed,
    ms,
    over,
    shown,
)
from brokerproof.suites.api.stomp import Destination, Frame, StompPeer
from brokerproof.suites.steps import hindrances, small_addresses, stalls
from brokerproof.suites.steps.queue_model import (
    IN_VIRTUAL_TIME,
    MEMORY,
    READ_AHEAD,
    QueueModel,
    place_names,
    places,
)
from brokerproof.suites.steps.queues import subscribed_again
from brokerproof.suites.steps.stalls import STALLED

WINDOW = "ARTEMIS-STOMP-window-3"
CUMULATIVE = "STOMP12-SUB-11"
INDIVIDUAL = "STOMP12-SUB-13"
GONE = "ARTEMIS-CONCEPTS-queue-2"
EACH_ONCE = "ARTEMIS-CONCEPTS-queue-1"
BACK = "ARTEMIS-REDELIVERY-back-1"
FIFO = "ARTEMIS-GROUPING-fifo-1"
MARK = "ARTEMIS-REDELIVERY-marked-1"
TOPIC, DURABLE = "topic", "durable subscription"
"""Nodes with one subscription: a topic's disappears when it ends, a durable one remains."""
CLIENT, CLIENT_INDIVIDUAL = "client", "client-individual"
SHUT = "messages wait for a window that is shut"
LARGER = "a message is larger than its window"
RANGE = "one ACK settles three messages or more"
PASSED_OVER = "an ACK passes over an older message"
BEHIND = "a message comes back behind younger ones that are held"
THIRD = "a message is delivered for the third time"
BOTH = "two subscriptions hold messages at once"
PAGED = "messages wait at an address that pages"
GONE_UNREAD = "a client that does not read breaks off with messages"
SITUATIONS = (SHUT, LARGER, RANGE, PASSED_OVER, BEHIND, THIRD, BOTH, GONE_UNREAD, STALLED)
STOPPED = ms(50)
"""At each stop, wait this long for a surplus message; a later one is judged at the next stop."""
MOST_ATTEMPTS = 6
"""After this many deliveries no step returns a message: brokers dead-letter it after about ten."""


@dataclass(frozen=True)
class Publish:
    """Publish this many messages with bodies of this size."""

    count: int
    size: int


@dataclass(frozen=True)
class Subscribe:
    """One of two clients subscribes with a window in bytes, after ending its earlier
    subscription."""

    client: int
    mode: str
    window: int


@dataclass(frozen=True)
class Ack:
    """A client acknowledges a message that it holds and, in client mode, also all earlier ones."""

    client: int
    which: int


@dataclass(frozen=True)
class Leave:
    """A client ends its subscription or drops its connection."""

    client: int
    lost: bool


@dataclass(frozen=True)
class Stall:
    """The clients stop reading. Meanwhile messages are published, the clients acknowledge, and
    those without a subscription subscribe. ``lost``: the first client disconnects."""

    steps: tuple[Publish | Subscribe | Ack, ...]
    lost: bool = False


Step = Publish | Subscribe | Ack | Leave | Stall
CLIENTS = st.integers(0, 1)
ACK = st.builds(Ack, CLIENTS, st.integers(0, 9))
PUBLISH = st.builds(Publish, st.integers(1, 5), st.sampled_from([0, 100, 300, 1000]))
SUBSCRIBE = st.builds(
    Subscribe,
    CLIENTS,
    st.sampled_from([CLIENT, CLIENT_INDIVIDUAL]),
    st.sampled_from([0, 1, 500, 900, 3000, -1]),
)
STALL = st.builds(
    Stall,
    st.lists(st.one_of(PUBLISH, ACK, SUBSCRIBE), min_size=1, max_size=5).map(tuple),
    st.sampled_from([False, False, True]),
)
STEPS = st.one_of(
    PUBLISH,
    PUBLISH,
    SUBSCRIBE,
    ACK,
    ACK,
    ACK,
    st.builds(Leave, CLIENTS, st.sampled_from([False, False, True])),
)


@dataclass
class Client:
    """A client with at most one subscription. ``account`` is the window; ``held`` are the client's
    messages in order of arrival."""

    peer: StompPeer
    mode: str = ""
    account: WindowAccount | None = None
    held: list[Frame] = field(default_factory=list)

    @property
    def has_room(self) -> bool:
        return self.account is not None and self.account.open

    def __str__(self) -> str:
        account = self.account or WindowAccount(0)
        return f"a subscription that holds {sum(account.held)} bytes of {account.window}"


def number_of(message: Frame) -> int:
    return int(message.body.partition(b" ")[0])


@dataclass
class Run:
    target: Bench
    to: Destination
    producer: StompPeer
    clients: tuple[Client, ...]
    connect: Callable[[], StompPeer]
    place: str
    headers: Mapping[str, str] = field(default_factory=dict)
    """Further headers of SUBSCRIBE."""
    made: bool = False
    """True after the first SUBSCRIBE."""
    model: QueueModel = field(default_factory=QueueModel)
    settled_by: dict[int, str] = field(default_factory=dict)
    """For each consumed message, by number, the requirement that its redelivery breaks."""
    spared_by: dict[int, str] = field(default_factory=dict)
    """For each message that the last ACK must leave unsettled, by number, the requirement that says
    so."""
    attempts: dict[int, int] = field(default_factory=dict)

    def step(self, step: Step) -> None:
        """Take one step of the plan, at the broker and in the model, and judge at its stop."""
        match step:
            case Publish():
                self._publish(step)
            case Subscribe(number, mode, window):
                self._subscribe(self._client(number), mode, window)
            case Ack(number, which) if self._client(number).held:
                self._ack(self._client(number), which)
            case Leave(number, lost) if self._client(number).account is not None:
                self._leave(self._client(number), lost)
            case Stall():
                self._stall(step)
        self.stop(shown(step))

    def _stall(self, stall: Stall) -> None:
        """Carry out steps without waiting for answers. The clients do not read meanwhile."""
        peers = [client.peer for client in self.clients]
        lost = None
        with stalls.stomp(self.target, peers, WINDOW) as filled:
            for step in stall.steps:
                match step:
                    case Subscribe(number, mode, window):
                        if self._client(number).account is None:
                            self._subscribe(self._client(number), mode, window, answered=False)
                    case Ack(number, which):
                        if self._client(number).held:
                            self._ack(self._client(number), which, answered=False)
                    case Publish():
                        self._publish(step)
                self.target.advance(stalls.STEP)
            if stall.lost and self.clients[0].account is not None:
                lost = self.clients[0].peer
                if self._leave(self.clients[0], lost=True):
                    self.target.reached(GONE_UNREAD)
                    filled.remove(lost)

    def _publish(self, step: Publish) -> None:
        for _ in range(step.count):
            body = (b"%d " % self.model.publish()).ljust(step.size, b".")
            self.producer.publish(self.to, body)
        self._drop_unless_kept()

    def _client(self, number: int) -> Client:
        return self.clients[number % len(self.clients)]

    def _drop_unless_kept(self) -> None:
        """A topic keeps nothing while it has no subscriber, or before it has a durable
        subscription."""
        subscribed = self.clients[0].account is not None
        if (self.place == TOPIC and not subscribed) or (self.place == DURABLE and not self.made):
            self.model.waiting.clear()

    def _subscribe(self, client: Client, mode: str, window: int, *, answered: bool = True) -> None:
        if client.account is None or self._leave(client, lost=False):
            headers = {**self.headers, "consumer-window-size": str(window)}
            if self.place == DURABLE and answered:
                peers = partial(next, chain([client.peer], iter(self.connect, None)))
                client.peer = subscribed_again(self.target, peers, self.to, headers, ack=mode)
            else:
                client.peer.subscribe(self.to, ack=mode, headers=headers, receipt=answered)
            client.mode = mode
            client.account = WindowAccount(window)
            self.made = True

    def _ack(self, client: Client, which: int, *, answered: bool = True) -> None:
        assert client.account is not None
        place = which % len(client.held)
        first = 0 if client.mode == CLIENT else place
        client.peer.ack(client.held[place], receipt=answered)
        proves = CUMULATIVE if client.mode == CLIENT else INDIVIDUAL
        settled = client.held[first : place + 1]
        if len(settled) > 2:
            self.target.reached(RANGE)
        if first > 0:
            self.target.reached(PASSED_OVER)
        self.settled_by |= dict.fromkeys(map(number_of, settled), GONE)
        del client.held[first : place + 1]
        del client.account.held[first : place + 1]
        self.spared_by |= dict.fromkeys(map(number_of, client.held), proves)

    def _leave(self, client: Client, lost: bool) -> bool:
        """End a subscription, unless this would return a message that was already delivered too
        often."""
        numbers = [number_of(message) for message in client.held]
        if any(self.attempts[number] >= MOST_ATTEMPTS for number in numbers):
            return False
        if lost or self.place == DURABLE:  # an UNSUBSCRIBE might end the durable subscription
            client.peer.close_socket()
            client.peer = self.connect()
        else:
            client.peer.request("UNSUBSCRIBE", {"id": "0"})
        self.model.give_back(numbers)
        client.account = None
        client.held.clear()
        self._drop_unless_kept()
        held = [number_of(message) for other in self.clients for message in other.held]
        if held and self.model.waiting and self.model.waiting[0] < max(held):
            self.target.reached(BEHIND)
        return True

    def stop(self, after: str) -> None:
        """Wait until nothing more should arrive, and slightly longer; judge the deliveries."""
        rest = self.target.wait_until(lambda: self._take(after) or not self._idle(), PATIENCE)
        for client in self.clients:
            client.peer.settle()
        self.target.advance(STOPPED)
        self._take(after)
        if self.model.has_arrivals:
            disorder = self.model.disorder()
            detail = f"after {after}: {disorder or 'in order'}"
            self.target.record_finding(FIFO, not disorder, detail)
        self._note_situations()
        idle = ", ".join(map(str, self._idle())) or "nobody"
        detail = f"after {after}: {idle} has room while {len(self.model.waiting)} messages wait"
        if self._idle():
            self.finish()  # first rule out that messages were lost
        self.target.require(WINDOW, rest and idle == "nobody", detail)

    def _note_situations(self) -> None:
        holders = [client for client in self.clients if client.held]
        if len(holders) > 1:
            self.target.reached(BOTH)
        if self.model.waiting and any(not client.has_room for client in holders):
            self.target.reached(SHUT)
        if self.model.waiting and self.place not in (MEMORY, TOPIC, DURABLE):
            self.target.reached(PAGED)

    def _idle(self) -> list[Client]:
        out = sum(message.size for client in self.clients for message in client.held)
        if not self.model.waiting or (self.place != MEMORY and out >= READ_AHEAD):
            return []
        return [client for client in self.clients if client.has_room]

    def _take(self, after: str) -> bool:
        """Judge the messages that have arrived. Return False, which makes the caller keep
        waiting."""
        arrivals = []
        for client in self.clients:
            messages = client.peer.take_messages()
            for message in messages:
                again = number_of(message) in self.attempts
                marked = message.get("redelivered") == "true"
                detail = f"after {after}: {message.brief()}, delivered before: {again}"
                self.target.record_finding(MARK, marked is again, detail)
                detail = f"after {after}: {number_of(message)} arrived for {client}"
                self.target.require(WINDOW, client.has_room, detail)
                assert client.account is not None
                if 0 < client.account.window < message.size:
                    self.target.reached(LARGER)
                client.account.delivered(message.size)
            client.held += messages
            arrivals.append([number_of(message) for message in messages])
            over = client.peer.ended is not None
            instead = client.peer.instead() if over else "the connection goes on"
            self.target.require(EACH_ONCE, not over, f"after {after}: {instead}")
        numbers = [number for arrived in arrivals for number in arrived]
        for number in self.model.strangers(numbers):
            detail = f"after {after}: {number} arrived, although it is acknowledged or held"
            self.target.require(self.settled_by.get(number, EACH_ONCE), False, detail)
        for place, arrived in enumerate(arrivals):
            self.model.arrive(place, arrived)
        for number in numbers:
            self.attempts[number] = self.attempts.get(number, 0) + 1
            if self.attempts[number] == 3:
                self.target.reached(THIRD)
        return False

    def finish(self) -> None:
        """End the connections; then every unacknowledged message can be received."""
        for client in self.clients:
            self.model.give_back(map(number_of, client.held))
            client.held.clear()
            client.peer.close_socket()
            client.account = None
        self.target.advance(STOPPED)  # otherwise CONNECT may overtake the close of a slow link
        self._drop_unless_kept()
        left = self.model.waiting
        if self.place == DURABLE:
            heir = subscribed_again(self.target, self.connect, self.to, self.headers)
        else:
            heir = self.target.stomp()
            heir.subscribe(self.to, headers=self.headers)
        self.target.wait_until(lambda: heir.messages_seen >= len(left), PATIENCE)
        self.target.advance(STOPPED)
        got = [number_of(message) for message in heir.take_messages()]
        detail = f"at the end, {listed(got)} arrived; expected {listed(left)}"
        self.target.record_finding(GONE, set(got) <= set(left), detail)
        for number in left:
            kept = self.spared_by.get(number, EACH_ONCE)
            self.target.require((kept, BACK), number in got, detail)


CHOOSY = ("a choosy consumer",)
"""The hindrance that makes a queue pass over messages."""
UNREAD: list[Step] = [
    Subscribe(0, CLIENT_INDIVIDUAL, 900),
    Publish(9, 100),
    Stall((Publish(2, 100), Ack(0, 0), Ack(0, 0), Subscribe(1, CLIENT, 500), Publish(1, 0))),
    Ack(0, 1),
    Ack(1, 0),
    Stall((Ack(1, 0), Publish(2, 300), Ack(0, 0)), lost=True),
    Subscribe(0, CLIENT, 0),
]
"""Clients acknowledge and subscribe without reading, and one of them disconnects."""


def corners(target: Target) -> list[dict[str, object]]:
    """Histories that need more than a few steps: older messages that arrive after newer ones,
    half-used windows, ranges of many messages, and many rounds; in memory and with pages."""
    histories: list[dict[str, object]] = [
        hindrances.history(
            *(Subscribe(0, CLIENT, 900), Publish(4, 100), Subscribe(1, CLIENT, -1)),
            *(Publish(4, 100), Leave(0, False), Ack(1, -2), Subscribe(0, CLIENT_INDIVIDUAL, 500)),
            *(Publish(3, 100), Subscribe(0, CLIENT, 900), Ack(0, 1), Leave(1, True), Ack(0, 0)),
        ),
        hindrances.history(
            *(Subscribe(0, CLIENT, 3000), Publish(20, 100), Ack(0, 4), Ack(0, 2), Ack(0, 5)),
            *(Leave(0, True), Subscribe(1, CLIENT_INDIVIDUAL, 900), Ack(1, 1), Ack(1, 1)),
            Leave(1, False),
            rounds=5,
        ),
        hindrances.history(*UNREAD),
    ]
    placed = [
        {"place": place, "link": "plain", "unread": None, **history}
        for place in reversed(place_names(target)[:2])
        for history in histories
    ]
    usual: dict[str, object] = {"link": "plain", "unread": None, "hindered_by": []}
    return [
        *hindrances.each_once(target, placed),
        *(
            {**placed[2], "hindered_by": [name]}
            for name in CHOOSY
            if name in hindrances.names(target)
        ),
        *({**histories[0], "place": place, **usual} for place in own_places(target)),
        *({**placed[0], **usual, "link": link} for link in hindrances.links(target)[1:]),
    ]


def situations(target: Target) -> tuple[str, ...]:
    paged = (PAGED,) if len(place_names(target)) > 1 else ()
    at = tuple(f"at a {place}" for place in own_places(target))
    return (*SITUATIONS, *paged, *at, *hindrances.situations(target))


def own_places(target: Target) -> list[str]:
    """Return the target's places that have one subscription."""
    durable = "durable-subscriptions" in target.identity.capabilities
    return [TOPIC, DURABLE] if durable else [TOPIC]


def all_places(target: Target) -> st.SearchStrategy[str]:
    """Draw a place; draw queues most often."""
    return st.one_of(places(target), places(target), st.sampled_from(own_places(target)))


@case(
    WINDOW,
    CUMULATIVE,
    INDIVIDUAL,
    GONE,
    EACH_ONCE,
    BACK,
    FIFO,
    MARK,
    needs={"consumer-window", "stomp-1.2", "queue-semantics", IN_VIRTUAL_TIME},
)
@over(
    examples=30,
    always=corners,
    situations=situations,
    place=all_places,
    link=hindrances.some_link,
    hindered_by=hindrances.pairs,
    rounds=st.sampled_from([1, 1, 1, 3]),
    steps=st.lists(STEPS, min_size=4, max_size=20),
    unread=st.one_of(st.none(), st.none(), st.none(), STALL),  # the slowest of all steps
)
def test_subscriptions_do_what_the_model_says(
    target: Bench,
    place: str,
    link: str,
    hindered_by: list[str],
    rounds: int,
    steps: list[Step],
    unread: Stall | None,
) -> None:
    """Two clients subscribe to a queue, or one to a topic, acknowledge, and leave as drawn, with
    their own windows and modes, over each kind of link and while other clients interfere. After
    each step they hold the messages that the model predicts. At the end, without the interference,
    every unacknowledged message can be received.

    One scenario: the model combines all these requirements.
    """
    routing = RoutingType.MULTICAST if place in (TOPIC, DURABLE) else RoutingType.ANYCAST
    limited = place not in (MEMORY, TOPIC, DURABLE)
    to = small_addresses.destination(target, place) if limited else target.destination(routing)
    connect = hindrances.connector(target, link)
    headers: dict[str, str] = {}
    count = 2
    if place == DURABLE:
        own = {"client-id": target.fresh_name()}
        connect = partial(target.stomp, headers=own)
        headers = {"durable-subscription-name": "one"}
    if place in (TOPIC, DURABLE):
        count = 1
        target.reached(f"at a {place}")
    ending: list[Step] = [
        *([] if unread is None else [unread]),
        Publish(3, 0),
        Subscribe(0, CLIENT, 700),
        Ack(0, 0),
        Subscribe(1, CLIENT_INDIVIDUAL, 700),
        Ack(1, 1),
    ]
    with hindrances.hindered(target, hindered_by, to):
        clients = tuple(Client(connect()) for _ in range(count))
        run = Run(target, to, target.stomp(), clients, connect, place, headers)
        for step in [*steps * rounds, *ending]:
            run.step(step)
    run.finish()
    for requirement in (CUMULATIVE, INDIVIDUAL):
        settled = [number for number, reason in run.settled_by.items() if reason == requirement]
        target.record_held(requirement, settled, f"{len(settled)} messages stayed away")
