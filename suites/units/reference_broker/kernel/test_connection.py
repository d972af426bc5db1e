"""A peer that does not read gets no messages: they wait in their queue, or go to somebody who
reads."""

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Connected,
    PeerGone,
    SendBytes,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow
from brokerproof.reference_broker.assembly import create_broker
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings


class Driven:
    def __init__(self, *conns: int) -> None:
        self._broker = create_broker(Settings(acceptors=(Acceptor("stomp"),)))
        for conn in conns:
            self.feed(Connected(conn, "stomp", "peer"))
            self.say(conn, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")

    def feed(
        self, event: Connected | BytesReceived | PeerGone | WritePaused | WriteResumed
    ) -> dict[int, bytes]:
        out: dict[int, bytes] = {}
        for effect in self._broker.handle(0, event):
            if isinstance(effect, SendBytes):
                out[effect.conn] = out.get(effect.conn, b"") + effect.data
        return out

    def say(self, conn: int, data: bytes) -> dict[int, bytes]:
        return self.feed(BytesReceived(conn, data))

    def subscribe(self, conn: int, id: str = "s") -> dict[int, bytes]:
        return self.say(
            conn, b"SUBSCRIBE\nid:%b\ndestination:q\nsubscription-type:ANYCAST\n\n\0" % id.encode()
        )

    def send(self, conn: int, *bodies: bytes) -> dict[int, bytes]:
        return self.say(
            conn,
            b"".join(
                b"SEND\ndestination:q\ndestination-type:ANYCAST\n\n%b\0" % body for body in bodies
            ),
        )


def bodies(data: bytes) -> list[bytes]:
    return [
        frame.split(b"\n\n", 1)[1]
        for frame in data.split(b"\0")
        if frame.lstrip().startswith(b"MESSAGE\n")
    ]


def test_messages_wait_for_a_slow_peer_in_their_order() -> None:
    broker = Driven(1, 2)
    broker.subscribe(2)
    assert bodies(broker.send(1, b"a")[2]) == [b"a"]
    assert broker.feed(WritePaused(2)) == {}
    assert broker.send(1, b"b", b"c") == {}
    assert broker.send(1, b"d") == {}
    assert bodies(broker.feed(WriteResumed(2))[2]) == [b"b", b"c", b"d"]
    assert bodies(broker.send(1, b"e")[2]) == [b"e"]


def test_others_get_what_a_slow_peer_does_not() -> None:
    broker = Driven(1, 2, 3)
    broker.subscribe(2)
    broker.subscribe(3)
    broker.feed(WritePaused(2))
    assert bodies(broker.send(1, b"a", b"b", b"c")[3]) == [b"a", b"b", b"c"]
    assert broker.feed(WriteResumed(2)) == {}
    out = broker.send(1, b"d", b"e")
    assert sorted([*bodies(out[2]), *bodies(out[3])]) == [b"d", b"e"]
    assert len(bodies(out[2])) == 1


def test_a_subscription_made_meanwhile_is_held_too() -> None:
    broker = Driven(1, 2)
    broker.feed(WritePaused(2))
    broker.subscribe(2)
    assert broker.send(1, b"a") == {}
    assert bodies(broker.feed(WriteResumed(2))[2]) == [b"a"]


def test_a_slow_peer_that_leaves_takes_nothing_with_it() -> None:
    broker = Driven(1, 2, 3)
    broker.subscribe(2)
    broker.feed(WritePaused(2))
    assert broker.send(1, b"a") == {}
    assert broker.feed(PeerGone(2, CloseHow.RESET)) == {}
    assert broker.feed(WriteResumed(2)) == {}
    assert bodies(broker.subscribe(3)[3]) == [b"a"]
