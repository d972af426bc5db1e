"""Numbers in OpenWire (release 6.3.1, CommandTypes etc.): types of structures, acknowledgements and
transactions."""

NEWEST = 12
"""The newest version of the protocol; all versions from 1 on are supported."""

WIRE_FORMAT, BROKER, CONNECTION, SESSION, CONSUMER, PRODUCER = 1, 2, 3, 4, 5, 6
TRANSACTION, DESTINATION, REMOVE_SUBSCRIPTION, KEEP_ALIVE, SHUTDOWN, REMOVE = 7, 8, 9, 10, 11, 12
CONTROL, FLUSH, CONNECTION_ERROR, CONSUMER_CONTROL, CONNECTION_CONTROL = 14, 15, 16, 17, 18
PRODUCER_ACK, PULL, DISPATCH, ACK = 19, 20, 21, 22
MESSAGE, BYTES_MESSAGE, MAP_MESSAGE, OBJECT_MESSAGE, STREAM_MESSAGE, TEXT_MESSAGE = (
    23,
    24,
    25,
    26,
    27,
    28,
)
RESPONSE, EXCEPTION_RESPONSE, INTEGER_RESPONSE = 30, 31, 34
MESSAGES = range(MESSAGE, TEXT_MESSAGE + 1)

QUEUE, TOPIC, TEMP_QUEUE, TEMP_TOPIC = 100, 101, 102, 103
MESSAGE_ID, LOCAL_TRANSACTION, XA_TRANSACTION = 110, 111, 112
CONNECTION_ID, SESSION_ID, CONSUMER_ID, PRODUCER_ID, BROKER_ID = 120, 121, 122, 123, 124

DELIVERED, POISON, STANDARD, REDELIVERED, INDIVIDUAL, UNMATCHED, EXPIRED = 0, 1, 2, 3, 4, 5, 6
"""Types of acknowledgement: seen, so send more; given up; consumed with all earlier messages;
redelivered by the client; only this message consumed; not selected; too late."""
BEGIN, PREPARE, COMMIT, COMMIT_PREPARED, ROLLBACK, RECOVER, FORGET, END = range(8)
"""Types of TransactionInfo."""
UNKNOWN = -2
"""The value of a RemoveInfo field that does not state which message was delivered last."""
ADD, REMOVE_IT = 0, 1
"""Operations of DestinationInfo."""
