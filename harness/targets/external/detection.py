"""Finds the protocols that a port speaks by trying them all."""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external import dialogue, greeting
from brokerproof.harness.targets.external.dialogue import Deadline
from brokerproof.harness.targets.external.greeting import Credentials, Greeting
from brokerproof.harness.targets.failure import SetUpFailed

_STOMP_HOSTS = ("localhost", "/")
"""Values of STOMP's host header: any value, or RabbitMQ's virtual host."""
_AMQP091_HOSTS = ("/", "localhost", "default", "")
"""Usual virtual hosts of AMQP 0-9-1 brokers, many of which require clients to name one."""
_UPGRADE = (
    b"GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: YnJva2VycHJvb2YtZGV0ZQ==\r\nSec-WebSocket-Version: 13\r\n"
    b"Sec-WebSocket-Protocol: v12.stomp\r\n\r\n"
)


@dataclass(frozen=True)
class Answers:
    """An endpoint's greetings, and for each protocol without a greeting the reason."""

    spoken: list[Greeting]
    problems: dict[str, SetUpFailed]


def ask(
    endpoint: Endpoint, protocols: Iterable[str], credentials: Credentials, deadline: Deadline
) -> Answers:
    """Greet an endpoint in all protocols concurrently, because a broker may not answer an unknown
    protocol before a time-out. If the broker refuses a virtual host, the other usual ones are
    tried."""
    names = list(protocols)
    with ThreadPoolExecutor(len(names) or 1) as pool:
        asked = [pool.submit(_greeted, endpoint, name, credentials, deadline) for name in names]
    answers = Answers([], {})
    for name, future in zip(names, asked, strict=True):
        try:
            answers.spoken.append(future.result())
        except SetUpFailed as problem:
            answers.problems[name] = problem
        except Exception as problem:  # our codec failed on the target's bytes
            answers.problems[name] = SetUpFailed(
                f"{endpoint.where} sent unreadable data: {type(problem).__name__}: {problem}"
            )
    return answers


def detect(endpoint: Endpoint, login: str | None, passcode: str | None) -> list[Greeting]:
    """Return a greeting for each protocol that the port speaks. Raises :class:`SetUpFailed` for a
    port that accepts no connection, and :class:`~dialogue.Refused` for one that admits nobody."""
    deadline = Deadline()
    dialogue.dial(endpoint, deadline).close()
    protocols = ("stomp", "amqp", "amqp091", "openwire")
    answers = ask(endpoint, protocols, Credentials(login, passcode), deadline)
    if answers.spoken:
        return answers.spoken
    for problem in answers.problems.values():
        if isinstance(problem, dialogue.Refused):
            raise problem
    return _of_http(endpoint)


def speaks(endpoint: Endpoint, protocol: str, login: str | None, passcode: str | None) -> bool:
    """Return True if the endpoint accepts a connection and answers in ``protocol``."""
    deadline = Deadline()
    try:
        dialogue.dial(endpoint, deadline).close()
    except SetUpFailed:
        return False
    if protocol == "core":
        return True  # the first answer of CORE depends on the version, so the run finds out
    return bool(ask(endpoint, [protocol], Credentials(login, passcode), deadline).spoken)


def url(endpoint: Endpoint, greeted: Greeting) -> str:
    schemes = {"stomp": ("stomp", "stomp+ssl"), "amqp": ("amqp", "amqps")}
    protocol = "amqp" if greeted.protocol == "amqp091" else greeted.protocol
    plain, secure = schemes.get(protocol, (protocol, protocol))
    path = "/ws" if protocol == "ws" else ""
    return f"{secure if endpoint.tls else plain}://{endpoint.where}{path}"


def _greeted(
    endpoint: Endpoint, protocol: str, credentials: Credentials, deadline: Deadline
) -> Greeting:
    match protocol:
        case "stomp":
            return _admitted(
                lambda host: greeting.stomp(
                    endpoint, replace(credentials, stomp_host=host), deadline
                ),
                (credentials.stomp_host, *_STOMP_HOSTS),
            )
        case "amqp091":
            return _admitted(
                lambda host: greeting.amqp091(
                    endpoint, replace(credentials, amqp091_host=host), deadline
                ),
                (credentials.amqp091_host, *_AMQP091_HOSTS),
            )
        case "amqp":
            return greeting.amqp(endpoint, credentials, deadline)
        case _:
            return _of_openwire(endpoint, deadline)


def _admitted(greet: Callable[[str], Greeting], hosts: Iterable[str]) -> Greeting:
    """Return the greeting of the first virtual host that admits us, or raise the answers."""
    refusals: dict[str, str] = {}
    for host in dict.fromkeys(hosts):
        try:
            return greet(host)
        except dialogue.Refused as refused:
            refusals.setdefault(str(refused), host)
    if len(refusals) == 1:
        raise dialogue.Refused(*refusals)
    raise dialogue.Refused(
        "; ".join(f"with virtual host {host!r}: {refusal}" for refusal, host in refusals.items())
    )


def _of_openwire(endpoint: Endpoint, deadline: Deadline) -> Greeting:
    """Return ActiveMQ's greeting, which it sends first: a WireFormatInfo with a magic word."""
    with dialogue.dial(endpoint, deadline) as connection:
        connection.settimeout(min(1, deadline.left_s))
        try:
            first = connection.recv(4096)
        except OSError:
            first = b""
    if b"ActiveMQ" not in first[:32]:
        raise dialogue.NotSpoken(f"{endpoint.where} does not speak OpenWire")
    return Greeting("openwire", "ActiveMQ")


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
