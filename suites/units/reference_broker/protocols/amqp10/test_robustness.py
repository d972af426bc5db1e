"""Well-formed frames in any order with any fields: the broker answers, others are not touched, and
no message is lost."""

from typing import Any

from hypothesis import HealthCheck, given
from hypothesis import settings as effort
from hypothesis import strategies as st

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.protocols.amqp10.encoder import encode
from brokerproof.reference_broker.protocols.amqp10.framing import frame
from brokerproof.reference_broker.protocols.amqp10.messaging import (
    Accepted,
    Coordinator,
    Declare,
    Declared,
    Discharge,
    Modified,
    Received,
    Rejected,
    Released,
    Source,
    Target,
    TransactionalState,
)
from brokerproof.reference_broker.protocols.amqp10.performatives import (
    Attach,
    Begin,
    Close,
    Detach,
    Disposition,
    End,
    Error,
    Flow,
    Open,
    Transfer,
)
from brokerproof.reference_broker.protocols.amqp10.types import Symbol
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import (
    AddressSetting,
    ConfiguredAddress,
    ConfiguredQueue,
    Settings,
)
from brokerproof.suites.units.drivers.amqp10 import Desk, Peer, message, text

SMALL = st.integers(0, 3)
SERIAL = st.sampled_from([0, 1, 2, 3, 2**31 - 1, 2**31, 2**32 - 2, 2**32 - 1])
MAYBE = st.none() | SERIAL
ID = st.integers(1, 3).map(lambda number: number.to_bytes(8))
OUTCOME = st.one_of(
    st.builds(Accepted),
    st.builds(Released),
    st.builds(Rejected, error=st.none() | st.just(Error(condition=Symbol("x:y")))),
    st.builds(
        Modified,
        delivery_failed=st.none() | st.booleans(),
        undeliverable_here=st.none() | st.booleans(),
        message_annotations=st.none() | st.just({Symbol("x-opt-a"): 1}),
    ),
)
STATE = st.one_of(
    st.none(),
    OUTCOME,
    st.builds(Received, section_number=SMALL, section_offset=SMALL),
    st.builds(Declared, txn_id=ID),
    st.builds(TransactionalState, txn_id=ID, outcome=st.none() | OUTCOME),
)
QUEUE = ("queue",)
SOURCE = st.one_of(
    st.none(),
    st.builds(
        Source,
        address=st.sampled_from(["q", "t", "", None]),
        dynamic=st.booleans(),
        capabilities=st.just(QUEUE),
    ),
    st.just(Source(address="q", capabilities=QUEUE)),
    st.just(Source(address="q", distribution_mode=Symbol("copy"), capabilities=QUEUE)),
    st.builds(Source, address=st.just("q"), default_outcome=OUTCOME, capabilities=st.just(QUEUE)),
)
TARGET = st.one_of(
    st.none(),
    st.builds(
        Target,
        address=st.sampled_from(["q", "t", None]),
        dynamic=st.booleans(),
        capabilities=st.just(QUEUE),
    ),
    st.just(Target(address="q", capabilities=QUEUE)),
    st.builds(Coordinator),
)
PAYLOAD = st.sampled_from(
    [
        b"",
        b"junk",
        message("m"),
        *(b"\0\x53\x77" + encode(body) for body in (Declare(), Discharge(txn_id=bytes(7) + b"\1"))),
    ]
)
PERFORMATIVES: list[st.SearchStrategy[Any]] = [
    st.builds(
        Begin,
        next_outgoing_id=SERIAL,
        incoming_window=SERIAL,
        outgoing_window=SERIAL,
        handle_max=SERIAL,
    ),
    st.builds(
        Attach,
        name=st.sampled_from("ab"),
        handle=SMALL,
        role=st.booleans(),
        snd_settle_mode=st.integers(0, 2),
        rcv_settle_mode=st.integers(0, 1),
        source=SOURCE,
        target=TARGET,
        initial_delivery_count=MAYBE,
        max_message_size=st.none() | SMALL,
    ),
    st.builds(
        Flow,
        next_incoming_id=MAYBE,
        incoming_window=SERIAL,
        next_outgoing_id=SERIAL,
        outgoing_window=SERIAL,
        handle=st.none() | SMALL,
        delivery_count=MAYBE,
        link_credit=MAYBE,
        available=st.none(),
        drain=st.booleans(),
        echo=st.booleans(),
    ),
    st.builds(
        Transfer,
        handle=SMALL,
        delivery_id=st.none() | SMALL,
        delivery_tag=st.none() | st.just(b"t"),
        message_format=st.none() | st.just(0),
        settled=st.none() | st.booleans(),
        more=st.booleans(),
        state=STATE,
        resume=st.booleans(),
        aborted=st.booleans(),
    ),
    st.builds(
        Disposition,
        role=st.booleans(),
        first=SERIAL,
        last=MAYBE,
        settled=st.booleans(),
        state=STATE,
        batchable=st.booleans(),
    ),
    st.builds(Detach, handle=SMALL, closed=st.booleans()),
    st.builds(End),
    st.builds(Close),
    st.builds(Open, container_id=st.just("c")),
]
LIKELY = [
    each
    for place, each in enumerate(PERFORMATIVES)
    for _ in range([3, 9, 12, 12, 12, 4, 1, 1, 1][place])
]
STEPS = st.lists(st.tuples(st.integers(0, 1), st.one_of(*LIKELY), PAYLOAD), max_size=25)

