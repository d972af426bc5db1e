"""The first words of a broker over each protocol: whether it speaks it, and its name and release.

Over STOMP these stand in the header ``server`` of CONNECTED, over AMQP 1.0 in the properties of its
open, over AMQP 0-9-1 in the server-properties of connection.start.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from brokerproof.harness.protocols.amqp091 import codec as amqp091_codec
from brokerproof.harness.protocols.amqp10 import codec as amqp_codec
from brokerproof.harness.protocols.amqp10 import types
from brokerproof.harness.protocols.stomp import codec as stomp_codec
from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external.dialogue import Dialogue, NotSpoken, Refused

_FAMILIES = {"artemis": "artemis", "rabbitmq": "rabbitmq", "activemq": "activemq"}
"""Shipped targets by a part of the name that their family gives itself; the first that fits."""


@dataclass(frozen=True, slots=True)
class Greeting:
    """A broker that speaks ``protocol``; ``broker`` and ``version`` are empty if it names none."""

    protocol: str
    broker: str = ""
    version: str = ""

    @property
    def family(self) -> str:
        """The shipped target that is like it; empty for brokers of no known family."""
        name = self.broker.lower()
        return next((family for part, family in _FAMILIES.items() if part in name), "")


@dataclass(frozen=True, slots=True)
class Credentials:
    """The credentials that a client shows when it connects."""

    login: str | None = None
    passcode: str | None = None
    stomp_host: str = "localhost"


def stomp(endpoint: Endpoint, credentials: Credentials) -> Greeting:
    """Greet over STOMP. Raises :class:`NotSpoken`, and :class:`SetUpFailed` for a refusal."""
    headers = {"accept-version": "1.0,1.1,1.2", "host": credentials.stomp_host}
    if credentials.login is not None:
        headers |= {"login": credentials.login, "passcode": credentials.passcode or ""}
    reader = stomp_codec.Reader()
    with Dialogue(endpoint, "CONNECT", "STOMP") as dialogue:
        dialogue.write(stomp_codec.encode("CONNECT", headers))
        for item in dialogue.items(reader.feed):
            if isinstance(item, stomp_codec.Unreadable):
                raise NotSpoken(dialogue.other())
            if isinstance(item, stomp_codec.Frame):
                if item.command != "CONNECTED":
                    raise Refused(f"{endpoint.where} refused the connection: {item.brief()}")
                broker, _, version = (item.get("server") or "").partition("/")
                return Greeting("stomp", broker, version.split(" ")[0])
        raise AssertionError("items() ends with an exception")


def amqp(endpoint: Endpoint, credentials: Credentials) -> Greeting:
    """Greet over AMQP 1.0, with SASL. Raises like :func:`stomp`."""
    reader = amqp_codec.Reader()
    with Dialogue(endpoint, "an AMQP 1.0 header", "AMQP 1.0") as dialogue:
        dialogue.write(amqp_codec.protocol_header(3))
        for item in dialogue.items(reader.feed):
            if not isinstance(item, amqp_codec.Frame):
                if isinstance(item, amqp_codec.Empty):
                    continue
                raise NotSpoken(dialogue.other())
            match item.name:
                case "protocol-header" if item["major"] != 1:
                    raise NotSpoken(dialogue.other())
                case "sasl-mechanisms":
                    dialogue.write(_sasl_init(credentials))
                case "sasl-outcome" if item["code"] == 0:
                    dialogue.write(amqp_codec.protocol_header())
                    dialogue.write(_frame("open", {"container-id": "brokerproof-greeting"}))
                case "sasl-outcome":
                    raise Refused(
                        f"{endpoint.where} refused the login over AMQP 1.0; name login and passcode"
                    )
                case "open":
                    about = item.part("properties")
                    return Greeting("amqp", _text(about, "product"), _text(about, "version"))
                case "close":
                    raise Refused(f"{endpoint.where} refused the connection: {item.brief()}")
        raise AssertionError("items() ends with an exception")


def _sasl_init(credentials: Credentials) -> bytes:
    if credentials.login is None:
        return _frame("sasl-init", {"mechanism": "ANONYMOUS"}, amqp_codec.SASL_FRAME)
    response = f"\0{credentials.login}\0{credentials.passcode or ''}".encode()
    fields = {"mechanism": "PLAIN", "initial-response": response}
    return _frame("sasl-init", fields, amqp_codec.SASL_FRAME)


def _frame(name: str, fields: Mapping[str, object], kind: int = amqp_codec.AMQP_FRAME) -> bytes:
    return amqp_codec.encode_frame(types.encode(amqp_codec.composite(name, fields)), type=kind)


def amqp091(endpoint: Endpoint, credentials: Credentials) -> Greeting:
    """Greet over AMQP 0-9-1, without a login: the broker names itself before. Raises
    :class:`NotSpoken`, and :class:`SetUpFailed` for a broker that is silent."""
    reader = amqp091_codec.Reader()
    with Dialogue(endpoint, "an AMQP 0-9-1 header", "AMQP 0-9-1") as dialogue:
        dialogue.write(amqp091_codec.protocol_header())
        for item in dialogue.items(reader.feed):
            if not isinstance(item, amqp091_codec.Frame) or item.name != "connection.start":
                raise NotSpoken(dialogue.other())
            about = item.fields["server-properties"]
            return Greeting("amqp091", _text(about, "product"), _text(about, "version"))
        raise AssertionError("items() ends with an exception")


def _text(about: Mapping[str, object], name: str) -> str:
    value = about.get(name, "")
    value = getattr(value, "value", value)  # a value with its type, in a table of AMQP 0-9-1
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
