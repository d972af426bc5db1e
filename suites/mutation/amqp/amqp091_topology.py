"""Faults of AMQP 0-9-1's exchanges, bindings, queues and contents."""

from pamqp import commands

from brokerproof.reference_broker.families.rabbitmq.exchanges import Exchange, Exchanges
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.protocols.amqp091 import declaring, publishing
from brokerproof.reference_broker.protocols.amqp091.channel import HANDLERS, Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer
from brokerproof.reference_broker.protocols.amqp091.errors import UNEXPECTED_FRAME, Refusal
from brokerproof.reference_broker.protocols.amqp091.framing import BODY
from brokerproof.suites.mutation.mutant import Group, breaks

amqp091_topology = Group("amqp091-topology", "reference-rabbitmq")

DIRECT, FANOUT, TOPIC = "AMQP091-EXCH-03", "AMQP091-EXCH-04", "AMQP091-EXCH-05"


# --- exchanges ------------------------------------------------------------------------------------


@amqp091_topology.result(Exchanges, "route", breaks=f"{DIRECT} {TOPIC}", recreates="lavinmq#1094")
def the_longest_keys_lead_nowhere(queues, self, exchange, key, headers):
    """A message with a routing key of 255 bytes goes to no queue."""
    return [] if len(key) == 255 else queues


@amqp091_topology.override(
    Topology, "route", breaks="AMQP091-CONTENT-03", recreates="LavinMQ (no id) large contents"
)
def large_contents_reach_one_queue(original, reached, self, message, queues):
    """A content larger than a frame goes only to the first of several queues."""
    if reached(len(queues) > 1 and len(message.body) > 4096):
        queues = queues[:1]
    return original(self, message, queues)


@amqp091_topology.result(Exchanges, "find", breaks="AMQP091-EXCH-01")
def there_is_no_standard_fanout(exchange, self, name):
    """The exchange amq.fanout is missing."""
    return None if name == "amq.fanout" else exchange


@amqp091_topology.result(Exchanges, "route", breaks="AMQP091-EXCH-02")
def queues_are_not_known_by_their_names(queues, self, exchange, key, headers):
    """Nothing is routed through the exchange without a name."""
    return [] if exchange is self._default else queues


@amqp091_topology.override(Exchange, "fitting", breaks=DIRECT)
def direct_exchanges_pass_beginnings(original, reached, self, key, headers):
    """A direct exchange matches every key that is a prefix of the routing key."""
    fitting = list(original(self, key, headers))
    if self.type != "direct":
        return fitting
    return reached.instead(
        fitting, [binding for binding in self.bindings if key.startswith(binding.key)]
    )


@amqp091_topology.override(Exchange, "fitting", breaks=FANOUT)
def fanouts_look_at_keys(original, reached, self, key, headers):
    """A fanout exchange passes a message to queues bound with its routing key."""
    fitting = list(original(self, key, headers))
    if self.type != "fanout":
        return fitting
    return reached.instead(fitting, [binding for binding in fitting if binding.key == key])


@amqp091_topology.override(Exchange, "fitting", breaks=TOPIC)
def a_hash_is_at_least_a_word(original, reached, self, key, headers):
    """In a topic binding, # matches one or more words."""
    fitting = list(original(self, key, headers))
    if self.type != "topic":
        return fitting
    words = len(key.split(".")) if key else 0
    return reached.instead(
        fitting, [binding for binding in fitting if len(binding.key.split(".")) <= words]
    )


@amqp091_topology.result(Exchanges, "route", breaks="AMQP091-EXCH-11")
def a_queue_gets_one_for_each_binding(queues, self, exchange, key, headers):
    """A queue gets a message once for each matching binding."""
    if exchange is self._default:
        return queues
    bindings = [binding.target for binding in exchange.fitting(key, headers)]
    return [queue for queue in queues for _ in range(max(1, bindings.count(queue)))]


@amqp091_topology.override(Exchanges, "unbind", breaks="AMQP091-EXCH-13")
def bindings_stay(original, reached, self, source, binding):
    """A removed binding still routes messages."""
    reached()


@amqp091_topology.before(Exchanges, "unbind", breaks=f"{DIRECT} {FANOUT} {TOPIC}")
def unbinding_takes_all_of_a_key(reached, self, source, binding):
    """Bindings of one key that differ only in their arguments are removed together."""
    for other in list(source.bindings):
        if reached(other.key == binding.key and other != binding and source.bindings):
            self._unbind(source, other)


@amqp091_topology.before(HANDLERS, commands.Queue.Bind, breaks="AMQP091-QUEUE-14")
def a_queue_with_a_server_s_name_is_no_key(reached, channel, method):
    """If the server named a queue, a binding without a key does not use the queue's name as its
    key."""
    if not method.queue and not method.routing_key and channel.last_queue.startswith("amq."):
        method.queue = reached.instead(method.queue, channel.last_queue)


@amqp091_topology.result(Exchanges, "route", breaks="RABBITMQ-AMQP091-E2E-01")
def nothing_passes_between_exchanges(queues, self, exchange, key, headers):
    """Bindings between exchanges route nothing."""
    if exchange is self._default:
        return queues
    own = {binding.target for binding in exchange.fitting(key, headers)}
    return [queue for queue in queues if queue in own]


@amqp091_topology.result(Exchange, "fitting", breaks="RABBITMQ-AMQP091-E2E-01")
def only_one_exchange_is_bound(bindings, self, key, headers):
    """Only the last binding to another exchange counts."""
    others = [binding for binding in bindings if isinstance(binding.target, Exchange)]
    return [binding for binding in bindings if binding not in others[:-1]]


