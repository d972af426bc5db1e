"""The effective parameters of acceptors, calculated from a broker's own configuration file.

The harness reads the file independently of the reference broker's reader, because a case's
expectations must not depend on the code under test. It reads only parameters that the suites use;
the broker itself checks the rest of the file.
"""

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from urllib.parse import urlsplit

from lxml import etree

from brokerproof.harness.model import input_file
from brokerproof.harness.model.input_file import BadInput
from brokerproof.harness.targets import xml_file
from brokerproof.harness.targets.activemq import config
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.rabbitmq import erlang_config
from brokerproof.harness.targets.target import Overrides, Parameters, Value

_URL_PARAMETERS: dict[str, tuple[str, type]] = {
    "connectionTtl": ("connection_ttl_ms", int),
    "connectionTtlMin": ("connection_ttl_min_ms", int),
    "connectionTtlMax": ("connection_ttl_max_ms", int),
    "heartBeatToConnectionTtlModifier": ("heart_beat_to_connection_ttl_modifier", float),
    "stompConsumerCredits": ("stomp_consumer_window_size", int),
    "stompConsumerWindowSize": (
        "stomp_consumer_window_size",
        int,
    ),  # after the deprecated name, so that it takes precedence
    "stompMaxFramePayloadLength": ("web_socket_max_frame_payload_length", int),
    # after the deprecated name, too
    "webSocketMaxFramePayloadLength": ("web_socket_max_frame_payload_length", int),
    "webSocketEncoderType": ("web_socket_encoder_type", str),
    "protocols": ("protocols", str),
    "stomp-min-large-message-size": ("stomp_min_large_message_size", int),
    "stompMinLargeMessageSize": ("stomp_min_large_message_size", int),
    "amqpCredits": ("amqp_credits", int),
    "amqpLowCredits": ("amqp_low_credits", int),
    "amqpIdleTimeout": ("amqp_idle_timeout_ms", int),
    "maxFrameSize": ("amqp_max_frame_size", int),
    "anycastPrefix": ("anycast_prefix", str),
    "multicastPrefix": ("multicast_prefix", str),
    "sslEnabled": ("tls", str),
}
_BROKER_ELEMENTS = {
    "connection-ttl-override": "connection_ttl_override_ms",
    "connection-ttl-check-interval": "connection_ttl_check_interval_ms",
}

_ADDRESS_ELEMENTS: dict[str, tuple[str, type]] = {
    "address-full-policy": ("address_full_policy", str),
    "max-size-bytes": ("max_size_bytes", int),
    "max-size-messages": ("max_size_messages", int),
    "max-size-bytes-reject-threshold": ("max_size_bytes_reject_threshold", int),
    "page-size-bytes": ("page_size_bytes", int),
    "page-limit-bytes": ("page_limit_bytes", int),
    "page-limit-messages": ("page_limit_messages", int),
    "page-full-policy": ("page_full_policy", str),
}


def describe(path: Path) -> str:
    """Describe a configuration file for people: its name and the beginning of its SHA-256."""
    return f"{path.name} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()[:12]}"


def from_file(path: Path, defaults: Parameters) -> dict[str, dict[str, Value]]:
    """Return the parameters in any broker's file, by acceptor name. Raises :class:`SetUpFailed`."""
    if path.suffix in (".conf", erlang_config.SUFFIX):
        return from_rabbitmq_conf(path, defaults)
    return (
        config.acceptors(path, defaults) if _is_activemq(path) else from_broker_xml(path, defaults)
    )


def of_named_acceptors(path: Path) -> dict[str, dict[str, Value]]:
    """Return what a broker's file states about each acceptor itself, without defaults or settings
    of the whole broker."""
    if path.suffix != ".xml":
        return {}
    wide = {*_BROKER_ELEMENTS.values(), *config.BROKER_WIDE}
    return {
        name: {key: value for key, value in stated.items() if key not in wide}
        for name, stated in from_file(path, {}).items()
    }


def _is_activemq(path: Path) -> bool:
    return next(_root(path).iter(f"{config.CORE}broker"), None) is not None


_WHOLE = re.compile(r"[0-9]{1,18}")
_CONF: dict[str, str] = {
    "heartbeat": "amqp091_heartbeat_s",
    "channel_max": "amqp091_channel_max",
    "frame_max": "amqp091_frame_max",
    "max_message_size": "amqp091_max_message_size",
}


def from_rabbitmq_conf(path: Path, defaults: Parameters) -> dict[str, dict[str, Value]]:
    """Read the parameters of a rabbitmq.conf or a classic rabbitmq.config, whose acceptors are
    ``stomp``, ``amqp`` and ``management``."""
    parameters = dict(defaults)
    for number, key, value in _settings(path):
        if key in _CONF:
            if not _WHOLE.fullmatch(value):
                raise SetUpFailed(
                    f"{path}, line {number}: {value!r:.60} should be a number of at most 18 digits"
                )
            parameters[_CONF[key]] = int(value)
    spoken = {"stomp": "STOMP", "amqp": "AMQP", "management": "HTTP"}
    return {name: {"protocols": protocol, **parameters} for name, protocol in spoken.items()}


def _settings(path: Path) -> Iterator[tuple[int, str, str]]:
    """Yield the line, key and value of each setting."""
    if path.suffix == erlang_config.SUFFIX:
        yield from (
            (setting.line, setting.key, str(setting.value))
            for setting in erlang_config.settings(path)
        )
        return
    try:
        lines = input_file.read_text(path).splitlines()
    except BadInput as problem:
        raise SetUpFailed(f"{path}: {problem}; name a rabbitmq.conf") from None
    for number, line in enumerate(lines, 1):
        key, _, value = (part.strip() for part in line.partition("#")[0].partition("="))
        yield number, key, value


