"""The reference broker's management API, queried by the harness. Comments give a real RabbitMQ's
answers."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.clients.rabbitmq_management_api import ManagementPeer
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.amqp091.raw_peer import Amqp091Peer
from brokerproof.harness.protocols.conversation import ControlFailed
from brokerproof.harness.targets.target_file import load
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.rabbitmq import RabbitMq
from brokerproof.reference_broker.settings.settings import Settings
from brokerproof.suites.units.drivers import toml_tables
from brokerproof.suites.units.drivers.amqp091 import Driver

FIELDS = {name: set(fields) for name, fields in toml_tables.beside(__file__).items()}
"""The fields of connections, nodes and queues in real releases."""


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    target = load("reference-rabbitmq")
    target.start(tmp_path)
    bench = Bench(target, (), label="api")
    yield bench
    bench.close()
    target.stop()


@pytest.fixture
def api(bench: Bench) -> ManagementPeer:
    return bench.management()


def told(api: ManagementPeer, peer: Amqp091Peer) -> dict[str, Any]:
    found = api.connection(peer)
    assert found is not None
    return found


def test_a_connection_is_told_with_who_it_is(bench: Bench, api: ManagementPeer) -> None:
    assert api.connections() == [], "who asks is no connection of the broker's"
    peer = bench.amqp091_peer()
    assert api.connection(peer) is None, "it is not open yet"
    peer.close_socket()
    peer = bench.amqp091(channels=2)
    found = told(api, peer)
    assert found.keys() == FIELDS["connection"] | {"last_blocked_by", "last_blocked_age"}
    assert (found["user"], found["protocol"], found["channels"]) == ("brokerproof", "AMQP 0-9-1", 2)
    assert found["client_properties"]["capabilities"]["connection.blocked"] is True
    for end in ("", "/"):  # RabbitMQ, too, ignores one slash after a path, but not two
        assert api.get(f"connections/{found['name'].replace(' ', '%20')}{end}") == found
    assert api.get("connections/") == api.connections()
    assert api.ask("GET", "connections//").status == 404
    bench.stomp("1.1")
    got = sorted((connection["protocol"], connection["type"]) for connection in api.connections())
    assert got == [("AMQP 0-9-1", "network"), ("STOMP 1.1", "direct")]
    expected = {"protocol": "STOMP 1.1", "client_properties": {"product": "STOMP client"}}
    assert api.get("connections?columns=protocol,client_properties.product")[1] == expected
    peer.close_socket()
    bench.advance(seconds(1))
    assert [connection["protocol"] for connection in api.connections()] == ["STOMP 1.1"]


def test_states_walk_with_an_alarm(bench: Bench, api: ManagementPeer) -> None:
    publisher, other = bench.amqp091(), bench.amqp091()
    publisher.call("queue.declare", {"queue": "q"})
    stomp = bench.stomp()
    assert {connection["state"] for connection in api.connections()} == {"running"}
    assert told(api, publisher)["last_blocked_by"] == "none"
    assert told(api, publisher)["last_blocked_age"] == "infinity"
    assert api.get("health/checks/alarms") == {"status": "ok"}
    bench.raise_alarm("memory")
    publisher.publish(b"held", "q")
    stomp.send("SEND", {"destination": "/queue/q"}, b"taken")
    assert api.state_of(publisher, {"blocked"}) == ("blocked", True)
    assert told(api, other)["state"] == "blocking"
    assert told(api, publisher)["last_blocked_by"] == "resource"
    assert api.state_of(stomp, {"blocked"}) == ("blocked", True)
    node = api.node()
    assert (node["mem_alarm"], node["disk_free_alarm"], node["mem_limit"]) == (True, False, 0)
    answer = api.ask("GET", "health/checks/local-alarms")
    assert answer.status == 503
    assert answer.json()["alarms"] == [{"node": node["name"], "resource": "memory"}]
    bench.clear_alarm("memory")
    bench.advance(seconds(7))
    found = told(api, publisher)
    assert (found["state"], found["last_blocked_by"]) == ("running", "resource")
    assert 7 <= found["last_blocked_age"] < 8
    assert api.get("health/checks/alarms") == {"status": "ok"}


def test_a_node_tells_readings_and_limits(bench: Bench, api: ManagementPeer) -> None:
    assert api.node().keys() == FIELDS["node"] - {
        "mem_used",
        "mem_limit",
        "disk_free",
        "disk_free_limit",
    }, "nothing was read yet"
    bench.raise_alarm("disk")
    node = api.node(api.overview()["node"])
    assert node.keys() == FIELDS["node"]
    assert node["disk_free_limit"] == node["disk_free"] + 1
    assert node["disk_free_alarm"] is True
    assert api.get("nodes") == [node]


def test_a_queue_tells_what_waits_and_what_is_out(bench: Bench, api: ManagementPeer) -> None:
    peer = bench.amqp091()
    peer.call(
        "queue.declare", {"queue": "a b/c", "durable": True, "arguments": {"x-max-length": 9}}
    )
    for body in (b"one", b"three", b"seven!!"):
        peer.publish(body, "a b/c")
    peer.send("basic.get", {"queue": "a b/c", "no-ack": False}, channel=1)
    peer.settle()
    found = api.queue("a b/c")
    assert found.keys() == FIELDS["queue"]
    assert found["messages"] == 3
    assert found["messages_ready"] == 2
    assert found["messages_unacknowledged"] == 1
    sizes = (
        found["message_bytes"],
        found["message_bytes_ready"],
        found["message_bytes_unacknowledged"],
    )
    assert sizes == (15, 12, 3)
    assert found["durable"] is True
    assert found["arguments"] == {"x-max-length": 9}
    assert found["exclusive"] is False
    assert api.get("queues") == api.get("queues/%2F") == [found]
    overview = api.overview()
    expected = {"messages": 3, "messages_ready": 2, "messages_unacknowledged": 1}
    assert overview["queue_totals"] == expected
    assert overview["object_totals"] == {
        "connections": 1,
        "channels": 1,
        "consumers": 0,
        "exchanges": 7,
        "queues": 1,
    }


@pytest.mark.parametrize(
    ("method", "path", "status", "body"),
    [
        ("GET", "none", 404, {"error": "Object Not Found", "reason": "Not Found"}),
        ("POST", "none", 404, {"error": "Object Not Found", "reason": "Not Found"}),
        ("GET", "queues/%2F/none", 404, {"error": "Object Not Found", "reason": "Not Found"}),
        ("GET", "queues/none", 404, {"error": "Object Not Found", "reason": "Not Found"}),
        ("GET", "connections/none", 404, {"error": "Object Not Found", "reason": "Not Found"}),
        ("GET", "nodes/none", 404, {"error": "Object Not Found", "reason": "Not Found"}),
        (
            "GET",
            "whoami",
            200,
            {"name": "brokerproof", "tags": ["administrator"], "is_internal_user": True},
        ),
        ("GET", "cluster-name", 200, {"name": "rabbit@localhost"}),
        ("HEAD", "overview", 200, None),
        ("OPTIONS", "overview", 200, None),
        ("POST", "overview", 405, None),
        ("DELETE", "queues", 405, None),
    ],
)
def test_what_is_not_there_or_may_not_be_asked(
    api: ManagementPeer, method: str, path: str, status: int, body: object
) -> None:
    answer = api.ask(method, path)
    assert answer.status == status
    assert (answer.json() if answer.body else None) == body
    if method in ("POST", "DELETE", "OPTIONS") and status != 404:
        assert answer.headers["allow"] == "HEAD, GET, OPTIONS"
    assert api.ask("GET", "overview").status == 200, "the connection goes on"


def test_who_asks_has_to_say_who_he_is(api: ManagementPeer) -> None:
    right = api.credentials
    refused = {"error": "not_authorized", "reason": "Not_Authorized"}
    for credentials, status, body in (
        (None, 401, None),
        ("YTpi", 401, refused),
        ("%%%", 400, None),
        ("bm9jb2xvbg==", 400, None),
        (right, 200, None),
    ):
        api.credentials = credentials
        answer = api.ask("GET", "overview")
        assert answer.status == status
        assert ("www-authenticate" in answer.headers) is (status == 401)
        if body is not None:
            assert answer.json() == body
    assert api.ask("GET", "overview", headers=(("accept", "text/html"),)).status == 406
    assert api.ask("GET", "overview", headers=(("authorization", "Bearer x"),)).status == 400
    api.credentials = None
    with pytest.raises(ControlFailed, match="GET /api/overview was answered with HTTP 401"):
        api.overview()


class Raw:
    def __init__(self, bench: Bench) -> None:
        self.data, self.ended = b"", False
        self.bench, self.channel = bench, bench.world.open("management", self)

    def bytes_arrived(self, at: int, data: bytes) -> None:
        self.data += data

    def channel_closed(self, at: int, how: object) -> None:
        self.ended = True

    def say(self, data: bytes) -> bytes:
        self.channel.write(data)
        self.bench.advance(seconds(1))
        return self.data


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"\x16\x03\x01junk\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET /api/overview HTTP/1.1\r\n\r\n", b"HTTP/1.1 400"),
        (b"GET /" + b"x" * 70_000, b"HTTP/1.1 431"),
        (
            b"POST /api/overview HTTP/1.1\r\nhost: x\r\ncontent-length: 70000\r\n\r\n"
            + b"x" * 70_000,
            b"HTTP/1.1 413",
        ),
    ],
)
def test_what_is_no_request_is_refused_and_ends(bench: Bench, data: bytes, status: bytes) -> None:
    raw = Raw(bench)
    assert raw.say(data).startswith(status)
    assert raw.ended


def test_requests_may_come_together_and_in_pieces(bench: Bench, api: ManagementPeer) -> None:
    line = (
        b"GET /api/whoami HTTP/1.1\r\nhost: x\r\nauthorization: Basic "
        + (api.credentials or "").encode()
        + b"\r\n\r\n"
    )
    raw = Raw(bench)
    assert raw.say(line + line[:20]).count(b"HTTP/1.1 200") == 1
    assert raw.say(line[20:]).count(b"HTTP/1.1 200") == 2
    assert not raw.ended
    assert (
        raw.say(line.replace(b"host: x", b"host: x\r\nconnection: close")).count(b"HTTP/1.1 200")
        == 3
    )
    assert raw.ended


def test_who_says_nothing_is_parted_from_and_may_come_again(bench: Bench) -> None:
    silent, half = Raw(bench), Raw(bench)
    half.say(b"GET /api/over")
    bench.advance(seconds(3))
    assert not silent.ended
    bench.advance(seconds(1))
    assert silent.ended
    assert half.ended, "a request that does not come to its end is none"
    api = bench.management()
    node, conn = api.node(), api.conn
    api.expect_nothing(for_=seconds(59))
    api.expect_end(within=seconds(1))
    assert api.node()["name"] == node["name"]
    assert api.conn != conn


@pytest.mark.parametrize("target", [b"//[", b"http://[::1/api/overview"])
def test_a_target_that_is_no_url_is_a_bad_request(target: bytes) -> None:
    driver = Driver(
        Settings(acceptors=(Acceptor("http", protocols=("HTTP",)),), rabbitmq=RabbitMq())
    )
    conn = driver.open("http")
    driver.write(conn, b"GET %b HTTP/1.1\r\nHost: here\r\n\r\n" % target)
    assert driver.sent[conn].startswith(b"HTTP/1.1 400 ")
    assert conn in driver.closed
