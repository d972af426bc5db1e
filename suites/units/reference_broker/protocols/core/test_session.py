"""The reference broker's CORE protocol: sessions, queues, messages, transactions, liveness, and
invalid input."""

import json
from importlib.resources import files

import pytest

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.core.codec import (
    FIRST,
    MAGIC,
    SESSIONS,
    Packet,
    encode_packet,
    frame,
    read_packet,
)
from brokerproof.harness.protocols.core.messages import DEFAULT, TEXT, Message
from brokerproof.harness.protocols.core.tables import BY_NAME
from brokerproof.harness.protocols.core.values import Property, encode
from brokerproof.reference_broker.kernel.large_body import LargeBody, LargeBodySlice
from brokerproof.reference_broker.kernel.message import Envelope, LargeMessage
from brokerproof.reference_broker.persistence import codec
from brokerproof.reference_broker.protocols.core.encoding import Fields
from brokerproof.reference_broker.protocols.core.message import Arrival, CoreMessage, encoded
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers.broker import Driver, frames, send, subscribe
from brokerproof.suites.units.drivers.core import CORE, CoreClient, bodies, client, names

VECTORS = json.loads((files("brokerproof.fixtures") / "vectors" / "core.json").read_text("utf-8"))


# --- sessions -------------------------------------------------------------------------------------


def test_a_session_is_made_and_closed() -> None:
    one = CoreClient(Driver(Settings(acceptors=(CORE,))))
    (made,) = one.session()
    assert (made.name, made.channel, made["version"]) == ("create-session-response", SESSIONS, 136)
    (closed,) = one.say("session-close")
    assert (closed.name, closed.channel) == ("null-response", FIRST)
    assert one.publish("q") == []  # no session uses that channel any more


def test_answers_have_a_number_from_version_130_on() -> None:
    old = CoreClient(Driver(Settings(acceptors=(CORE,))), version=129)
    old.session()
    (answer,) = old.queue("q")
    assert answer.get("correlation") is None
    (answer,) = client().queue("q")
    assert answer["correlation"] == -1
    (answer,) = client().publish("q")
    assert answer["correlation"] == 7


@pytest.mark.parametrize("version", [122, 128, 137])
def test_a_version_that_is_not_spoken_is_refused(version: int) -> None:
    one = CoreClient(Driver(Settings(acceptors=(CORE,))))
    (refused,) = one.session(start=False, version=version)
    assert (refused.name, refused["code"]) == ("exception", 108)


def test_xa_is_refused() -> None:
    one = CoreClient(Driver(Settings(acceptors=(CORE,))))
    (refused,) = one.session(start=False, xa=True)
    assert (refused.name, refused["code"]) == ("exception", 213)


@pytest.mark.parametrize(
    ("login", "password", "good"),
    [("me", "right", True), ("me", "wrong", False), (None, None, False)],
)
def test_who_may_have_a_session(login: str | None, password: str | None, good: bool) -> None:
    settings = Settings(acceptors=(CORE,), security_enabled=True, users={"me": "right"})
    one = CoreClient(Driver(settings))
    (answer,) = one.session(start=False, username=login, password=password)
    assert answer.name == ("create-session-response" if good else "exception")
    assert good or answer["code"] == 105


@pytest.mark.parametrize(
    "protocols", [("CORE", "AMQP", "STOMP"), ("CORE", "STOMP"), ("CORE", "AMQP"), ("CORE",)]
)
def test_an_acceptor_knows_core_by_its_first_bytes(protocols: tuple[str, ...]) -> None:
    one = CoreClient(Driver(Settings(acceptors=(Acceptor("core", protocols=protocols),))))
    assert one.feed(MAGIC[:3]) == []
    assert one.feed(MAGIC[3:]) == []
    made = one.say("create-session", SESSIONS, name="s", session_channel=10, version=136)
    assert names(made) == ["create-session-response"]


def test_artemis_own_client_is_served() -> None:
    """Replays bytes of release 2.56.0's client: sessions, queries, the creation of a queue, credit,
    messages."""
    one = CoreClient(Driver(Settings(acceptors=(CORE,))))
    came = [
        packet for vector in VECTORS["java-producer"] for packet in one.feed(bytes.fromhex(vector))
    ]
    assert "exception" not in names(came)
    granted = [packet["credits"] for packet in came if packet.name == "producer-credits"]
    assert set(granted) == {2000}
    assert sum(granted) >= 6 * 1325
    other = CoreClient(one.driver, 2, beside=one)
    other.session()
    assert len(bodies(other.consumer("jw", credit=-1))) == 6
    (about,) = other.say("queue-query", queue="jw")
    assert (about["message-count"], about["durable"], about["routing-type"]) == (0, True, 1)


# --- queues ---------------------------------------------------------------------------------------


