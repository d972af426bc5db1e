"""The settings model: what a broker was told to be, whichever file said so.

Plain frozen data with the defaults of the ``artemis`` profile (the vendor's documentation; where a
release differs, the profile data says so). Readers of the brokers' own files live beside this
module and produce :class:`Settings`. Milliseconds and octets, as in the files; the core converts to
nanoseconds once.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from pathlib import Path

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.reference_broker.settings.activemq import GIB, ActiveMq

LONG_MAX = 2**63 - 1
AMQP091 = "AMQP091"
"""How an acceptor's protocols name AMQP 0-9-1; ``AMQP`` alone is AMQP 1.0."""
OPENWIRE = "OPENWIRE"
"""How an acceptor's protocols name OpenWire, which is spoken in the profile of ActiveMQ, by an
acceptor of its own."""
HTTP = "HTTP"
"""How an acceptor's protocols name the management API."""


class BadSetting(Exception):
    """A setting cannot be accepted: one sentence with file, line, name and what would be right."""


@dataclass(frozen=True, slots=True)
class StompLimits:
    """What one STOMP frame may occupy before it is refused (STOMP11-LIMIT-01, STOMP12-LIMIT-01).
    Octets."""

    headers: int = 1000
    line: int = 64 * 1024
    """A command or header line, without its end of line."""
    body: int = 256 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Tls:
    """How an acceptor with ``sslEnabled`` speaks TLS. The files are read when it is opened, not
    before."""

    key_store: Path
    """``keyStorePath``: our certificate with those that vouch for it, and its key."""
    key_store_type: str = "PEM"
    """``keyStoreType``: PEM, or PEMCFG, a file of properties that names PEM files."""
    key_password: str | None = field(default=None, repr=False)
    """``keyPassword``, else ``keyStorePassword``: what the key is encrypted with."""
    trust_store: Path | None = None
    """``trustStorePath``: the authorities whose clients are known, in PEM."""
    client_certificate: str = "none"
    """``needClientAuth`` (``need``) and ``wantClientAuth`` (``want``): whether clients must or may
    show a certificate."""
    versions: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    """``enabledProtocols``."""


class HeartBeatRules(enum.Enum):
    """Whose rules STOMP heart-beats go by."""

    TTL = enum.auto()
    """Artemis: a connection has a time to live
    (:mod:`brokerproof.reference_broker.families.artemis.ttl_liveness`)."""
    MIRRORED = enum.auto()
    """ActiveMQ: what the client says goes, and is looked at once an interval
    (:mod:`brokerproof.reference_broker.families.activemq.inactivity`)."""
    WHOLE_SECONDS = enum.auto()
    """RabbitMQ: intervals are whole seconds, and two looks that find nothing are enough."""


@dataclass(frozen=True, slots=True)
class FamilyBehaviour:
    """What a family of brokers does in its own way where a protocol, or its own documentation,
    leaves it open."""

    nack_is_final: bool = False
    """True: NACK sends a message to the dead letters at once; False: it is delivered again."""
    prefetch_in_messages: bool = False
    """True: the window of a STOMP subscription counts messages that are not acknowledged; False:
    octets."""
    qualified_names: bool = False
    """True: a queue and a topic of one name are two places, and a STOMP destination says which of
    them it is."""
    heart_beats: HeartBeatRules = HeartBeatRules.TTL
    """How STOMP heart-beats are agreed on, and when a silent peer is given up."""