NEVER_LOST = Settings(
    acceptors=(Acceptor("amqp", protocols=("AMQP",)), Acceptor("stomp")),
    address_settings=(AddressSetting("q", dead_letter_address="DLQ", max_delivery_attempts=2),),
    addresses=(
        ConfiguredAddress("q", queues=(ConfiguredQueue("q", RoutingType.ANYCAST),)),
        ConfiguredAddress("DLQ", queues=(ConfiguredQueue("DLQ", RoutingType.ANYCAST),)),
    ),
)


def everything(desk: Desk) -> list[str]:
    peer = Peer(desk).ready(container_id="collector")
    found = []
    for handle, address in enumerate(("q", "DLQ"), 1):
        peer.attach_receiver(address, name=address, handle=handle, snd_settle_mode=1)
        frames = peer.flow(1000, handle=handle, next_incoming_id=None)
        found += [text(frame.payload) for frame in frames if isinstance(frame.value, Transfer)]
    return found


def encoded(performative: Any, channel: int, payload: bytes) -> bytes:
    return frame(
        channel, performative.encode() + (payload if isinstance(performative, Transfer) else b"")
    )


@effort(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.booleans())
def test_any_frames_in_any_order(steps: list[tuple[int, Any, bytes]], at_once: bool) -> None:
    desk = Desk(NEVER_LOST)
    other = Peer(desk).ready(container_id="other")
    other.attach_sender()
    for number in range(3):
        other.transfer(number)
    peer = Peer(desk).ready(container_id="random")
    sent = [encoded(performative, channel, payload) for channel, performative, payload in steps]
    for chunk in [b"".join(sent)] if at_once and sent else sent:
        peer.raw(chunk)
    desk.run(desk.now + ms(5))
    other.transfer(3)
    assert other.conn not in desk.closed
    desk.gone(peer.conn)
    left = [body for body in everything(desk) if body.startswith("m") and body != "m"]
    assert len(left) == len(set(left)), "no message is there twice"
    accepting = any(
        (isinstance(step, Disposition) and _accepts(step.state))
        or (isinstance(step, Attach) and _takes(step))
        for _, step, _ in steps
    )
    if not accepting:
        assert sorted(left) == ["m0", "m1", "m2", "m3"], "what nobody accepted is still there"


def _accepts(state: Any) -> bool:
    return isinstance(state, Accepted) or (
        isinstance(state, TransactionalState) and isinstance(state.outcome, Accepted)
    )


def _takes(attach: Attach) -> bool:
    """Sent settled, or accepted for want of another word: gone without an outcome."""
    default = attach.source.default_outcome if isinstance(attach.source, Source) else None
    return attach.role and (attach.snd_settle_mode == 1 or isinstance(default, Accepted))
