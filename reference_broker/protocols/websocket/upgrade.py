"""The opening handshake, from the server's side: one HTTP request in, one response out
(RFC6455-HS-01 to -07). h11 parses the request and rejects anything but HTTP; this module checks the
requirements for a WebSocket.

Any resource name and any origin are accepted: login and passcode in CONNECT decide who may connect.
The first of the client's sub-protocols that we support is chosen. If we support none, the
connection is opened without a sub-protocol, as in Artemis. CONNECT alone decides the STOMP version.
"""

import base64
import binascii
from dataclasses import dataclass
from http import HTTPStatus

import h11
from wsproto.utilities import generate_accept_token

SUB_PROTOCOLS = (b"v12.stomp", b"v11.stomp", b"v10.stomp")
VERSION = b"13"
HEAD_MOST = 16 * 1024
"""The largest head of a request in bytes."""
METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"DELETE ", b"OPTIONS ", b"PATCH ", b"TRACE ")
"""The first words of HTTP requests. No STOMP frame begins with them; CONNECT is left out."""

_KEY_BYTES = 16


@dataclass(frozen=True, slots=True)
class Answer:
    """The response to a request. If ``accepted``, WebSocket frames follow; ``rest`` contains those
    bytes that have already arrived."""

    data: bytes
    accepted: bool
    rest: bytes = b""
    requirement: str = ""
    reason: str = ""
    """Why the request was refused, and by which requirement."""


class _Refused(Exception):
    def __init__(
        self, status: HTTPStatus, reason: str, *headers: tuple[str, str], requirement: str
    ) -> None:
        super().__init__(reason)
        self.status, self.headers, self.requirement = status, headers, requirement


class Upgrade:
    def __init__(self) -> None:
        self._http = h11.Connection(h11.SERVER, max_incomplete_event_size=HEAD_MOST)

    def feed(self, data: bytes) -> Answer | None:
        """Append bytes of the request; return the response once it is complete."""
        try:
            self._http.receive_data(data)
            request = self._http.next_event()
            if request is h11.NEED_DATA:
                return None
            if not isinstance(request, h11.Request):
                raise _bad("the bytes are not an HTTP request")
            headers = _Headers(request)
            self._check(request, headers)
            if not isinstance(self._http.next_event(), h11.EndOfMessage):
                raise _bad("a request that opens a WebSocket must have no body")
            return self._accept(headers)
        except h11.RemoteProtocolError as problem:
            return self._refuse(_bad(str(problem), HTTPStatus(problem.error_status_hint)))
        except _Refused as problem:
            return self._refuse(problem)

    def late(self, reason: str) -> Answer:
        """Return the response to send when no complete request arrives in time."""
        return self._refuse(_bad(reason, HTTPStatus.REQUEST_TIMEOUT))

    def _check(self, request: h11.Request, headers: "_Headers") -> None:
        if request.method != b"GET":
            raise _bad(
                "only GET can open a WebSocket", HTTPStatus.METHOD_NOT_ALLOWED, ("Allow", "GET")
            )
        if request.http_version < b"1.1":
            raise _bad("HTTP/1.1 or higher is needed")
        upgrade = ("Upgrade", "websocket"), ("Sec-WebSocket-Version", VERSION.decode())
        if b"websocket" not in headers.tokens(b"upgrade"):
            raise _bad(
                "this is not a web server: it supports only WebSocket",
                HTTPStatus.UPGRADE_REQUIRED,
                *upgrade,
            )
        if b"upgrade" not in headers.tokens(b"connection"):
            raise _bad("the header Connection does not name Upgrade")
        versions = headers.tokens(b"sec-websocket-version")
        if versions != [VERSION]:
            reason = "the header Sec-WebSocket-Version must be 13"
            raise _Refused(
                HTTPStatus.UPGRADE_REQUIRED, reason, *upgrade, requirement="RFC6455-HS-02"
            )
        keys = headers.values(b"sec-websocket-key")
        if len(keys) != 1 or not _is_key(keys[0]):
            raise _bad("there must be one Sec-WebSocket-Key, the base64 form of 16 bytes")

    def _accept(self, headers: "_Headers") -> Answer:
        (key,) = headers.values(b"sec-websocket-key")
        fields = [
            ("Upgrade", "websocket"),
            ("Connection", "Upgrade"),
            ("Sec-WebSocket-Accept", generate_accept_token(key).decode()),
        ]
        offers = headers.listed(b"sec-websocket-protocol")
        # Compared as bytes: a peer's offer may not be UTF-8.
        known = (name for name in offers if name in SUB_PROTOCOLS)
        if (chosen := next(known, None)) is not None:
            fields.append(("Sec-WebSocket-Protocol", chosen.decode()))
        data = self._http.send(
            h11.InformationalResponse(
                status_code=101, headers=fields, reason=b"Switching Protocols"
            )
        )
        assert data is not None
        return Answer(data, True, self._http.trailing_data[0])

    def _refuse(self, problem: _Refused) -> Answer:
        reason = str(problem)
        body = f"{problem.status} {problem.status.phrase}: {reason}\n".encode(
            "ascii", "backslashreplace"
        )
        fields = [
            *problem.headers,
            ("Content-Type", "text/plain"),
            ("Content-Length", str(len(body))),
            ("Connection", "close"),
        ]
        head = [
            f"HTTP/1.1 {problem.status} {problem.status.phrase}",
            *(f"{name}: {value}" for name, value in fields),
        ]
        data = "\r\n".join([*head, "", ""]).encode() + body
        return Answer(data, False, requirement=problem.requirement, reason=reason)


def _bad(
    reason: str, status: HTTPStatus = HTTPStatus.BAD_REQUEST, *headers: tuple[str, str]
) -> _Refused:
    return _Refused(status, reason, *headers, requirement="RFC6455-HS-01")


class _Headers:
    """The header fields of a request, by lower-case name."""

    def __init__(self, request: h11.Request) -> None:
        self._fields = list(request.headers)

    def values(self, name: bytes) -> list[bytes]:
        return [value for field, value in self._fields if field == name]

    def listed(self, name: bytes) -> list[bytes]:
        """Return the elements of a comma-separated list in one or more fields."""
        return [part.strip() for value in self.values(name) for part in value.split(b",")]

    def tokens(self, name: bytes) -> list[bytes]:
        """Return the elements in lower case, for a comparison that ignores case."""
        return [token.lower() for token in self.listed(name)]


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