@dataclass(frozen=True, slots=True)
class Acceptor:
    """One listening end and the parameters of the connections that come in by it."""

    name: str
    host: str = "127.0.0.1"
    port: int = 0
    protocols: tuple[str, ...] = ("STOMP",)
    connection_ttl_ms: int | None = None
    """``connectionTtl``: TTL without client heart-beats (> 0); None leaves it to the broker-wide
    override, then 60000."""
    connection_ttl_min_ms: int = 1000
    connection_ttl_max_ms: int = LONG_MAX
    heart_beat_to_connection_ttl_modifier: float = 2.0
    stomp_consumer_window_size: int = 10240
    """Octets; the window of ``client`` and ``client-individual`` subscriptions that name none.
    ``auto`` has -1."""
    anycast_prefix: tuple[str, ...] = ()
    multicast_prefix: tuple[str, ...] = ()
    web_socket_max_frame_payload_length: int = 65536
    """``webSocketMaxFramePayloadLength``: octets of payload in one WebSocket frame, theirs and ours
    (ARTEMIS-STOMP-ws-2)."""
    web_socket_encoder_type: str = "binary"
    """``webSocketEncoderType``: whether STOMP leaves in ``binary`` or in ``text`` messages."""
    disable_stomp_server_header: bool = False
    stomp_enable_message_id: bool = False
    """``stompEnableMessageId``: each message sent by STOMP gets a header amqMessageId
    (ARTEMIS-STOMP-id-1)."""
    handshake_timeout_ms: int = 10_000
    """A connection that has not completed a first frame by then is closed."""
    limits: StompLimits = StompLimits()
    sasl_mechanisms: tuple[str, ...] = ("PLAIN", "ANONYMOUS")
    """``saslMechanisms``: what an AMQP peer may use to say who it is. ANONYMOUS is not offered
    where security is on."""
    amqp_idle_timeout_ms: int | None = None
    """``amqpIdleTimeout``: how long an AMQP peer may be silent; 0 or less for ever. None leaves it
    to the broker-wide override, then 60000. The peer is told half of it (AMQP10-IDLE-05)."""
    amqp_credits: int = 100
    """``amqpCredits``: the most deliveries that an AMQP producer may have credit for."""
    amqp_low_credits: int = 30
    """``amqpLowCredits``: at this credit it is topped up."""
    amqp_max_frame_size: int = 131072
    """``maxFrameSize``: octets of one AMQP frame that the peer may send, from 512."""
    stomp_min_large_message_size: int = 100 * 1024
    amqp_min_large_message_size: int = 100 * 1024
    """Octets from which on the body of a message that comes in over STOMP, or a message over AMQP,
    is kept in a file and never in memory as a whole (ARTEMIS-STOMP-large-1); -1 is never."""
    amqp_max_message_size: int = 256 * 1024 * 1024
    """Octets of one AMQP message that a producer may send."""
    amqp_incoming_window: int = 2**31 - 1
    """Transfers that an AMQP peer may send on a session before it hears of us."""
    amqp_channel_max: int = 65535
    amqp_handle_max: int = 65535
    """The highest channel and the highest handle that an AMQP peer may use."""
    amqp_first_transfer_id: int = 0
    amqp_first_delivery_id: int = 0
    amqp_first_delivery_count: int = 0
    """Where our serial numbers of 32 bits begin in each session and on each link. A test that wants
    to see them wrap begins near the end."""
    amqp091_channel_max: int = 2047
    amqp091_frame_max: int = 131072
    amqp091_heartbeat_s: int = 60
    """What connection.tune proposes: channels, octets of a frame, and seconds between heart-beats;
    0 is no limit, or none."""
    amqp091_max_message_size: int = 134217728
    """Octets of the body of one AMQP 0-9-1 message."""
    openwire_max_inactivity_ms: int = 30_000
    openwire_initial_delay_ms: int = 10_000
    """``wireFormat.maxInactivityDuration``: how long an OpenWire peer may be silent, 0 or less for
    ever, and how long nobody looks at first (``…InitalDelay``). The lesser of what both sides say
    counts."""
    openwire_max_frame_size: int = LONG_MAX
    """``wireFormat.maxFrameSize``: octets of one OpenWire command behind its size; the lesser
    counts."""
    tls: Tls | None = None
    """None: connections are in the clear."""
    stomp_errors_close: bool = True
    """False: an ERROR about a frame that could be read leaves a session open, in the profile of
    ActiveMQ, as its release 6.3.1 has it and the specifications do not (STOMP11-SEND-07,
    STOMP12-ERR-02)."""
    heart_beat_grace: float = 1.0
    """``transport.hbGracePeriodMultiplier``: how many intervals a look for silence covers, from
    1."""
    manners: FamilyBehaviour = FamilyBehaviour()


@dataclass(frozen=True, slots=True)
class AddressSetting:
    """What an ``address-setting`` element said for the addresses that ``match``; None where it said
    nothing."""

    match: str
    default_address_routing_type: RoutingType | None = None
    default_queue_routing_type: RoutingType | None = None
    auto_create_addresses: bool | None = None
    auto_create_queues: bool | None = None
    auto_delete_addresses: bool | None = None
    auto_delete_queues: bool | None = None
    max_delivery_attempts: int | None = None
    dead_letter_address: str | None = None
    expiry_address: str | None = None
    redelivery_delay_ms: int | None = None
    max_size_bytes: int | None = None
    max_size_messages: int | None = None
    max_size_bytes_reject_threshold: int | None = None
    page_size_bytes: int | None = None
    page_max_cache_size: int | None = None
    max_read_page_bytes: int | None = None
    max_read_page_messages: int | None = None
    page_limit_bytes: int | None = None
    page_limit_messages: int | None = None
    page_full_policy: FullPolicy | None = None
    address_full_policy: FullPolicy | None = None
    default_consumer_window_size: int | None = None


