"""Faults of AMQP 0-9-1: prefetch, confirms, limits of queues, heartbeats, redelivery."""

from dataclasses import replace

from brokerproof.reference_broker.families.rabbitmq.topology import Topology
from brokerproof.reference_broker.protocols.amqp091 import dead_letters
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer, Prefetch
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.suites.mutation.mutant import Group

amqp091 = Group("amqp091", "reference-rabbitmq")


# --- prefetch -------------------------------------------------------------------------------------


@amqp091.override(Prefetch, "has_room", breaks="AMQP091-QOS-01")
def one_more_than_the_prefetch(original, reached, self):
    """A consumer may have one delivery more than its prefetch allows."""
    room = original(self)
    return room or reached.instead(room, self.used == self.limit)


@amqp091.override(Prefetch, "give_back", breaks="AMQP091-QOS-02")
def a_settled_delivery_keeps_its_place(original, reached, self):
    """A settled delivery still counts towards the prefetch: a consumer gets that many messages,
    then none."""
    reached()


@amqp091.mutant("AMQP091-QOS-03")
def a_prefetch_without_acknowledgement(patch, reached):
    """A consumer without acknowledgement is limited by the prefetch, which is never replenished."""

    @patch.result(Consumer)
    def has_room(room, self):
        return room and not (
            self.no_ack and reached.instead(True, self.prefetch.has_room()) is False
        )

    @patch.before(Consumer)
    def deliver(self, entry):
        if self.no_ack:
            self.prefetch.take()


# --- settling -------------------------------------------------------------------------------------


@amqp091.override(Channel, "collect", breaks="AMQP091-ACK-02")
def multiple_is_one(original, reached, self, tag, multiple):
    """An acknowledgement with multiple settles only its own tag."""
    return original(self, tag, False if reached(multiple and tag in self.unacked) else multiple)


@amqp091.override(Channel, "collect", breaks="AMQP091-ACK-01 AMQP091-ACK-03")
def an_unknown_tag_is_ignored(original, reached, self, tag, multiple):
    """An acknowledgement of a tag that is not outstanding does nothing."""
    return [] if reached(tag and tag not in self.unacked) else original(self, tag, multiple)


@amqp091.override(Channel, "send_delivery", breaks="AMQP091-RED-01 AMQP091-REC-01")
def never_redelivered(original, reached, self, consumer, tag, redelivered, what):
    """A message that is delivered again is not marked as redelivered."""
    original(self, consumer, tag, reached.instead(redelivered, False), what)


# --- queues ---------------------------------------------------------------------------------------


@amqp091.override(Topology, "declare", breaks="RABBITMQ-AMQP091-LEN-01 RABBITMQ-AMQP091-LEN-02")
def a_limit_of_bytes_is_exclusive(original, reached, self, name, limits, **arguments):
    """A queue with exactly its limit of bytes counts as over the limit."""
    if reached(limits.size):
        limits = replace(limits, size=limits.size - 1)
    return original(self, name, limits, **arguments)


@amqp091.result(Topology, "route", breaks="RABBITMQ-AMQP091-LEN-02")
def a_refusal_is_confirmed(right, self, message, queues):
    """A message that a full queue refuses is confirmed."""
    return True


@amqp091.override(dead_letters, "dead_letter", breaks="RABBITMQ-AMQP091-LEN-03")
def dead_letters_are_dropped(original, reached, *arguments):
    """A message that leaves a queue unconsumed is not dead-lettered."""
    reached()


@amqp091.override(Topology, "left_by", breaks="AMQP091-QUEUE-05")
def exclusive_queues_stay(original, reached, self, conn):
    """An exclusive queue outlives its connection."""
    reached()


# --- heartbeats ----------------------------------------------------------------------------------


@amqp091.override(HeartBeats, "is_dead", breaks="AMQP091-HB-03 RABBITMQ-AMQP091-HB-01")
def one_missed_beat_is_enough(original, reached, self, now):
    """A client is disconnected at the first check that finds silence."""
    dead = original(self, now)
    return dead or reached.instead(dead, self._missed >= 1)


@amqp091.mutant("AMQP091-HB-02 RABBITMQ-AMQP091-HB-01")
def beats_are_forgotten(patch, reached):
    """The server sends only every third heartbeat."""
    patch.set(HeartBeats, "turn", 0)

    @patch.override(HeartBeats)
    def beat_due(original, self, now):
        self.turn += 1
        return reached.instead(original(self, now), self.turn % 3 == 0)


@amqp091.after(HeartBeats, "beat_due", breaks="AMQP091-HB-02 RABBITMQ-AMQP091-HB-01")
def beats_late_by_a_tenth(reached, self, now):
    """The server sends a heartbeat every 1.1 intervals."""
    reached()
    self.send_at = now + self._interval * 11 // 10


@amqp091.after(HeartBeats, "is_dead", breaks="RABBITMQ-AMQP091-HB-01")
def given_up_a_tenth_late(reached, self, now):
    """The server checks for a silent client every 1.1 intervals."""
    reached()
    self.look_at = now + self._interval * 11 // 10


@amqp091.after(HeartBeats, "is_dead", breaks="AMQP091-HB-03 RABBITMQ-AMQP091-HB-01")
def given_up_a_fifth_early(reached, self, now):
    """The server checks for a silent client every 0.8 intervals."""
    reached()
    self.look_at = now + self._interval * 4 // 5


@amqp091.override(HeartBeats, "on_bytes_received", breaks="AMQP091-HB-05")
def nothing_is_a_sign_of_life(original, reached, self):
    """Nothing that a client sends is a sign of life."""
    reached()
