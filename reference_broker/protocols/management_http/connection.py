"""One HTTP connection to the management API: h11 reads the requests and writes the responses, in
order.

A request is checked in the order of RabbitMQ's server: path (404), method (405), login (401),
accepted content types (406), existence of the object (404). Anything but HTTP and a malformed
Authorization header are answered with 400.
"""

import base64
import json
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

import h11

from brokerproof.harness.model.time import Instant, seconds
from brokerproof.reference_broker.families.rabbitmq.resources import Resources
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.kernel.context import BrokerContext
from brokerproof.reference_broker.kernel.passwords import admitted
from brokerproof.reference_broker.protocols.management_http.node import Node
from brokerproof.reference_broker.protocols.management_http.resources import (
    RESOURCES,
    Missing,
    Place,
)
from brokerproof.reference_broker.settings.acceptor import Acceptor

FIRST, PATIENCE = seconds(5), seconds(60)
"""How long a client may send nothing before the first request is complete, and afterwards, as in
RabbitMQ's server."""
MOST = 64 * 1024
"""The largest head and the largest body of a request, in bytes."""
ALLOWED = "HEAD, GET, OPTIONS"
_NOT_FOUND = {"error": "Object Not Found", "reason": "Not Found"}
_NO_ENTRY = {"error": "not_authorized", "reason": "Not_Authorized"}
_REALM = ("www-authenticate", 'Basic realm="RabbitMQ Management"')
_JSON = ("content-type", "application/json")
_TYPES = ("application/json", "application/*", "*/*")


class ManagementConnection:
    def __init__(
        self,
        conn: int,
        acceptor: Acceptor,
        shared: BrokerContext,
        now: Instant,
        topology: Topology,
        resources: Resources,
    ) -> None:
        self._conn, self._shared = conn, shared
        self._node = Node(shared, topology, resources)
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=MOST)
        self._open = True
        self._asked: h11.Request | None = None
        self._body = 0
        self._idle = shared.deadlines.call_at(now + FIRST, lambda now: self._end(), conn)

    @property
    def is_open(self) -> bool:
        """True if input for this connection is still read."""
        return self._open

    def receive(self, now: Instant, data: bytes) -> None:
        if self._asked is not None:
            self._idle.move(now + PATIENCE)
        self._http.receive_data(data)
        while self._open:
            try:
                event = self._http.next_event()
            except h11.RemoteProtocolError as problem:
                self._answer(problem.error_status_hint or 400)
                self._end()
                return
            if isinstance(event, h11.Request):
                self._asked, self._body = event, 0
                self._idle.move(now + PATIENCE)
            elif isinstance(event, h11.Data):
                self._body += len(event.data)
                if self._body > MOST:
                    self._answer(413)
                    self._end()
            elif isinstance(event, h11.EndOfMessage) and self._asked is not None:
                self._serve(self._asked)
            else:
                if isinstance(event, h11.ConnectionClosed):
                    self._end()
                return

    def pause_delivery(self, paused: bool) -> None:
        """Do nothing, because responses are small."""

    def on_peer_gone(self) -> None:
        """Forget the client, which is gone."""
        self._open = False
        self._idle.cancel()

    def on_store_failed(self, reason: str) -> None:
        """Do nothing, because no request is stored."""

    def _end(self) -> None:
        if self._open:
            self.on_peer_gone()
            self._shared.outbox.close(self._conn)

    # --- answering --------------------------------------------------------------------------------

    def _serve(self, asked: h11.Request) -> None:
        try:
            target = urlsplit(asked.target.decode("latin-1"))
        except ValueError:  # such as an address with an unclosed bracket
            self._answer(400)
            self._end()
            return
        words = [unquote(word) for word in target.path.removesuffix("/").split("/")[1:]]
        known = words[:1] == ["api"] and RESOURCES.find(words[1:])
        headers = {name.decode(): value.decode("latin-1") for name, value in asked.headers}
        method = asked.method.decode()
        if not known:
            self._answer(404, _NOT_FOUND)
        elif method == "OPTIONS":
            self._answer(200, allow=True)
        elif method not in ("GET", "HEAD"):
            self._answer(405, allow=True)
        else:
            self._look(known, headers, parse_qs(target.query))
        if self._http.our_state is h11.MUST_CLOSE:
            self._end()
        elif self._open:
            self._http.start_next_cycle()

    def _look(self, known: Place, headers: dict[str, str], query: dict[str, list[str]]) -> None:
        who = _credentials(headers.get("authorization"))
        accepted = [
            part.partition(";")[0].strip().lower()
            for part in headers.get("accept", "*/*").split(",")
        ]
        settings = self._shared.settings
        if who is None:
            self._answer(401, extra=(_REALM,))
        elif who == ("", b""):
            self._answer(400)
        elif settings.security_enabled and not admitted(settings.users, *who):
            self._answer(401, _NO_ENTRY, extra=(_REALM,))
        elif not set(accepted) & set(_TYPES):
            self._answer(406)
        else:
            try:
                entry = known.look(self._node, who[0])
            except Missing:
                self._answer(404, _NOT_FOUND)
                return
            columns = [part for some in query.get("columns", ()) for part in some.split(",")]
            status = 503 if isinstance(entry, dict) and entry.get("status") == "failed" else 200
            self._answer(
                status,
                _only(entry, columns) if columns else entry,
                extra=(("cache-control", "no-cache"),),
            )

    def _answer(
        self,
        status: int,
        body: Any = None,
        *,
        allow: bool = False,
        extra: tuple[tuple[str, str], ...] = (),
    ) -> None:
        data = b"" if body is None else json.dumps(body, separators=(",", ":")).encode()
        headers = [("content-length", str(len(data))), *((_JSON,) if data else ()), *extra]
        if allow:
            headers.append(("allow", ALLOWED))
        if self._http.our_state in (h11.IDLE, h11.SEND_RESPONSE):
            self._say(
                h11.Response(status_code=status, headers=headers, reason=_REASONS.get(status, ""))
            )
            if data and (self._asked is None or self._asked.method != b"HEAD"):
                self._say(h11.Data(data=data))
            self._say(h11.EndOfMessage())

    def _say(self, event: h11.Event) -> None:
        if data := self._http.send(event):
            self._shared.outbox.send(self._conn, data)


_REASONS = {
    200: "OK",
    400: "Bad Request",
    401: "Unauthorized",
    404: "Not Found",
    405: "Method Not Allowed",
    406: "Not Acceptable",
    413: "Request Entity Too Large",
    503: "Service Unavailable",
}


def _credentials(header: str | None) -> tuple[str, bytes] | None:
    """Return name and password; None if there are none; ("", b"") for a scheme other than basic."""
    if header is None:
        return None
    scheme, _, given = header.partition(" ")
    try:
        text = base64.b64decode(given.strip(), validate=True) if scheme.lower() == "basic" else b""
    except ValueError:
        text = b""
    name, colon, password = text.partition(b":")
    return (name.decode("utf-8", "replace"), password) if colon else ("", b"")


def _only(entries: Any, columns: list[str]) -> Any:
    """Return the fields with these names in one object, or in each of a list; ``a.b`` is b in a."""
    if isinstance(entries, list):
        return [_only(entry, columns) for entry in entries]
    left: dict[str, Any] = {}
    for column in columns:
        name, _, rest = column.partition(".")
        if isinstance(entries, dict) and name in entries:
            left[name] = (
                _only(entries[name], [rest]) | left.get(name, {}) if rest else entries[name]
            )
    return left