QUEUES_STAY = AddressSetting(
    "#",
    default_address_routing_type=RoutingType.ANYCAST,
    auto_delete_queues=False,
    auto_delete_addresses=False,
    max_delivery_attempts=0,
)
"""Of brokers whose queues are there until somebody deletes them, and deliver a message again as
often as need be."""


@dataclass(frozen=True, slots=True)
class ConfiguredQueue:
    """A queue that exists from the start."""

    name: str
    routing: RoutingType
    durable: bool = True
    filter: str | None = None


@dataclass(frozen=True, slots=True)
class ConfiguredAddress:
    """An address that exists from the start, with its queues."""

    name: str
    routing: frozenset[RoutingType] = frozenset()
    queues: tuple[ConfiguredQueue, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """Everything a broker is configured with."""

    name: str = "reference"
    acceptors: tuple[Acceptor, ...] = (Acceptor("stomp"),)
    connection_ttl_override_ms: int = -1
    connection_ttl_check_interval_ms: int = 2000
    security_enabled: bool = False
    users: dict[str, str] = field(default_factory=dict)
    """Passcode by login, plain or hashed (:mod:`brokerproof.reference_broker.kernel.passwords`);
    looked at only when ``security_enabled``."""
    certificate_users: dict[str, str] = field(default_factory=dict)
    """Login by the subject of a client's certificate."""
    address_settings: tuple[AddressSetting, ...] = ()
    addresses: tuple[ConfiguredAddress, ...] = ()
    global_max_size_bytes: int = -1
    """``global-max-size``: octets that all addresses together may have before they are full; -1 is
    no limit."""
    global_max_messages: int = -1
    """``global-max-messages``: likewise, messages."""
    persistence_enabled: bool = True
    """``persistence-enabled``: whether durable messages survive a restart of a broker that has a
    folder for its data."""
    paging_directory: str = "paging"
    journal_directory: str = "journal"
    large_messages_directory: str = "large-messages"
    """Where pages, journal and large bodies are, from the folder for the data on, unless they are
    absolute."""
    journal_file_size: int = 10 * 1024 * 1024
    """``journal-file-size``: octets after which the journal goes on in another file."""
    watches_the_machine: bool = False
    """Whether a broker in real time is told how much memory and disk space there is."""
    node: str = "rabbit@localhost"
    """How a RabbitMQ is called in its cluster."""
    queue_rate: int = 0
    """How many messages a second a queue that was declared takes of what is published, 0 for any
    number. No file says it: it stands for how quick a machine is, by which RabbitMQ holds
    publishers back (RABBITMQ-FLOW-conn-2)."""
    memory_high_watermark: float | int = 0.4
    """RabbitMQ's ``vm_memory_high_watermark``: a fraction of the memory that can be used (float),
    or octets (int)."""
    memory_paging_ratio: float | None = None
    """``vm_memory_high_watermark_paging_ratio``: how much of the way to the watermark there is
    before queues write out what they hold; None where no broker does."""
    disk_free_limit: float | int = 50_000_000
    """``disk_free_limit``: octets (int), or a multiple of the memory (float)."""
    stomp_transactional_acks_ignored: bool = False
    """True: an ACK or NACK with a transaction header does nothing (ARTEMIS-STOMP-tx-1). False: it
    is part of the transaction, as the specification has it (STOMP11-ACK-04, STOMP12-ACK-03)."""
    core_grants_within_room: bool = True
    """True: a CORE producer is given no more credit than its address has room
    (ARTEMIS-FLOW-producer-2). False: all that it asks for, as long as the address is not full, as
    release 2.56.0 has it."""
    activemq: ActiveMq | None = None
    """How an ActiveMQ is configured beside its acceptors; None for brokers of other families."""
    stalls_at_the_store: bool = False
    """True: a send for which the store has no space holds up its connection even if it waits for an
    answer, as release 6.3.1 of ActiveMQ has it. False: it waits by itself (ACTIVEMQ-PFC-1)."""
    heap: int = GIB
    """Octets that an ActiveMQ's Java process may have: what ``percentOfJvmHeap`` is a part of."""
    disk_space: int | None = None
    """Octets that its disk holds for messages: no limit is above that. None: as much as is asked
    for."""
    wildcard_delimiter: str = "."
    wildcard_any_words: str = "#"
    wildcard_single_word: str = "*"

    def acceptor(self, name: str) -> Acceptor:
        """The acceptor of that name; raises ``KeyError`` when there is none."""
        for each in self.acceptors:
            if each.name == name:
                return each
        raise KeyError(name)
