"""The AMQP clients (the raw one with its state, and Proton's engine) on the reference broker in
virtual time."""

from collections.abc import Iterator
from itertools import pairwise

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.clients.proton_engine import ProtonPeer
from brokerproof.harness.clients.proton_events import event_named
from brokerproof.harness.model.time import ms, seconds
from brokerproof.harness.model.verdicts import Seen
from brokerproof.harness.protocols.amqp10 import codec, types
from brokerproof.harness.protocols.amqp10.codec import Frame
from brokerproof.harness.protocols.amqp10.endpoint_state import WRAP, Link, Session, plus
from brokerproof.harness.protocols.amqp10.raw_peer import RECEIVER, SENDER, Node, ending, frame
from brokerproof.harness.protocols.conversation import ControlFailed, Violated, either
from brokerproof.harness.targets.target import Target
from brokerproof.harness.trace.events import (
    ConnectionClosed,
    FrameReceived,
    FrameSent,
    HeartBeatSent,
    OctetsSent,
)


@pytest.fixture
def bench(reference: Target) -> Iterator[Bench]:
    made = Bench(reference, ("X-1", "X-2"), label="unit", seed=1)
    yield made
    made.close()


def sent(bench: Bench, name: str) -> list[dict[str, str]]:
    return [
        dict(event.headers)
        for event in bench.events
        if isinstance(event, FrameSent) and event.command == name
    ]


@pytest.mark.parametrize(("cited", "lives"), [("AMQP10-MSG-02", True), ("AMQP10-IDLE-05", False)])
def test_a_short_idle_time_out_of_the_broker_is_kept_unless_the_case_is_about_it(
    reference: Target, cited: str, lives: bool
) -> None:
    bench = Bench(reference, (cited,), label="unit", seed=1)
    peer, other = bench.amqp(acceptor="amqp-idle-2000"), bench.stomp("1.2")
    other.expect_nothing(for_=seconds(10))
    assert (peer.ended is None) is lives
    assert any(isinstance(event, HeartBeatSent) for event in bench.events) is lives
    if lives:
        peer.close()
        other.expect_nothing(for_=seconds(10))
        assert isinstance(bench.events[-1], (ConnectionClosed, FrameReceived)), (
            "no frame after close"
        )
    bench.close()


# --- books ----------------------------------------------------------------------------------------


def received(name: str, channel: int = 0, /, **fields: object) -> Frame:
    made = codec.composite(name, dict(fields))
    data = codec.encode_frame(types.encode(made), channel=channel)
    (found,) = codec.Reader().feed(data)
    assert isinstance(found, Frame)
    return found


def session_of(start: int = 0, window: int = 10) -> Session:
    session = Session(0)
    session.beginning({"next-outgoing-id": start, "incoming-window": window, "outgoing-window": 5})
    session.begun(
        received(
            "begin", 4, remote_channel=0, next_outgoing_id=7, incoming_window=3, outgoing_window=9
        )
    )
    return session


def link_of(session: Session, role: bool, initial: int = 0) -> Link:
    ours = {"initial-delivery-count": initial} if role is SENDER else {}
    link = session.attaching({"name": "l", "handle": 0, "role": role, **ours})
    theirs = {"initial_delivery_count": initial} if role is RECEIVER else {}
    session.on_frame(received("attach", 4, name="l", handle=6, role=not role, **theirs))
    return link


@pytest.mark.parametrize(
    ("number", "step", "expected"), [(WRAP - 1, 1, 0), (0, -1, WRAP - 1), (5, 7, 12)]
)
def test_serial_numbers(number: int, step: int, expected: int) -> None:
    assert plus(number, step) == expected


def test_windows_follow_begin_transfers_and_flows() -> None:
    session = session_of(WRAP - 1)
    assert (session.theirs, session.next_incoming_id, session.remote_incoming_window) == (4, 7, 3)
    link = link_of(session, SENDER)
    session.sending(link, {}, first=True)
    assert (session.next_outgoing_id, session.remote_incoming_window) == (0, 2)
    session.on_frame(
        received(
            "flow", 4, next_incoming_id=0, incoming_window=8, next_outgoing_id=7, outgoing_window=1
        )
    )
    assert session.remote_incoming_window == 8
    session.on_frame(received("flow", 4, incoming_window=8, next_outgoing_id=7, outgoing_window=1))
    assert session.remote_incoming_window == 7  # counted from the start


