"""A listening endpoint and the options of the protocols that it speaks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from brokerproof.reference_broker.settings.parameters import Options

LONG_MAX = 2**63 - 1
AMQP091 = "AMQP091"
"""AMQP 0-9-1 in an acceptor's protocols; ``AMQP`` alone is AMQP 1.0."""
OPENWIRE = "OPENWIRE"
"""OpenWire in an acceptor's protocols. Only ActiveMQ's family speaks it, on a separate acceptor."""
HTTP = "HTTP"
"""RabbitMQ's management API in an acceptor's protocols."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS options of an acceptor with ``sslEnabled``. The files are read when it is opened."""

    key_store: Path
    """``keyStorePath``: the broker's certificate chain and its key."""
    key_store_type: str = "PEM"
    """``keyStoreType``: PEM, or PEMCFG, a properties file that names PEM files."""
    key_password: str | None = field(default=None, repr=False)
    """``keyPassword``, else ``keyStorePassword``: the key's passphrase."""
    trust_store: Path | None = None
    """``trustStorePath``: the authorities that client certificates are checked against, in PEM."""
    client_certificate: str = "none"
    """From ``needClientAuth`` (``need``: required) and ``wantClientAuth`` (``want``: optional)."""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """``enabledProtocols``: the permitted versions of TLS."""


@dataclass(frozen=True, slots=True)
class ConnectionTtl(Options):
    """Artemis' connection TTL: how long a silent connection may live."""

    connection_ttl_ms: int | None = None
    """``connectionTtl``: TTL without client heartbeats (> 0); None leaves it to the broker-wide
    override, then 60000."""
    connection_ttl_min_ms: int = 1000
    connection_ttl_max_ms: int = LONG_MAX
    heart_beat_to_connection_ttl_modifier: float = 2.0


@dataclass(frozen=True, slots=True)
class StompLimits:
    """The size at which a STOMP frame is refused (STOMP11-LIMIT-01, STOMP12-LIMIT-01), in bytes."""

    headers: int = 1000
    line: int = 64 * 1024
    """A command or header line, without its end of line."""
    body: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StompOptions(Options):
    """STOMP, over TCP and over WebSocket."""

    prefix: ClassVar[str] = "stomp_"

    consumer_window_size: int = 10240
    """The window in bytes of ``client`` and ``client-individual`` subscriptions that name none.
    ``auto`` has -1."""
    disable_server_header: bool = False
    enable_message_id: bool = False
    """``stompEnableMessageId``: each message sent over STOMP gets a header amqMessageId
    (ARTEMIS-STOMP-id-1)."""
    min_large_message_size: int = 100 * 1024
    """From this many bytes on, a body is stored in a file and never in memory as a whole
    (ARTEMIS-STOMP-large-1); -1 means never."""
    errors_close: bool = True
    """False: after an ERROR about a readable frame the session stays open, in the profile of
    ActiveMQ, as in its release 6.3.1 and unlike the specifications (STOMP11-SEND-07,
    STOMP12-ERR-02)."""
    heart_beat_grace: float = 1.0
    """``transport.hbGracePeriodMultiplier`` of ActiveMQ: how many intervals one check for silence
    covers, from 1."""
    limits: StompLimits = StompLimits()


@dataclass(frozen=True, slots=True)
class WebSocketOptions(Options):
    """WebSocket as a transport of STOMP."""

    prefix: ClassVar[str] = "web_socket_"

    max_frame_payload_length: int = 65536
    """``webSocketMaxFramePayloadLength``: payload bytes of one WebSocket frame in either direction
    (ARTEMIS-STOMP-ws-2)."""
    encoder_type: str = "binary"
    """``webSocketEncoderType``: STOMP is sent in ``binary`` or in ``text`` messages."""


@dataclass(frozen=True, slots=True)
class AmqpOptions(Options):
    """AMQP 1.0."""

    prefix: ClassVar[str] = "amqp_"

    sasl_mechanisms: tuple[str, ...] = ("PLAIN", "ANONYMOUS")
    """``saslMechanisms``: the SASL mechanisms offered, without ANONYMOUS if security is on."""
    idle_timeout_ms: int | None = None
    """``amqpIdleTimeout``: how long a peer may be silent; 0 or less is forever. None leaves it to
    the broker-wide override, then 60000. Half of it is advertised (AMQP10-IDLE-05)."""
    credits: int = 100
    """``amqpCredits``: the highest link credit of a producer, in deliveries."""
    low_credits: int = 30
    """``amqpLowCredits``: the link credit at which it is topped up."""
    max_frame_size: int = 131072
    """``maxFrameSize``: bytes of one frame that the peer may send, from 512."""
    min_large_message_size: int = 100 * 1024
    """From this many bytes on, a message is in a file and never wholly in memory; -1: never."""
    max_message_size: int = 256 * 1024 * 1024
    """Bytes of one message that a producer may send."""
    incoming_window: int = 2**31 - 1
    """Transfers that a peer may send on a session before the window is renewed."""
    channel_max: int = 65535
    handle_max: int = 65535
    """The highest channel and the highest handle that a peer may use."""
    first_transfer_id: int = 0
    first_delivery_id: int = 0
    first_delivery_count: int = 0
    """First values of our 32-bit serial numbers in each session and on each link. A test of their
    wrap starts near the end."""


@dataclass(frozen=True, slots=True)
class Amqp091Options(Options):
    """AMQP 0-9-1. The first three are what connection.tune proposes."""

    prefix: ClassVar[str] = "amqp091_"

    channel_max: int = 2047
    frame_max: int = 131072
    """Bytes; 0 means no limit."""
    heartbeat_s: int = 60
    """Seconds; 0 means no heartbeats."""
    max_message_size: int = 134217728
    """Bytes of the body of one message."""


@dataclass(frozen=True, slots=True)
class OpenWireOptions(Options):
    """OpenWire. The lesser of our value and the peer's applies."""

    prefix: ClassVar[str] = "openwire_"

    max_inactivity_ms: int = 30_000
    """``wireFormat.maxInactivityDuration``: how long a peer may be silent; 0 or less is forever."""
    initial_delay_ms: int = 10_000
    """``wireFormat.maxInactivityDurationInitalDelay``: time before the first check."""
    max_frame_size: int = LONG_MAX
    """``wireFormat.maxFrameSize``: bytes of one command after its size field."""


@dataclass(frozen=True, slots=True)
class Acceptor:
    """One listening endpoint, and the parameters of the connections it accepts."""

    name: str
    host: str = "127.0.0.1"
    port: int = 0
    protocols: tuple[str, ...] = ("STOMP",)
    tls: Tls | None = None
    """None: connections are not encrypted."""
    handshake_timeout_ms: int = 10_000
    """A connection that has not completed its first frame by then is closed."""
    connections_allowed: int = -1
    """``connectionsAllowed``: the number of concurrent connections; any further one is closed
    without an answer. -1 means no limit."""
    anycast_prefix: tuple[str, ...] = ()
    multicast_prefix: tuple[str, ...] = ()
    ttl: ConnectionTtl = ConnectionTtl()
    stomp: StompOptions = StompOptions()
    web_socket: WebSocketOptions = WebSocketOptions()
    amqp: AmqpOptions = AmqpOptions()
    amqp091: Amqp091Options = Amqp091Options()
    openwire: OpenWireOptions = OpenWireOptions()
