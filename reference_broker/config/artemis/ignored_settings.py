"""Settings of a real broker.xml that this broker knows and that change nothing a client of it can
see.

Nothing is ignored silently: a name is either used by the reader, or stands here with the reason why
it has no effect, or is refused. Three kinds of entry:

* :class:`NoEffect`: any value of the right type is accepted; ``reason`` says why it does not matter
  here.
* :class:`Only`: accepted with the value that this broker has anyway; another value would promise
  what it does not do.
* :class:`Refused`: known to Artemis, but there is nothing here that could honour it; ``instead``
  says what to do.

Names and types are those of Artemis 2.56 (schema ``artemis-configuration.xsd``,
``FileConfigurationParser``, ``TransportConstants``).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

from brokerproof.reference_broker.config.values import (
    INT_MAX,
    LONG_MIN,
    Where,
    boolean,
    byte_size,
    decimal,
    maybe_words,
    one_of,
    whole,
    words,
)

Read: TypeAlias = Callable[[str, Where], Any]


@dataclass(frozen=True, slots=True)
class NoEffect:
    """A setting whose value is checked and then not needed. ``read`` is None for an element with a
    tree below it."""

    read: Read | None
    reason: str


@dataclass(frozen=True, slots=True)
class Only:
    """A setting that is accepted with these values alone, because they are what this broker
    does."""

    read: Read
    values: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class Refused:
    """A setting that Artemis knows and that is refused here, with a hint."""

    instead: str


Entry: TypeAlias = NoEffect | Only | Refused

_number = whole(LONG_MIN)
_count = whole(0, INT_MAX)
_positive = whole(1)

_STORE = "files are kept in another way here, which needs no such setting"
_THREADS = "this broker has one thread"
_MANAGEMENT = "of management there is only what the management address answers"
_NOTICES = "nobody is notified here"
_JVM = "about the Java process"
_NETWORK = "this broker does not watch the network"
_MIRROR = "there are no mirrors here"
_CLUSTER = "this broker is alone"
_MQTT = "MQTT is not supported here"
_AMQP = "tuning of Artemis's own AMQP engine"
_OPENWIRE = "OpenWire is not supported here"
_TCP = "tuning of the socket; the bytes on the wire are the same"
_HTTP = "of HTTP only the upgrade to WebSocket is supported"
_PAGING = "a queue reads from pages what its consumers have room for, up to max-read-page-bytes"
_ALONE = "this broker keeps to itself; remove the element"


def _named(names: str, entry: Entry) -> dict[str, Entry]:
    return dict.fromkeys(names.split(), entry)


CORE: dict[str, Entry] = {
    **_named("bindings-directory node-manager-lock-directory", NoEffect(words, _STORE)),
    "journal-retention-directory": NoEffect(None, _STORE),
    "store": NoEffect(None, _STORE),
    **_named(
        "journal-datasync large-message-sync create-bindings-dir create-journal-dir read-whole-page"
        " journal-sync-transactional journal-sync-non-transactional log-journal-write-rate"
        " purge-page-folders persist-delivery-count-before-delivery persist-id-cache",
        NoEffect(boolean, _STORE),
    ),
    "journal-type": NoEffect(one_of("ASYNCIO", "MAPPED", "NIO"), _STORE),
    **_named("journal-buffer-size", NoEffect(byte_size(1, INT_MAX), _STORE)),
    **_named(
        "page-max-concurrent-io journal-device-block-size journal-min-files journal-pool-files"
        " journal-compact-min-files journal-compact-percentage journal-max-io"
        " journal-buffer-timeout journal-file-open-timeout journal-max-attic-files"
        " journal-lock-acquisition-timeout journal-lock-monitor-timeout"
        " journal-lock-monitor-max-retries page-sync-timeout max-redelivery-records max-disk-usage"
        " disk-scan-period",
        NoEffect(_number, _STORE),
    ),
    "min-disk-free": NoEffect(byte_size(0, or_else=-1), _STORE),
    "global-max-size-percent-of-jvm-max-memory": NoEffect(whole(1, 100), _JVM),
    "critical-analyzer": NoEffect(boolean, _JVM),
    **_named("critical-analyzer-timeout critical-analyzer-check-period", NoEffect(whole(0), _JVM)),
    "critical-analyzer-policy": NoEffect(one_of("HALT", "SHUTDOWN", "LOG"), _JVM),
    **_named(
        "server-dump-interval memory-warning-threshold memory-measure-interval",
        NoEffect(_number, _JVM),
    ),
    **_named("scheduled-thread-pool-max-size thread-pool-max-size", NoEffect(_number, _THREADS)),
    "async-connection-execution-enabled": NoEffect(boolean, _THREADS),
    "message-expiry-thread-priority": NoEffect(_number, _THREADS),
    "message-expiry-scan-period": NoEffect(
        whole(1, or_else=-1), "expired messages are not collected in the background"
    ),
    "address-queue-scan-period": NoEffect(
        whole(1, or_else=-1), "what is no longer used is deleted at once, not by a scan"
    ),
    **_named(
        "transaction-timeout transaction-timeout-scan-period",
        NoEffect(_positive, "for XA transactions only"),
    ),
    "graceful-shutdown-enabled": NoEffect(boolean, "about how the process ends"),
    "graceful-shutdown-timeout": NoEffect(whole(0, or_else=-1), "about how the process ends"),
    **_named(
        "configuration-file-refresh-period",
        NoEffect(whole(1, or_else=-1), "the file is read once, at the start"),
    ),
    "resolve-protocols": NoEffect(boolean, "about loading Java classes"),
    "log-delegate-factory-class-name": NoEffect(words, _JVM),
    **_named(
        "jmx-management-enabled jmx-notification-enabled jmx-use-broker-name"
        " message-counter-enabled suppress-session-notifications management-message-rbac",
        NoEffect(boolean, _MANAGEMENT),
    ),
    "management-address": Only(words, ("activemq.management",)),
    **_named("jmx-domain management-notification-address", NoEffect(words, _NOTICES)),
    **_named(
        "view-permission-method-match-pattern management-rbac-prefix",
        NoEffect(maybe_words, _MANAGEMENT),
    ),
    **_named(
        "message-counter-sample-period message-counter-max-day-history",
        NoEffect(_positive, _MANAGEMENT),
    ),
    **_named("metrics metrics-plugin", NoEffect(None, _MANAGEMENT)),
    **_named(
        "security-invalidation-interval authentication-cache-size authorization-cache-size",
        NoEffect(whole(0), "users are looked up at every CONNECT"),
    ),
    "security-settings": NoEffect(
        None, "every authenticated user may do everything here; roles are not kept"
    ),
    "id-cache-size": NoEffect(_count, "duplicates are not detected here"),
    **_named(
        "temporary-queue-namespace uuid-namespace internal-naming-prefix",
        NoEffect(words, "no such names here"),
    ),
    "amqp-use-core-subscription-naming": NoEffect(
        boolean, "AMQP subscriptions do not outlive their links here"
    ),
    **_named(
        "mqtt-session-scan-interval mqtt-session-state-persistence-timeout",
        NoEffect(_positive, _MQTT),
    ),
    "mqtt-subscription-persistence-enabled": NoEffect(boolean, _MQTT),
    **_named(
        "network-check-list network-check-URL-list network-check-NIC network-check-ping-command "
        "network-check-ping6-command",
        NoEffect(maybe_words, _NETWORK),
    ),
    **_named("network-check-period network-check-timeout", NoEffect(_positive, _NETWORK)),
    "connectors": NoEffect(None, "connectors are told to other brokers and to CORE clients only"),
    **_named("cluster-user cluster-password", NoEffect(maybe_words, _CLUSTER)),
    **_named(
        "mirror-ack-manager-queue-attempts mirror-ack-manager-page-attempts"
        " mirror-ack-manager-retry-delay",
        NoEffect(_positive, _MIRROR),
    ),
    **_named("mirror-ack-manager-warn-unacked mirror-page-transaction", NoEffect(boolean, _MIRROR)),
    "wild-card-routing-enabled": Only(boolean, (True,)),
    "populate-validated-user": Only(boolean, (False,)),
    "reject-empty-validated-user": Only(boolean, (False,)),
    "mask-password": Only(boolean, (False,)),
    **_named(
        "password-codec system-property-prefix literal-match-markers",
        Refused("there is nothing like it here; remove it"),
    ),
    **_named(
        "broadcast-groups discovery-groups bridges federations ha-policy cluster-connections"
        " broker-connections connection-routers grouping-handler lock-coordinators",
        Refused(_ALONE),
    ),
    **_named(
        "broker-plugins remoting-interceptors remoting-incoming-interceptors"
        " remoting-outgoing-interceptors connector-services",
        Refused("Java code cannot be loaded here; remove the element"),
    ),
    "diverts": Refused("messages are not diverted here; remove the element"),
    "resource-limit-settings": Refused("users have no limits here; remove the element"),
    "queues": Refused(
        "the deprecated element is not read here; write addresses with address and queue instead"
    ),
}
"""Children of ``core`` that the reader does not use."""

ADDRESS_SETTING: dict[str, Entry] = {
    # Read into the settings, but not acted on by the core yet. Take an entry away when the core
    # does.
    "expiry-address": NoEffect(None, "messages do not expire here"),
    "redelivery-delay": Only(whole(0), (0,)),
    # Not read.
    "message-counter-history-day-limit": NoEffect(_number, _MANAGEMENT),
    **_named(
        "management-browse-page-size management-message-attribute-size-limit",
        NoEffect(_number, _MANAGEMENT),
    ),
    "enable-metrics": NoEffect(boolean, _MANAGEMENT),
    "prefetch-page-messages": NoEffect(_number, _PAGING),
    "prefetch-page-bytes": NoEffect(byte_size(1, INT_MAX, or_else=-1), _PAGING),
    "disk-full-policy": NoEffect(one_of("DROP", "BLOCK", "FAIL"), _STORE),
    "redistribution-delay": NoEffect(_number, _CLUSTER),
    "initial-queue-buffer-size": NoEffect(_positive, "about memory inside the Java process"),
    "id-cache-size": NoEffect(_count, "duplicates are not detected here"),
    **_named(
        "config-delete-queues config-delete-addresses config-delete-diverts",
        NoEffect(one_of("OFF", "FORCE"), "the file is read once, at the start"),
    ),
    "slow-consumer-check-period": NoEffect(
        _positive, "only with slow-consumer-threshold, which is -1"
    ),
    "slow-consumer-policy": NoEffect(
        one_of("KILL", "NOTIFY"), "only with slow-consumer-threshold, which is -1"
    ),
    "slow-consumer-threshold-measurement-unit": NoEffect(
        one_of(
            "MESSAGES_PER_SECOND", "MESSAGES_PER_MINUTE", "MESSAGES_PER_HOUR", "MESSAGES_PER_DAY"
        ),
        "only with slow-consumer-threshold, which is -1",
    ),
    "slow-consumer-threshold": Only(whole(1, or_else=-1), (-1,)),
    **_named("expiry-delay min-expiry-delay max-expiry-delay", Only(whole(0, or_else=-1), (-1,))),
    **_named(
        "no-expiry last-value-queue default-last-value-queue default-non-destructive"
        " default-exclusive-queue default-group-rebalance default-group-rebalance-pause-dispatch"
        " send-to-dla-on-no-route default-purge-on-no-consumers enable-ingress-timestamp"
        " auto-create-dead-letter-resources auto-create-expiry-resources auto-delete-created-queues"
        " auto-delete-queues-skip-usage-check auto-delete-addresses-skip-usage-check",
        Only(boolean, (False,)),
    ),
    **_named(
        "dead-letter-queue-prefix dead-letter-queue-suffix expiry-queue-prefix expiry-queue-suffix",
        NoEffect(
            maybe_words, "only with resources that are created automatically, which is refused"
        ),
    ),
    "default-last-value-key": NoEffect(words, "only with last-value queues, which are refused"),
    "default-group-first-key": NoEffect(words, "message groups are not kept here"),
    **_named("default-group-buckets default-max-consumers default-ring-size", Only(_number, (-1,))),
    **_named(
        "default-consumers-before-dispatch retroactive-message-count auto-delete-queues-delay "
        "auto-delete-addresses-delay auto-delete-queues-message-count",
        Only(_number, (0,)),
    ),
    "default-delay-before-dispatch": Only(_number, (-1,)),
    "redelivery-delay-multiplier": Only(decimal(above=0), (1.0,)),
    "redelivery-collision-avoidance-factor": Only(decimal(above=-1), (0.0,)),
    "max-redelivery-delay": NoEffect(
        _number, "only with redelivery-delay-multiplier above 1, which is refused"
    ),
    **_named(
        "auto-create-jms-queues auto-create-jms-topics", Refused("write auto-create-queues instead")
    ),
    **_named(
        "auto-delete-jms-queues auto-delete-jms-topics", Refused("write auto-delete-queues instead")
    ),
}
"""Children of ``address-setting`` that the broker does not act on, whether the reader keeps their
values or not."""

QUEUE: dict[str, Entry] = {
    **_named("max-consumers group-buckets delay-before-dispatch ring-size", Only(_number, (-1,))),
    "consumers-before-dispatch": Only(_number, (0,)),
    **_named(
        "purge-on-no-consumers exclusive group-rebalance group-rebalance-pause-dispatch last-value"
        " non-destructive",
        Only(boolean, (False,)),
    ),
    "enabled": Only(boolean, (True,)),
    "group-first-key": NoEffect(words, "message groups are not kept here"),
    "last-value-key": NoEffect(words, "only with last-value=true, which is refused"),
}
"""Attributes of ``queue`` other than ``name``."""

ACCEPTOR: dict[str, Entry] = {
    **_named("tcpSendBufferSize tcpReceiveBufferSize", NoEffect(whole(-1, INT_MAX), _TCP)),
    **_named("writeBufferLowWaterMark writeBufferHighWaterMark", NoEffect(whole(0, INT_MAX), _TCP)),
    **_named("tcpNoDelay useEpoll useKQueue directDeliver", NoEffect(boolean, _TCP)),
    **_named("backlog batchDelay", NoEffect(whole(0, INT_MAX, or_else=-1), _TCP)),
    **_named(
        "nioRemotingThreads remotingThreads", NoEffect(whole(1, INT_MAX, or_else=-1), _THREADS)
    ),
    **_named("useNio useGlobalWorkerPool useNioGlobalWorkerPool", NoEffect(boolean, _THREADS)),
    **_named(
        "quietPeriod shutdownTimeout", NoEffect(whole(0, INT_MAX), "about how the process ends")
    ),
    **_named(
        "initialRemoteMaxFrameSize directDeliverMaxInflight maxTransfersPerDelivery",
        NoEffect(_number, _AMQP),
    ),
    "amqpDuplicateDetection": NoEffect(boolean, "duplicates are not detected here"),
    **_named(
        "amqpUseModifiedForTransientDeliveryErrors amqpTreatRejectAsUnmodifiedDeliveryFailed",
        Only(boolean, (False,)),
    ),
    "amqpUseCoreSubscriptionNaming": NoEffect(
        boolean, "AMQP subscriptions do not outlive their links here"
    ),
    "saslLoginConfigScope": NoEffect(words, "only with GSSAPI, which is not supported here"),
    "pubSubPrefix": Refused(
        "the deprecated parameter is not read here; write multicastPrefix instead"
    ),
    **_named(
        "supportAdvisory suppressInternalManagementObjects useKeepAlive rebalanceClusterClients"
        " updateClusterClients updateClusterClientsOnRemove",
        NoEffect(boolean, _OPENWIRE),
    ),
    **_named(
        "maxInactivityDuration maxInactivityDurationInitalDelay openWireDestinationCacheSize "
        "virtualTopicConsumerLruCacheMax",
        NoEffect(_number, _OPENWIRE),
    ),
    "virtualTopicConsumerWildcards": NoEffect(words, _OPENWIRE),
    **_named(
        "allowLinkStealing closeMqttConnectionOnPublishAuthorizationFailure",
        NoEffect(boolean, _MQTT),
    ),
    **_named(
        "defaultMaximumInFlightPublishMessages maximumPacketSize receiveMaximum serverKeepAlive"
        " topicAliasMaximum maximumInFlightPublishMessages",
        NoEffect(_number, _MQTT),
    ),
    "clusterConnection": NoEffect(words, _CLUSTER),
    **_named(
        "httpEnabled httpUpgradeEnabled httpRequiresSessionId useServlet", Only(boolean, (False,))
    ),
    **_named(
        "httpClientIdleTime httpClientIdleScanPeriod httpResponseTime httpServerScanPeriod",
        NoEffect(whole(0), _HTTP),
    ),
    "webSocketCompressionSupported": Only(boolean, (False,)),
    **_named("proxyProtocolEnabled useInvm", Only(boolean, (False,))),
    "autoStart": Only(boolean, (True,)),
    **_named(
        "router securityDomain", Refused("there is nothing like it here; remove the parameter")
    ),
    **_named("host port", Refused("write it before the question mark: tcp://HOST:PORT?…")),
    "protocol": Refused("write protocols instead"),
}
"""Parameters of an acceptor's URL that the reader does not use; those about TLS are in
``acceptor_tls``."""