def test_credit_to_send_follows_flows_over_the_end() -> None:
    session = session_of()
    link = link_of(session, SENDER, WRAP - 1)
    flow = {
        "incoming_window": 9,
        "next_outgoing_id": 7,
        "outgoing_window": 1,
        "next_incoming_id": 0,
        "handle": 6,
    }
    session.on_frame(received("flow", 4, **flow, delivery_count=WRAP - 1, link_credit=3))
    assert link.credit == 3
    for _ in range(2):
        session.sending(link, {}, first=True)
    assert (link.delivery_count, link.credit) == (1, 1)
    session.on_frame(received("flow", 4, **flow, delivery_count=0, link_credit=5, drain=True))
    assert (link.credit, link.drain) == (4, True)


def test_credit_to_receive_follows_grants_transfers_and_drains() -> None:
    session = session_of()
    link = link_of(session, RECEIVER, WRAP - 1)
    link.granting({"delivery-count": WRAP - 1, "link-credit": 3})
    first = {"handle": 6, "delivery_tag": b"t", "message_format": 0}
    assert session.on_frame(received("transfer", 4, delivery_id=0, more=True, **first)) is None
    delivery = session.on_frame(received("transfer", 4, handle=6, settled=True))
    assert delivery is not None
    assert (delivery.id, delivery.tag, delivery.settled, len(delivery.frames)) == (0, b"t", True, 2)
    assert link.delivery_count == 0
    assert link.credit == 2
    assert session.next_incoming_id == 9
    assert session.incoming_window == 8
    session.on_frame(
        received(
            "flow",
            4,
            incoming_window=9,
            next_outgoing_id=9,
            outgoing_window=1,
            handle=6,
            delivery_count=2,
            link_credit=0,
        )
    )
    assert (link.delivery_count, link.credit) == (2, 0)


def test_an_aborted_delivery_is_none() -> None:
    session = session_of()
    link = link_of(session, RECEIVER)
    first = {"handle": 6, "delivery_tag": b"t", "message_format": 0, "delivery_id": 0}
    assert session.on_frame(received("transfer", 4, more=True, **first)) is None
    assert session.on_frame(received("transfer", 4, handle=6, aborted=True)) is None
    assert session.on_frame(received("transfer", 4, **{**first, "delivery_id": 1})) is not None
    assert link.delivery_count == 2


def test_one_disposition_settles_many() -> None:
    session = session_of(WRAP - 1)
    link = link_of(session, SENDER)
    ids = [session.sending(link, {}, first=True) for _ in range(3)]
    assert ids == [WRAP - 1, 0, 1]
    session.on_frame(received("disposition", 4, role=True, first=WRAP - 1, last=0, settled=True))
    assert [bool(session.outcomes[id_]) for id_ in ids] == [True, True, False]
    session.on_frame(received("disposition", 4, role=True, first=1))
    assert session.outcomes[1] is None  # not settled


# --- the raw peer ---------------------------------------------------------------------------------


def test_every_field_can_be_given_or_left_out(bench: Bench) -> None:
    peer = bench.amqp(begin=False)
    peer.begin(3, answered=False, next_outgoing_id=9, handle_max=1, outgoing_window=None)
    assert sent(bench, "begin") == [
        {
            "channel": "3",
            "next-outgoing-id": "9",
            "incoming-window": str(2**31 - 1),
            "handle-max": "1",
        }
    ]


def test_what_lies_is_recorded_as_bytes(bench: Bench) -> None:
    peer = bench.amqp()
    before = len(sent(bench, "begin"))
    peer.send("begin", {"next-outgoing-id": 0}, doff=1)
    assert len(sent(bench, "begin")) == before
    assert isinstance(bench.events[-1], OctetsSent)
    peer.expect(ending("close", "amqp:connection:framing-error"))


def test_an_error_ends_a_wait_at_once(bench: Bench) -> None:
    peer = bench.amqp()
    began = bench.now()
    peer.write(codec.encode_frame(b"", size=3))
    with pytest.raises(ControlFailed, match=r"expected attach within 10000 ms, but got close\(0\)"):
        peer.expect(frame("attach"))
    assert bench.now() == began


