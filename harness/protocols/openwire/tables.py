"""The structures of OpenWire that have to do with connections, producers, consumers, messages and
signs of life.

Taken from ActiveMQ 6.3.1 (the ``openwire:property`` annotations of package ``command`` and the
marshallers of versions 1 to 12) and named as there. A field is a name and a type of
:mod:`brokerproof.harness.protocols.openwire.values`; with ``@N`` it is there from version N of the
protocol on. What is not here (XA, journals, bridges of a network, discovery) is read as a structure
without fields.
"""

from __future__ import annotations

from dataclasses import dataclass

from brokerproof.harness.protocols.versioned_fields import Fields, fields

NEWEST = 12
"""The newest version of the protocol; ActiveMQ speaks it since 5.12.0."""


@dataclass(frozen=True, slots=True)
class Table:
    """One structure: its name, its number (a byte, unsigned), and its fields. ``command``: it can
    stand by itself."""

    name: str
    code: int
    fields: Fields
    command: bool


_HEAD = "commandId:int responseRequired:boolean"
_RESPONSE = f"{_HEAD} correlationId:int"
_MESSAGE = (
    f"{_HEAD} producerId:structure destination:structure transactionId:structure"
    " originalDestination:structure messageId:structure originalTransactionId:structure"
    " groupID:string groupSequence:int correlationId:string persistent:boolean expiration:long"
    " priority:byte replyTo:structure timestamp:long type:string content:bytes"
    " marshalledProperties:bytes dataStructure:structure targetConsumerId:structure"
    " compressed:boolean redeliveryCounter:int brokerPath:structures arrival:long userID:string"
    " recievedByDFBridge:boolean droppable:boolean@2 cluster:structures@3 brokerInTime:long@3"
    " brokerOutTime:long@3 JMSXGroupFirstForConsumer:boolean@10"
)

