"""Settings of an activemq.xml that this broker knows and that change nothing a client of it can
see.

Kinds of entries as in :mod:`brokerproof.reference_broker.config.artemis.ignored_settings`; names
are those of ActiveMQ 6.3.1 (its XBean schema, ``PolicyEntry``, the ``transport.*`` options of the
STOMP and AMQP connectors).
"""

from __future__ import annotations

from brokerproof.reference_broker.config.artemis.ignored_settings import (
    Entry,
    NoEffect,
    Only,
    Refused,
)
from brokerproof.reference_broker.config.values import (
    INT_MAX,
    LONG_MIN,
    boolean,
    byte_size,
    decimal,
    maybe_words,
    whole,
)

_number = whole(LONG_MIN)
_ALONE = "this broker keeps to itself; remove the element"
_ADVISORIES = "there are no advisory messages here"
_MEMORY = "about how Java keeps messages in memory"
_MANAGEMENT = "there is no JMX here"
_SOCKET = "tuning of the socket; the bytes on the wire are the same"
_STORE = (
    "files are where --data says, have a form of their own here, and count no more as soon as they"
    " are read or consumed"
)
_DUPLICATES = "duplicates are not looked for here"
_GC = "destinations stay until the broker ends"
_CODE = "Java code cannot be loaded here; remove the element"


def _named(names: str, entry: Entry) -> dict[str, Entry]:
    return dict.fromkeys(names.split(), entry)


BROKER: dict[str, Entry] = {
    **_named(
        "useJmx schedulerSupport populateJMSXUserID useMirroredQueues monitorConnectionSplits",
        NoEffect(boolean, _MANAGEMENT),
    ),
    **_named("advisorySupport anonymousProducerAdvisorySupport", NoEffect(boolean, _ADVISORIES)),
    **_named(
        "enableStatistics useLoggingForShutdownErrors useShutdownHook systemExitOnShutdown start",
        NoEffect(boolean, _MANAGEMENT),
    ),
    **_named(
        "deleteAllMessagesOnStartup cacheTempDestinations keepDurableSubsActive",
        NoEffect(boolean, _STORE),
    ),
    **_named("dataDirectory tmpDataDirectory brokerId", NoEffect(maybe_words, _STORE)),
    **_named(
        "dedicatedTaskRunner useVirtualTopics useVirtualDestSubs",
        NoEffect(boolean, "about the threads and names of Java"),
    ),
    **_named(
        "offlineDurableSubscriberTimeout offlineDurableSubscriberTaskSchedule",
        NoEffect(_number, _GC),
    ),
    **_named(
        "schedulePeriodForDestinationPurge maxPurgedDestinationsPerSweep", NoEffect(_number, _GC)
    ),
    "schedulePeriodForDiskUsageCheck": NoEffect(
        _number, "how much the disk holds is known from the start here"
    ),
    "adjustUsageLimits": Only(boolean, (True,)),
    "splitSystemUsageForProducersConsumers": Only(boolean, (False,)),
    "allowTempAutoCreationOnSend": NoEffect(boolean, "destinations are made when they are used"),
}
"""Attributes of ``broker`` that are not used."""

BROKER_TREES: dict[str, Entry] = {
    "persistenceAdapter": NoEffect(None, _STORE),
    "tempDataStore": NoEffect(None, _STORE),
    "managementContext": NoEffect(None, _MANAGEMENT),
    "shutdownHooks": NoEffect(None, "about how the process ends"),
    "ioExceptionHandler": NoEffect(None, _STORE),
    **_named("networkConnectors proxyConnectors jmsBridgeConnectors", Refused(_ALONE)),
    "destinationInterceptors": Refused("messages are not diverted here; remove the element"),
    "destinations": Refused("destinations are made when they are used; remove the element"),
    "messageAuthorizationPolicy": Refused(_CODE),
}
"""Children of ``broker`` that are not used."""

PLUGINS: dict[str, Entry] = {
    "authorizationPlugin": NoEffect(None, "every authenticated user may do everything here"),
    "loggingBrokerPlugin": NoEffect(None, "nothing is logged here"),
    **_named(
        "bean jaasAuthenticationPlugin jaasCertificateAuthenticationPlugin"
        " jaasDualAuthenticationPlugin redeliveryPlugin timeStampingBrokerPlugin"
        " discardingDLQBrokerPlugin traceBrokerPathPlugin runtimeConfigurationPlugin"
        " forcePersistencyModeBrokerPlugin destinationPathSeparatorPlugin",
        Refused(_CODE),
    ),
}

