"""Large bodies: written to files as they arrive, read as they are sent, and removed when no longer
needed."""

from dataclasses import replace
from typing import Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.model.broker_io import (
    BytesReceived,
    Connected,
    PeerGone,
    WritePaused,
    WriteResumed,
)
from brokerproof.harness.model.enums import CloseHow, FullPolicy
from brokerproof.harness.model.time import NS_PER_MS, seconds
from brokerproof.reference_broker.kernel import large_body as large
from brokerproof.reference_broker.persistence import records
from brokerproof.reference_broker.persistence.large_bodies import BLOCK
from brokerproof.reference_broker.persistence.memory import DiskFaults
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Received
from brokerproof.suites.units.drivers.persistence import SMALL, StoringDriver, paging

SMALLEST = 100
BODY = b"".join(b"%06d:" % number for number in range(300))
"""2100 bytes, none of which is NUL."""


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """Read files in small pieces, so that even small bodies are sent in pieces."""
    monkeypatch.setattr(large, "PIECE", 256)


def places(settings: Settings | None = None, **acceptor: object) -> Settings:
    """A broker whose acceptor ``stomp`` treats bodies of 100 bytes as large."""
    known = with_parameters(Acceptor("stomp"), stomp_min_large_message_size=SMALLEST, **acceptor)
    return replace(settings or paging(-1), acceptors=(known,))


class Driver(StoringDriver):
    def files(self) -> list[str]:
        return [name for name in self.disk.names() if name.startswith("large/")]

    def received(self, conn: int) -> bytes:
        """Return the bytes received since the last call."""
        return self._got.pop(conn, b"")

    def frames(self, conn: int) -> list[Received]:
        """Return the frames in these bytes; bodies with a content-length may contain NULs."""
        data, found = self.received(conn), []
        while data := data.lstrip(b"\n"):
            head, _, rest = data.partition(b"\n\n")
            length = next(
                (
                    int(part[15:])
                    for part in head.split(b"\n")
                    if part.startswith(b"content-length:")
                ),
                None,
            )
            end = rest.index(b"\0") if length is None else length
            assert rest[end : end + 1] == b"\0", data[:200]
            found.append(Received(head + b"\n\n" + rest[:end]))
            data = rest[end + 1 :]
        return found

    def large(
        self, conn: int, body: bytes = BODY, headers: str = "", *, text: bool = False
    ) -> Self:
        length = "" if text else f"content-length:{len(body)}\n"
        head = f"SEND\ndestination:q\nreceipt:r\npersistent:true\n{headers}{length}\n"
        return self.feed(BytesReceived(conn, head.encode() + body + b"\0"))

    def bodies(self, conn: int) -> list[bytes]:
        return [frame.body for frame in self.frames(conn) if frame.command == "MESSAGE"]


def stored(options: object = SMALL, **more: object) -> tuple[Driver, int]:
    """Return a broker, and a connection that has sent a large body and received its receipt."""
    driver = Driver(places(), options, **more)  # type: ignore[arg-type]
    conn = driver.connect()
    driver.large(conn).settle()
    assert driver.receipts(conn) == ["r"]
    assert len(driver.files()) == 1
    return driver, conn


# --- in and out -----------------------------------------------------------------------------------


@given(
    cuts=st.lists(st.integers(1, 700), min_size=1, max_size=8),
    body=st.sampled_from([BODY, BODY[:SMALLEST], bytes(range(256)) * 3, BODY[: SMALLEST - 1], b""]),
    text=st.booleans(),
    version=st.sampled_from(["1.0", "1.1", "1.2"]),
)
@settings(max_examples=40, deadline=None)
def test_a_body_comes_out_as_it_went_in_however_it_was_cut(
    cuts: list[int], body: bytes, text: bool, version: str
) -> None:
    text = text and b"\0" not in body
    driver = Driver(places(), None)
    producer = driver.connect()
    length = "" if text else f"content-length:{len(body)}\n"
    head = f"SEND\ndestination:q\ncolor:red\nreceipt:r\n{length}\n".encode()
    data = head + body + b"\0" + b"\n\nSEND\ndestination:q\n\nsmall\0"
    at = turn = 0
    while at < len(data):
        driver.feed(BytesReceived(producer, data[at : at + cuts[turn % len(cuts)]]))
        at += cuts[turn % len(cuts)]
        turn += 1
        driver.step()
    driver.settle()
    assert driver.receipts(producer) == ["r"]
    assert len(driver.files()) == (len(body) >= SMALLEST)
    driver.conn += 1
    consumer = driver.conn
    driver.feed(Connected(consumer, "stomp", "test"))
    driver.say(consumer, f"CONNECT\naccept-version:{version}\nhost:h\n\n\0")
    driver.received(consumer)
    driver.say(
        consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:client\nconsumer-window-size:-1\n\n\0"
    )
    driver.settle()
    first, second = driver.frames(consumer)
    assert (first.body, first["color"], second.body) == (body, "red", b"small")
    assert ("content-length" in first.headers) is (not text or (version != "1.0" and body != b""))
    settled = (
        f"id:{first['ack']}"
        if version == "1.2"
        else f"message-id:{first['message-id']}\nsubscription:0"
    )
    driver.say(consumer, f"ACK\n{settled}\n\n\0").settle()
    assert driver.files() == []


