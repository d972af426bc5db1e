"""Acceptor URLs: parameters, their arithmetic limits, refusals, and replacement of their ports."""

from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.reference_broker.config.artemis import acceptor_url
from brokerproof.reference_broker.config.values import Where
from brokerproof.reference_broker.runtime.command import on_any_port, with_ports
from brokerproof.reference_broker.settings.acceptor import LONG_MAX, Acceptor, Tls
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import BadSetting, Settings
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

WHERE = Where(Path("broker.xml"), 7, "acceptor 'a'")
DEFAULT = replace(Acceptor("a", "127.0.0.1", 61613), protocols=acceptor_url.PROTOCOLS)


def accepted(query: str) -> Acceptor:
    return acceptor_url.read("a", f"tcp://127.0.0.1:61613?{query}", WHERE)[0]


@pytest.mark.parametrize(
    ("query", "parameter", "value"),
    [
        ("protocols=STOMP", "protocols", ("STOMP",)),
        ("protocols=AMQP,%20STOMP", "protocols", ("AMQP", "STOMP")),
        ("connectionTtl=1", "connection_ttl_ms", 1),
        ("connectionTtlMin=0", "connection_ttl_min_ms", 0),
        (f"connectionTtlMax={LONG_MAX}", "connection_ttl_max_ms", LONG_MAX),
        ("heartBeatToConnectionTtlModifier=1", "heart_beat_to_connection_ttl_modifier", 1.0),
        ("heartBeatToConnectionTtlModifier=.5", "heart_beat_to_connection_ttl_modifier", 0.5),
        ("heartBeatToConnectionTtlModifier=1.5e2", "heart_beat_to_connection_ttl_modifier", 150.0),
        ("stompConsumerWindowSize=-1", "stomp_consumer_window_size", -1),
        ("stompConsumerCredits=77", "stomp_consumer_window_size", 77),
        ("stompConsumerWindowSize=5;stompConsumerCredits=77", "stomp_consumer_window_size", 5),
        ("stompConsumerCredits=77;stompConsumerWindowSize=5", "stomp_consumer_window_size", 5),
        ("webSocketMaxFramePayloadLength=125", "web_socket_max_frame_payload_length", 125),
        ("stompMaxFramePayloadLength=77777", "web_socket_max_frame_payload_length", 77777),
        (
            "webSocketMaxFramePayloadLength=500;stompMaxFramePayloadLength=700",
            "web_socket_max_frame_payload_length",
            500,
        ),
        ("webSocketEncoderType=text", "web_socket_encoder_type", "text"),
        ("anycastPrefix=queue/,jms.queue.", "anycast_prefix", ("queue/", "jms.queue.")),
        ("multicastPrefix=%2Ftopic%2F", "multicast_prefix", ("/topic/",)),
        ("disableStompServerHeader=TRUE", "stomp_disable_server_header", True),
        ("handshake-timeout=3", "handshake_timeout_ms", 3000),
        ("handshake-timeout=0", "handshake_timeout_ms", 0),
        ("handshake-timeout=-1", "handshake_timeout_ms", 0),
        ("saslMechanisms=PLAIN", "amqp_sasl_mechanisms", ("PLAIN",)),
        ("saslMechanisms=EXTERNAL,%20PLAIN", "amqp_sasl_mechanisms", ("EXTERNAL", "PLAIN")),
        ("amqpIdleTimeout=-1", "amqp_idle_timeout_ms", -1),
        ("amqpCredits=1", "amqp_credits", 1),
        ("amqpLowCredits=0", "amqp_low_credits", 0),
        ("maxFrameSize=512", "amqp_max_frame_size", 512),
        ("connectionsAllowed=3", "connections_allowed", 3),
    ],
)
def test_a_parameter_sets_its_value_and_no_other(query: str, parameter: str, value: object) -> None:
    assert accepted(query) == with_parameters(DEFAULT, **{parameter: value})


def test_both_separators_and_a_trailing_one() -> None:
    assert accepted("connectionTtl=5;connectionTtlMin=6&connectionTtlMax=7;") == with_parameters(
        DEFAULT, connection_ttl_ms=5, connection_ttl_min_ms=6, connection_ttl_max_ms=7
    )


