"""A client for RabbitMQ's management API. Its link belongs to the case's own world, so the client
works in virtual and in real time, and the trace contains the requests and responses. h11 reads and
writes HTTP. A real RabbitMQ refreshes most statistics only every five seconds, so
:meth:`ManagementPeer.until` waits."""

import base64
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import h11

from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import Duration, Instant, ms, seconds
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Conversation,
    Judge,
    Match,
)
from brokerproof.harness.trace.events import RECORDED_BYTES, FrameReceived, FrameSent, OctetsRefused

MANAGEMENT_API = "management-api"
"""The capability of a target that has this API."""
REFRESH: Duration = seconds(5)
"""The greatest age of the API's statistics (``collect_statistics_interval``)."""
PAUSE: Duration = ms(250)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A response; header names are in lower case."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        """The decoded body. Raises :class:`ControlFailed` for a body that is not JSON."""
        try:
            return json.loads(self.body)
        except ValueError:
            raise ControlFailed(
                f"the management API should answer in JSON; it sent {self.body[:200]!r}"
            ) from None


class ManagementPeer(Conversation[Answer]):
    """A connection to the API, kept open between requests. The broker may close an idle connection;
    the next request then opens another with ``connect``."""

    protocol = "HTTP"

    def __init__(
        self,
        judge: Judge,
        acceptor: str,
        login: str,
        passcode: str,
        connect: "Callable[[ManagementPeer], None]",
    ) -> None:
        super().__init__(judge, 0, acceptor)
        self.credentials: str | None = base64.b64encode(f"{login}:{passcode}".encode()).decode(
            "ascii"
        )
        """The credentials that follow ``Basic`` in requests; with None, the header is omitted."""
        self._http = h11.Connection(h11.CLIENT)
        self._got: h11.Response | None = None
        self._body = b""
        self._connect = connect
        connect(self)

    # Conversation

    def decode(self, at: Instant, data: bytes) -> None:
        try:
            self._http.receive_data(data)
            self._read(at)
        except h11.RemoteProtocolError as problem:
            self.judge.record(
                OctetsRefused(
                    at_ns=at,
                    conn=self.conn,
                    data=data[:RECORDED_BYTES],
                    detail=f"is not HTTP: {problem}",
                )
            )

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self.decode(at, b"")  # the end of the connection may be the end of the answer
        super().channel_closed(at, how)

    def _read(self, at: Instant) -> None:
        while True:
            event = self._http.next_event()
            if isinstance(event, h11.Response):
                self._got, self._body = event, b""
            elif isinstance(event, h11.Data):
                self._body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and self._got is not None:
                headers = {
                    name.decode(): value.decode("latin-1") for name, value in self._got.headers
                }
                answer = Answer(self._got.status_code, headers, self._body)
                self.judge.record(
                    FrameReceived(
                        at_ns=at,
                        conn=self.conn,
                        protocol=self.protocol,
                        command=str(answer.status),
                        headers=tuple(headers.items()),
                        body=answer.body[:RECORDED_BYTES],
                        body_size=len(answer.body),
                    )
                )
                self.inbox.append(answer)
                if self._http.states[h11.SERVER] is h11.DONE and self._http.our_state is h11.DONE:
                    self._http.start_next_cycle()
            else:
                return

    def fatal(self, frame: Answer) -> bool:
        return False

    def words(self, frame: Answer) -> str:
        return f"HTTP {frame.status} {frame.body[:80]!r}"

    # asking

    def ask(self, method: str, path: str, *, headers: tuple[tuple[str, str], ...] = ()) -> Answer:
        """Request ``METHOD /api/PATH``; return any status. If the connection ends before a
        response, retry once; requests have no side effects. Raises :class:`ControlFailed` if no
        response arrives."""
        if self.ended is None:
            self._ask(method, f"/api/{path}", headers)
            if (
                answer := self.watch_for(_ANSWER, within=PATIENCE)
            ) is not None or self.ended is None:
                return answer or self.expect(_ANSWER, within=0)
        self._http, self._got, self.ended = h11.Connection(h11.CLIENT), None, None
        self._connect(self)
        self._ask(method, f"/api/{path}", headers)
        return self.expect(_ANSWER, within=PATIENCE)

    def _ask(self, method: str, target: str, headers: tuple[tuple[str, str], ...]) -> None:
        known = {"host": self.channel.remote, "accept": "application/json"}
        if self.credentials is not None:
            known["authorization"] = f"Basic {self.credentials}"
        listed = tuple((known | dict(headers)).items())
        request = self._http.send(h11.Request(method=method, target=target, headers=list(listed)))
        data = (request or b"") + (self._http.send(h11.EndOfMessage()) or b"")
        shown = tuple((name, "…" if name == "authorization" else value) for name, value in listed)
        self.judge.record(
            FrameSent(
                at_ns=self.world.now(),
                conn=self.conn,
                protocol=self.protocol,
                command=f"{method} {target}",
                headers=shown,
                size=len(data),
            )
        )
        self.write(data, as_event=False)

    def get(self, path: str) -> Any:
        """Return the body of ``/api/PATH``. Raises :class:`ControlFailed` for any status but
        200."""
        answer = self.ask("GET", path)
        if answer.status != 200:
            raise ControlFailed(
                f"GET /api/{path} was answered with {self.words(answer)}; expected 200"
            )
        return answer.json()

    def overview(self) -> dict[str, Any]:
        answer: dict[str, Any] = self.get("overview")
        return answer

    def node(self, name: str | None = None) -> dict[str, Any]:
        """The figures of the named node (None: the queried one): mem_used, mem_limit, mem_alarm,
        disk_free, …"""
        answer: dict[str, Any] = self.get(
            f"nodes/{quote(name or str(self.overview()['node']), safe='')}"
        )
        return answer

    def queue(self, name: str, vhost: str = "/") -> dict[str, Any]:
        """The figures of a queue: messages, messages_ready, messages_unacknowledged, message_bytes,
        …"""
        answer: dict[str, Any] = self.get(f"queues/{quote(vhost, safe='')}/{quote(name, safe='')}")
        return answer

    def connections(self) -> list[dict[str, Any]]:
        answer: list[dict[str, Any]] = self.get("connections")
        return answer

    def connection(self, peer: Conversation[Any]) -> dict[str, Any] | None:
        """Return the connection of ``peer``, identified by address and port; None if the API does
        not list it yet."""
        host, _, port = peer.channel.local.rpartition(":")
        for connection in self.connections():
            if (connection.get("peer_host"), connection.get("peer_port")) == (host, int(port)):
                return connection
        return None

    def until(
        self, ask: Callable[[], T], reached: Callable[[T], bool], within: Duration = 3 * REFRESH
    ) -> tuple[T, bool]:
        """Query until a response satisfies the condition; return it or, after ``within``, the last
        one."""
        deadline = self.world.now() + within
        while not reached(answer := ask()):
            if self.world.now() >= deadline:
                return answer, False
            self.world.wait_until(
                lambda: self.ended is not None, min(deadline, self.world.now() + PAUSE)
            )
        return answer, True

    def state_of(
        self,
        peer: Conversation[Any],
        states: frozenset[str] | set[str],
        within: Duration = 3 * REFRESH,
    ) -> tuple[str | None, bool]:
        """Wait until the reported state of ``peer``'s connection is one of ``states``; return
        it."""

        def state() -> str | None:
            connection = self.connection(peer)
            return None if connection is None else connection.get("state")

        return self.until(state, lambda answer: answer in states, within)


_ANSWER: Match[Answer] = Match("an HTTP answer", lambda answer: True)