@amqp091_topology.override(publishing, "_announce", breaks="AMQP091-PUB-03")
def unroutable_messages_are_not_returned(original, reached, channel, message, queues, mandatory):
    """An unroutable mandatory message is dropped."""
    reached(mandatory and not queues)
    original(channel, message, queues, False)


# --- queues ---------------------------------------------------------------------------------------


@amqp091_topology.result(Topology, "new_name", breaks="AMQP091-QUEUE-01")
def all_queues_get_one_name(right, self, beginning, seed):
    """Every queue without a name gets the same one."""
    return f"{beginning}-any"


@amqp091_topology.override(declaring, "_same", breaks="AMQP091-QUEUE-03")
def queues_change_unnoticed(original, reached, declared, method, given, conn):
    """An existing queue may be declared differently."""
    try:
        original(declared, method, given, conn)
    except Refusal:
        reached()


@amqp091_topology.override(Topology, "left", breaks="AMQP091-QUEUE-06")
def auto_delete_queues_stay(original, reached, self, declared):
    """An auto-delete queue survives its last consumer."""
    declared.sole = False
    self.used(declared)
    reached(declared.auto_delete)


@amqp091_topology.mutant("AMQP091-QUEUE-08")
def a_purge_is_not_counted(patch, reached):
    """purge-ok reports 0 messages."""
    _answering(patch, reached, commands.Queue.PurgeOk, message_count=0)


@amqp091_topology.before(HANDLERS, commands.Queue.Delete, breaks="AMQP091-QUEUE-09")
def queues_in_use_are_deleted(reached, channel, method):
    """if-unused has no effect on queues."""
    method.if_unused = reached.instead(method.if_unused, False)


@amqp091_topology.before(HANDLERS, commands.Queue.Delete, breaks="AMQP091-QUEUE-10")
def queues_with_messages_are_deleted(reached, channel, method):
    """if-empty has no effect."""
    method.if_empty = reached.instead(method.if_empty, False)


@amqp091_topology.override(HANDLERS, commands.Queue.Declare)
@breaks("AMQP091-QUEUE-11 AMQP091-QUEUE-14")
def the_first_queue_is_the_last(original, reached, channel, method):
    """A method without a queue name refers to the first queue declared on the channel."""
    first = channel.last_queue
    original(channel, method)
    if first:
        channel.last_queue = reached.instead(channel.last_queue, first)


def _answering(patch, reached, kind, **fields):
    """Give methods of ``kind`` on a channel these fields."""

    @patch.before(Channel)
    def tell(self, method):
        if isinstance(method, kind):
            for name, value in fields.items():
                setattr(method, name, reached.instead(getattr(method, name), value))


@amqp091_topology.mutant("AMQP091-QUEUE-12")
def consumers_are_not_counted(patch, reached):
    """declare-ok reports no consumers."""
    _answering(patch, reached, commands.Queue.DeclareOk, consumer_count=0)


# --- consumers ------------------------------------------------------------------------------------


@amqp091_topology.mutant("AMQP091-CONS-06")
def deliveries_come_before_consume_ok(patch, reached):
    """The first messages of a consumer are sent before consume-ok."""
    answers = {}

    @patch.override(Channel)
    def tell(original, self, method):
        if isinstance(method, commands.Basic.ConsumeOk) and self not in answers:
            answers[self] = method
        else:
            original(self, method)

    @patch.after(Consumer)
    def attach(self):
        answer = answers.get(self.channel)
        if reached(answer is not None):
            self.channel.tell(answer)
            del answers[self.channel]


@amqp091_topology.before(HANDLERS, commands.Basic.Consume, breaks="AMQP091-CONS-08")
def tags_of_the_server_are_numbers(reached, channel, method):
    """A consumer without a tag gets the number of its channel's consumers as its tag, even if that
    tag is in use."""
    method.consumer_tag = method.consumer_tag or reached.instead("", str(len(channel.consumers)))


@amqp091_topology.override(Channel, "next_tag", breaks="AMQP091-TAG-01")
def tags_begin_at_zero(original, reached, self):
    """The first delivery of a channel has the tag 0."""
    reached()
    return original(self) - 1


@amqp091_topology.result(Channel, "next_tag", breaks="AMQP091-TAG-01")
def tags_are_used_twice(tag, self):
    """Every second delivery has the tag of the one before."""
    return (tag + 1) // 2


# --- contents -------------------------------------------------------------------------------------


@amqp091_topology.before(Channel, "_content", breaks="AMQP091-CONTENT-03")
def bodies_have_one_frame(reached, self, type, payload, publish):
    """A body in several frames is refused."""
    if reached(type == BODY and self._body):
        raise Refusal(UNEXPECTED_FRAME, "a body has one frame")


@amqp091_topology.override(publishing, "publish", breaks="AMQP091-CONTENT-04")
def bodies_are_stripped(original, reached, channel, method, data, body):
    """White space at the end of a body is lost, and so is the last byte of a large body."""
    wrong = bytes(body).rstrip()
    original(channel, method, data, reached.instead(bytes(body), wrong[:4000]))


@amqp091_topology.override(publishing, "publish", breaks="AMQP091-CONTENT-05")
def properties_are_lost(original, reached, channel, method, data, body):
    """Messages lose the properties that their producer set."""
    original(channel, method, reached.instead(bytes(data), b"\0\0"), body)
