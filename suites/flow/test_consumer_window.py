"""Artemis: windows in bytes, set by consumer-window-size, activemq.prefetchSize or the acceptor.

The bytes that a subscription may hold are computed from the sizes of received frames
(harness/oracles/window.py), never predicted. At every stop two things are judged: no delivery began
while the window was closed (too many), and the broker did not stop while the window was open and
messages were left (too few).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.oracles.window import WindowAccount
from brokerproof.harness.protocols.byte_log import Account, Expectation
from brokerproof.suites.api import PATIENCE, Bench, CloseHow, Target, Where, case, ms, over, seconds
from brokerproof.suites.api.stomp import MESSAGE, Destination, Frame, StompPeer

NAMES = "ARTEMIS-STOMP-window-1"
ZERO = "ARTEMIS-STOMP-window-2"
POSITIVE = "ARTEMIS-STOMP-window-3"
UNLIMITED = "ARTEMIS-STOMP-window-4"
DEFAULTS = "ARTEMIS-STOMP-window-5"
MODES = ("client", "client-individual")
QUIET = ms(300)
"""If nothing arrives for this long, the broker counts as stopped."""


@dataclass
class Holder:
    """A subscription under test: the messages it holds, and an account of its window."""

    target: Bench
    peer: StompPeer
    account: WindowAccount
    requirement: str
    held: list[Frame]
    total: int
    received: int = 0
    cumulative: bool = False
    """True if an ACK settles earlier messages too."""
    settled: str = ""
    """Describe the last ACK or NACK."""

    @property
    def expectation(self) -> Expectation:
        """The expectation that the peer holds as many messages as the window allows."""
        account = Account(self.account.window, self.total, self.cumulative)
        return Expectation(
            kind="window",
            words=f"a window of {self.account.window}",
            conn=self.peer.conn,
            account=account,
        )

    def collect(self) -> None:
        """Receive messages until the window is closed or all have arrived; judge both bounds."""
        while self.account.open and self.received < self.total:
            message = self.peer.watch_for(MESSAGE)
            if message is None:
                self.target.require(
                    self.requirement,
                    False,
                    f"with a window of {self.account.window} bytes, {self.settled}{len(self.held)}"
                    f" messages ({sum(self.account.held)} bytes) are held,"
                    f" {self.total - self.received} more wait,"
                    f" and none arrives within {PATIENCE // seconds(1)} s"
                    f" ({self.peer.instead()})",
                    expectation=self.expectation,
                )
                return
            self._take(message)
        # The connection is shown to work, so silence means that the window is closed.
        self.peer.settle()
        self.target.wait_until(
            lambda: any(MESSAGE.accepts(received) for received in self.peer.inbox), QUIET
        )
        for message in self.peer.take_messages():
            self._take(message)
        self.target.judge_count(
            self.requirement,
            f"messages held under a window of {self.account.window}",
            len(self.held),
            (1 if self.received < self.total else 0, None),
            "messages",
        )

    def _take(self, message: Frame) -> None:
        before, count = sum(self.account.held), len(self.held)
        allowed = self.account.delivered(message.size)
        self.held.append(message)
        self.received += 1
        if not allowed:
            self.target.require(
                self.requirement,
                False,
                f"with a window of {self.account.window} bytes, another message arrived while"
                f" {count} messages ({before} bytes) were held",
                expectation=self.expectation,
            )

    def settle(self, position: int, command: str, mode: str) -> None:
        """ACK or NACK the message held at ``position``; in client mode, all earlier ones too."""
        self.cumulative = mode == "client"
        message = self.held[position]
        (self.peer.ack if command == "ACK" else self.peer.nack)(message)
        first = 0 if mode == "client" else position
        count = "1 message" if position == first else f"{position + 1 - first} messages"
        article = "an" if command == "ACK" else "a"
        self.settled = f"after {article} {command} of {count} in mode {mode}, "
        del self.held[first : position + 1]
        del self.account.held[first : position + 1]


def fill(target: Bench, to: Destination, sizes: list[int]) -> None:
    """Send messages with bodies of these sizes to the queue, over a separate connection."""
    producer = target.stomp("1.2")
    for number, size in enumerate(sizes):
        producer.publish(
            to, (b"%d " % number).ljust(size, b".")[:size], receipt=number == len(sizes) - 1
        )


def hold(
    target: Bench,
    requirement: str,
    sizes: list[int],
    window: int,
    headers: dict[str, str],
    mode: str,
    acceptor: str | None = None,
) -> Holder:
    """Subscribe to a queue that has messages with these body sizes; ``window`` should apply."""
    to = target.destination()
    keeper = target.stomp("1.2", acceptor=acceptor)
    fill(target, to, sizes)
    keeper.subscribe(to, "w", ack=mode, headers=headers)
    return Holder(target, keeper, WindowAccount(window), requirement, [], len(sizes))


@dataclass(frozen=True)
class Plan:
    """A backlog's body sizes, the window, the ack mode, and the message settled at each stop."""

    sizes: tuple[int, ...]
    window: int
    mode: str
    settle: tuple[int, ...]


