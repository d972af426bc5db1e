"""Acceptor URLs: parameters, their arithmetic limits, and what is refused; and the ports that
replace them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from brokerproof.reference_broker.config.artemis import acceptor_url
from brokerproof.reference_broker.config.values import Where
from brokerproof.reference_broker.runtime.command import on_any_port, with_ports
from brokerproof.reference_broker.settings.acceptor import LONG_MAX, Acceptor, Tls
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import BadSetting, Settings

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
    assert [note.where.name for note in notes] == [
        "acceptor 'a', tcpNoDelay",
        "acceptor 'a', amqpDuplicateDetection",
    ]
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
    assert [(note.where.name, note.reason) for note in notes] == [
        ("acceptor 'a', wantClientAuth", "needClientAuth wins")
    ]


def test_without_ssl_enabled_the_rest_of_tls_is_noted() -> None:
    acceptor, notes = acceptor_url.read(
        "a", "tcp://h:1?sslEnabled=false;keyStorePath=a.jks;crlPath=x", WHERE
    )
    assert acceptor.tls is None
    assert [(note.where.name, note.reason) for note in notes] == [
        ("acceptor 'a', keyStorePath", "only with sslEnabled=true"),
        ("acceptor 'a', crlPath", "only with sslEnabled=true"),
    ]


@pytest.mark.parametrize(
    ("url", "sentence"),
    [
        ("localhost:61613", "is not the URL of an acceptor; write tcp://HOST:PORT"),
        ("tcp://:61613", "is not the URL of an acceptor"),
        ("tcp://a,b:61613", "is not the URL of an acceptor"),
        ("vm://0", "the scheme vm is not supported by this broker"),
        ("ssl://localhost:1", "the scheme ssl is not supported by this broker"),
        ("tcp://localhost", "the URL has no port"),
        ("tcp://localhost:stomp", "port: 'stomp' is not a whole number"),
        (
            "tcp://localhost:65536",
            "port: 65536 is out of range; write a whole number from 0 to 65535",
        ),
        ("tcp://h:1?connectionTtl=0", "connectionTtl: 0 is out of range"),
        ("tcp://h:1?connectionTtl=-1", "connectionTtl: -1 is out of range"),
        ("tcp://h:1?connectionTtl=1.5", "connectionTtl: '1.5' is not a whole number"),
        ("tcp://h:1?connectionTtl=", "connectionTtl: '' is not a whole number"),
        ("tcp://h:1?connectionTtl", "the parameter 'connectionTtl' has no name or no value"),
        (
            "tcp://h:1?connectionTtlMax=9223372036854775808",
            "connectionTtlMax: 9223372036854775808 is out of range",
        ),
        ("tcp://h:1?connectionTtl=1;connectionTtl=1", "the parameter connectionTtl is given twice"),
        (
            "tcp://h:1?connectionTTL=1",
            "connectionTTL: unknown parameter; did you mean connectionTtl?",
        ),
        (
            "tcp://h:1?wibble=1",
            "wibble: unknown parameter; remove it, or see the parameters of Artemis 2.56",
        ),
        (
            "tcp://h:1?heartBeatToConnectionTtlModifer=1",
            "did you mean heartBeatToConnectionTtlModifier?",
        ),
        (
            "tcp://h:1?heartBeatToConnectionTtlModifier=0",
            "0 is out of range; write a decimal number greater than 0",
        ),
        ("tcp://h:1?heartBeatToConnectionTtlModifier=NaN", "'NaN' is not a decimal number"),
        ("tcp://h:1?heartBeatToConnectionTtlModifier=9e999", "9e999 is out of range"),
        ("tcp://h:1?stompConsumerWindowSize=-2", "stompConsumerWindowSize: -2 is out of range"),
        (
            "tcp://h:1?stompConsumerWindowSize=2147483648",
            "stompConsumerWindowSize: 2147483648 is out of range",
        ),
        ("tcp://h:1?protocols=", "'' is no protocol"),
        ("tcp://h:1?protocols=STOMP,STMP", "'STMP' is no protocol"),
        (
            "tcp://h:1?protocol=STOMP",
            "protocol: is not supported by this broker; write protocols instead",
        ),
        ("tcp://h:1?anycastPrefix=a,,b", "anycastPrefix: an empty prefix"),
        (
            "tcp://h:1?disableStompServerHeader=1",
            "disableStompServerHeader: '1' is neither true nor false",
        ),
        (
            "tcp://h:1?webSocketMaxFramePayloadLength=124",
            (
                "webSocketMaxFramePayloadLength: 124 is out of range; write a whole number from 125"
                " to 2147483647"
            ),
        ),
        (
            "tcp://h:1?webSocketEncoderType=base64",
            "webSocketEncoderType: 'base64' is unknown; write one of binary, text",
        ),
        (
            "tcp://h:1?webSocketCompressionSupported=true",
            "webSocketCompressionSupported: true is not supported by this broker; only false is",
        ),
        (
            "tcp://h:1?sslEnabled=true",
            "sslEnabled: TLS needs a certificate; write keyStorePath=FILE and keyStoreType=PEM",
        ),
        ("tcp://h:1?sslEnabled=yes", "sslEnabled: 'yes' is neither true nor false"),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a.jks",
            (
                "keyStoreType: JKS, which is meant where none is given, cannot be read here;"
                " convert it by `openssl pkcs12"
            ),
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a;keyStoreType=PKCS12",
            "keyStoreType: PKCS12 cannot be read here",
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a;keyStoreType=PEM;trustStorePath=b;trustStoreType=JKS",
            "trustStoreType: JKS cannot be read here",
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a;keyStoreType=PEM;wantClientAuth=true",
            "wantClientAuth: nobody says which certificates are good; write trustStorePath=FILE",
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a;keyStoreType=PEM;enabledProtocols=TLSv1.2,SSLv3",
            (
                "enabledProtocols: 'SSLv3' is no version of TLS that is spoken here; write some of"
                " TLSv1.2,TLSv1.3"
            ),
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a;keyStoreType=PEM;crlPath=c",
            (
                "crlPath: is not supported by this broker; there is nothing like it here; remove"
                " the parameter"
            ),
        ),
        (
            "tcp://h:1?sslEnabled=true;keyStorePath=a;keyStoreType=PEM;trustAll=true",
            "trustAll: true is not supported",
        ),
        ("tcp://h:1?keyStorPath=a", "keyStorPath: unknown parameter; did you mean keyStorePath?"),
        ("tcp://h:1?tcpNoDelay=maybe", "tcpNoDelay: 'maybe' is neither true nor false"),
        (
            "tcp://h:1?connectionsAllowed=-2",
            "connectionsAllowed: -2 is out of range; write a whole number from -1 to",
        ),
        ("tcp://h:1?useInvm=true", "useInvm: true is not supported by this broker; only false is"),
        ("tcp://h:1?a=1?b=2", "unknown parameter"),
    ],
)
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
        BadSetting, match="there is no acceptor 'c' to give the port 1; there is a, b"
    ):
        with_ports(settings, {"c": 1})
    with pytest.raises(BadSetting, match="70000 is no port for the acceptor 'a'"):
        with_ports(settings, {"a": 70000})
