"""The reference broker's AMQP 0-9-1, where a conformance suite does not look: expiry, dead letters,
other protocols."""

from __future__ import annotations

import pytest

from brokerproof.harness.model.broker_io import BytesReceived, WritePaused, WriteResumed
from brokerproof.harness.model.time import ms, seconds
from brokerproof.reference_broker.families.rabbitmq.exchanges import topic_fits
from brokerproof.suites.units.drivers.amqp091 import Driver


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
    assert [each for each in fitting + others if topic_fits(key, each)] == fitting


def test_messages_expire_at_the_head_of_their_queue() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(conn, "q", x_message_ttl=1000, x_dead_letter_exchange="amq.fanout")
    driver.declare(conn, "dead")
    driver.send(conn, "queue.bind", {"queue": "dead", "exchange": "amq.fanout"})
    driver.got(conn)
    driver.publish(conn, "q", b"first")
    driver.publish(conn, "q", b"short", expiration="200")  # behind one that lives longer
    driver.advance_to(ms(999))
    assert driver.count(conn, "q") == 2
    driver.advance_to(ms(1000))
    assert driver.count(conn, "q") == 0
    assert driver.bodies(conn, "dead") == [b"first", b"short"]


def test_a_message_that_comes_back_keeps_its_instant() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(conn, "q", x_message_ttl=1000)
    driver.publish(conn, "q", b"x")
    driver.send(conn, "basic.get", {"queue": "q"})
    assert driver.got(conn)[0].body == b"x"
    driver.advance_to(seconds(5))
    driver.send(conn, "basic.nack", {"delivery-tag": 1, "requeue": True})
    assert driver.count(conn, "q") == 0


def test_a_lifetime_of_0_lives_only_with_a_consumer() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(conn, "q")
    driver.publish(conn, "q", b"nobody", expiration="0")
    assert driver.count(conn, "q") == 0
    driver.send(conn, "basic.consume", {"queue": "q", "no-ack": True})
    driver.got(conn)
    driver.publish(conn, "q", b"somebody", expiration="0")
    assert [each.body for each in driver.got(conn)] == [b"somebody"]


def test_a_queue_of_no_use_expires() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(conn, "q", x_expires=1000)
    driver.advance_to(ms(900))
    assert driver.count(conn, "q") == 0  # a use: the time begins anew
    driver.send(conn, "basic.consume", {"queue": "q", "consumer-tag": "c"})
    driver.advance_to(seconds(10))
    driver.send(conn, "basic.cancel", {"consumer-tag": "c"})
    driver.got(conn)
    driver.advance_to(seconds(11) - 1)
    driver.got(conn)
    driver.advance_to(seconds(11))
    assert driver.count(conn, "q") is None


def test_dead_letters_tell_their_way_and_do_not_go_round() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(
        conn, "a", x_message_ttl=100, x_dead_letter_exchange="", x_dead_letter_routing_key="b"
    )
    driver.declare(
        conn, "b", x_max_length=0, x_dead_letter_exchange="", x_dead_letter_routing_key="a"
    )
    driver.publish(conn, "a", b"round", headers={"mine": 1})
    driver.advance_to(ms(100))
    assert driver.count(conn, "a") == 0  # it was there already
    driver.declare(conn, "c")
    driver.declare(conn, "r", x_dead_letter_exchange="", x_dead_letter_routing_key="c")
    driver.publish(conn, "r", b"no", message_id="m")
    driver.send(conn, "basic.get", {"queue": "r"})
    driver.got(conn)
    driver.send(conn, "basic.reject", {"delivery-tag": 1, "requeue": False})
    driver.send(conn, "basic.get", {"queue": "c", "no-ack": True})
    (letter,) = driver.got(conn)
    (death,) = letter["headers"]["x-death"]
    assert (death["reason"], death["queue"], death["count"], death["routing-keys"]) == (
        "rejected",
        "r",
        1,
        ["r"],
    )
    assert (letter.body, letter["message-id"], letter["headers"]["x-first-death-reason"]) == (
        b"no",
        "m",
        "rejected",
    )


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


def test_a_peer_that_does_not_read_gets_nothing_until_it_does() -> None:
    driver = Driver()
    conn = driver.connect()
    driver.declare(conn, "q")
    driver.send(conn, "basic.consume", {"queue": "q"})
    driver.got(conn)
    driver.feed(WritePaused(conn))
    driver.publish(conn, "q", b"x")
    assert driver.got(conn) == []
    driver.feed(WriteResumed(conn))
    assert [each.body for each in driver.got(conn)] == [b"x"]


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