def from_broker_xml(path: Path, defaults: Parameters) -> dict[str, dict[str, Value]]:
    """Return parameters by acceptor name: ``defaults`` (the profile's), overridden by broker-wide
    elements, then by the acceptor's URL.

    Raises :class:`SetUpFailed` for a file that cannot be read or a value that is not a number.
    """
    root = _root(path)
    broker = {
        _BROKER_ELEMENTS[name]: _number(path, element, int, element.text or "")
        for element in root.iter(etree.Element)
        if (name := etree.QName(element).localname) in _BROKER_ELEMENTS
    }
    return {
        name: {**defaults, **broker, **dict(_of_url(path, element, url))}
        for name, element, url in _acceptors(root)
    }


def _root(path: Path) -> etree._Element:
    return xml_file.parsed(path, "a broker's configuration").getroot()


def of_address(path: Path, name: str) -> dict[str, Value]:
    """Return the address-settings of a broker.xml for the address ``name``, named as in a profile.

    Settings with more words in common take precedence (manual, chapter on address settings); then a
    word precedes ``*``, and ``*`` precedes ``#``. Raises :class:`SetUpFailed` as
    :func:`from_broker_xml` does.
    """
    return merged(_of_addresses(path, _number), name)


def address_settings(path: Path) -> list[dict[str, Value]]:
    """Return a broker.xml's address limits, named as in a profile, with the pattern as ``match``;
    empty for other files. Values that are not plain numbers are omitted, because nothing calculates
    with them."""
    if path.suffix != ".xml" or _is_activemq(path):
        return []
    return [address for address in _of_addresses(path, _plain) if len(address) > 1]


def merged(settings: Iterable[Mapping[str, Value]], name: str) -> dict[str, Value]:
    """Merge those ``settings`` (:func:`address_settings`) that match the address ``name``, the more
    specific ones last."""
    values: dict[str, Value] = {}
    matching = [setting for setting in settings if _matches(str(setting["match"]), name)]
    for setting in sorted(matching, key=lambda setting: _weight(str(setting["match"]))):
        values |= {key: value for key, value in setting.items() if key != "match"}
    return values


def _of_addresses(
    path: Path, read: Callable[[Path, etree._Element, type, str], Value | None]
) -> Iterator[dict[str, Value]]:
    for element in _root(path).iter(etree.Element):
        if etree.QName(element).localname == "address-setting":
            values: dict[str, Value] = {"match": str(element.get("match"))}
            for child in element.iter(etree.Element):
                known = _ADDRESS_ELEMENTS.get(etree.QName(child).localname)
                if (
                    known is not None
                    and (value := read(path, child, known[1], child.text or "")) is not None
                ):
                    values[known[0]] = value
            yield values


def _plain(path: Path, element: etree._Element, kind: type, text: str) -> Value | None:
    try:
        return _number(path, element, kind, text)
    except SetUpFailed:
        return None


def _matches(match: str, name: str) -> bool:
    words = [{"#": ".*", "*": "[^.]*"}.get(part, re.escape(part)) for part in match.split(".")]
    pattern = (
        re.escape(".").join(words).replace(re.escape(".") + ".*", "(" + re.escape(".") + ".*)?")
    )
    return re.fullmatch(pattern, name) is not None


def _weight(match: str) -> tuple[int, ...]:
    return tuple({"#": 0, "*": 1}.get(part, 2) for part in match.split("."))


def _acceptors(root: etree._Element) -> Iterator[tuple[str, etree._Element, str]]:
    for element in root.iter(etree.Element):
        if etree.QName(element).localname == "acceptor":
            yield str(element.get("name", "acceptor")), element, (element.text or "").strip()


def _of_url(path: Path, element: etree._Element, url: str) -> Iterator[tuple[str, Value]]:
    try:
        query = urlsplit(url).query
    except ValueError as problem:
        raise SetUpFailed(
            f"{path}, line {element.sourceline}: {url!r:.60} is not a URL ({problem})"
        ) from None
    given = dict(
        pair.partition("=")[::2] for pair in query.replace("&", ";").split(";") if "=" in pair
    )
    for spelling, (name, kind) in _URL_PARAMETERS.items():
        if spelling in given:
            yield name, _number(path, element, kind, given[spelling])


def _number(path: Path, element: etree._Element, kind: Callable[[str], Value], text: str) -> Value:
    try:
        return xml_file.number(kind, text.strip())
    except ValueError:
        line = element.sourceline
        raise SetUpFailed(f"{path}, line {line}: {text.strip()!r:.60} should be a number") from None


def has_tls(parameters: Parameters) -> bool:
    return str(parameters.get("tls", "")).lower() == "true"


def speaking(acceptors: Mapping[str, Parameters], protocol: str) -> dict[str, Parameters]:
    """Return the acceptors that speak ``protocol`` without TLS. An acceptor whose parameters name
    no ``protocols`` speaks any protocol."""
    return {
        name: parameters
        for name, parameters in acceptors.items()
        if protocol
        in [part.strip() for part in str(parameters.get("protocols", protocol)).split(",")]
        and not has_tls(parameters)
    }


def overridden(
    acceptors: dict[str, dict[str, Value]], overrides: Overrides | None
) -> dict[str, dict[str, Value]]:
    """Return ``acceptors`` with the values that a case overrides on every acceptor."""
    if not overrides:
        return acceptors
    changes = {
        **overrides.get("broker", {}),
        **overrides.get("address", {}),
        **overrides.get("acceptor", {}),
    }
    return {name: {**parameters, **changes} for name, parameters in acceptors.items()}