def plans(target: Target) -> st.SearchStrategy[Plan]:
    """Backlogs of one size and of mixed sizes, with windows at multiples of the frame sizes."""

    @st.composite
    def draw_plan(draw: st.DrawFn) -> Plan:
        body = draw(st.sampled_from([0, 1, 100, 1000]))
        count = draw(st.integers(4, 14))
        mixed = draw(st.booleans())
        sizes = (
            draw(st.lists(st.integers(0, 2000), min_size=count, max_size=count))
            if mixed
            else [body] * count
        )
        # A frame has one to three hundred bytes besides its body, so aim around whole numbers of
        # frames.
        window = draw(st.integers(1, 4)) * (body + draw(st.integers(100, 320))) + draw(
            st.integers(-1, 1)
        )
        window = draw(st.sampled_from([1, window, window, window]))
        return Plan(
            tuple(sizes),
            window,
            draw(st.sampled_from(MODES)),
            tuple(draw(st.lists(st.integers(0, 9), max_size=4))),
        )

    return draw_plan()


def settlements(target: Target) -> Iterator[dict[str, Plan]]:
    """An ACK that covers several messages, and ACKs of messages of unequal sizes."""
    yield {"plan": Plan((300,) * 12, 1600, "client", (2, 1, 0))}
    yield {"plan": Plan((8000,) * 12, 70_000, "client", (3,))}  # more bytes than fit into 16 bits
    yield {"plan": Plan((2000, 10, 10, 10, 2000, 10, 10, 10), 3000, "client-individual", (0, 1, 0))}
    yield {
        "plan": Plan(
            (10, 2000, 10, 10, 10, 10, 10, 10, 10, 10), 2500, "client-individual", (0, 0, 0)
        )
    }


@case(POSITIVE, needs={"consumer-window"})
@over(examples=120, always=settlements, plan=plans)
def test_messages_flow_until_their_octets_reach_the_window(target: Bench, plan: Plan) -> None:
    """A subscription has a window above zero. Deliveries begin only while the unacknowledged bytes
    are below the window, and an ACK frees the bytes of its messages."""
    headers = {"consumer-window-size": str(plan.window)}
    holder = hold(target, POSITIVE, list(plan.sizes), plan.window, headers, plan.mode)
    holder.collect()
    for choice in plan.settle:
        if not holder.held:
            break
        holder.settle(choice % len(holder.held), "ACK", plan.mode)
        holder.collect()


