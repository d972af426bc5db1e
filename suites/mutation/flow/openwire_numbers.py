"""Faults in numbers that OpenWire clients send: signs, widths, and unexpected values."""

from brokerproof.reference_broker.protocols.openwire.client import Client
from brokerproof.reference_broker.protocols.openwire.connection import OpenWireConnection
from brokerproof.reference_broker.protocols.openwire.consumer import OpenWireConsumer, Prefetch
from brokerproof.reference_broker.protocols.openwire.encoding import Fields
from brokerproof.reference_broker.protocols.openwire.structures import structure
from brokerproof.suites.mutation.mutant import Group

openwire_numbers = Group("openwire-numbers", "reference-activemq")

ARRIVES, ANSWERED = "OPENWIRE-ENC-1", "OPENWIRE-RESP-1"


@openwire_numbers.before(OpenWireConnection, "answer", breaks=ANSWERED)
def large_numbers_of_commands_lose_their_answer(reached, self, request):
    """The response to a command whose number has more than 16 bits names the lower 16."""
    request.number = reached.instead(request.number, request.number & 0xFFFF)


@openwire_numbers.skips(OpenWireConsumer, "deliver", breaks=ARRIVES)
def odd_priorities_are_never_delivered(self, entry):
    """A message with a priority outside 0 to 9 is confirmed but never delivered."""
    return not 0 <= entry.message.fields.priority <= 9


@openwire_numbers.skips(OpenWireConsumer, "deliver", breaks=ARRIVES)
def expiry_below_zero_is_past(self, entry):
    """A message with a negative expiration is confirmed but never delivered."""
    return entry.message.fields.expiration < 0


@openwire_numbers.skips(OpenWireConsumer, "deliver", breaks=ARRIVES)
def messages_with_redeliveries_are_poison(self, entry):
    """A message whose producer sends a redeliveryCounter above 6 is never delivered."""
    return entry.message.fields.redeliveries > 6


@openwire_numbers.after(Prefetch, "__init__", breaks=ARRIVES)
def limits_lose_their_upper_half(reached, self, limit):
    """A prefetch limit is read as signed 16 bits: larger ones allow nothing, forever."""
    cut = (limit + 2**15) % 2**16 - 2**15
    if limit > 2**15:
        self.limit = reached.instead(self.limit, cut)


@openwire_numbers.before(Client, "control_consumer", breaks=ANSWERED)
def limits_below_zero_break_off(reached, self, fields, request):
    """A ConsumerControl with a limit below 0 is never answered."""
    ahead = Fields(fields.buffer, fields.at)
    structure(ahead, self.version)
    ahead.flag()
    structure(ahead, self.version)
    if reached(ahead.int32() < 0):
        request.withheld = True


@openwire_numbers.before(Client, "add_session", breaks=ANSWERED)
def large_sessions_are_not_answered(reached, self, fields, request):
    """A session whose number has more than 32 bits is created but not confirmed."""
    ahead = Fields(fields.buffer, fields.at)
    session = structure(ahead, self.version)
    if reached(session is not None and session.value >= 2**32):
        request.withheld = True
