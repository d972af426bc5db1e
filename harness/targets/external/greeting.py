"""Greets a broker in each protocol to learn whether the broker speaks it, and the broker's name and
release. Over STOMP, these are in the ``server`` header of CONNECTED; over AMQP 1.0, in the
properties of the broker's open; over AMQP 0-9-1, in the server-properties of connection.start."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from brokerproof.harness.protocols.amqp091 import codec as amqp091_codec
from brokerproof.harness.protocols.amqp10 import codec as amqp_codec
from brokerproof.harness.protocols.amqp10 import types
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external.dialogue import Deadline, Dialogue, NotSpoken, Refused
from brokerproof.harness.targets.failure import SetUpFailed

FAMILIES = {"artemis": "Artemis", "rabbitmq": "RabbitMQ", "activemq": "ActiveMQ"}
"""Shipped targets and family names, by a part of the broker's own name; the first match is used."""
OLDER = {"rabbitmq": ("rabbitmq3", 4)}
"""Built-in targets for releases before a certain major release, by family."""
_MOST_OF_ANSWER = 200
"""The most characters of an answer that a sentence may quote."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """A broker that speaks ``protocol``; ``broker`` and ``version`` are empty if it names none.

    ``host`` is the virtual host that admitted us; ``announced`` has the broker's extensions, from
    the capabilities of its open (AMQP 1.0) or the server-properties (AMQP 0-9-1). ``sasl`` is the
    mechanism that admitted us over AMQP, or ``codec.NO_SASL``.
    """

    protocol: str
    broker: str = ""
    version: str = ""
    host: str = ""
    announced: frozenset[str] = frozenset()
    sasl: str = ""

    @property
    def family(self) -> str:
        """The broker's family, named by its shipped target; empty if unknown."""
        name = self.broker.lower()
        return next((family for family in FAMILIES if family in name), "")

    @property
    def like(self) -> str:
        """The shipped target for that family and release."""
        major = self.version.partition(".")[0]
        target, since = OLDER.get(self.family, ("", 0))
        return target if major.isdecimal() and int(major) < since else self.family


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials that a client presents when it connects."""

    login: str | None = None
    passcode: str | None = None
    stomp_host: str = "localhost"
    amqp091_host: str = "/"


def stomp(endpoint: Endpoint, credentials: Credentials, deadline: Deadline) -> Greeting:
    """Greet over STOMP. Raises :class:`NotSpoken`, or :class:`SetUpFailed` if refused."""
    host = credentials.stomp_host
    headers = {"accept-version": "1.0,1.1,1.2", "host": host}
    if credentials.login is not None:
        headers |= {"login": credentials.login, "passcode": credentials.passcode or ""}
    reader = stomp_codec.Reader()
    with Dialogue(endpoint, "CONNECT", "STOMP", deadline) as dialogue:
        dialogue.write(stomp_codec.encode("CONNECT", headers))
        for item in dialogue.items(reader.feed):
            if isinstance(item, stomp_codec.Unreadable):
                raise NotSpoken(dialogue.other())
            if isinstance(item, stomp_codec.Frame):
                if item.command == "ERROR":
                    raise Refused(f"{endpoint.where} refused the connection: {_brief(item)}")
                if item.command != "CONNECTED":
                    raise SetUpFailed(f"{endpoint.where} answered CONNECT with {_brief(item)}")
                broker, _, version = (item.get("server") or "").partition("/")
                return Greeting("stomp", broker, version.split(" ")[0], host)
        raise AssertionError("items() ends with an exception")


def amqp(endpoint: Endpoint, credentials: Credentials, deadline: Deadline) -> Greeting:
    """Greet over AMQP 1.0 with SASL, or without it if the broker answers the SASL header with the
    plain one (2.2) or not at all. Raises what :func:`stomp` raises."""
    question = "an AMQP 1.0 header"
    with Dialogue(endpoint, question, "AMQP 1.0", deadline) as dialogue:
        dialogue.write(amqp_codec.protocol_header(3))
        try:
            return _amqp(endpoint, credentials, dialogue, "")
        except _NoSasl:
            pass
        except NotSpoken:
            if not dialogue.is_silent:
                raise
    with Dialogue(endpoint, question, "AMQP 1.0", deadline) as dialogue:
        dialogue.write(amqp_codec.protocol_header())
        return _amqp(endpoint, credentials, dialogue, amqp_codec.NO_SASL)


class _NoSasl(Exception):
    """The broker answered the SASL header with the plain one."""


def _amqp(endpoint: Endpoint, credentials: Credentials, dialogue: Dialogue, sasl: str) -> Greeting:
    reader = amqp_codec.Reader()
    for item in dialogue.items(reader.feed):
        if not isinstance(item, amqp_codec.Frame):
            if isinstance(item, amqp_codec.Empty):
                continue
            raise NotSpoken(dialogue.other())
        match item.name:
            case "protocol-header" if item["major"] != 1:
                raise NotSpoken(dialogue.other())
            case "protocol-header" if item["id"] == 0:
                if not sasl:
                    raise _NoSasl
                dialogue.write(_frame("open", {"container-id": "brokerproof-greeting"}))
            case "sasl-mechanisms":
                offered = _symbols(item.fields.get("sasl-server-mechanisms"))
                sasl = "ANONYMOUS" if credentials.login is None else "PLAIN"
                if sasl not in offered and "ANONYMOUS" in offered:
                    sasl = "ANONYMOUS"
                dialogue.write(_sasl_init(sasl, credentials))
            case "sasl-outcome" if item["code"] == 0:
                dialogue.write(amqp_codec.protocol_header())
            case "sasl-outcome":
                raise Refused(
                    f"{endpoint.where} refused the login over AMQP 1.0; name login and passcode"
                )
            case "open":
                given = item.fields.get("properties")
                about = {} if given is None else types.plain(given)
                return Greeting(
                    "amqp",
                    _text(about, "product"),
                    _text(about, "version"),
                    announced=_symbols(item.fields.get("offered-capabilities")),
                    sasl=sasl,
                )
            case "close":
                raise Refused(f"{endpoint.where} refused the connection: {_brief(item)}")
    raise AssertionError("items() ends with an exception")


def _sasl_init(mechanism: str, credentials: Credentials) -> bytes:
    if mechanism == "ANONYMOUS":
        return _frame("sasl-init", {"mechanism": "ANONYMOUS"}, amqp_codec.SASL_FRAME)
    response = f"\0{credentials.login}\0{credentials.passcode or ''}".encode()
    fields = {"mechanism": "PLAIN", "initial-response": response}
    return _frame("sasl-init", fields, amqp_codec.SASL_FRAME)


def _frame(name: str, fields: Mapping[str, object], kind: int = amqp_codec.AMQP_FRAME) -> bytes:
    return amqp_codec.encode_frame(types.encode(amqp_codec.composite(name, fields)), type=kind)


def amqp091(endpoint: Endpoint, credentials: Credentials, deadline: Deadline) -> Greeting:
    """Greet over AMQP 0-9-1 and open the virtual host. Raises what :func:`stomp` raises."""
    reader = amqp091_codec.Reader()
    where, host = endpoint.where, credentials.amqp091_host
    greeted: Greeting | None = None
    with Dialogue(endpoint, "an AMQP 0-9-1 header", "AMQP 0-9-1", deadline) as dialogue:
        dialogue.write(amqp091_codec.protocol_header())
        try:
            for item in dialogue.items(reader.feed):
                if not isinstance(item, amqp091_codec.Frame):
                    raise NotSpoken(dialogue.other())
                match item.name:
                    case "connection.start":
                        greeted = _started(item.fields["server-properties"], host)
                        fields = amqp091_codec.start_ok(
                            item.fields["mechanisms"], credentials.login, credentials.passcode
                        )
                        greeted = replace(greeted, sasl=fields["mechanism"])
                        dialogue.write(_method("connection.start-ok", fields))
                    case "connection.tune":
                        dialogue.write(
                            _method("connection.tune-ok", {**item.fields, "heartbeat": 0})
                        )
                        dialogue.write(_method("connection.open", {"virtual-host": host}))
                    case "connection.open-ok" if greeted is not None:
                        return greeted
                    case "connection.close":
                        text = item.fields.get("reply-text", "")
                        raise Refused(f"{where} refused the connection over AMQP 0-9-1: {text}")
                    case _:
                        raise NotSpoken(dialogue.other())
        except NotSpoken:
            if greeted is None:
                raise
            raise Refused(f"{where} closed the connection during the AMQP 0-9-1 login") from None
        raise AssertionError("items() ends with an exception")


def _started(about: Mapping[str, object], host: str) -> Greeting:
    announced = getattr(about.get("capabilities"), "value", about.get("capabilities"))
    names = announced if isinstance(announced, Mapping) else {}
    return Greeting(
        "amqp091",
        _text(about, "product"),
        _text(about, "version"),
        host,
        frozenset(name for name, value in names.items() if getattr(value, "value", value) is True),
    )


def _method(name: str, fields: Mapping[str, object]) -> bytes:
    payload = amqp091_codec.encode_method(name, fields)
    return amqp091_codec.encode_frame(amqp091_codec.METHOD, 0, payload)


def _symbols(offered: types.Item | None) -> frozenset[str]:
    """Return the names in an array of symbols, or in a single symbol."""
    plain = None if offered is None else types.plain(offered)
    several = plain if isinstance(plain, list | tuple) else [plain]
    return frozenset(str(one) for one in several if one is not None)


def _brief(item: stomp_codec.Frame | amqp_codec.Frame) -> str:
    return " ".join(item.brief().split())[:_MOST_OF_ANSWER]


def _text(about: Mapping[str, object], name: str) -> str:
    value = about.get(name, "")
    value = getattr(value, "value", value)  # a value with its type, in a table of AMQP 0-9-1
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