@case(POSITIVE, needs={"consumer-window"})
@over(examples=20, mode=st.sampled_from(MODES), times=st.integers(1, 3))
def test_the_window_is_exact_to_the_octet(target: Bench, mode: str, times: int) -> None:
    """Frames have L bytes; windows have k·L-1, k·L and k·L+1 bytes. k, k and k+1 frames arrive."""
    sizes = [200] * (times + 3)
    scale = hold(target, POSITIVE, sizes, -1, {"consumer-window-size": "-1"}, mode)
    scale.collect()
    # message-ids grow with use, so only frames of equal length show the size of one
    lengths = {message.size for message in scale.held}
    target.control(len(lengths) <= 2, f"frames of equal bodies differ in length: {sorted(lengths)}")
    length = max(lengths)
    for window in (times * length - 1, times * length, times * length + 1):
        holder = hold(target, POSITIVE, sizes, window, {"consumer-window-size": str(window)}, mode)
        holder.collect()


@case(ZERO, needs={"consumer-window"})
@over(
    examples=20,
    always=lambda target: [
        {"mode": mode, "size": 10, "command": command}
        for mode in MODES
        for command in ("ACK", "NACK")
    ],
    mode=st.sampled_from(MODES),
    size=st.sampled_from([0, 10, 20_000]),
    command=st.sampled_from(["ACK", "NACK"]),
)
def test_a_window_of_zero_gives_one_message_per_settlement(
    target: Bench, mode: str, size: int, command: str
) -> None:
    """A subscription has a window of 0. One message arrives, and the next only after ACK or
    NACK."""
    holder = hold(target, ZERO, [size] * 4, 0, {"consumer-window-size": "0"}, mode)
    for _ in range(3):
        holder.collect()
        target.judge_count(ZERO, "messages held", len(holder.held), (1, 1), "messages")
        holder.settle(0, command, mode)
    holder.collect()


@case(UNLIMITED, needs={"consumer-window"})
@over(examples=6, mode=st.sampled_from(MODES), count=st.integers(30, 60))
def test_a_window_of_minus_one_holds_nothing_back(target: Bench, mode: str, count: int) -> None:
    """A subscription with a window of -1 gets a backlog far above the default window without
    ACKs.
    """
    holder = hold(target, UNLIMITED, [1000] * count, -1, {"consumer-window-size": "-1"}, mode)
    holder.collect()
    target.judge_count(UNLIMITED, "messages delivered", holder.received, (count, count), "messages")


@case(NAMES, needs={"consumer-window"})
def test_both_header_names_are_octets_and_ours_wins(target: Bench) -> None:
    """SUBSCRIBE has activemq.prefetchSize, alone or with consumer-window-size, in either order.
    Both are in bytes, and consumer-window-size takes precedence."""
    for headers, window in (
        ({"activemq.prefetchSize": "700"}, 700),
        ({"activemq.prefetchSize": "0"}, 0),
        ({"consumer-window-size": "700", "activemq.prefetchSize": "-1"}, 700),
        ({"activemq.prefetchSize": "1", "consumer-window-size": "900"}, 900),
        ({"activemq.prefetchSize": "-1", "consumer-window-size": "0"}, 0),
    ):
        target.record_note(f"{headers} should give a window of {window}")
        hold(target, NAMES, [300] * 8, window, headers, "client").collect()


@case(DEFAULTS, needs={"consumer-window"})
def test_the_default_window_is_the_acceptors(target: Bench) -> None:
    """SUBSCRIBE has no window header. A client or client-individual subscription has the acceptor's
    window, an auto subscription none. A header overrides the acceptor."""
    for acceptor, parameters in target.target.acceptors(target.overrides).items():
        window = parameters["stomp_consumer_window_size"]
        if not (
            acceptor == "stomp" or acceptor.startswith(("window", "credits"))
        ) or not isinstance(window, int):
            continue
        for mode in MODES:
            target.record_note(f"acceptor {acceptor}, mode {mode}, window {window}")
            hold(target, DEFAULTS, [1000] * 14, window, {}, mode, acceptor).collect()
        automatic = hold(target, DEFAULTS, [1000] * 14, -1, {}, "auto", acceptor)
        automatic.collect()
        target.judge_count(
            DEFAULTS, f"auto on {acceptor}", automatic.received, (14, 14), "messages"
        )
        hold(
            target, DEFAULTS, [1000] * 6, 3000, {"consumer-window-size": "3000"}, "client", acceptor
        ).collect()