def test_an_unmet_proof_is_a_violation_and_a_met_one_a_finding(bench: Bench) -> None:
    peer = bench.amqp()
    with pytest.raises(Violated):
        peer.delivery(peer.receiver(bench.node()), within=ms(10), proves="X-1")
    peer.begin(1, proves="X-2")
    assert [(finding.requirement, finding.seen) for finding in bench.example_record.findings] == [
        ("X-1", Seen.VIOLATED),
        ("X-2", Seen.HELD),
    ]


def test_flows_do_not_disturb_silence(bench: Bench) -> None:
    peer = bench.amqp()
    peer.sender(bench.node())  # credit arrives
    peer.expect_nothing(for_=ms(100))
    with pytest.raises(ControlFailed, match="expected no flow"):
        peer.expect_nothing(for_=ms(100), of=frame("flow"))


def test_a_wrong_outcome_is_named(bench: Bench) -> None:
    peer = bench.amqp()
    link = peer.sender(bench.node())
    bench.wait_until(lambda: link.credit > 0, seconds(1))
    delivery = peer.post(link, b"m")
    with pytest.raises(ControlFailed, match=r"settled as released, but got disposition"):
        peer.confirmed(link.session, delivery, "released")


def test_matches_have_words() -> None:
    assert str(frame("attach", name="a", role=True)) == "attach name=a role=receiver"
    assert str(either(frame("end"), ending("close", "a:b"))) == "end or close with a:b"


def test_each_peer_is_a_container_of_its_own(bench: Bench) -> None:
    bench.amqp()
    bench.amqp()
    assert len({frame["container-id"] for frame in sent(bench, "open")}) == 2


def test_without_an_amqp_acceptor_the_control_fails(bench: Bench) -> None:
    with pytest.raises(ControlFailed, match="no acceptor 'nowhere'"):
        bench.amqp(acceptor="nowhere")


# --- Proton's engine ------------------------------------------------------------------------------


def proton_pair(bench: Bench) -> tuple[ProtonPeer, Node, object, object]:
    peer, node = bench.proton(), bench.node()
    session = peer.session()
    sender = peer.sender(session, node.address, capabilities=node.capabilities)
    return peer, node, sender, peer.receiver(session, node.address, capabilities=node.capabilities)


def test_protons_timers_run_on_the_worlds_time(bench: Bench) -> None:
    peer = bench.proton(acceptor="amqp-idle-2000", idle_timeout=seconds(3))
    bench.advance(seconds(20))
    assert peer.ended is None
    beats = [event.at_ns for event in bench.events if isinstance(event, HeartBeatSent)]
    assert len(beats) > 20
    assert max(b - a for a, b in pairwise(beats)) <= ms(1000)


def test_proton_gives_a_silent_broker_up(bench: Bench) -> None:
    peer = bench.proton(idle_timeout=seconds(2))
    peer.channel.hold_reading(True)
    bench.advance(seconds(5))
    assert peer.take(event_named("transport_error")) is not None
    assert [event.command for event in bench.events if isinstance(event, FrameSent)][-1] == "close"


def test_protons_run_is_the_same_every_time(reference: Target) -> None:
    def run() -> list[object]:
        bench = Bench(reference, (), label="same", seed=5)
        peer, _, sender, receiver = proton_pair(bench)
        peer.publish(sender, b"x" * 3000)
        peer.grant(receiver, 2)
        peer.settle(peer.message(receiver))
        bench.advance(seconds(100))
        peer.close()
        bench.close()
        return list(bench.events)

    assert run() == run()


def test_a_refused_login_is_told(reference: Target) -> None:
    bench = Bench(reference, (), label="refused", seed=1)
    with pytest.raises(ControlFailed, match=r"transport_error \(amqp:unauthorized-access\)"):
        bench.proton(passcode="wrong")
    bench.close()


def test_an_outcome_that_there_is_not_is_refused(bench: Bench) -> None:
    peer, _, sender, receiver = proton_pair(bench)
    peer.publish(sender, "m")
    peer.grant(receiver, 1)
    with pytest.raises(
        ControlFailed, match="'lost' is not an outcome; the outcomes are accepted, rejected"
    ):
        peer.settle(peer.message(receiver), "lost")


def test_over_sockets_there_must_be_sockets(bench: Bench) -> None:
    for client in (bench.proton_blocking, bench.proton_container):
        with pytest.raises(ControlFailed, match="needs a target that has sockets"):
            client()
