"""Faults of RabbitMQ's expiry of messages, queues and dead letters."""

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.families.rabbitmq.limited_queue import EXPIRED, LimitedQueue
from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.protocols.amqp091 import dead_letters
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.dead_letters import methods
from brokerproof.reference_broker.protocols.amqp091.message import encoded
from brokerproof.suites.mutation.mutant import Group

amqp091_expiry = Group("amqp091-expiry", "reference-rabbitmq")

TTL = "RABBITMQ-AMQP091-TTL"


@amqp091_expiry.before(LimitedQueue, "enqueue", breaks=f"{TTL}-02")
def the_ttl_of_a_queue_goes_before_that_of_a_message(reached, self, message, *_):
    """A message's own TTL is ignored in a queue with a TTL."""
    own = getattr(message, "lifetime", None)
    if own is not None and self.limits.ttl is not None and reached(own < self.limits.ttl):
        message.lifetime = None


@amqp091_expiry.before(LimitedQueue, "settle", breaks=f"{TTL}-04")
def what_is_requeued_lives_anew(reached, self, entries, outcome):
    """A requeued message starts its queue's or its own TTL again."""
    for entry in entries:
        own = getattr(entry.message, "lifetime", None) or self.limits.ttl
        if reached(own and outcome is not Outcome.ACCEPTED and entry.order in self._expiry):
            self._expiry[entry.order] = self.now() + own


@amqp091_expiry.override(LimitedQueue, "enqueue", breaks=f"{TTL}-03")
def a_ttl_of_zero_passes_consumers_by(original, reached, self, message, *more):
    """A message to a queue with TTL 0 expires before consumers are tried."""
    if reached(self.limits.ttl == 0):
        self.dead(self, message, EXPIRED)
    else:
        original(self, message, *more)


@amqp091_expiry.before(LimitedQueue, "enqueue", breaks=f"{TTL}-01 {TTL}-02")
def what_is_persistent_lives_forever(reached, self, message, *_):
    """The broker delivers persistent messages after their TTL."""
    if message.durable and reached(getattr(message, "lifetime", None) is not None):
        message.lifetime = None


@amqp091_expiry.skips(Topology, "used", breaks=f"{TTL}-05")
def a_queue_expires_although_it_is_used(self, declared):
    """x-expires counts from the declaration."""
    return declared.unused is not None


@amqp091_expiry.override(methods, "properties", breaks="RABBITMQ-AMQP091-DLX-02")
def a_dead_letter_keeps_its_ttl(original, reached, *arguments):
    """An expired message takes its TTL to the queue of the dead letters."""
    kept = original(*arguments)

    class Kept(dict):
        def pop(self, name, default=None):
            reached(name in self)

    return Kept(kept)


@amqp091_expiry.mutant("RABBITMQ-AMQP091-LEN-01", recreates="rabbitmq-server#14926")
def what_one_message_drops_dies_youngest_first(patch, reached):
    """If a new message pushes several out at the head of a quorum queue, they are dead-lettered in
    reverse order."""
    quorum = set()

    @patch.override(Topology)
    def declare(original, self, *options, **named):
        declared = original(self, *options, **named)
        if named["arguments"].get("x-queue-type") == "quorum":
            quorum.add(id(declared.queue))
        return declared

    @patch.override(LimitedQueue)
    def enqueue(original, self, *arguments, **options):
        dead, dropped = self.dead, []
        self.dead = lambda *letter: dropped.append(letter)
        original(self, *arguments, **options)
        self.dead = dead
        backwards = reached(len(dropped) > 1 and id(self) in quorum)
        for letter in reversed(dropped) if backwards else dropped:
            dead(*letter)


@amqp091_expiry.override(
    Channel, "settle", breaks="RABBITMQ-AMQP091-DLX-03 RABBITMQ-AMQP091-DLX-04"
)
def what_was_returned_is_no_dead_letter(original, reached, self, settled, outcome):
    """A message that is refused after it was requeued vanishes."""
    settled = list(settled)
    again = outcome is Outcome.REJECTED and any(one.entry.deliveries > 1 for one in settled)
    original(self, settled, Outcome.ACCEPTED if reached(again) else outcome)


@amqp091_expiry.mutant("AMQP091-QOS-01", recreates="rabbitmq-server#5609")
def what_is_dropped_makes_room_twice(patch, reached):
    """A message that returned too often makes room for two in its consumer's prefetch."""

    @patch.override(Channel)
    def settle(original, self, settled, outcome):
        settled = list(settled)
        original(self, settled, outcome)
        for one in settled:
            most = one.declared.queue.limits.returns
            if one.consumer and reached(most is not None and one.entry.failures > most):
                one.consumer.prefetch.give_back()
                one.declared.queue.dispatch()


@amqp091_expiry.before(LimitedQueue, "_spent", breaks="RABBITMQ-AMQP091-POISON-01")
def a_message_dies_at_its_last_return(reached, self, entries):
    """A message dies with its last permitted return to a quorum queue."""
    for entry in entries:
        entry.failures += bool(reached(self.limits.returns == entry.failures + 1))


@amqp091_expiry.before(LimitedQueue, "_spent", breaks="RABBITMQ-AMQP091-POISON-01")
def returns_are_counted_from_two(reached, self, entries):
    """The first return of a message to a quorum queue with a delivery limit does not count."""
    for entry in entries:
        entry.failures -= bool(reached(self.limits.returns and entry.deliveries == 1))


@amqp091_expiry.override(dead_letters, "properties_of", breaks="RABBITMQ-AMQP091-DLX-03")
def dead_letters_lose_their_headers(original, reached, *more):
    """A dead letter has no headers except those about its deaths."""
    reached()
    return encoded({**methods.properties(original(*more)), "headers": {}})


@amqp091_expiry.override(
    dead_letters, "_deaths", breaks="RABBITMQ-AMQP091-DLX-03 RABBITMQ-AMQP091-DLX-04"
)
def dead_letters_go_in_circles(original, reached, headers):
    """Earlier deaths are forgotten, so messages that only expire go in circles."""
    return reached.instead(original(headers), [])