_COMMANDS: dict[str, tuple[int, str]] = {
    "WireFormatInfo": (1, "magic:magic version:int marshalledProperties:bytes"),
    "BrokerInfo": (
        2,
        (
            f"{_HEAD} brokerId:structure brokerURL:string peerBrokerInfos:structures"
            " brokerName:string slaveBroker:boolean masterBroker:boolean"
            " faultTolerantConfiguration:boolean duplexConnection:boolean@2"
            " networkConnection:boolean@2 connectionId:long@2 brokerUploadUrl:string@3"
            " networkProperties:string@3"
        ),
    ),
    "ConnectionInfo": (
        3,
        (
            f"{_HEAD} connectionId:structure clientId:string password:string userName:string"
            " brokerPath:structures brokerMasterConnector:boolean manageable:boolean"
            " clientMaster:boolean@2 faultTolerant:boolean@6 failoverReconnect:boolean@6"
            " clientIp:string@8"
        ),
    ),
    "SessionInfo": (4, f"{_HEAD} sessionId:structure"),
    "ConsumerInfo": (
        5,
        (
            f"{_HEAD} consumerId:structure browser:boolean destination:structure prefetchSize:int"
            " maximumPendingMessageLimit:int dispatchAsync:boolean selector:string"
            " clientId:string@10 subscriptionName:string noLocal:boolean exclusive:boolean"
            " retroactive:boolean priority:byte brokerPath:structures"
            " additionalPredicate:structure networkSubscription:boolean"
            " optimizedAcknowledge:boolean noRangeAcks:boolean networkConsumerPath:structures@4"
        ),
    ),
    "ProducerInfo": (
        6,
        (
            f"{_HEAD} producerId:structure destination:structure brokerPath:structures"
            " dispatchAsync:boolean@2 windowSize:int@3"
        ),
    ),
    "TransactionInfo": (7, f"{_HEAD} connectionId:structure transactionId:structure type:byte"),
    "DestinationInfo": (
        8,
        (
            f"{_HEAD} connectionId:structure destination:structure operationType:byte timeout:long"
            " brokerPath:structures"
        ),
    ),
    "RemoveSubscriptionInfo": (
        9,
        f"{_HEAD} connectionId:structure subscriptionName:string clientId:string",
    ),
    "KeepAliveInfo": (10, _HEAD),
    "ShutdownInfo": (11, _HEAD),
    "RemoveInfo": (12, f"{_HEAD} objectId:structure lastDeliveredSequenceId:long@5"),
    "ControlCommand": (14, f"{_HEAD} command:string"),
    "FlushCommand": (15, _HEAD),
    "ConnectionError": (16, f"{_HEAD} exception:throwable connectionId:structure"),
    "ConsumerControl": (
        17,
        (
            f"{_HEAD} destination:structure@6 close:boolean consumerId:structure prefetch:int"
            " flush:boolean@2 start:boolean@2 stop:boolean@2"
        ),
    ),
    "ConnectionControl": (
        18,
        (
            f"{_HEAD} close:boolean exit:boolean faultTolerant:boolean resume:boolean"
            " suspend:boolean connectedBrokers:string@6 reconnectTo:string@6"
            " rebalanceConnection:boolean@6 token:bytes@8"
        ),
    ),
    "ProducerAck": (19, f"{_HEAD} producerId:structure size:int"),
    "MessagePull": (
        20,
        (
            f"{_HEAD} consumerId:structure destination:structure timeout:long"
            " correlationId:string@3 messageId:structure@3"
        ),
    ),
    "MessageDispatch": (
        21,
        (
            f"{_HEAD} consumerId:structure destination:structure message:structure"
            " redeliveryCounter:int"
        ),
    ),
    "MessageAck": (
        22,
        (
            f"{_HEAD} destination:structure transactionId:structure consumerId:structure"
            " ackType:byte firstMessageId:structure lastMessageId:structure messageCount:int"
            " poisonCause:throwable@7"
        ),
    ),
    "ActiveMQMessage": (23, _MESSAGE),
    "ActiveMQBytesMessage": (24, _MESSAGE),
    "ActiveMQMapMessage": (25, _MESSAGE),
    "ActiveMQObjectMessage": (26, _MESSAGE),
    "ActiveMQStreamMessage": (27, _MESSAGE),
    "ActiveMQTextMessage": (28, _MESSAGE),
    "Response": (30, _RESPONSE),
    "ExceptionResponse": (31, f"{_RESPONSE} exception:throwable"),
    "DataResponse": (32, f"{_RESPONSE} data:structure"),
    "DataArrayResponse": (33, f"{_RESPONSE} data:structures"),
    "IntegerResponse": (34, f"{_RESPONSE} result:int"),
}
_PARTS: dict[str, tuple[int, str]] = {
    "ActiveMQQueue": (100, "physicalName:string"),
    "ActiveMQTopic": (101, "physicalName:string"),
    "ActiveMQTempQueue": (102, "physicalName:string"),
    "ActiveMQTempTopic": (103, "physicalName:string"),
    "MessageId": (
        110,
        "textView:string@10 producerId:structure producerSequenceId:long brokerSequenceId:long",
    ),
    "LocalTransactionId": (111, "value:long connectionId:structure"),
    "XATransactionId": (112, "formatId:int globalTransactionId:bytes branchQualifier:bytes"),
    "ConnectionId": (120, "value:string"),
    "SessionId": (121, "connectionId:string value:long"),
    "ConsumerId": (122, "connectionId:string sessionId:long value:long"),
    "ProducerId": (123, "connectionId:string value:long sessionId:long"),
    "BrokerId": (124, "value:string"),
}

BY_NAME: dict[str, Table] = {
    name: Table(name, code, fields(text), command)
    for tables, command in ((_COMMANDS, True), (_PARTS, False))
    for name, (code, text) in tables.items()
}
BY_CODE: dict[int, Table] = {definition.code: definition for definition in BY_NAME.values()}

MESSAGES = frozenset(name for name in BY_NAME if name.endswith("Message"))
"""The commands that are messages."""
SINCE = {"MessagePull": 2, "ProducerAck": 3}
"""From which version on there is a command at all, where not from the first."""
