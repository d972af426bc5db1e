"""Full addresses over AMQP: no new credit, and outcomes of messages sent on earlier credit."""

from typing import Any

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.protocols.amqp10.messaging import Properties
from brokerproof.reference_broker.protocols.amqp10.performatives import Disposition, Flow
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.amqp10 import Desk, Frame, Peer, ids, message

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
    """Return the credit in the last flow for link 0 among the frames; None if there is none."""
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