def test_a_queue_is_made_described_and_deleted() -> None:
    one = client()
    assert names(one.queue("q", durable=True, filter="a = 1")) == ["null-response"]
    (about,) = one.say("queue-query", queue="q")
    assert about["exists"] is True
    assert about["durable"] is True
    assert about["filter"] == "a = 1"
    assert about["routing-type"] == 1
    (again,) = one.queue("q")
    assert (again.name, again["code"]) == ("exception", 101)
    assert names(one.say("delete-queue", queue="q")) == ["null-response"]
    (about,) = one.say("queue-query", queue="q")
    assert not about["exists"]
    (refused,) = one.say("delete-queue", queue="q")
    assert refused["code"] == 100


def test_a_queue_with_a_consumer_is_not_deleted() -> None:
    one = client()
    one.queue("q")
    one.consumer("q")
    (refused,) = one.say("delete-queue", queue="q")
    assert refused["code"] == 104


def test_a_consumer_needs_its_queue_and_a_filter_that_can_be_read() -> None:
    one = client()
    (refused,) = one.consumer("q")
    assert refused["code"] == 100
    one.queue("q")
    (refused,) = one.consumer("q", filter="a ===")
    assert refused["code"] == 103


# --- messages -------------------------------------------------------------------------------------


def test_a_message_leaves_as_it_came() -> None:
    one = client()
    one.queue("q")
    one.consumer("q", credit=-1)
    sent = Message(
        "q",
        b"\0\1",
        {"n": Property("short", 5), "t": "é"},
        user_id=bytes(16),
        type=DEFAULT,
        durable=True,
        timestamp=9,
    )
    came = one.say("send", message=sent)
    (received,) = [packet.message for packet in came]
    assert received.id > 0
    kinds = {"n": Property("short", 5), "t": Property("simple", "é")}
    assert received == Message("q", b"\0\1", kinds, received.id, bytes(16), DEFAULT, True, 0, 9)


def test_filters_see_properties_with_their_types() -> None:
    one = client()
    one.queue("q")
    one.consumer("q", filter="n > 3 AND AMQPriority = 7 AND AMQDurable = 'DURABLE'", credit=-1)
    came = [
        *one.publish("q", b"no", properties={"n": 3}, priority=7, durable=True),
        *one.publish("q", b"yes", properties={"n": 4}, priority=7, durable=True),
        *one.publish("q", b"neither", properties={"n": 4}, durable=True),
    ]
    assert bodies(came) == [b"yes"]


def test_to_stomp_and_back() -> None:
    settings = Settings(acceptors=(CORE, Acceptor("stomp")))
    one = client(settings)
    one.driver.connect(2)
    one.queue("q")
    one.publish(
        "q",
        encode("simple?", "grün"),
        type=TEXT,
        durable=True,
        priority=6,
        properties={"n": 3, "flag": True},
    )
    one.publish("q", b"\1\2")
    first, second = frames(one.driver.feed(2, subscribe()), 2)
    assert first.body.decode() == "grün"
    assert {
        "persistent": "true",
        "priority": "6",
        "n": "3",
        "flag": "true",
    }.items() <= first.headers.items()
    assert second["content-length"] == "2"
    one.queue("back")
    one.consumer("back", credit=-1)
    one.saw(one.driver.feed(2, send("blau", "back", "colour:blue\npersistent:true\n")))
    (came,) = [packet.message for packet in one.taken()]
    assert came.text() == "blau"
    assert (came.type, came.durable, came.get("colour")) == (TEXT, True, "blue")


@pytest.mark.parametrize("side", ["client", "broker"])
def test_both_codecs_read_the_same_of_a_message_from_artemis(side: str) -> None:
    """The harness's codec and the broker's share no code. A real Artemis wrote the first one's
    input and understood the other's output."""
    code = BY_NAME["send" if side == "client" else "receive"].code
    data = next(
        packet
        for packet in map(bytes.fromhex, VECTORS[side])
        if len(packet) > 4 and packet[4] == code
    )
    fields = Fields(data, 13)
    arrival = Arrival(fields)
    theirs = read_packet(data)
    assert isinstance(theirs, Packet)
    ours = arrival.fields
    assert arrival.cost == theirs.message.cost
    assert arrival.data == theirs.message.body
    assert ours.properties == {name: item.value for name, item in theirs.message.properties.items()}
    assert (ours.address, ours.priority, ours.durable) == (theirs.message.address, 9, True)
    message = CoreMessage(theirs.message.id, None, 0, arrival.data, arrival.tail, ours)  # type: ignore[arg-type]
    assert data[13:].startswith(encoded(message))


# --- settling -------------------------------------------------------------------------------------


