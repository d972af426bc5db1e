"""Parts of the reference broker's AMQP 0-9-1 that no conformance suite covers: headers of dead
letters, other protocols, exact answers."""

import pytest
from pamqp import commands

from brokerproof.harness.model.broker_io import BytesReceived
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.amqp091 import codec
from brokerproof.reference_broker.families.rabbitmq.exchanges import KeyTree
from brokerproof.reference_broker.protocols.amqp091 import methods
from brokerproof.reference_broker.protocols.amqp091.errors import Refusal
from brokerproof.reference_broker.protocols.amqp091.framing import BEAT, FrameParser, frame
from brokerproof.suites.units.drivers.amqp091 import Driver, with_queue


@pytest.mark.parametrize(
    ("key", "fitting", "others"),
    [
        ("#", ["", "a", "a.b"], []),
        ("a.#", ["a", "a.b", "a.b.c", "a."], ["b", "ab"]),
        ("#.z", ["z", "a.z", "a.b.z"], ["az", "z.a"]),
        ("*.b", ["a.b", ".b"], ["b", "a.a.b"]),
        ("a.#.b", ["a.b", "a.x.b", "a.x.y.b"], ["a", "ab", "a.bb"]),
        ("#.#", ["", "a", "a.b"], []),
        ("*", ["a"], ["", "a.b"]),
        ("", [""], ["a"]),
        ("#.*", ["a", "a.b"], [""]),
    ],
)
def test_topics(key: str, fitting: list[str], others: list[str]) -> None:
    tree = KeyTree()
    tree.add(key)
    assert [pattern for pattern in fitting + others if tree.fitting(pattern)] == fitting
    tree.remove(key)
    assert not tree.children
    assert not any(tree.fitting(pattern) for pattern in fitting)


def test_the_reserved_text_of_channel_open_ok_is_empty_as_with_rabbitmq() -> None:
    driver, conn = with_queue()
    driver.send(conn, "channel.open", {}, channel=2)
    assert driver.got(conn)[0].fields == {"reserved-1": b""}


def test_dead_letters_tell_their_way() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(conn, "c")
    driver.declare(conn, "r", x_dead_letter_exchange="", x_dead_letter_routing_key="c")
    driver.publish(conn, "r", b"no", message_id="m")
    driver.send(conn, "basic.get", {"queue": "r"})
    driver.got(conn)
    driver.send(conn, "basic.reject", {"delivery-tag": 1, "requeue": False})
    driver.send(conn, "basic.get", {"queue": "c", "no-ack": True})
    (letter,) = driver.got(conn)
    (death,) = letter["headers"]["x-death"]
    assert death["reason"] == "rejected"
    assert death["queue"] == "r"
    assert death["count"] == 1
    assert death["routing-keys"] == ["r"]
    assert letter.body == b"no"
    assert letter["message-id"] == "m"
    assert letter["headers"]["x-first-death-reason"] == "rejected"


STOMP = b"CONNECT\naccept-version:1.2\nhost:/\nlogin:guest\npasscode:guest\n\n\0"


def test_queues_are_shared_with_stomp() -> None:
    driver = Driver()
    conn, stomp = driver.connect(), driver.open("stomp")
    driver.declare(conn, "q")
    driver.write(
        stomp, STOMP + b"SEND\ndestination:/queue/q\npersistent:true\ncolour:red\n\nfrom stomp\0"
    )
    driver.send(conn, "basic.get", {"queue": "q"})
    (came,) = driver.got(conn)
    assert (came.body, came["routing-key"], came["delivery-mode"]) == (b"from stomp", "q", 2)
    assert came["headers"] == {"colour": "red"}
    driver.send(conn, "basic.ack", {"delivery-tag": 1})
    driver.write(
        stomp,
        b"SUBSCRIBE\nid:1\ndestination:/queue/q\n\n\0SUBSCRIBE\nid:2\ndestination:/topic/t.u\n\n\0",
    )
    driver.sent[stomp] = b""
    driver.publish(conn, "q", b"to stomp", content_type="text/plain", headers={"n": 5, "yes": True})
    frame = driver.sent[stomp]
    assert frame.endswith(b"\n\nto stomp\0")
    for line in (
        b"\ndestination:/queue/q\n",
        b"\ncontent-type:text/plain\n",
        b"\nn:5\n",
        b"\nyes:true\n",
    ):
        assert line in frame
    driver.sent[stomp] = b""
    driver.publish(conn, "t.u", b"topic", exchange="amq.topic")
    assert b"\ndestination:/topic/t.u\n" in driver.sent[stomp]


@pytest.mark.parametrize(
    ("header", "begins"),
    [
        (b"AMQP\0\0\x09\x01", b"\x01\0\0"),
        (b"AMQP\x01\x01\0\x09", b"\x01\0\0"),
        (b"AMQP\x03\x01\0\0", b"AMQP\x03\x01\0\0"),
        (b"AMQP\0\0\x09\x02", b"AMQP\0\0\x09\x01"),
        (b"AMQP\0\x02\0\0", b"AMQP\x03\x01\0\0"),
        (b"HTTP/1.1", b"AMQP\x03\x01\0\0"),
    ],
)
def test_one_port_speaks_both(header: bytes, begins: bytes) -> None:
    driver = Driver()
    conn = driver.open()
    for at in range(len(header)):
        driver.feed(BytesReceived(conn, header[at : at + 1]))
    assert driver.sent[conn].startswith(begins)
    assert (conn in driver.closed) is (begins.startswith(b"AMQP") and begins != header)


