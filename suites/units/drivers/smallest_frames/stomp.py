"""Smallest frames of STOMP, and of STOMP over WebSocket."""

from brokerproof.harness.model.enums import FullPolicy
from brokerproof.harness.protocols.websocket import codec as websocket_codec
from brokerproof.harness.protocols.websocket.codec import Op
from brokerproof.reference_broker.settings.settings import AddressSetting, Settings
from brokerproof.suites.units.drivers.smallest_frames.feed import SCENARIOS, Feed, scenario

STOMP = Settings()
BLOCKING = Settings(
    address_settings=(
        AddressSetting("#", max_size_bytes=1024, address_full_policy=FullPolicy.BLOCK),
    )
)


def stomp(version: str = "1.2") -> Feed:
    feed = Feed(STOMP, "stomp")
    feed.send(b"CONNECT\naccept-version:%b\nhost:h\n\n\0" % version.encode())
    return feed


def stomp_messages(count: int, subscribe: bytes) -> tuple[Feed, list[bytes]]:
    feed = stomp()
    feed.send(b"SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:ANYCAST\n%b\n\0" % subscribe)
    sent = feed.send(b"SEND\ndestination:q\n\n\0" * count)
    return feed, [line[4:] for line in sent.split(b"\n") if line.startswith(b"ack:")]


@scenario("STOMP: header lines")
def stomp_header_lines(n: int) -> Feed:
    frames = (
        b"SEND\ndestination:q\n%b\n\0" % b"".join(b"%d:\n" % (at + line) for line in range(900))
        for at in range(0, n, 900)
    )
    return stomp().measure(frames)


@scenario("STOMP: ACK of each, client-individual, the oldest first")
def stomp_acks(n: int) -> Feed:
    feed, names = stomp_messages(n, b"ack:client-individual\nconsumer-window-size:-1\n")
    return feed.measure(b"ACK\nid:%b\n\n\0" % name for name in names)


@scenario("STOMP: ACK of each, client-individual, the newest first")
def stomp_acks_backwards(n: int) -> Feed:
    feed, names = stomp_messages(n, b"ack:client-individual\nconsumer-window-size:-1\n")
    return feed.measure(b"ACK\nid:%b\n\n\0" % name for name in reversed(names))


@scenario("STOMP: ACK of each, client")
def stomp_cumulative(n: int) -> Feed:
    feed, names = stomp_messages(n, b"ack:client\nconsumer-window-size:-1\n")
    return feed.measure(b"ACK\nid:%b\n\n\0" % name for name in names)


@scenario("STOMP: NACK of each, redelivered at once")
def stomp_nacks(n: int) -> Feed:
    feed, names = stomp_messages(n, b"ack:client-individual\nconsumer-window-size:-1\n")
    return feed.measure(b"NACK\nid:%b\n\n\0" % name for name in names)


@scenario("STOMP: ACK in one transaction, then ABORT")
def stomp_transacted_acks(n: int) -> Feed:
    feed, names = stomp_messages(n, b"ack:client-individual\nconsumer-window-size:-1\n")
    feed.send(b"BEGIN\ntransaction:t\n\n\0")
    feed.measure(b"ACK\ntransaction:t\nid:%b\n\n\0" % name for name in names)
    return feed.measure(b"ABORT\ntransaction:t\n\n\0")


@scenario("STOMP: SEND to a full address with open transactions")
def stomp_full_address(n: int) -> Feed:
    feed = Feed(BLOCKING, "stomp")
    feed.send(b"CONNECT\naccept-version:1.2\nhost:h\n\n\0")
    feed.send(*(b"BEGIN\ntransaction:%d\n\n\0" % number for number in range(n)))
    kind = b"SEND\ndestination:q\ndestination-type:ANYCAST\n"
    feed.send(b"%btransaction:%d\n\n\0" % (kind, n - 1))
    feed.send(b"%b\n%b\0" % (kind, b"x" * 4096))
    return feed.measure(b"%b\n\0" % kind * n)


MASK = b"\1\2\3\4"


def websocket() -> Feed:
    feed = Feed(STOMP, "stomp")
    key = websocket_codec.key(b"k")
    feed.send(websocket_codec.request("here", key, websocket_codec.UPGRADE))
    feed.send(
        websocket_codec.encode(
            Op.TEXT, b"CONNECT\naccept-version:1.2\nhost:h\n\n\0", mask=MASK, fin=True
        )
    )
    return feed