@pytest.mark.parametrize(
    ("url", "host", "port"),
    [
        ("tcp://0.0.0.0:0", "0.0.0.0", 0),
        ("tcp://[::1]:65535?protocols=STOMP", "::1", 65535),
        ("tcp://broker-1.example:1/", "broker-1.example", 1),
    ],
)
def test_host_and_port(url: str, host: str, port: int) -> None:
    acceptor, notes = acceptor_url.read("a", url, WHERE)
    assert (acceptor.host, acceptor.port, notes) == (host, port, [])


def test_a_parameter_without_effect_is_noted() -> None:
    _, notes = acceptor_url.read(
        "a", "tcp://h:1?tcpNoDelay=true;amqpDuplicateDetection=true;stompConsumerCredits=1", WHERE
    )
    expected = ["acceptor 'a', tcpNoDelay", "acceptor 'a', amqpDuplicateDetection"]
    assert [note.where.name for note in notes] == expected
    _, notes = acceptor_url.read(
        "a", "tcp://h:1?stompConsumerWindowSize=1;stompConsumerCredits=1", WHERE
    )
    assert [note.reason for note in notes] == ["stompConsumerWindowSize wins"]


def test_tls_is_what_the_parameters_say() -> None:
    url = "tcp://h:1?sslEnabled=true;keyStorePath=keys/a.pem;keyStoreType=PEM;keyStorePassword=s;needClientAuth=true;"
    where = Where(Path("/etc/broker/broker.xml"), 7, "acceptor 'a'")
    acceptor, notes = acceptor_url.read(
        "a",
        url
        + "trustStorePath=/ca.pem;trustStoreType=PEMCA;wantClientAuth=true;enabledProtocols=TLSv1.3",  # noqa: E501
        where,
    )
    assert acceptor.tls == Tls(
        Path("/etc/broker/keys/a.pem"),
        key_password="s",
        trust_store=Path("/ca.pem"),
        client_certificate="need",
        versions=("TLSv1.3",),
    )
    expected = [("acceptor 'a', wantClientAuth", "needClientAuth wins")]
    assert [(note.where.name, note.reason) for note in notes] == expected


def test_without_ssl_enabled_the_rest_of_tls_is_noted() -> None:
    acceptor, notes = acceptor_url.read(
        "a", "tcp://h:1?sslEnabled=false;keyStorePath=a.jks;crlPath=x", WHERE
    )
    assert acceptor.tls is None
    assert [(note.where.name, note.reason) for note in notes] == [
        ("acceptor 'a', keyStorePath", "only with sslEnabled=true"),
        ("acceptor 'a', crlPath", "only with sslEnabled=true"),
    ]


@pytest.mark.parametrize(("url", "sentence"), TABLES["refused"])
def test_a_bad_url_is_refused(url: str, sentence: str) -> None:
    with pytest.raises(BadSetting) as caught:
        acceptor_url.read("a", url, WHERE)
    assert sentence in str(caught.value)
    assert str(caught.value).startswith("broker.xml, line 7: ")


def test_ports_are_replaced_by_name() -> None:
    settings = Settings(
        acceptors=(
            Acceptor("a", port=1),
            with_parameters(Acceptor("b", port=2), connection_ttl_ms=5),
        )
    )
    assert with_ports(settings, {"b": 0}).acceptors == (
        Acceptor("a", port=1),
        with_parameters(Acceptor("b", port=0), connection_ttl_ms=5),
    )
    assert [acceptor.port for acceptor in on_any_port(settings).acceptors] == [0, 0]
    assert with_ports(settings, {}) == settings


def test_ports_of_nobody_and_no_ports_are_refused() -> None:
    settings = Settings(acceptors=(Acceptor("a"), Acceptor("b")))
    with pytest.raises(
        BadSetting, match="there is no acceptor 'c' to give the port 1; the acceptors are a, b"
    ):
        with_ports(settings, {"c": 1})
    with pytest.raises(BadSetting, match="70000 is not a port for the acceptor 'a'"):
        with_ports(settings, {"a": 70000})
