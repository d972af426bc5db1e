"""Full addresses over AMQP: credit that is not given, and outcomes of what comes on credit that
was."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Properties,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Disposition,
    Flow,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import (
    Desk,
    Frame,
    Peer,
    bodies,
    ids,
    message,
    settle,
)
from brokerproof.suites.units.drivers.broker import patient

BLOCK, FAIL, DROP, PAGE = FullPolicy.BLOCK, FullPolicy.FAIL, FullPolicy.DROP, FullPolicy.PAGE
MOST, LOW = 10, 3


def of(policy: FullPolicy, match: str = "q", **limits: Any) -> Desk:
    anycast = AddressSetting("#", default_address_routing_type=RoutingType.ANYCAST)
    rules = (AddressSetting(match, address_full_policy=policy, **limits), anycast)
    acceptor = with_parameters(
        Acceptor("amqp", protocols=("AMQP",)), amqp_credits=MOST, amqp_low_credits=LOW
    )
    return Desk(Settings(acceptors=(acceptor, Acceptor("stomp")), address_settings=rules))


def producer(desk: Desk, address: str | None = "q", **fields: Any) -> tuple[Peer, int | None]:
    peer = Peer(desk).ready(container_id=f"producer {desk._conns}")
    return peer, granted(peer.attach_sender(address, **fields))


def consumer(desk: Desk, credit: int = 100, **fields: Any) -> tuple[Peer, list[int]]:
    peer = Peer(desk).ready(container_id=f"consumer {desk._conns}")
    peer.attach_receiver(**fields)
    return peer, ids(peer.flow(credit))


def granted(frames: list[Frame]) -> int | None:
    """The credit that the last flow among the frames says, if there is one for the link 0."""
    found = [
        frame.value.link_credit
        for frame in frames
        if isinstance(frame.value, Flow) and frame.value.handle == 0
    ]
    return found[-1] if found else None


def states(frames: list[Frame]) -> list[Any]:
    return [frame.value.state for frame in frames if isinstance(frame.value, Disposition)]


def test_a_producer_without_address_waits_for_the_address_of_its_last_message() -> None:
    desk = of(BLOCK, max_size_messages=1)
    peer, credit = producer(desk, None)
    assert credit == MOST
    numbers = iter(range(MOST * 2))

    def post(to: str, count: int) -> int | None:
        """Return the credit that the broker gives for ``count`` messages."""
        payload = Properties(to=to).encode() + message("m")
        found = [peer.transfer(next(numbers), payload) for _ in range(count)]
        return granted([frame for frames in found for frame in frames])

    assert post("q", MOST - LOW) is None, "not filled up"
    assert post("other", 1) == MOST, "there is room there"
    assert post("q", MOST) is None
    consumer(desk, snd_settle_mode=1)
    assert granted(peer.read()) == MOST


@given(
    limit=st.integers(0, 6),
    producers=st.integers(1, 4),
    steps=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 12)), max_size=25),
)
@patient
def test_no_more_is_taken_beyond_the_limit_than_credit_was_out(
    limit: int, producers: int, steps: list[tuple[int, int]]
) -> None:
    """Producers send as much as their credit allows, a consumer (4) acknowledges some. What an
    address takes from the moment it is full until it has room again is at most the credit that was
    out at that moment, and so at most that number of producers times their window. In the end
    everything that was accepted has come, in order."""
    desk = of(BLOCK, max_size_messages=limit)
    account = desk.broker._shared.accounting.find
    peers = [producer(desk) for _ in range(producers)]
    credit = [given or 0 for _, given in peers]
    sent = [0] * producers
    taking = Peer(desk).ready(container_id="consumer")
    taking.attach_receiver()
    got = taking.flow(1000)
    acknowledged = 0
    bound: int | None = None

    def listen() -> None:
        nonlocal bound
        for number, (each, _) in enumerate(peers):
            frames = each.read()
            credit[number] = granted(frames) or credit[number]
        got.extend(taking.read())
        if not account("q").full:
            bound = None
        elif bound is None:
            bound = account("q").messages + sum(credit)
            assert sum(credit) <= producers * MOST
        assert bound is None or account("q").messages <= bound

    for who, count in steps:
        if who >= producers:
            waiting = ids(got)[acknowledged:][:count]
            acknowledged += len(waiting)
            if waiting:
                settle(taking, waiting[0], Accepted(), waiting[-1])
            listen()
            continue
        for _ in range(min(count, credit[who])):
            frames = peers[who][0].transfer(sent[who], message(f"{who} {sent[who]}"))
            assert states(frames) == [Accepted()]
            sent[who] += 1
            credit[who] = granted(frames) or credit[who] - 1
            listen()
    for who in range(producers):
        mine = [body for body in bodies(got) if body.startswith(str(who))]
        assert mine == [f"{who} {number}" for number in range(sent[who])]
