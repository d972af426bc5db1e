"""Statistics queries and answers as AMQP 1.0 messages
(:mod:`brokerproof.reference_broker.families.activemq.statistics`)."""

from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.protocols.amqp10.encoder import mapping
from brokerproof.reference_broker.protocols.amqp10.message import (
    NO_PREFIX,
    AmqpMessage,
    properties_of,
)
from brokerproof.reference_broker.protocols.amqp10.messaging import Properties

_VALUE = b"\0\x53\x77"


class StatisticsCodec:
    """An answer has the correlation-id of its query."""

    def asker(self, message: Message) -> tuple[str, Any]:
        """Return the reply address (empty: none) and the query's correlation-id."""
        if isinstance(message, AmqpMessage):
            properties = properties_of(message.bare) or Properties()
            return properties.reply_to or "", properties.correlation_id
        headers = dict(reversed(message.envelope.headers))
        return headers.get("reply-to", ""), headers.get("correlation-id")

    def answer(
        self,
        number: int,
        question: Message,
        address: str,
        routing: RoutingType,
        statistics: dict[str, Any],
    ) -> Message:
        to, correlation = self.asker(question)
        properties = Properties(to=to, correlation_id=correlation)
        bare = b"".join((properties.encode(), _VALUE, mapping(statistics)))
        envelope = Envelope(address, to, routing, (), text=False)
        return AmqpMessage(number, envelope, question.arrived, NO_PREFIX, None, b"", bare)
