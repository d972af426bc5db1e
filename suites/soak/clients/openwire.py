"""An OpenWire client for the soak test, with the harness's codec."""

from collections.abc import Iterator, Sequence
from typing import Any

from brokerproof.harness.protocols.length_prefixed import Unreadable
from brokerproof.harness.protocols.openwire import codec as openwire
from brokerproof.harness.protocols.openwire.codec import Structure
from brokerproof.harness.protocols.openwire.raw_peer import INDIVIDUAL, OPTIONS
from brokerproof.suites.soak.clients.client import (
    SLASHES,
    Client,
    Counting,
    Delivered,
    Event,
    Naming,
    Refused,
)


class OpenWireClient(Client):
    """OpenWire, version 12."""

    protocol = "openwire"

    def __init__(self, name: str, naming: Naming = SLASHES) -> None:
        super().__init__(f"ID:{name}", naming)
        self._reader = openwire.Reader()
        self._counting = Counting()
        self._waiting: dict[int, str] = {}
        self._number = self._messages = self._transactions = 0
        self._producers: dict[str, Structure] = {}
        fields = {"version": 12, "marshalledProperties": OPTIONS}
        self.write(openwire.encode_command("WireFormatInfo", fields))

    def _say(self, name: str, fields: dict[str, Any], reference: str = "") -> None:
        self._number += 1
        if reference:
            self._waiting[self._number] = reference
        command = {"commandId": self._number, "responseRequired": bool(reference), **fields}
        self.write(openwire.encode_command(name, command, version=12))

    def on_bytes(self, data: bytes) -> Iterator[Event]:
        for command in self._reader.feed(data):
            if isinstance(command, Unreadable):
                raise Refused(command.reason)
            match command.name:
                case "WireFormatInfo":
                    self._begin()
                case "Response":
                    reference = self._waiting.pop(command["correlationId"], "")
                    if reference:
                        yield from self._counting.part(reference)
                case "MessageDispatch":
                    message = command["message"]
                    if message is not None:
                        yield Delivered(command, bytes(message["content"]), None)
                case "ExceptionResponse" | "ConnectionError":
                    raise Refused(command.brief())

    def _begin(self) -> None:
        connection = Structure("ConnectionId", {"value": self.name})
        session = Structure("SessionId", {"connectionId": self.name, "value": 1})
        self._say("ConnectionInfo", {"connectionId": connection, "clientId": self.name})
        self._say("SessionInfo", {"sessionId": session})
        self.set_ready()

    def _producer(self, address: str) -> tuple[Structure, Structure]:
        place = Structure(
            "ActiveMQTopic" if address.endswith("topic") else "ActiveMQQueue",
            {"physicalName": address},
        )
        if address not in self._producers:
            producer_id = {
                "connectionId": self.name,
                "value": len(self._producers) + 1,
                "sessionId": 1,
            }
            id = self._producers[address] = Structure("ProducerId", producer_id)
            self._say("ProducerInfo", {"producerId": id, "destination": place, "windowSize": 0})
        return self._producers[address], place

    def _begin_unit(self) -> Structure:
        self._transactions += 1
        connection = Structure("ConnectionId", {"value": self.name})
        transaction_id = {"value": self._transactions, "connectionId": connection}
        id = Structure("LocalTransactionId", transaction_id)
        self._say("TransactionInfo", {"connectionId": connection, "transactionId": id, "type": 0})
        return id

    def _commit(self, id: Structure, reference: str) -> None:
        connection = Structure("ConnectionId", {"value": self.name})
        fields = {"connectionId": connection, "transactionId": id, "type": 2}
        self._say("TransactionInfo", fields, reference)

    def _produce(self, address: str, bodies: Sequence[bytes], reference: str, unit: bool) -> None:
        producer, place = self._producer(address)
        self._counting.expect(reference, 1 if unit else len(bodies))
        transaction = self._begin_unit() if unit else None
        for body in bodies:
            self._messages += 1
            message_id = {"producerId": producer, "producerSequenceId": self._messages}
            fields = {
                "producerId": producer,
                "destination": place,
                "messageId": Structure("MessageId", message_id),
                "transactionId": transaction,
                "persistent": True,
                "priority": 4,
                "content": body,
            }
            self._say("ActiveMQBytesMessage", fields, "" if unit else reference)
        if transaction is not None:
            self._commit(transaction, reference)

    def _consume(self, queue: str, window: int) -> None:
        id = Structure("ConsumerId", {"connectionId": self.name, "sessionId": 1, "value": 1})
        fields = {
            "consumerId": id,
            "destination": Structure("ActiveMQQueue", {"physicalName": queue}),
            "prefetchSize": 1000 if window < 0 else max(1, window // 500),
            "dispatchAsync": True,
        }
        self._say("ConsumerInfo", fields)

    def _acknowledge(self, handles: Sequence[Any], reference: str, unit: bool) -> None:
        self._counting.expect(reference, 1 if unit else len(handles))
        transaction = self._begin_unit() if unit else None
        for dispatched in handles:
            fields = {
                "destination": dispatched["destination"],
                "consumerId": dispatched["consumerId"],
                "transactionId": transaction,
                "ackType": INDIVIDUAL,
                "lastMessageId": dispatched["message"]["messageId"],
                "messageCount": 1,
            }
            self._say("MessageAck", fields, "" if unit else reference)
        if transaction is not None:
            self._commit(transaction, reference)
