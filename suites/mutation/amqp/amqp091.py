"""Faults of AMQP 0-9-1: prefetch, confirms, limits of queues, heart-beats, what is redelivered."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.rabbitmq.limited_queue import Limits
from brokerproof.reference_broker.families.rabbitmq.topology import Declared, Topology
from brokerproof.reference_broker.kernel.message import Entry, Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer, Prefetch, Unacked
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.suites.mutation.mutant import Group, Reached

amqp091 = Group("amqp091", "reference-rabbitmq")


# --- prefetch -------------------------------------------------------------------------------------


@amqp091.mutant("AMQP091-QOS-01")
def one_more_than_the_prefetch(parts: Parts, reached: Reached) -> Parts:
    """A consumer may have one delivery more than its prefetch says."""

    class Faulty(Prefetch):
        def has_room(self) -> bool:
            room = super().has_room()
            return room or reached.instead(room, self.used == self.limit)

    return replace(parts, prefetch091=Faulty)


@amqp091.mutant("AMQP091-QOS-02")
def a_settled_delivery_keeps_its_place(parts: Parts, reached: Reached) -> Parts:
    """What was settled still counts for the prefetch: a consumer gets so many messages, and then
    none."""

    class Faulty(Prefetch):
        def give_back(self) -> None:
            reached()

    return replace(parts, prefetch091=Faulty)


@amqp091.mutant("AMQP091-QOS-03")
def a_prefetch_without_acknowledgement(parts: Parts, reached: Reached) -> Parts:
    """A consumer without acknowledgement is held to the prefetch, which nothing ever gives back."""

    class Faulty(Consumer):
        def has_room(self) -> bool:
            room = super().has_room()
            return room and not (
                self.no_ack and reached.instead(True, self.prefetch.has_room()) is False
            )

        def deliver(self, entry: Entry) -> None:
            if self.no_ack:
                self.prefetch.take()
            super().deliver(entry)

    return replace(parts, consumer091=Faulty)


# --- settling -------------------------------------------------------------------------------------


@amqp091.mutant("AMQP091-ACK-02")
def multiple_is_one(parts: Parts, reached: Reached) -> Parts:
    """An acknowledgement with multiple is about its own tag alone."""

    class Faulty(Channel):
        def collect(self, tag: int, multiple: bool) -> list[Unacked]:
            if multiple and tag in self.unacked:
                reached()
                multiple = False
            return super().collect(tag, multiple)

    return replace(parts, channel091=Faulty)


@amqp091.mutant("AMQP091-ACK-01 AMQP091-ACK-03")
def an_unknown_tag_is_ignored(parts: Parts, reached: Reached) -> Parts:
    """An acknowledgement of a tag that waits for none does nothing."""

    class Faulty(Channel):
        def collect(self, tag: int, multiple: bool) -> list[Unacked]:
            if tag and tag not in self.unacked:
                reached()
                return []
            return super().collect(tag, multiple)

    return replace(parts, channel091=Faulty)


@amqp091.mutant("AMQP091-RED-01 AMQP091-REC-01")
def never_redelivered(parts: Parts, reached: Reached) -> Parts:
    """What is delivered again does not say so."""

    class Faulty(Channel):
        def send_delivery(self, consumer: str, tag: int, redelivered: bool, what: Message) -> None:
            super().send_delivery(consumer, tag, reached.instead(redelivered, False), what)

    return replace(parts, channel091=Faulty)


# --- queues ---------------------------------------------------------------------------------------


@amqp091.mutant("RABBITMQ-AMQP091-LEN-01 RABBITMQ-AMQP091-LEN-02")
def a_limit_of_octets_is_exclusive(parts: Parts, reached: Reached) -> Parts:
    """A queue that has exactly as many octets as it may counts as one that has too many."""

    class Faulty(Topology):
        def declare(self, name: str, limits: Limits, **about: Any) -> Declared:
            if limits.octets:
                reached()
                limits = replace(limits, octets=limits.octets - 1)
            return super().declare(name, limits, **about)

    return replace(parts, topology=Faulty)


@amqp091.mutant("RABBITMQ-AMQP091-LEN-02")
def a_refusal_is_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A message that a full queue refuses is told as taken."""

    class Faulty(Topology):
        def route(self, message: Message, queues: list[Queue]) -> bool:
            return reached.instead(super().route(message, queues), True)

    return replace(parts, topology=Faulty)


@amqp091.mutant("RABBITMQ-AMQP091-LEN-03")
def dead_letters_are_dropped(parts: Parts, reached: Reached) -> Parts:
    """What leaves a queue without having been consumed goes nowhere."""
    return replace(parts, dead_letters=lambda *about: reached())


@amqp091.mutant("AMQP091-QUEUE-05")
def exclusive_queues_stay(parts: Parts, reached: Reached) -> Parts:
    """An exclusive queue outlives its connection."""

    class Faulty(Topology):
        def left_by(self, conn: int) -> None:
            reached()

    return replace(parts, topology=Faulty)


# --- heart-beats ----------------------------------------------------------------------------------


@amqp091.mutant("AMQP091-HB-03 RABBITMQ-AMQP091-HB-01")
def one_missed_beat_is_enough(parts: Parts, reached: Reached) -> Parts:
    """A client is given up at the first look that finds nothing."""

    class Faulty(HeartBeats):
        def is_dead(self, now: Instant) -> bool:
            dead = super().is_dead(now)
            return dead or reached.instead(dead, self._missed >= 1)

    return replace(parts, heart_beats091=Faulty)


@amqp091.mutant("AMQP091-HB-02 RABBITMQ-AMQP091-HB-01")
def beats_are_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The server sends every third heart-beat only."""

    class Faulty(HeartBeats):
        turn = 0

        def beat_due(self, now: Instant) -> bool:
            self.turn += 1
            return reached.instead(super().beat_due(now), self.turn % 3 == 0)

    return replace(parts, heart_beats091=Faulty)


@amqp091.mutant("AMQP091-HB-05")
def nothing_is_a_sign_of_life(parts: Parts, reached: Reached) -> Parts:
    """Nothing that a client sends is a sign of life."""

    class Faulty(HeartBeats):
        def heard(self) -> None:
            reached()

    return replace(parts, heart_beats091=Faulty)
