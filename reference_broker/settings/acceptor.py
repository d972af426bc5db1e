"""A listening endpoint and the options of the protocols that it speaks."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import ClassVar

from brokerproof.reference_broker.settings.parameters import Options

LONG_MAX = 2**63 - 1
AMQP091 = "AMQP091"
"""AMQP 0-9-1, as named in an acceptor's protocols; plain ``AMQP`` is AMQP 1.0."""
OPENWIRE = "OPENWIRE"
"""OpenWire in an acceptor's protocols. Only ActiveMQ's family speaks it, on a separate acceptor."""
HTTP = "HTTP"
"""RabbitMQ's management API, as named in an acceptor's protocols."""


@dataclass(frozen=True, slots=True)
class Tls:
    """TLS options of an acceptor with ``sslEnabled``. The files are read when it opens."""

    key_store: Path
    """``keyStorePath``: the broker's certificate chain and its key."""
    key_store_type: str = "PEM"
    """``keyStoreType``: PEM, or PEMCFG, a properties file that names PEM files."""
    key_password: str | None = field(default=None, repr=False)
    """``keyPassword``, or else ``keyStorePassword``: the key's passphrase."""
    trust_store: Path | None = None
    """``trustStorePath``: the authorities, in PEM, that client certificates are checked against."""
    client_certificate: str = "none"
    """From ``needClientAuth`` (``need``: required) and ``wantClientAuth`` (``want``: optional)."""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """``enabledProtocols``: the permitted versions of TLS."""


@dataclass(frozen=True, slots=True)
class ConnectionTtl(Options):
    """Artemis's connection TTL: how long a silent connection may live."""

    connection_ttl_ms: int | None = None
    """``connectionTtl``: the TTL without client heartbeats (> 0). If None, the broker-wide override
    applies, or else 60000."""
    connection_ttl_min_ms: int = 1000
    connection_ttl_max_ms: int = LONG_MAX
    heart_beat_to_connection_ttl_modifier: float = 2.0


@dataclass(frozen=True, slots=True)
class StompLimits:
    """The sizes in bytes above which frames are refused (STOMP11-LIMIT-01, STOMP12-LIMIT-01)."""

    headers: int = 1000
    line: int = 64 * 1024
    """The size of a command or header line, without the line end."""
    body: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class StompOptions(Options):
    """Options of STOMP over TCP and WebSocket."""

    prefix: ClassVar[str] = "stomp_"

    consumer_window_size: int = 10240
    """The window, in bytes, of ``client`` and ``client-individual`` subscriptions that name none.
    For ``auto``, it is -1."""
    disable_server_header: bool = False
    enable_message_id: bool = False
    """``stompEnableMessageId``: each message sent over STOMP gets an amqMessageId header
    (ARTEMIS-STOMP-id-1)."""
    min_large_message_size: int = 100 * 1024
    """Bodies of this many bytes or more are stored in files and never wholly in memory
    (ARTEMIS-STOMP-large-1); -1 means that none are."""
    errors_close: bool = True
    """False: in ActiveMQ's profile, the session stays open after an ERROR about a readable frame,
    as in release 6.3.1 and unlike in the specifications (STOMP11-SEND-07, STOMP12-ERR-02)."""
    heart_beat_grace: float = 1.0
    """ActiveMQ's ``transport.hbGracePeriodMultiplier``: how many intervals one check for silence
    covers, at least 1."""
    limits: StompLimits = StompLimits()


@dataclass(frozen=True, slots=True)
class WebSocketOptions(Options):
    """Options of WebSocket as a transport of STOMP."""

    prefix: ClassVar[str] = "web_socket_"

    max_frame_payload_length: int = 65536
    """``webSocketMaxFramePayloadLength``: the maximum number of payload bytes in one WebSocket
    frame, in either direction (ARTEMIS-STOMP-ws-2)."""
    encoder_type: str = "binary"
    """``webSocketEncoderType``: STOMP is sent in ``binary`` or in ``text`` messages."""


