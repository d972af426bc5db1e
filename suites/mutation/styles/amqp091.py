"""Legal styles of AMQP 0-9-1: choices that the specification leaves open, made differently from the
reference. Each docstring states the choice and where the text leaves it open."""

from decimal import Decimal

from pamqp import commands

from brokerproof.harness.model.time import ms
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.protocols.amqp091 import channel as channels
from brokerproof.reference_broker.protocols.amqp091 import login
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.confirms import Confirms
from brokerproof.reference_broker.protocols.amqp091.connection import Amqp091Connection
from brokerproof.reference_broker.protocols.amqp091.errors import Refusal
from brokerproof.suites.mutation.styles.stranger import amqp091, common, option

LATE = ms(30)

for name, sentence, options in (
    ("any_channel", "A channel-max of 0: no limit (1.4.2.5).", {"channel_max": 0}),
    ("one_channel", "A single channel.", {"channel_max": 1}),
    ("three_channels", "A small channel-max.", {"channel_max": 3}),
    ("frames_of_4096", "The smallest frame-max (1.4.2.5).", {"frame_max": 4096}),
    ("any_frame", "A frame-max of 0: no limit (1.4.2.5).", {"frame_max": 0}),
    ("no_heartbeats", "The server wants no heartbeats (1.4.2.5).", {"heartbeat_s": 0}),
    ("slowest_heartbeats", "The server proposes the longest interval.", {"heartbeat_s": 65535}),
    ("fast_heartbeats", "The server proposes the shortest interval.", {"heartbeat_s": 1}),
):
    option(amqp091, Amqp091Connection, "amqp091", name, sentence, options)
common(amqp091, Amqp091Connection)


@amqp091.override(channels, "content", breaks="")
def small_bodies(original, reached, channel, header, body, frame_max):
    """Bodies are cut into frames of a few bytes: frame-max is not a minimum (4.2.6.2)."""
    reached()
    return original(channel, header, body, max(16, len(body) // 50))


@amqp091.override(Topology, "new_name", breaks="")
def long_names(original, reached, self, beginning, seed):
    """Consumer tags and names of queues are as long as possible (1.8.3.3)."""
    reached()
    return original(self, beginning, seed).ljust(255, "~")


@amqp091.override(Topology, "new_name", breaks="")
def odd_consumer_tags(original, reached, self, beginning, seed):
    """Consumer tags have spaces, signs and letters beyond ASCII: a tag is any short string."""
    name = original(self, beginning, seed)
    return f" {name} é:\\\n%s" if reached(beginning == "amq.ctag") else name


@amqp091.mutant("")
def no_reply_texts(patch, reached):
    """The reply-text of a close is empty: only the reply-code is for programs (1.1)."""
    patch.set(Refusal, "text", property(lambda self: "" * reached()))


@amqp091.override(Channel, "next_tag", breaks="")
def sparse_tags(original, reached, self):
    """Delivery tags begin at a thousand and skip numbers: only 0 is reserved (1.1, domain
    delivery-tag)."""
    reached()
    return 1000 + 3 * original(self)


@amqp091.mutant("")
def confirms_one_by_one(patch, reached):
    """No confirm covers several messages."""

    @patch.override(Confirms)
    def take_answers(original, self):
        reached()
        due, self._due = self._due, {}
        for number, taken in due.items():
            kind = commands.Basic.Ack if taken else commands.Basic.Nack
            yield kind(number, False)


@amqp091.override(Channel, "flush", breaks="")
def late_confirms(original, reached, self):
    """Confirms are sent 30 ms late, and before a channel is closed."""
    if self.confirms is None or not self.confirms._due:
        return
    if self.is_closing or self.is_closed:
        original(self)
        return
    reached()
    shared = self.connection.shared
    shared.deadlines.call_at(shared.clock.now + LATE, lambda now: original(self))


@amqp091.override(login, "offered", breaks="")
def more_mechanisms(original, reached, shared, conn):
    """Other mechanisms are offered before PLAIN (1.4.2.1)."""
    reached()
    return ("X-OTHER", *reversed(original(shared, conn)))


@amqp091.override(login, "offered", breaks="")
def only_amqplain(original, reached, shared, conn):
    """AMQPLAIN is the only mechanism: the specification names none that must exist (1.4.2.1)."""
    reached()
    return (login.AMQPLAIN,)


@amqp091.override(login, "greeting", breaks="")
def other_properties(original, reached, host, capabilities, mechanisms):
    """The server's properties have values of unusual types, and no product (1.4.2.1)."""
    reached()
    odd = [Decimal("1.5"), None, {"a": [1, -(2**40)]}, 0.5, bytearray(b"\0"), []]
    start = original(host, capabilities, mechanisms)
    start.server_properties = {"capabilities": dict(capabilities), "x y": odd, "product": 7}
    return start


@amqp091.override(login, "greeting", breaks="")
def nameless(original, reached, host, capabilities, mechanisms):
    """The server states no property, so announces no extension, and two locales (1.4.2.1)."""
    reached()
    return commands.Connection.Start(0, 9, {}, " ".join(mechanisms), "de_DE en_US")