def test_who_says_nothing_is_closed() -> None:
    driver = Driver()
    conn = driver.open()
    driver.advance_to(seconds(10))
    assert conn in driver.closed


def _refused_login(driver: Driver) -> int:
    """Open a connection whose password was wrong and which owes a close-ok."""
    conn = driver.open()
    driver.watch(conn)
    driver.write(conn, codec.protocol_header())
    capabilities = {"capabilities": {"authentication_failure_close": True}}
    fields = {
        "mechanism": "PLAIN",
        "response": b"\0nobody\0wrong",
        "client-properties": capabilities,
    }
    driver.send(conn, "connection.start-ok", fields, channel=0)
    assert [method.name for method in driver.got(conn)][-1] == "connection.close"
    return conn


@pytest.mark.parametrize(
    "data",
    [
        b"\x01\0\0\x7f\xff\xff\xff",
        b"\x01\0\0\x7f\xff\xff\xff" * 3,
        b"\x05\0\0\0\0\0\0\xce",
        b"\x08\0\0\0\0\0\0\0",
    ],
    ids=["too large", "too large, more follows", "unknown type", "wrong end"],
)
def test_a_frame_that_cannot_be_read_ends_a_closing_connection(data: bytes) -> None:
    driver = Driver()
    conn = _refused_login(driver)
    driver.write(conn, data)  # the read loop must end
    driver.write(conn, data)
    driver.advance_to(driver.now + seconds(1))
    assert conn in driver.closed
    bystander = driver.connect()
    driver.declare(bystander, "q")


def test_a_parser_that_is_out_of_step_yields_nothing_more() -> None:
    parser = FrameParser(4096)
    parser.feed(b"\x01\0\0\x7f\xff\xff\xff")
    with pytest.raises(Refusal):
        parser.next()
    assert parser.next() is None
    parser.feed(BEAT)
    assert parser.next() is None


def test_frames_are_cut_alike_however_they_arrive() -> None:
    stream = frame(1, 0, b"one") + BEAT + frame(3, 7, b"x" * 100)
    expected = [(1, 0, b"one"), (8, 0, b""), (3, 7, b"x" * 100)]
    for size in (1, 2, 7, 8, 9, 50, len(stream)):
        parser = FrameParser()
        frames = []
        for at in range(0, len(stream), size):
            parser.feed(stream[at : at + size])
            while (received := parser.next()) is not None:
                frames.append(received)
        assert frames == expected


@pytest.mark.parametrize("name", ["a b", "größe", "x\0y", "q" * 255, "a*?"])
def test_every_name_that_a_peer_may_use_is_repeated_in_answers(name: str) -> None:
    driver = Driver()
    conn = driver.connect()
    driver.send(conn, "queue.declare", {"queue": name})
    (declared,) = driver.got(conn)
    assert declared["queue"] == name
    fields = {"exchange": name, "type": "direct"}
    driver.send(conn, "exchange.declare", fields)
    driver.send(conn, "queue.bind", {"queue": name, "exchange": name, "routing-key": name})
    driver.publish(conn, name, b"x", exchange=name)
    driver.got(conn)
    driver.send(conn, "basic.get", {"queue": name})
    (letter,) = driver.got(conn)
    assert (letter["exchange"], letter["routing-key"]) == (name, name)
    driver.send(conn, "basic.consume", {"queue": name, "consumer-tag": name})
    driver.publish(conn, name, b"x", exchange=name)
    assert driver.got(conn)[-1]["exchange"] == name


@pytest.mark.parametrize(("name", "cut"), [("k" * 300, "k" * 255), ("é" * 128, "é" * 127)])
def test_a_name_that_is_too_long_for_amqp091_is_cut(name: str, cut: str) -> None:
    written = methods.write(1, methods.make(commands.Basic.Cancel, name, True))
    length = len(cut.encode())
    assert written[11 : 12 + length] == bytes((length,)) + cut.encode()


@pytest.mark.parametrize(
    ("channel", "last", "fields"),
    [
        (1, "channel.close", {"reply-code": 200, "reply-text": "", "class-id": 0, "method-id": 0}),
        (
            0,
            "connection.close",
            {"reply-code": 200, "reply-text": "", "class-id": 0, "method-id": 0},
        ),
        (1, "queue.declare", {"queue": "nobodys", "passive": True}),
        (1, "channel.open", {}),
    ],
)
def test_confirms_leave_before_the_close_that_ends_their_channel(
    channel: int, last: str, fields: dict[str, object]
) -> None:
    """Publishes and the method that ends the channel or the connection arrive in one read."""
    driver, conn = with_queue()
    driver.send(conn, "confirm.select")
    driver.got(conn)
    publish = codec.encode_method("basic.publish", {"exchange": "", "routing-key": "q"})
    published = codec.encode_frame(codec.METHOD, 1, publish) + codec.encode_content(1, b"x", {})
    end = codec.encode_frame(codec.METHOD, channel, codec.encode_method(last, fields))
    driver.write(conn, published * 3 + end)
    ack, close = driver.got(conn)
    assert (ack.name, ack["delivery-tag"], ack["multiple"]) == ("basic.ack", 3, True)
    assert close.name.partition(".")[2] in ("close", "close-ok")
