"""Faults in numbers that AMQP 0-9-1 clients send: signs, zeros and the limits of a type."""

from pamqp import commands

from brokerproof.reference_broker.protocols.amqp091 import publishing
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import Prefetch
from brokerproof.suites.mutation.mutant import Group

amqp091_numbers = Group("amqp091-numbers", "reference-rabbitmq")

ARRIVES = "AMQP091-PUB-04"
DELIVERY_MODE, PRIORITY = b"\x10\x00", b"\x08\x00"
"""The flags of a message with only that property."""


@amqp091_numbers.before(publishing, "publish", breaks=ARRIVES)
def high_priorities_dropped(reached, channel, publish, properties, body):
    """A message with a priority above 127 is confirmed, but reaches no queue."""
    if reached(properties[:2] == PRIORITY and properties[2] > 127):
        publish.routing_key = "nowhere"


@amqp091_numbers.before(publishing, "publish", breaks=ARRIVES)
def delivery_mode_of_zero_dropped(reached, channel, publish, properties, body):
    """A message with delivery-mode 0 is confirmed, but reaches no queue."""
    if reached(properties == DELIVERY_MODE + bytes(1)):
        publish.routing_key = "nowhere"


@amqp091_numbers.result(Prefetch, "has_room", breaks=ARRIVES)
def prefetch_with_a_sign(room, self):
    """A prefetch-count of 2^15 or more is read as negative: nothing is delivered."""
    return False if self.limit >= 2**15 else room


@amqp091_numbers.skips(Channel, "frame", breaks="AMQP091-CLOSE-03")
def odd_reply_codes_ignored(self, type, payload, method):
    """A channel.close whose reply-code is 2^15 or more is not answered."""
    return isinstance(method, commands.Channel.Close) and method.reply_code >= 2**15