@dataclass(frozen=True, slots=True)
class AmqpOptions(Options):
    """AMQP 1.0."""

    prefix: ClassVar[str] = "amqp_"

    sasl_mechanisms: tuple[str, ...] = ("PLAIN", "ANONYMOUS")
    """``saslMechanisms``: the SASL mechanisms offered, without ANONYMOUS if security is on."""
    idle_timeout_ms: int | None = None
    """``amqpIdleTimeout``: how long a peer may be silent; 0 or less means forever. If None, the
    broker-wide override applies, or else 60000. Half of the value is advertised
    (AMQP10-IDLE-05)."""
    credits: int = 100
    """``amqpCredits``: the highest link credit of a producer, in deliveries."""
    low_credits: int = 30
    """``amqpLowCredits``: the link credit at which a producer's credit is topped up."""
    max_frame_size: int = 131072
    """``maxFrameSize``: the maximum size in bytes of a frame that the peer may send, from 512."""
    min_large_message_size: int = 100 * 1024
    """Messages of this many bytes or more are in files and never wholly in memory; -1: none are."""
    max_message_size: int = 256 * 1024 * 1024
    """The maximum size in bytes of a message that a producer may send."""
    incoming_window: int = 2**31 - 1
    """The number of transfers that a peer may send on a session before the window is renewed."""
    channel_max: int = 65535
    handle_max: int = 65535
    """The highest channel and the highest handle that a peer may use."""
    first_transfer_id: int = 0
    first_delivery_id: int = 0
    first_delivery_count: int = 0
    """The first values of our 32-bit serial numbers in each session and on each link. A test of the
    numbers' wrapping starts near the maximum."""


@dataclass(frozen=True, slots=True)
class Amqp091Options(Options):
    """Options of AMQP 0-9-1. The first three are proposed in connection.tune."""

    prefix: ClassVar[str] = "amqp091_"

    channel_max: int = 2047
    frame_max: int = 131072
    """In bytes; 0 means no limit."""
    heartbeat_s: int = 60
    """In seconds; 0 means no heartbeats."""
    max_message_size: int = 134217728
    """The maximum size in bytes of the body of one message."""


@dataclass(frozen=True, slots=True)
class OpenWireOptions(Options):
    """Options of OpenWire. The lesser of our value and the peer's applies."""

    prefix: ClassVar[str] = "openwire_"

    max_inactivity_ms: int = 30_000
    """``wireFormat.maxInactivityDuration``: how long a peer may be silent; 0 or less: forever."""
    initial_delay_ms: int = 10_000
    """``wireFormat.maxInactivityDurationInitalDelay``: time before the first check."""
    max_frame_size: int = LONG_MAX
    """``wireFormat.maxFrameSize``: the maximum number of bytes in a command after its size
    field."""


@dataclass(frozen=True, slots=True)
class Acceptor:
    """One listening endpoint, and the parameters of the connections that it accepts."""

    name: str
    host: str = "127.0.0.1"
    port: int = 0
    protocols: tuple[str, ...] = ("STOMP",)
    tls: Tls | None = None
    """None if connections are not encrypted."""
    handshake_timeout_ms: int = 10_000
    """A connection is closed if its first frame is not complete by then."""
    connections_allowed: int = -1
    """``connectionsAllowed``: the number of concurrent connections; further ones are closed without
    an answer. -1 means no limit."""
    anycast_prefix: tuple[str, ...] = ()
    multicast_prefix: tuple[str, ...] = ()
    ttl: ConnectionTtl = ConnectionTtl()
    stomp: StompOptions = StompOptions()
    web_socket: WebSocketOptions = WebSocketOptions()
    amqp: AmqpOptions = AmqpOptions()
    amqp091: Amqp091Options = Amqp091Options()
    openwire: OpenWireOptions = OpenWireOptions()
