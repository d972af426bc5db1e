"""Whatever a peer sends: the broker never raises, answers at most one ERROR and a close, and others
notice nothing."""

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Close,
    PeerGone,
    SendBytes,
    TimerFired,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.settings.acceptor import Acceptor, StompLimits
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, bodies, frames, patient, send, subscribe

LIMITS = StompLimits(headers=6, line=64, body=64)
SMALL = Settings(acceptors=(with_parameters(Acceptor("stomp"), stomp_limits=LIMITS),))

heads = st.sampled_from(
    [
        "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT",
        "DISCONNECT", "CONNECT", "STOMP", "X", "",
    ]
)  # fmt: skip
lines = st.sampled_from(
    [
        "destination:q", "destination:", "id:0", "id:1", "ack:client", "ack:client-individual", "ack:x", "transaction:t",  # noqa: E501
        "message-id:000001,0000000001", "id:000001-00000001", "subscription:0", "receipt:r", "content-length:3",  # noqa: E501
        "content-length:99", "content-length:-1", "accept-version:1.1,1.2", "host:h", "heart-beat:1,1", "heart-beat:x",  # noqa: E501
        "consumer-window-size:0", "consumer-window-size:z", "destination-type:ANYCAST", "subscription-type:ANYCAST",  # noqa: E501
        "a\\tb:c", "a\\c:b", "a:b:c", "long:" + "x" * 70, "no colon", "é:ü", "accept-version:9",
    ]
)  # fmt: skip
frame = st.builds(
    lambda head, headers, body, eol: (eol.join([head, *headers, "", ""]) + body + "\0").encode(),
    heads,
    st.lists(lines, max_size=5),
    st.sampled_from(["", "", "abc", "x" * 70]),
    st.sampled_from(["\n", "\n", "\n", "\r\n"]),
)
chunk = frame | frame.map(lambda data: data[:-3]) | st.binary(max_size=30) | st.just(b"\n")
versions = st.sampled_from([None, "1.0", "1.1", "1.2"])


@patient
@given(versions, st.lists(chunk, max_size=12))
def test_any_bytes(version: str | None, chunks: list[bytes]) -> None:
    driver = Driver(SMALL).connected(1)
    driver.feed(1, subscribe(ack="client", destination="witness"))
    if version is None:
        driver.open(2)
    else:
        driver.connect(2, version)
    seen: list[object] = []
    for data in chunks:
        if data:
            effects = driver.feed(2, data)
            assert 2 not in driver.closed[:-1]
            seen += frames([effect for effect in effects if isinstance(effect, SendBytes)], 2)
    errors = [frame for frame in seen if frame.command == "ERROR"]  # type: ignore[attr-defined]
    assert len(errors) <= 1
    assert len(errors) == len(driver.observed)
    if errors:
        assert seen[-1] is errors[0]
        assert driver.closed == [2]
    driver.broker.handle(driver.now, PeerGone(2, CloseHow.RESET))
    assert bodies(driver.feed(1, send("still here", "witness")), 1) == ["still here"]


@patient
@given(
    st.lists(st.tuples(st.integers(0, 3), st.one_of(chunk, st.none())), max_size=30),
    st.integers(0, 5),
)
def test_the_same_inputs_give_the_same_effects(
    script: list[tuple[int, bytes | None]], step: int
) -> None:
    """A recording can be replayed: nothing but the inputs and their instants decides."""

    def play() -> list[object]:
        driver = Driver(SMALL)
        for conn in range(4):
            driver.connect(conn)
        out: list[object] = []
        for n, (conn, data) in enumerate(script):
            now = seconds(n * step)
            event = TimerFired() if data is None else BytesReceived(conn, data or b"\n")
            out.append(driver.broker.handle(now, event))
        return out

    assert play() == play()


def test_input_for_connections_that_are_not_there() -> None:
    broker = create_broker(Settings())
    assert broker.handle(0, BytesReceived(5, b"x")) == []
    assert broker.handle(0, PeerGone(5, CloseHow.RESET)) == []
    assert broker.handle(0, TimerFired()) == []
    assert broker.next_deadline() is None


def test_a_peer_that_does_not_read_subscribes_and_waits() -> None:
    driver = Driver().connected(1, 2)
    driver.feed(1, send("a") + send("b"))
    driver.broker.handle(0, WritePaused(2))
    assert [
        frame.command for frame in frames(driver.feed(2, subscribe(headers="receipt:r\n")), 2)
    ] == ["RECEIPT"]
    assert bodies(driver.broker.handle(0, WriteResumed(2)), 2) == ["a", "b"]


def test_many_connections_come_and_go_without_leaving_anything() -> None:
    """STOMP11-CONNECT-04, STOMP12-LINGER-01."""
    driver = Driver()
    for conn in range(1, 500):
        driver.connect(conn, headers="heart-beat:1000,1000\n")
        driver.feed(
            conn,
            subscribe(ack="client")
            + subscribe("1", destination="t", headers="subscription-type:MULTICAST\n"),
        )
        assert driver.feed(conn, "DISCONNECT\n\n\0") == [Close(conn)]
    assert driver.broker.next_deadline() is None
    assert len(driver.broker._deadlines._heap) < 500
    assert set(driver.broker._shared.router.addresses.by_name) == {"activemq.management"}
    assert driver.broker._connections == {}