def test_what_arrives_does_not_stay_in_memory() -> None:
    driver = Driver(places(), None)
    conn = driver.connect()
    driver.say(conn, f"SEND\ndestination:q\ncontent-length:{100 * len(BODY)}\n\n")
    connection = driver.broker._connections[conn]._became
    for _ in range(99):
        driver.feed(BytesReceived(conn, BODY)).settle()
        assert connection._parser.buffered == 0
        assert driver.broker._store is not None
        assert driver.broker._store.large.waiting == 0
    head, blocks = len(records.head(driver.files()[0])), 99 * len(BODY) // BLOCK
    assert driver.disk.used == head + blocks * (records.HEAD.size + BLOCK)


def test_who_sends_faster_than_the_disk_is_not_read() -> None:
    driver = Driver(places(), None)
    conn = driver.connect()
    chunk = b"x" * 1024 * 1024
    driver.say(conn, f"SEND\ndestination:q\ncontent-length:{20 * len(chunk)}\n\n")
    for _ in range(20):
        driver.feed(BytesReceived(conn, chunk))
        if conn in driver.unread:
            break
    assert conn in driver.unread, "the disk has answered nothing"
    driver.settle()
    assert conn not in driver.unread


def test_a_large_body_is_not_charged_to_its_address() -> None:
    driver, _ = stored()
    account = driver.broker._shared.router.addresses.get("q")
    assert account is not None
    assert account.account.size < 500 < len(BODY)
    assert account.account.messages == 1


