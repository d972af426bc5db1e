"""Valid frames in any order with any fields: the broker answers, other connections are not
affected, and no message is lost."""

from random import Random

from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.amqp10 import codec
from brokerproof.reference_broker.protocols.amqp10.performatives import Transfer
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.fuzz.draws import Memory
from brokerproof.suites.fuzz.speakers_amqp10 import frame, sensible
from brokerproof.suites.units.drivers.amqp10 import Desk, Peer, text

NEVER_LOST = Settings(
    acceptors=(Acceptor("amqp", protocols=("AMQP",)), Acceptor("stomp")),
    address_settings=(AddressSetting("q", dead_letter_address="DLQ", max_delivery_attempts=2),),
    addresses=tuple(
        ConfiguredAddress(name, queues=(ConfiguredQueue(name, RoutingType.ANYCAST),))
        for name in ("q", "DLQ")
    ),
)
MESSAGES = ["m0", "m1", "m2", "m3"]
ACCEPTED = b"\0\x53\x24"


def everything(desk: Desk) -> list[str]:
    peer = Peer(desk).ready(container_id="collector")
    found = []
    for handle, address in enumerate(("q", "DLQ"), 1):
        peer.attach_receiver(address, name=address, handle=handle, snd_settle_mode=1)
        frames = peer.flow(1000, handle=handle, next_incoming_id=None)
        found += [text(frame.payload) for frame in frames if isinstance(frame.value, Transfer)]
    return found


@effort(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.randoms(use_true_random=False), st.integers(0, 25), st.booleans())
def test_any_frames_in_any_order(random: Random, count: int, at_once: bool) -> None:
    desk, memory = Desk(NEVER_LOST), Memory()
    other = Peer(desk).ready(container_id="other")
    other.attach_sender()
    for number in range(3):
        other.transfer(number)
    peer = Peer(desk).ready(container_id="random")
    kinds = [random.random() < 0.5 for _ in range(count)]
    sent = [sensible(random, memory) if fits else frame(random) for fits in kinds]
    for chunk in [b"".join(sent)] if at_once and sent else sent:
        peer.raw(chunk)
    desk.run(desk.now + ms(5))
    other.transfer(3)
    assert other.conn not in desk.closed
    desk.gone(peer.conn)
    left = [body for body in everything(desk) if body in MESSAGES]
    assert len(left) == len(set(left)), "no message is there twice"
    if not any(map(_takes, sent)):
        assert sorted(left) == MESSAGES, "what nobody accepted is still there"


def _takes(data: bytes) -> bool:
    """True if these bytes may remove messages: by an accepted state or default outcome, or because
    the broker sends settled."""
    frames = codec.Reader().feed(codec.protocol_header() + data)
    settled = any(
        isinstance(frame, codec.Frame) and str(frame.get("snd-settle-mode")) == "1"
        for frame in frames
    )
    return settled or ACCEPTED in data
