"""Selectors in queues: remaining messages, turns, returned messages, and queues with their own
filters."""

from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from brokerproof.harness.model.enums import Outcome, RoutingType
from brokerproof.reference_broker.kernel.message import Entry, Envelope, Message
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin
from brokerproof.reference_broker.selector.selector import Selector, parse
from brokerproof.reference_broker.settings.settings import (
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.units.drivers.broker import Driver, bodies, send, subscribe

ANY, MULTI = RoutingType.ANYCAST, RoutingType.MULTICAST


def coloured(color: str, body: str, destination: str = "q", kind: str = "") -> str:
    return send(body, destination, f"color:{color}\n{kind}")


def connected(*conns: int, settings: Settings | None = None) -> Driver:
    driver = Driver(settings)
    for conn in conns:
        driver.connect(conn)
    return driver


def test_an_anycast_message_goes_to_a_queue_that_lets_it_in() -> None:
    queues = (
        ConfiguredQueue("reds", ANY, filter="color = 'red'"),
        ConfiguredQueue("q", ANY, filter="color = 'blue'"),
    )
    driver = connected(
        1, settings=Settings(addresses=(ConfiguredAddress("q", frozenset({ANY}), queues),))
    )
    driver.feed(1, "".join(coloured(c, c) for c in ("blue", "blue", "red", "green")))
    assert bodies(driver.feed(1, subscribe()), 1) == ["blue", "blue"]


class Taker:
    def __init__(self, name: int, places: int, selector: Selector | None) -> None:
        self.name, self.places, self.selector = name, places, selector
        self.held: list[Entry] = []
        self.got: list[int] = []

    def has_room(self) -> bool:
        return len(self.held) < self.places

    def wait_for(self, batch: int) -> None:
        pass

    def deliver(self, entry: Entry) -> None:
        assert self.has_room()
        self.held.append(entry)
        self.got.append(entry.message.number)


class Plain:
    """A simple model. After each event it tries all waiting messages with all consumers from the
    beginning. ``turn`` has the consumers in the order in which they are tried."""

    def __init__(self) -> None:
        self.waiting: list[Message] = []
        self.held: dict[int, list[Message]] = {}
        self.got: dict[int, list[int]] = {}
        self.turn: list[Taker] = []

    def serve(self) -> None:
        for message in list(self.waiting):
            for taker in self.turn:
                wanted = taker.selector is None or taker.selector.matches(message)
                if wanted and len(self.held[taker.name]) < taker.places:
                    self.waiting.remove(message)
                    self.held[taker.name].append(message)
                    self.got[taker.name].append(message.number)
                    at = self.turn.index(taker)
                    self.turn = self.turn[at + 1 :] + self.turn[: at + 1]
                    break

    def back(self, messages: list[Message]) -> None:
        self.waiting = sorted([*self.waiting, *messages], key=lambda message: message.number)


class ChoosyMachine(RuleBasedStateMachine):
    """Compares the queue with the simple model: every consumer gets the same messages in order."""

    @initialize()
    def start(self) -> None:
        self.plain = Plain()
        self.queue = Queue("q", ANY, RoundRobin(), 0, lambda queue, entry: None)
        self.takers: list[Taker] = []
        self.sent = self.came = 0

    def same(self) -> None:
        self.plain.serve()
        for taker in self.takers:
            assert taker.got == self.plain.got[taker.name], taker.name
        assert [entry.message.number for entry in self.queue._ready] == [
            message.number for message in self.plain.waiting
        ]

    @rule(count=st.integers(1, 5), color=st.sampled_from("abc"))
    def put(self, count: int, color: str) -> None:
        for _ in range(count):
            self.sent += 1
            message = Message(self.sent, Envelope("q", "q", ANY, (("color", color),), False), b"")
            self.plain.waiting.append(message)
            self.plain.serve()
            self.queue.enqueue(message)
        self.same()

    @precondition(lambda self: len(self.takers) < 5)
    @rule(places=st.integers(0, 4), colors=st.sampled_from([None, None, "a", "b", "ab"]))
    def attach(self, places: int, colors: str | None) -> None:
        listed = ", ".join(f"'{color}'" for color in colors or "")
        self.came += 1
        taker = Taker(self.came, places, None if colors is None else parse(f"color IN ({listed})"))
        self.takers.append(taker)
        self.plain.held[taker.name], self.plain.got[taker.name] = [], []
        self.plain.turn.append(taker)
        self.queue.add_consumer(taker, taker.selector)
        self.same()

    @precondition(lambda self: self.takers)
    @rule(data=st.data())
    def detach(self, data: st.DataObject) -> None:
        taker = data.draw(st.sampled_from(self.takers))
        self.takers.remove(taker)
        self.plain.turn.remove(taker)
        self.plain.back(self.plain.held.pop(taker.name))
        self.queue.remove_consumer(taker)
        self.queue.unsettled += len(taker.held)
        self.queue.settle(taker.held, Outcome.RELEASED)
        self.queue.dispatch()
        self.same()

    @precondition(lambda self: any(taker.held for taker in self.takers))
    @rule(data=st.data(), outcome=st.sampled_from([Outcome.ACCEPTED, Outcome.RELEASED]))
    def settle(self, data: st.DataObject, outcome: Outcome) -> None:
        taker = data.draw(st.sampled_from([taker for taker in self.takers if taker.held]))
        entry = data.draw(st.sampled_from(taker.held))
        taker.held.remove(entry)
        self.plain.held[taker.name].remove(entry.message)
        if outcome is Outcome.RELEASED:
            self.plain.back([entry.message])
        self.queue.unsettled += 1
        self.queue.settle([entry], outcome)
        self.queue.dispatch()
        self.same()

    @precondition(lambda self: self.takers)
    @rule(data=st.data(), places=st.integers(0, 5))
    def change_room(self, data: st.DataObject, places: int) -> None:
        data.draw(st.sampled_from(self.takers)).places = places
        self.queue.dispatch()
        self.same()


ChoosyMachine.TestCase.settings = hypothesis_settings(
    max_examples=80, stateful_step_count=30, deadline=None
)
TestChoosyMachine = ChoosyMachine.TestCase


def test_a_backlog_that_nobody_wants_costs_nothing() -> None:
    """Each entry is examined once per consumer, not once per arriving message."""
    asked, count = 0, 20_000

    class Counting(Message):
        def property(self, name: str) -> str:
            nonlocal asked
            asked += 1
            return "blue" if self.number <= count else "red"

    queue = Queue("q", ANY, RoundRobin(), 0, lambda queue, entry: None)
    taker = Taker(1, 10**9, None)
    queue.add_consumer(taker, parse("color = 'red'"))
    envelope = Envelope("q", "q", ANY, (), False)
    for number in range(1, count + 101):
        queue.enqueue(Counting(number, envelope, b""))
    queue.dispatch()
    assert (len(taker.got), asked) == (100, count + 100)
