"""Hindrances during a property: misbehaving or waiting clients, slow or wrapped links.

A property with hindrances as a parameter must hold during and after them. Each hindrance is a
context manager and lasts for its block.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.harness.worlds.link import PERFECT, LinkFaults
from brokerproof.suites.api import PATIENCE, Bench, Clock, Target, ms
from brokerproof.suites.api.stomp import Destination, StompPeer
from brokerproof.suites.steps import small_addresses

NEVER_DELIVERED = b"0 . is in no queue"
"""A body that no consumer may get. Models read it as number 0, which no message has."""
LARGE, SOME = 16_384, 16
"""Size of a body in bytes, and how many such messages fill a link in virtual time."""
SLOW = LinkFaults(latency=ms(7), jitter=ms(5), fragment=40)
NO_WINDOW = {"consumer-window-size": "-1"}


@contextmanager
def _stalled_reader(target: Bench, to: Destination) -> Iterator[None]:
    """A consumer of another queue stops reading, so its link fills. At the end it gets
    everything."""
    other = target.destination()
    reader, producer = target.stomp(), target.stomp()
    reader.subscribe(other, headers=NO_WINDOW)
    reader.channel.hold_reading(True)
    for _ in range(SOME):
        producer.publish(other, bytes(LARGE))
    yield
    reader.channel.hold_reading(False)
    here = target.wait_until(lambda: reader.messages_seen >= SOME, PATIENCE)
    target.control(here, f"{reader.messages_seen} of {SOME} messages reached the stalled reader")


@contextmanager
def _closed_window(target: Bench, to: Destination) -> Iterator[None]:
    """A consumer of another queue acknowledges nothing, so its window stays closed."""
    other = target.destination()
    reader, producer = target.stomp(), target.stomp()
    reader.subscribe(other, ack="client", headers={"consumer-window-size": "1"})
    for _ in range(5):
        producer.publish(other, b"for the window")
    yield
    reader.close_socket()


@contextmanager
def _choosy_consumer(target: Bench, to: Destination) -> Iterator[None]:
    """A consumer of the same queue has a selector that matches nothing."""
    reader = target.stomp()
    reader.subscribe(to, headers={"selector": "nowhere = 'set'"})
    yield
    reader.close_socket()
    target.control(reader.messages_seen == 0, "the selector of the other consumer matched")


@contextmanager
def _open_transaction(target: Bench, to: Destination) -> Iterator[None]:
    """A transaction with messages for the same queue stays open and is aborted later."""
    producer = target.stomp()
    producer.request("BEGIN", {"transaction": producer.transaction})
    for _ in range(2):
        producer.publish(to, NEVER_DELIVERED, {"transaction": producer.transaction})
    yield
    producer.request("ABORT", {"transaction": producer.transaction})


@contextmanager
def _partial_frame(target: Bench, to: Destination) -> Iterator[None]:
    """The connection of a SEND to the same queue ends in the middle of the frame."""
    producer = target.stomp()
    headers = [("destination", to.name), *to.send_headers, ("content-length", str(LARGE))]
    head = "".join(f"{name}:{value}\n" for name, value in headers)
    producer.write(f"SEND\n{head}\n".encode() + NEVER_DELIVERED)
    yield
    producer.close_socket()


@contextmanager
def _full_address(target: Bench, to: Destination) -> Iterator[None]:
    """A producer waits for room at an address that stays full."""
    full, producer = small_addresses.destination(target, "block"), target.stomp()
    for _ in range(30):
        producer.publish(full, bytes(1500), receipt=False)
    yield
    producer.close_socket()


@contextmanager
def _paging_neighbour(target: Bench, to: Destination) -> Iterator[None]:
    """Another address repeatedly enters and leaves page mode."""
    other = small_addresses.destination(target, "limited.page")
    producer, reader = target.stomp(), target.stomp()
    for _ in range(9):
        producer.publish(other, bytes(1500))
    yield
    reader.subscribe(other)
    here = target.wait_until(lambda: reader.messages_seen >= 9, PATIENCE)
    target.control(here, f"{reader.messages_seen} of 9 paged messages arrived")


@contextmanager
def _slow_link(target: Bench, to: Destination) -> Iterator[None]:
    """New connections have latency, and their bytes arrive in small pieces."""
    target.disturb(SLOW)
    yield
    target.disturb(PERFECT)


@dataclass(frozen=True)
class Hindrance:
    """``needs`` is the capability that this hindrance requires."""

    context: Callable[[Bench, Destination], AbstractContextManager[None]]
    needs: str = "stomp-1.2"


HINDRANCES: Mapping[str, Hindrance] = {
    "a stalled reader": Hindrance(_stalled_reader),
    "a closed window": Hindrance(_closed_window, "consumer-window"),
    "a choosy consumer": Hindrance(_choosy_consumer, "selectors"),
    "an open transaction": Hindrance(_open_transaction, "transactions"),
    "a partial frame": Hindrance(_partial_frame),
    "a full address": Hindrance(_full_address, "address-full"),
    "a paging neighbour": Hindrance(_paging_neighbour, "address-full"),
    "a slow link": Hindrance(_slow_link),
}


def names(target: Target) -> list[str]:
    """Return the hindrances that work on the target; in real time none do."""
    capabilities = target.identity.capabilities
    if target.clock is not Clock.VIRTUAL:
        return []
    return [name for name, hindrance in HINDRANCES.items() if hindrance.needs in capabilities]


TWO = "two hindrances at once"


def situations(target: Target) -> tuple[str, ...]:
    """Return the situations of a property that takes hindrances: each alone, and two together."""
    known = tuple(map(_hinders, names(target)))
    return (*known, TWO) if len(known) > 1 else known


def _hinders(name: str) -> str:
    return f"hindered by {name}"


def pairs(target: Target) -> st.SearchStrategy[list[str]]:
    """Draw at most two hindrances."""
    known = names(target)
    if not known:  # Hypothesis refuses to draw from an empty list, even for an empty list
        return st.just([])
    return st.lists(st.sampled_from(known), max_size=2, unique=True)


def history(*steps: object, rounds: int = 1) -> dict[str, object]:
    """Return an example of a model: ``steps``, repeated for ``rounds``."""
    return {"rounds": rounds, "steps": [*steps]}


def each_once(target: Target, histories: Sequence[dict[str, object]]) -> list[dict[str, object]]:
    """Return every history without hindrances, and the first one with each hindrance and with
    two."""
    known = names(target)
    return [
        *({**history, "hindered_by": []} for history in histories),
        *({**histories[0], "hindered_by": [name]} for name in known),
        *({**histories[0], "hindered_by": known[-2:]} for _ in known[1:2]),
    ]


@contextmanager
def hindered(target: Bench, by: Sequence[str], to: Destination) -> Iterator[None]:
    """Hinder the broker inside the block, in which the property judges the queue ``to``. The
    property must declare :func:`situations`."""
    with ExitStack() as stack:
        if len(by) > 1:
            target.reached(TWO)
        for name in by:
            target.record_note(f"from here on, {name} hinders the broker")
            stack.enter_context(HINDRANCES[name].context(target, to))
            target.reached(_hinders(name))
        yield


def connector(target: Bench, link: str) -> Callable[[], StompPeer]:
    """Return a function that connects a STOMP client over ``link``, one of :func:`links`."""
    if link == "websocket":
        return lambda: target.stomp(over=target.websocket())
    return target.stomp


def links(target: Target) -> list[str]:
    """Return the kinds of link over which the target offers STOMP."""
    return ["plain", *(["websocket"] if "websocket" in target.identity.capabilities else [])]


def some_link(target: Target) -> st.SearchStrategy[str]:
    return st.sampled_from(links(target))