def three(**session: bool) -> tuple[CoreClient, list[int]]:
    one = client(**session)
    one.queue("q")
    numbers = []
    for body in (b"1", b"2", b"3"):
        one.publish("q", body)
    came = one.consumer("q", credit=-1)
    numbers = [packet.message.id for packet in came if packet.name == "receive"]
    assert len(numbers) == 3
    return one, numbers


def test_a_session_that_acknowledges_before_keeps_nothing() -> None:
    one, _ = three(pre_acknowledge=True)
    one.say("close-consumer", consumer=0)
    assert bodies(one.consumer("q", 1, credit=-1)) == []


# --- liveness -------------------------------------------------------------------------------------


def test_without_a_ping_it_is_a_minute_and_minus_one_is_for_ever() -> None:
    one = client()
    one.at(ms(59_000))
    assert one.driver.closed == []
    one.at(ms(60_000))
    assert one.driver.closed == [1]
    one = client()
    one.ping(-1)
    assert one.driver.broker.next_deadline() is None


def test_the_broker_may_know_better() -> None:
    one = client(Settings(acceptors=(CORE,), connection_ttl_override_ms=5000))
    one.ping(60_000)
    one.at(ms(6000))
    assert one.driver.closed == [1]


def test_who_says_nothing_is_closed() -> None:
    driver = Driver(Settings(acceptors=(CORE,)))
    driver.open(1, acceptor="core")
    driver.at(ms(10_000))
    assert driver.closed == [1]


# --- lies -----------------------------------------------------------------------------------------


def test_other_letters_end_the_connection() -> None:
    driver = Driver(Settings(acceptors=(CORE,)))
    driver.open(1, acceptor="core")
    driver.feed(1, b"ARTEMIX")
    assert driver.closed == [1]


@pytest.mark.parametrize("size", [0, 8, 2**31, 64 * 1024 * 1024 + 1])
def test_a_size_that_cannot_be_ends_the_connection(size: int) -> None:
    one = client()
    one.feed(size.to_bytes(4) + bytes(20))
    assert one.driver.closed == [1]


def test_large_messages_are_refused_and_the_session_goes_on() -> None:
    one = client()
    assert one.feed(frame(72, FIRST, bytes(60))) == []
    last = frame(73, FIRST, (3).to_bytes(4) + b"abc" + b"\0" + bytes(8) + b"\1" + (9).to_bytes(8))
    (refused,) = one.feed(last)
    assert (refused.name, refused["code"], refused["correlation"]) == ("exception", 213, 9)
    assert names(one.publish("q")) == ["null-response"]


def test_the_rest_of_a_refused_packet_is_not_taken_for_another() -> None:
    one = client()
    data = encode_packet("create-consumer", {"queue": "none", "requires_response": True})
    assert names(one.feed(data + data)) == ["exception", "exception"]


# --- files ----------------------------------------------------------------------------------------


def test_a_message_comes_back_from_a_file_as_it_went() -> None:
    data = next(
        packet
        for packet in map(bytes.fromhex, VECTORS["client"])
        if len(packet) > 4 and packet[4] == 71
    )
    arrival = Arrival(Fields(data, 13))
    route = Envelope("q", "q", RoutingType.ANYCAST, (), text=False)
    message = CoreMessage(77, route, 5, arrival.data, arrival.tail, arrival.fields)
    assert message.durable
    stored = codec.encode(message)
    back = codec.Decoder(_no_body).decode(b"before" + stored, 6)
    assert encoded(back) == encoded(message)
    assert back.number == 77
    assert back.arrived == 5
    assert back.route.address == "q"
    assert back.route.routing == RoutingType.ANYCAST
    assert back.property("long") == 2**40
    for cut in range(len(stored) - len(arrival.tail), len(stored)):
        with pytest.raises(codec.BadBytes):
            codec.Decoder(_no_body).decode(stored[:cut], 0)


def _no_body(id: int, size: int) -> LargeBody:
    raise AssertionError("there is no large body here")


class NoFiles:
    def read(self, body: LargeBody, begin: int, count: int, then: object) -> None:
        raise AssertionError("nobody reads this")

    def idle(self, body: LargeBody) -> None:
        """Do nothing."""


def test_a_large_message_of_another_protocol_stays_for_others() -> None:
    one = client()
    one.queue("q")
    one.consumer("q", credit=-1)
    one.consumer("q", 1, credit=-1, browse_only=True)
    envelope = Envelope("q", "q", RoutingType.ANYCAST, (), text=False)
    router = one.driver.broker._shared.router
    router.publish(
        LargeMessage(router.next_number(), envelope, LargeBodySlice(LargeBody(NoFiles(), 1, 10**9)))
    )
    assert bodies(one.publish("q", b"small")) == [b"small"]
    (about,) = one.say("queue-query", queue="q")
    assert about["message-count"] == 1
