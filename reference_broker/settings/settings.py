"""The settings of a broker.

The settings are plain frozen data with the defaults of the ``artemis`` profile (from the vendor's
documentation; where a release differs, the profile says so). The readers of configuration files
produce :class:`Settings`. Durations are milliseconds and sizes are bytes, as in the files; the
kernel converts to nanoseconds once.
"""

from dataclasses import dataclass, field

from brokerproof.harness.model.enums import FullPolicy, RoutingType
from brokerproof.harness.model.input_file import OneSentence
from brokerproof.reference_broker.settings.acceptor import Acceptor
from brokerproof.reference_broker.settings.activemq import ActiveMq
from brokerproof.reference_broker.settings.quotas import Quotas
from brokerproof.reference_broker.settings.rabbitmq import RabbitMq


class BadSetting(OneSentence):
    """A refused setting. The message gives the file, the line, the name and the correct form."""


@dataclass(frozen=True, slots=True)
class AddressSetting:
    """An ``address-setting`` element for addresses that ``match``; values not given are None."""

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
"""For brokers on which queues stay until somebody deletes them, and messages are redelivered any
number of times."""


@dataclass(frozen=True, slots=True)
class ConfiguredQueue:
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
    name: str = "reference"
    acceptors: tuple[Acceptor, ...] = (Acceptor("stomp"),)
    connection_ttl_override_ms: int = -1
    connection_ttl_check_interval_ms: int = 2000
    security_enabled: bool = False
    users: dict[str, str] = field(default_factory=dict)
    """Passcodes by login, plain or hashed (:mod:`brokerproof.reference_broker.kernel.passwords`),
    which are used only if ``security_enabled``."""
    certificate_users: dict[str, str] = field(default_factory=dict)
    """Logins by the subject of a client's certificate."""
    address_settings: tuple[AddressSetting, ...] = ()
    addresses: tuple[ConfiguredAddress, ...] = ()
    global_max_size_bytes: int = -1
    """``global-max-size``: the bytes at which all addresses together are full; -1: no limit."""
    global_max_messages: int = -1
    """``global-max-messages``: the same limit in messages."""
    persistence_enabled: bool = True
    """``persistence-enabled``: durable messages survive a restart, given a data folder."""
    paging_directory: str = "paging"
    journal_directory: str = "journal"
    large_messages_directory: str = "large-messages"
    """Folders of pages, journal and large bodies, relative to the data folder unless absolute."""
    journal_file_size: int = 10 * 1024 * 1024
    """``journal-file-size``: the bytes after which the journal continues in another file."""
    stomp_transactional_acks_ignored: bool = False
    """True: an ACK or NACK with a transaction header does nothing (ARTEMIS-STOMP-tx-1). False: the
    ACK or NACK is part of the transaction, as in the specification (STOMP11-ACK-04,
    STOMP12-ACK-03)."""
    core_grants_within_room: bool = True
    """True: a CORE producer is granted no more credit than its address has room for
    (ARTEMIS-FLOW-producer-2). False: while the address is not full, the producer is granted
    everything that it requests, as in release 2.56.0."""
    quotas: Quotas = field(default_factory=Quotas)
    """The maximum number of resources of each kind that one connection may have at one time."""
    activemq: ActiveMq | None = None
    """Set for a broker of the ActiveMQ family."""
    rabbitmq: RabbitMq | None = None
    """Set for a broker of the RabbitMQ family. Without either record, the family is Artemis."""
    wildcard_delimiter: str = "."
    wildcard_any_words: str = "#"
    wildcard_single_word: str = "*"

    def acceptor(self, name: str) -> Acceptor:
        """Return the acceptor with that name. Raises ``KeyError`` if there is none."""
        for acceptor in self.acceptors:
            if acceptor.name == name:
                return acceptor
        raise KeyError(name)
