"""A short conversation with an endpoint that may answer in another protocol."""

import contextlib
import socket
import ssl
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Self, TypeVar

from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.worlds.tls import TlsFailed

PROBE_TIMEOUT_S = 4.5
"""Seconds that all questions to a target may take before it is judged."""
_MOST_BYTES = 64 * 1024
"""The most bytes that all answers together may have."""

T = TypeVar("T")


class NotSpoken(SetUpFailed):
    """The endpoint speaks another protocol."""


class Refused(SetUpFailed):
    """The endpoint speaks the protocol but refuses this login."""


class Deadline:
    """The end of the time within which a target must answer."""

    def __init__(self, seconds: float | None = None) -> None:
        self._seconds = PROBE_TIMEOUT_S if seconds is None else seconds
        self._at = time.monotonic() + self._seconds

    @property
    def left_s(self) -> float:
        """Return the seconds left; never 0, because a socket would then not wait at all."""
        return max(0.01, self._at - time.monotonic())

    def __str__(self) -> str:
        return f"{self._seconds:g} s"

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self._at


def dial(endpoint: Endpoint, deadline: Deadline | None = None) -> socket.socket:
    """Return a connection, with TLS if the endpoint uses it. Raises :class:`SetUpFailed`."""
    address, where = (endpoint.host, endpoint.port), endpoint.where
    deadline = deadline or Deadline()
    try:
        connection = socket.create_connection(address, timeout=deadline.left_s)
    except OSError as problem:
        raise SetUpFailed(
            f"{where} does not accept connections ({problem}); is the broker running?"
        ) from None
    if endpoint.tls is None:
        return connection
    connection.settimeout(deadline.left_s)
    try:
        return endpoint.tls.context().wrap_socket(connection, server_hostname=endpoint.host)
    except ssl.SSLCertVerificationError as problem:
        reason = (
            f"its certificate is not trusted ({problem.verify_message}); name its authority by"
            " ca=FILE"
        )
        raise SetUpFailed(
            f"{where}: {reason}, or accept any certificate with insecure=true"
        ) from None
    except (OSError, TlsFailed) as problem:
        raise SetUpFailed(
            f"{where}: the TLS handshake failed ({problem}); does this port speak TLS?"
        ) from None


class Dialogue:
    """One connection that asks ``question`` in ``protocol``."""

    def __init__(
        self, endpoint: Endpoint, question: str, protocol: str, deadline: Deadline | None = None
    ) -> None:
        self._where = endpoint.where
        self._question = question
        self._protocol = protocol
        self._deadline = deadline or Deadline()
        self._socket = dial(endpoint, self._deadline)
        self._received = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def write(self, data: bytes) -> None:
        """Write data. A closed connection is noticed only on reading."""
        with contextlib.suppress(OSError):
            self._socket.sendall(data)

    def items(self, feed: Callable[[bytes], Iterable[T]]) -> Iterator[T]:
        """Yield the replies that ``feed`` makes of the bytes. Ends only with an exception."""
        asks = f"is it {'an' if self._protocol[0] == 'A' else 'a'} {self._protocol} port?"
        while True:
            self._socket.settimeout(self._deadline.left_s)
            try:
                data = self._socket.recv(4096)
            except TimeoutError:
                problem = f"did not answer {self._question} within {self._deadline}"
                if not self._received:
                    raise SetUpFailed(f"{self._where} {problem}; {asks}") from None
                if self._in_another_protocol():
                    break
                raise self._endless(asks) from None
            except OSError as reason:
                problem = f"ended the connection without an answer to {self._question} ({reason})"
                break
            if not data:
                problem = f"closed the connection without an answer to {self._question}"
                break
            self._received += data
            if self._deadline.is_over or len(self._received) > _MOST_BYTES:
                raise self._endless(asks)
            yield from feed(data)
        raise NotSpoken(self.other() if self._received else f"{self._where} {problem}; {asks}")

    def _endless(self, asks: str) -> SetUpFailed:
        return SetUpFailed(
            f"{self._where} sent {len(self._received):,} bytes without a complete answer"
            f" to {self._question}, {self._received[:40]!r} first; {asks}"
        )

    def _in_another_protocol(self) -> str:
        for begins, (protocol, advice) in _OTHERS.items():
            if self._received.startswith(begins):
                return f"{self._where} speaks {protocol}, not {self._protocol}; {advice}"
        return ""

    @property
    def is_silent(self) -> bool:
        """True if nothing has been received."""
        return not self._received

    def other(self) -> str:
        """Return a sentence, with advice, about an answer in another protocol."""
        return self._in_another_protocol() or (
            f"{self._where} does not speak {self._protocol}: to {self._question} it answered"
            f" {self._received[:60]!r}"
        )


_OTHERS: Mapping[bytes, tuple[str, str]] = {
    b"AMQP": ("AMQP", "write amqp://HOST:PORT"),
    b"\x15\x03": ("TLS", "write stomp+ssl://HOST:PORT or amqps://HOST:PORT"),
    b"HTTP/": ("HTTP", "name the port of a broker's STOMP or AMQP"),
    b"ERROR": ("STOMP", "write stomp://HOST:PORT"),
    b"\x00\x00\x01": ("OpenWire", "write openwire://HOST:PORT"),
}
"""Other protocols that may answer, by the beginning of their answers: name and advice."""