@case(POSITIVE, needs={"consumer-window"})
@over(examples=10, mode=st.sampled_from(MODES), window=st.integers(1, 1500))
def test_what_is_delivered_again_is_charged_again(target: Bench, mode: str, window: int) -> None:
    """A consumer without a window holds eight messages and is lost. Redelivered to a subscription
    with a window, they fill it like first deliveries."""
    to, first, keeper = target.destination(), target.stomp("1.2"), target.stomp("1.2")
    fill(target, to, [300] * 8)
    first.subscribe(to, ack=mode, headers={"consumer-window-size": "-1"})
    target.control(
        target.wait_until(lambda: first.messages_seen >= 8, PATIENCE),
        "eight messages should arrive",
    )
    first.close_socket(CloseHow.RESET)
    keeper.subscribe(to, "w", ack=mode, headers={"consumer-window-size": str(window)})
    target.control(
        target.wait_until(lambda: keeper.messages_seen > 0, PATIENCE),
        "messages of the lost consumer should be redelivered",
    )
    holder = Holder(target, keeper, WindowAccount(window), POSITIVE, [], 8)
    holder.collect()
    holder.settle(0, "ACK", mode)
    holder.collect()


@case(POSITIVE, ZERO, needs={"consumer-window"})
@over(examples=10, mode=st.sampled_from(MODES), window=st.sampled_from([0, 1, 400]))
def test_what_is_sent_while_the_window_is_shut_comes_later(
    target: Bench, mode: str, window: int
) -> None:
    """Ten messages sent to an empty queue exceed its subscription's window. The surplus arrives one
    by one with the acknowledgements."""
    rule = ZERO if window == 0 else POSITIVE
    to, keeper = target.destination(), target.stomp("1.2")
    keeper.subscribe(to, "w", ack=mode, headers={"consumer-window-size": str(window)})
    fill(target, to, [100] * 10)
    holder = Holder(target, keeper, WindowAccount(window), rule, [], 10)
    holder.collect()
    while holder.received < 10:
        holder.settle(0, "ACK", mode)
        holder.collect()
    for requirement in (POSITIVE, ZERO):
        words = (
            f"with a window of {window}, {holder.received} of ten messages arrived, each after the"
            " ACK that made room for it"
        )
        target.record_finding(requirement, holder.received == 10, words)


@case(POSITIVE, needs={"consumer-window"})
def test_windows_are_apart(target: Bench) -> None:
    """Two subscriptions of one connection have windows. A closed window does not stop the other."""
    first, second = target.destination(), target.destination()
    peer = target.stomp("1.2")
    fill(target, first, [500] * 6)
    fill(target, second, [500] * 6)
    peer.subscribe(first, "a", ack="client", headers={"consumer-window-size": "600"})
    target.wait_until(lambda: peer.messages_seen >= 1, QUIET)
    peer.subscribe(second, "b", ack="client", headers={"consumer-window-size": "-1"})
    done = target.wait_until(lambda: _of(peer, "b") >= 6, ms(5000))
    words = f"beside a subscription whose window is full, one without a window got {_of(peer, 'b')}"
    words += " of 6 messages"
    target.record_finding(POSITIVE, done, words)


def _of(peer: StompPeer, subscription: str) -> int:
    return sum(
        received.command == "MESSAGE" and received.get("subscription") == subscription
        for received in peer.inbox
    )


@case(UNLIMITED, needs={"consumer-window"})
@over(examples=6, where=st.just(Where("stomp")), count=st.integers(20, 40))
def test_auto_subscriptions_have_no_window_unless_they_name_one(
    target: Bench, where: Where, count: int
) -> None:
    """An auto subscription with the default window of -1 gets all messages."""
    holder = hold(target, UNLIMITED, [1000] * count, -1, {}, "auto", where.acceptor)
    holder.collect()
    target.judge_count(UNLIMITED, "messages delivered", holder.received, (count, count), "messages")