def test_a_frame_is_not_interrupted() -> None:
    """While a message is sent in pieces, receipts, heartbeats and other messages wait, in order."""
    driver, producer = stored()
    driver.send(producer, "small").settle()
    consumer = driver.connect("heart-beat:0,500\n")
    driver.say(consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:client\nreceipt:s\n\n\0")
    for step in range(4):
        driver.say(consumer, f"BEGIN\ntransaction:t{step}\nreceipt:b{step}\n\n\0")
        driver.step()
    driver.wait(seconds(1))
    frames = driver.frames(consumer)
    assert [frame.command for frame in frames][:3] == ["RECEIPT", "MESSAGE", "RECEIPT"]
    assert frames[1].body == BODY
    expected = ["s", "b0", "b1", "b2", "b3"]
    assert [frame["receipt-id"] for frame in frames if frame.command == "RECEIPT"] == expected
    assert [frame.body for frame in frames if frame.command == "MESSAGE"] == [BODY, b"small"]


def test_no_more_is_read_than_the_peer_takes() -> None:
    driver, _ = stored()
    consumer = driver.connect()
    driver.say(consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0")
    before = len(driver.loads)
    driver.step()
    driver.feed(WritePaused(consumer)).settle()
    driver.wait(seconds(5))
    assert len(driver.loads) - before <= 2, "one was with the disk when the peer stopped to read"
    driver.feed(WriteResumed(consumer)).settle()
    assert driver.bodies(consumer) == [BODY]


def test_who_disconnects_behind_a_large_message_gets_it_and_the_receipt() -> None:
    driver, _ = stored()
    consumer = driver.connect()
    driver.say(
        consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:auto\n\n\0DISCONNECT\nreceipt:bye\n\n\0"
    )
    driver.settle()
    assert [frame.command for frame in driver.frames(consumer)] == ["MESSAGE", "RECEIPT"]
    assert driver.closed[-1] == consumer
    assert driver.files() == []


def test_who_disconnects_and_reads_nothing_is_cut_off() -> None:
    driver, _ = stored()
    consumer = driver.connect()
    driver.say(consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:auto\n\n\0")
    driver.feed(WritePaused(consumer))
    driver.say(consumer, "DISCONNECT\nreceipt:bye\n\n\0")
    driver.wait(seconds(29))
    assert consumer not in driver.closed
    driver.wait(seconds(40))
    assert consumer in driver.closed
    assert driver.files() == []


# --- who holds it ---------------------------------------------------------------------------------


def test_the_file_is_there_until_the_last_subscription_is_done_with_it() -> None:
    driver = Driver(places())
    subscribers = [driver.connect() for _ in range(3)]
    for subscriber in subscribers:
        driver.say(
            subscriber,
            "SUBSCRIBE\nid:0\ndestination:q\nsubscription-type:MULTICAST\nack:client\n\n\0",
        )
    producer = driver.connect()
    driver.large(producer, headers="destination-type:MULTICAST\n").settle()
    for number, each in enumerate(subscribers):
        assert len(driver.files()) == 1
        (message,) = [frame for frame in driver.frames(each) if frame.command == "MESSAGE"]
        assert message.body == BODY
        if number == 1:
            driver.say(each, "UNSUBSCRIBE\nid:0\n\n\0")  # its queue is deleted with its content
        else:
            driver.say(each, f"ACK\nid:{message['ack']}\n\n\0")
        driver.settle()
    assert driver.files() == []


def test_a_topic_without_subscribers_keeps_nothing() -> None:
    driver = Driver(places())
    conn = driver.connect()
    driver.large(conn, headers="destination-type:MULTICAST\n").settle()
    assert driver.receipts(conn) == ["r"]
    assert driver.files() == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_connection_that_is_cut_half_way_leaves_no_file(whole: bool) -> None:
    driver = Driver(places())
    conn = driver.connect()
    driver.say(conn, f"SEND\ndestination:q\ncontent-length:{len(BODY)}\n\n")
    driver.feed(BytesReceived(conn, BODY if whole else BODY[:1000])).settle()
    assert len(driver.files()) == 1
    driver.feed(PeerGone(conn, CloseHow.RESET)).settle()
    assert driver.files() == []


@pytest.mark.parametrize(
    ("end", "headers", "words"),
    [
        (b"!", "", "are followed by"),
        (b"\0", "destination-type:queue\n", "ANYCAST or MULTICAST"),
        (b"\0", "transaction:none\n", "no transaction"),
    ],
)
def test_a_large_send_that_is_refused_leaves_no_file(end: bytes, headers: str, words: str) -> None:
    driver = Driver(places())
    conn = driver.connect()
    driver.say(conn, f"SEND\ndestination:q\n{headers}content-length:{len(BODY)}\n\n")
    driver.feed(BytesReceived(conn, BODY)).settle()
    driver.feed(BytesReceived(conn, end)).settle()
    (error,) = driver.frames(conn)
    assert words in error.body.decode()
    assert driver.files() == []


def test_a_transaction_holds_it() -> None:
    for end, left in (("COMMIT", 1), ("ABORT", 0)):
        driver = Driver(places())
        conn = driver.connect()
        driver.say(conn, "BEGIN\ntransaction:t\n\n\0")
        driver.large(conn, headers="transaction:t\n").settle()
        assert len(driver.files()) == 1
        driver.say(conn, f"{end}\ntransaction:t\n\n\0").settle()
        assert len(driver.files()) == left


@pytest.mark.parametrize("goes", [False, True])
def test_a_send_that_waits_for_room_holds_it(goes: bool) -> None:
    rules = tuple(
        replace(setting, max_size_bytes=1, address_full_policy=FullPolicy.BLOCK)
        for setting in paging(-1).address_settings
    )
    driver = Driver(replace(places(), address_settings=rules))
    conn = driver.connect()
    driver.send(conn, "first")
    driver.say(conn, f"SEND\ndestination:q\ncontent-length:{len(BODY)}\n\n")
    driver.feed(BytesReceived(conn, BODY))
    driver.feed(BytesReceived(conn, b"\0")).settle()
    assert conn in driver.unread
    assert len(driver.files()) == 1
    if goes:
        driver.feed(PeerGone(conn, CloseHow.RESET)).settle()
        assert driver.files() == []
        return
    consumer = driver.connect()
    driver.say(consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:auto\n\n\0").settle()
    assert driver.bodies(consumer) == [b"first", BODY]
    assert driver.files() == []


def test_a_consumer_that_goes_half_way_leaves_it_to_the_next() -> None:
    driver, _ = stored()
    for _ in range(2):
        consumer = driver.connect()
        driver.say(consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0")
        driver.step()
        driver.feed(PeerGone(consumer, CloseHow.RESET)).settle()
    assert len(driver.files()) == 1
    (again,) = driver.subscribe(driver.connect(), "client")
    assert (again.body, again["redelivered"]) == (BODY, "true")


# --- restarts -------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["power_loss", "kill", "restart"])
def test_a_durable_one_survives(end: str) -> None:
    driver, _ = stored()
    getattr(driver, end)()
    assert driver.drain() == [BODY.decode()]
    consumer = driver.connect()
    (message,) = driver.subscribe(consumer, "client")
    driver.say(consumer, f"ACK\nid:{message['ack']}\n\n\0").settle()
    assert driver.files() == []
    getattr(driver, end)()
    assert driver.drain() == []


def test_nothing_is_confirmed_before_it_is_synced() -> None:
    driver = Driver(places(), faults=DiskFaults(write=20 * NS_PER_MS))
    conn = driver.connect()
    driver.large(conn)
    while not driver.receipts(conn):
        assert (
            not any(driver.disk._files[file].synced.endswith(BODY) for file in driver.files())
            or driver._answers
        )
        assert driver.step()
    assert [driver.disk._files[file].synced.endswith(BODY) for file in driver.files()] == [True]


def test_one_that_was_not_whole_is_gone_after_a_restart() -> None:
    for end in ("power_loss", "kill", "restart"):
        driver = Driver(places())
        conn = driver.connect()
        driver.say(conn, f"SEND\ndestination:q\npersistent:true\ncontent-length:{len(BODY)}\n\n")
        driver.feed(BytesReceived(conn, BODY[:1500])).settle()
        getattr(driver, end)()
        driver.settle()
        assert driver.files() == []
        assert driver.drain() == []


def test_one_that_is_not_durable_is_gone_after_a_restart() -> None:
    driver = Driver(places())
    conn = driver.connect()
    driver.say(conn, f"SEND\ndestination:q\ncontent-length:{len(BODY)}\n\n")
    driver.feed(BytesReceived(conn, BODY + b"\0")).settle()
    assert len(driver.files()) == 1
    driver.kill()
    driver.settle()
    assert driver.files() == []
    assert driver.drain() == []


@pytest.mark.parametrize("end", ["power_loss", "kill", "restart"])
def test_one_on_a_page_survives_with_its_file(end: str) -> None:
    driver = Driver(places(paging(max_size=600)))
    conn = driver.connect()
    driver.send(conn, *(f"small{number}" for number in range(3)))
    driver.large(conn)
    driver.send(conn, "last").settle()
    assert any(name.startswith("paging/") for name in driver.disk.names())
    getattr(driver, end)()
    assert driver.drain() == ["small0", "small1", "small2", BODY.decode(), "last"]
    assert len(driver.files()) == 1
    consumer = driver.connect()
    driver.subscribe(consumer, "auto")
    driver.wait(seconds(1))
    assert driver.files() == []
    assert not any(name.endswith(".page") for name in driver.disk.names())


def test_a_file_that_is_not_there_is_reported_and_its_message_is_lost() -> None:
    driver, conn = stored()
    driver.send(conn, "small").settle()
    (name,) = driver.files()
    del driver.disk._files[name]
    driver.kill()
    assert driver.drain() == ["small"]
    assert driver.reports == [
        f"{name}: has 0 of {len(BODY)} bytes; its message of address q is lost"
    ]


@given(
    seed=st.integers(0, 2**16),
    turns=st.lists(
        st.tuples(st.sampled_from(["large", "small", "ack", "step", "step"]), st.booleans()),
        max_size=14,
    ),
    how=st.sampled_from(["power_loss", "kill"]),
)
@settings(max_examples=40, deadline=None)
def test_wherever_it_ends_what_was_confirmed_is_whole_and_no_file_is_left_over(
    seed: int, turns: list[tuple[str, bool]], how: str
) -> None:
    driver = Driver(places(paging(max_size=700)), seed=seed)
    conn, consumer = driver.connect(), driver.connect()
    driver.say(
        consumer,
        "SUBSCRIBE\nid:0\ndestination:q\nack:client-individual\nconsumer-window-size:-1\n\n\0",
    )
    sent: dict[str, bytes] = {}
    confirmed: set[str] = set()
    acknowledged: set[bytes] = set()
    waiting: list[Received] = []
    for number, (what, half) in enumerate(turns):
        if what in ("large", "small"):
            body = b"%03d" % number + (BODY if what == "large" else b"s")
            sent[str(number)] = body
            head = f"SEND\ndestination:q\nreceipt:{number}\npersistent:true\ncontent-length:{len(body)}\n\n"  # noqa: E501
            driver.feed(BytesReceived(conn, head.encode() + body[: len(body) // 2]))
            if half:
                driver.step()
            driver.feed(BytesReceived(conn, body[len(body) // 2 :] + b"\0"))
        elif what == "ack":
            driver.settle()
            waiting += [frame for frame in driver.frames(consumer) if frame.command == "MESSAGE"]
            for frame in waiting[:1]:
                driver.say(consumer, f"ACK\nid:{frame['ack']}\nreceipt:x\n\n\0")
                acknowledged.add(frame.body)
            waiting = waiting[1:]
        else:
            driver.step()
        confirmed |= {frame["receipt-id"] for frame in driver.frames(conn)}
    getattr(driver, how)()
    driver.settle()
    came = [body.encode() for body in driver.drain()]
    assert len(set(came)) == len(came)
    assert set(came) <= set(sent.values())
    assert {sent[body] for body in confirmed} - acknowledged <= set(came)
    assert len(driver.files()) == sum(len(body) > SMALLEST for body in came)


# --- a disk that does not work --------------------------------------------------------------------


def test_a_body_that_cannot_be_read_costs_the_connection_and_not_the_message() -> None:
    driver, _ = stored()
    driver.disk.faults = replace(driver.disk.faults, failing_reads=1.0)
    consumer = driver.connect()
    driver.say(consumer, "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0").settle()
    assert consumer in driver.closed
    assert "its consumer is disconnected" in driver.reports[-1]
    driver.disk.faults = replace(driver.disk.faults, failing_reads=0.0)
    assert driver.drain() == [BODY.decode()]


def test_a_body_that_was_damaged_costs_one_connection_and_its_message() -> None:
    driver, producer = stored()
    driver.send(producer, "after")
    (file,) = driver.files()
    driver.disk._files[file].content[-1] ^= 1
    first, second = (driver.connect() for _ in range(2))
    driver.say(first, "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0").settle()
    assert first in driver.closed
    assert [report for report in driver.reports if "the message leaves its queues" in report]
    driver.say(second, "SUBSCRIBE\nid:0\ndestination:q\nack:client\n\n\0").settle()
    assert driver.bodies(second) == [b"after"]
    assert second not in driver.closed
    driver.wait(seconds(1))
    assert driver.files() == []
    assert f"damaged/{file}.0" in driver.disk._files
    driver.kill()
    assert driver.drain() == ["after"]


def test_a_body_that_cannot_be_written_is_refused() -> None:
    driver = Driver(places())
    conn = driver.connect()
    driver.disk.faults = replace(driver.disk.faults, failing_writes=1.0)
    driver.say(conn, f"SEND\ndestination:q\nreceipt:r\ncontent-length:{len(BODY)}\n\n")
    driver.feed(BytesReceived(conn, BODY[:1000])).settle()
    (error,) = driver.frames(conn)
    assert error.command == "ERROR"
    assert conn in driver.closed
    driver.disk.faults = replace(driver.disk.faults, failing_writes=0.0)
    driver.wait(seconds(3))
    assert driver.files() == []
    again = driver.connect()
    driver.large(again).settle()
    assert driver.receipts(again) == ["r"]


def test_over_websocket_it_leaves_in_fragments_of_the_allowed_size() -> None:
    driver = Driver(places(web_socket_max_frame_payload_length=200))
    producer = driver.connect()
    driver.large(producer).settle()
    driver.conn += 1
    conn = driver.conn
    driver.feed(Connected(conn, "stomp", "test"))
    upgrade = (
        "GET / HTTP/1.1\r\nHost: h\r\nUpgrade: websocket\r\nConnection:"
        " Upgrade\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key:"
        " dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
    )
    driver.say(conn, upgrade)
    driver.received(conn)
    for frame in (
        b"CONNECT\naccept-version:1.2\nhost:h\n\n\0",
        b"SUBSCRIBE\nid:0\ndestination:q\nack:client\nreceipt:s\n\n\0",
    ):
        mask = bytes(4)
        size = bytes([0x80 | len(frame)]) if len(frame) < 126 else b"\xfe" + len(frame).to_bytes(2)
        driver.feed(BytesReceived(conn, b"\x82" + size + mask + frame))
    driver.settle()
    data, messages, sizes = driver.received(conn), [b""], []
    while data:
        size, at = data[1] & 0x7F, 2
        if size == 126:
            size, at = int.from_bytes(data[2:4]), 4
        sizes.append(size)
        messages[-1] += data[at : at + size]
        if data[0] & 0x80:
            messages.append(b"")
        data = data[at + size :]
    assert max(sizes) <= 200
    expected = [b"CONNECTED", b"RECEIPT", b"MESSAGE", b""]
    assert [message.partition(b"\n")[0] for message in messages] == expected
    assert messages[2].endswith(b"\n\n" + BODY + b"\0")
