"""Queues that must exist before a link attaches: requests to the management API and its answers."""

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.rabbitmq.management import Management
from brokerproof.harness.targets.rabbitmq.target import RabbitmqTarget


class _Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    asked: list[tuple[str, str, dict[str, object]]]
    status: int
    hang_up = False

    def do_PUT(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.asked.append((self.path, self.headers["Authorization"], json.loads(body)))
        said = b'{"reason":"no"}' if self.status >= 400 else b""
        self.send_response(self.status)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)
        self.close_connection |= self.hang_up

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def api() -> Iterator[tuple[type[_Api], int]]:
    handler = type("Handler", (_Api,), {"asked": [], "status": 201})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield handler, server.server_port
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_queue_is_declared_in_the_virtual_host_under_its_own_name(
    api: tuple[type[_Api], int],
) -> None:
    handler, port = api
    management = Management("127.0.0.1", port, "me", "secret")
    management.declare_queue("a/b c")
    handler.status = 204
    management.declare_queue("a/b c", "quorum")
    management.close()
    where = ("/api/queues/%2F/a%2Fb%20c", "Basic bWU6c2VjcmV0")
    assert handler.asked == [
        (*where, {"durable": True, "arguments": {"x-queue-type": kind}})
        for kind in ("classic", "quorum")
    ]


def test_a_connection_that_the_node_ended_meanwhile_is_opened_again(
    api: tuple[type[_Api], int],
) -> None:
    handler, port = api
    handler.hang_up = True
    management = Management("127.0.0.1", port, "me", "secret")
    for name in ("a", "b", "c"):
        management.declare_queue(name)
    management.close()
    assert [path[-1] for path, _, _ in handler.asked] == ["a", "b", "c"]


def test_a_forked_process_asks_over_a_connection_of_its_own(api: tuple[type[_Api], int]) -> None:
    handler, port = api
    management = Management("127.0.0.1", port, "me", "secret")
    management.declare_queue("a")
    forked = management.in_fork()
    forked.declare_queue("b")
    assert management._connection.sock is not None
    assert forked._connection.sock is not None
    assert forked._connection.sock.getsockname() != management._connection.sock.getsockname()
    forked.close()
    management.declare_queue("c")
    management.close()
    assert [path[-1] for path, _, _ in handler.asked] == ["a", "b", "c"]


def test_a_refusal_and_silence_are_one_sentence(api: tuple[type[_Api], int]) -> None:
    handler, port = api
    handler.status = 401
    management = Management("127.0.0.1", port, "me", "wrong")
    with pytest.raises(
        SetUpFailed,
        match=r"PUT .*/api/queues/%2F/q: was answered with 401 .*no.*instead of 201 or 204",
    ):
        management.declare_queue("q")
    management.close()
    with pytest.raises(SetUpFailed, match="the management API did not answer"):
        Management("127.0.0.1", 1, "me", "secret").declare_queue("q")


def test_the_shipped_targets_name_queues_as_their_release_does() -> None:
    new, old = target_file.load("rabbitmq"), target_file.load("rabbitmq3")
    assert isinstance(new, RabbitmqTarget)
    assert isinstance(old, RabbitmqTarget)
    assert new.identity.profile.parameters["anycast_node"] == "/queues/{name}"
    assert old.identity.profile.parameters["anycast_node"] == "/queue/{name}"
    # The broker creates the queue when a link attaches: no request is needed.
    old.provide("nothing", RoutingType.ANYCAST)