SCENARIOS.update(
    {
        "STOMP: ends of line": lambda n: stomp().measure(b"\n" * n * 8),
        "STOMP: ends of line, byte by byte": lambda n: stomp().measure(b"\n" * n, piece=1),
        "STOMP: header lines, byte by byte": lambda n: stomp().measure(
            b"SEND\ndestination:q\n" + b"a:\n" * min(999, n // 8), piece=1
        ),
        "STOMP: one header line, byte by byte": lambda n: stomp().measure(
            b"SEND\na:" + b"x" * n, piece=1
        ),
        "STOMP: SEND without consumers": lambda n: stomp().measure(
            b"SEND\ndestination:q\ndestination-type:ANYCAST\n\n\0" * n
        ),
        "STOMP: SEND to new addresses": lambda n: stomp().measure(
            b"SEND\ndestination:%d\ndestination-type:ANYCAST\n\n\0" % number for number in range(n)
        ),
        "STOMP: a body, byte by byte": lambda n: stomp().measure(
            b"SEND\ndestination:q\n\n" + b"x" * n + b"\0", piece=1
        ),
        "STOMP: a body with its length, byte by byte": lambda n: stomp().measure(
            b"SEND\ndestination:q\ncontent-length:%d\n\n" % n + b"x" * n + b"\0", piece=1
        ),
        "STOMP: BEGIN, then ABORT": lambda n: stomp().measure(
            b"%b\ntransaction:%d\n\n\0" % (command, number)
            for command in (b"BEGIN", b"ABORT")
            for number in range(n)
        ),
        "STOMP: SEND in one transaction, then COMMIT": lambda n: stomp().measure(
            b"BEGIN\ntransaction:t\n\n\0"
            + b"SEND\ndestination:q\ntransaction:t\n\n\0" * n
            + b"COMMIT\ntransaction:t\n\n\0"
        ),
        "STOMP: SUBSCRIBE to one queue, then UNSUBSCRIBE": lambda n: stomp().measure(
            frame
            for begin in (
                b"SUBSCRIBE\ndestination:q\nsubscription-type:ANYCAST\n",
                b"UNSUBSCRIBE\n",
            )
            for frame in (b"%bid:%d\n\n\0" % (begin, number) for number in range(n))
        ),
        "STOMP: SUBSCRIBE to one topic, then UNSUBSCRIBE, the newest first": lambda n: (
            stomp()
            .measure(
                b"SUBSCRIBE\ndestination:t\nsubscription-type:MULTICAST\nid:%d\n\n\0" % number
                for number in range(n)
            )
            .measure(b"UNSUBSCRIBE\nid:%d\n\n\0" % number for number in reversed(range(n)))
        ),
        "STOMP: UNSUBSCRIBE by destination in 1.0, the newest first": lambda n: (
            stomp("1.0")
            .after(*(b"SUBSCRIBE\nid:%d\ndestination:%d\n\n\0" % (at, at) for at in range(n)))
            .measure(b"UNSUBSCRIBE\ndestination:%d\n\n\0" % at for at in reversed(range(n)))
        ),
        "WebSocket: fragments of one byte": lambda n: (
            websocket()
            .measure(websocket_codec.encode(Op.BINARY, b"\n", mask=MASK, fin=False))
            .measure(
                websocket_codec.encode(Op.CONTINUATION, b"\n", mask=MASK, fin=False)
                for _ in range(n)
            )
        ),
        "WebSocket: empty fragments": lambda n: (
            websocket()
            .measure(websocket_codec.encode(Op.BINARY, b"", mask=MASK, fin=False))
            .measure(
                websocket_codec.encode(Op.CONTINUATION, b"", mask=MASK, fin=False) for _ in range(n)
            )
        ),
        "WebSocket: pings": lambda n: websocket().measure(
            websocket_codec.encode(Op.PING, b"", mask=MASK, fin=True) * n
        ),
        "WebSocket: a frame, byte by byte": lambda n: websocket().measure(
            websocket_codec.encode(Op.BINARY, b"\n" * min(n, 65_000), mask=MASK, fin=True), piece=1
        ),
    }
)
