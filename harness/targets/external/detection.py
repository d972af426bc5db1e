"""Find the protocols that a port speaks by asking in each."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external import dialogue, greeting
from brokerproof.harness.targets.external.greeting import Credentials, Greeting
from brokerproof.harness.targets.failure import SetUpFailed

_HOSTS = ("localhost", "/")
"""Values of STOMP's header host: any, or RabbitMQ's virtual host."""
_UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: YnJva2VycHJvb2YtZGV0ZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
)


def detect(endpoint: Endpoint, login: str | None, passcode: str | None) -> list[Greeting]:
    """Return a greeting for each protocol that the port speaks. Raises :class:`SetUpFailed` for a
    port that accepts no connection, and :class:`~dialogue.Refused` for one that admits nobody."""
    dialogue.dial(endpoint).close()
    # At the same time: a broker may leave what it does not know unanswered until its time is up.
    with ThreadPoolExecutor() as pool:
        asked = [
            pool.submit(_greeted, endpoint, protocol, login, passcode)
            for protocol in ("stomp", "amqp", "amqp091", "openwire")
        ]
    refusals = [problem for future in asked if (problem := future.exception()) is not None]
    spoken = [
        greeted for future in asked if not future.exception() and (greeted := future.result())
    ]
    if refusals and not spoken:
        raise refusals[0]
    return spoken or _of_http(endpoint)


def speaks(endpoint: Endpoint, protocol: str, login: str | None, passcode: str | None) -> bool:
    """True if a connection is accepted and answers in ``protocol``."""
    try:
        dialogue.dial(endpoint).close()
    except SetUpFailed:
        return False
    if protocol == "core":
        return True  # CORE's first answer needs its own version: the run finds out
    try:
        return _greeted(endpoint, protocol, login, passcode) is not None
    except dialogue.Refused:
        return False


def url(endpoint: Endpoint, greeted: Greeting) -> str:
    """Return the URL of an endpoint that speaks a protocol."""
    schemes = {"stomp": ("stomp", "stomp+ssl"), "amqp": ("amqp", "amqps")}
    protocol = "amqp" if greeted.protocol == "amqp091" else greeted.protocol
    plain, secure = schemes.get(protocol, (protocol, protocol))
    path = "/ws" if protocol == "ws" else ""
    return f"{secure if endpoint.tls else plain}://{endpoint.where}{path}"


def _greeted(
    endpoint: Endpoint, protocol: str, login: str | None, passcode: str | None
) -> Greeting | None:
    if protocol == "openwire":
        return _of_openwire(endpoint)
    greet = {"stomp": greeting.stomp, "amqp": greeting.amqp, "amqp091": greeting.amqp091}[protocol]
    credentials = Credentials(login, passcode)
    refusal = None
    for host in _HOSTS if protocol == "stomp" else _HOSTS[:1]:
        try:
            return greet(endpoint, replace(credentials, stomp_host=host))
        except dialogue.Refused as refused:
            refusal = refused  # for another virtual host, or for good
        except SetUpFailed:
            return None
    if refusal is not None:
        raise refusal
    return None


def _of_openwire(endpoint: Endpoint) -> Greeting | None:
    """ActiveMQ greets first, with a WireFormatInfo that begins with a magic word."""
    with dialogue.dial(endpoint) as connection:
        connection.settimeout(1)
        try:
            first = connection.recv(4096)
        except OSError:
            return None
    return Greeting("openwire", "ActiveMQ") if b"ActiveMQ" in first[:32] else None


def _of_http(endpoint: Endpoint) -> list[Greeting]:
    with dialogue.dial(endpoint) as connection:
        connection.settimeout(3)
        try:
            connection.sendall(_UPGRADE)
            first = connection.recv(4096)
        except OSError:
            return []
    if first.startswith(b"HTTP/1.1 101"):
        return [Greeting("ws")]
    return [Greeting("http")] if first.startswith(b"HTTP/") else []