POLICY: dict[str, Entry] = {
    **_named(
        "advisoryForConsumed advisoryForDelivery advisoryForDispatched"
        " advisoryForDiscardingMessages advisoryForFastProducers advisoryForSlowConsumers"
        " advisoryWhenFull includeBodyForAdvisory sendAdvisoryIfNoConsumers",
        NoEffect(boolean, _ADVISORIES),
    ),
    **_named("enableAudit sendDuplicateFromStoreToDLQ", NoEffect(boolean, _DUPLICATES)),
    **_named(
        "maxAuditDepth maxProducersToAudit maxQueueAuditDepth", NoEffect(_number, _DUPLICATES)
    ),
    **_named("gcInactiveDestinations gcWithNetworkConsumers", NoEffect(boolean, _GC)),
    "inactiveTimeoutBeforeGC": NoEffect(_number, _GC),
    **_named("inactiveTimoutBeforeGC maxDestinations", NoEffect(_number, _GC)),
    **_named(
        "reduceMemoryFootprint optimizedDispatch usePrefetchExtension doOptimzeMessageStorage",
        NoEffect(boolean, _MEMORY),
    ),
    **_named(
        "optimizeMessageStoreInFlightLimit maxBrowsePageSize", NoEffect(whole(0, INT_MAX), _MEMORY)
    ),
    **_named(
        "advancedMessageStatisticsEnabled advancedNetworkStatisticsEnabled"
        " useTopicSubscriptionInflightStats",
        NoEffect(boolean, _MANAGEMENT),
    ),
    **_named("blockedProducerWarningInterval", NoEffect(_number, "nothing is logged here")),
    **_named(
        "expireMessagesPeriod maxExpirePageSize", NoEffect(_number, "messages do not expire here")
    ),
    "useConsumerPriority": NoEffect(boolean, "consumers have no priorities here"),
    "messageGroupMapFactoryType": NoEffect(maybe_words, "message groups are not kept here"),
    "persistJMSRedelivered": NoEffect(boolean, "nothing is kept over a restart"),
    **_named("useCache", Only(boolean, (True,))),
    **_named(
        "lazyDispatch strictOrderDispatch prioritizedMessages allConsumersExclusiveByDefault"
        " alwaysRetroactive tempQueue tempTopic",
        Only(boolean, (False,)),
    ),
    **_named("timeBeforeDispatchStarts consumersBeforeDispatchStarts", Only(_number, (0,))),
}
"""Attributes of ``policyEntry`` that are not used."""

POLICY_TREES: dict[str, Entry] = {
    "pendingSubscriberPolicy": NoEffect(
        None, "what waits for the subscriber of a topic is in memory"
    ),
    "pendingDurableSubscriberPolicy": NoEffect(
        None, "what waits for a durable subscriber is in memory"
    ),
    "dispatchPolicy": NoEffect(None, "consumers are served in turn"),
    "deadLetterStrategy": Refused(
        "what is given up goes to ActiveMQ.DLQ if it is persistent; remove the element"
    ),
    "subscriptionRecoveryPolicy": Refused("a topic remembers nothing here; remove the element"),
    **_named(
        "pendingMessageLimitStrategy messageEvictionStrategy slowConsumerStrategy"
        " messageInterceptorStrategy messageGroupMapFactory networkBridgeFilterFactory",
        Refused("there is nothing like it here; remove the element"),
    ),
}
"""Children of ``policyEntry`` that are not used."""

USAGE_TREES: dict[str, Entry] = {"jobSchedulerUsage": NoEffect(None, "nothing is scheduled here")}

CONNECTOR: dict[str, Entry] = {
    **_named(
        "enableStatusMonitor updateClusterClients rebalanceClusterClients"
        " updateClusterClientsOnRemove auditNetworkProducers allowLinkStealing warnOnRemoteClose"
        " displayStackTrace",
        NoEffect(boolean, _MANAGEMENT),
    ),
    **_named("disableAsyncDispatch", NoEffect(boolean, "about the threads of Java")),
    **_named(
        "maximumConsumersAllowedPerConnection maximumProducersAllowedPerConnection",
        NoEffect(_number, "connections have no such limits here"),
    ),
    **_named("discoveryUri connectUri", NoEffect(maybe_words, "nobody is told of this broker")),
}
"""Attributes of ``transportConnector`` other than name and uri."""

OPTION: dict[str, Entry] = {
    **_named(
        "maximumConnections wireFormat.cacheSize",
        NoEffect(_number, "a limit that is not kept here"),
    ),
    **_named(
        "wireFormat.tightEncodingEnabled wireFormat.cacheEnabled wireFormat.stackTraceEnabled"
        " wireFormat.tcpNoDelayEnabled wireFormat.sizePrefixDisabled",
        NoEffect(
            boolean,
            "OpenWire is always loose here, with sizes, without a cache and without stack traces",
        ),
    ),
    **_named(
        "transport.soTimeout transport.soLinger transport.soWriteTimeout transport.trafficClass"
        " socketBufferSize transport.socketBufferSize transport.ioBufferSize ioBufferSize backlog"
        " transport.backlog transport.connectionTimeout soTimeout connectionTimeout",
        NoEffect(whole(-1, INT_MAX), _SOCKET),
    ),
    **_named(
        "transport.tcpNoDelay transport.keepAlive keepAlive tcpNoDelay transport.useKeepAlive"
        " transport.closeAsync transport.useInactivityMonitor transport.daemon transport.trace"
        " trace jms.useAsyncSend",
        NoEffect(boolean, _SOCKET),
    ),
    **_named(
        "transport.threadName daemon transport.logWriterName transport.wireFormat.transformer",
        NoEffect(maybe_words, _SOCKET),
    ),
    "transport.transformer": NoEffect(maybe_words, "a message crosses protocols in one way here"),
    "transport.defaultHeartBeat": Only(maybe_words, ("0,0",)),
    **_named(
        "transport.maxFrameSize transport.wireFormat.maxFrameSize",
        NoEffect(byte_size(1), "limits of frames are those of the protocols"),
    ),
    "transport.wireFormat.maxDataLength": NoEffect(
        byte_size(1), "limits of frames are those of the protocols"
    ),
    "transport.maxInactivityDuration": NoEffect(
        whole(0), "OpenWire connections are not given up for silence here"
    ),
    "transport.selectorThreads": NoEffect(decimal(above=0), "this broker has one thread"),
    "transport.startLogging": NoEffect(boolean, _SOCKET),
    **_named(
        "needClientAuth wantClientAuth transport.needClientAuth transport.wantClientAuth"
        " transport.enabledProtocols transport.enabledCipherSuites",
        Refused("TLS is not spoken in this profile; remove the parameter"),
    ),
}
"""Options in the query of a connector's URI that are not used; those before ``transport.`` are the
socket's."""
