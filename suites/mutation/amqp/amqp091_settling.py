"""Faults of AMQP 0-9-1's messages: confirms, transactions, prefetch of a channel, rejecting,
getting, consumers that end."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from pamqp import base, commands

from brokerproof.harness.model.enums import Outcome
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.message import Message
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.consumer import Consumer, Unacked
from brokerproof.suites.mutation.mutant import Group, Reached

amqp091_settling = Group("amqp091-settling", "reference-rabbitmq")


# --- confirms -------------------------------------------------------------------------------------


@amqp091_settling.mutant("RABBITMQ-AMQP091-CONF-01")
def several_confirms_are_one(parts: Parts, reached: Reached) -> Parts:
    """Where one confirm is for several messages it does not say so."""

    class Faulty(Channel):
        def tell(self, method: base.Frame) -> None:
            if isinstance(method, commands.Basic.Ack) and method.multiple:
                reached()
                method.multiple = False
            super().tell(method)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("RABBITMQ-AMQP091-LEN-02 RABBITMQ-AMQP091-CONF-01")
def refusals_are_not_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A producer does not learn of a message that was refused."""

    class Faulty(Channel):
        def tell(self, method: base.Frame) -> None:
            if isinstance(method, commands.Basic.Nack):
                reached()
            else:
                super().tell(method)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("RABBITMQ-AMQP091-CONF-02")
def a_return_comes_behind_its_confirm(parts: Parts, reached: Reached) -> Parts:
    """A message that goes nowhere is confirmed, and returned then."""

    class Faulty(Channel):
        returned: tuple[commands.Basic.Return, Message] | None = None

        def send_content(self, method: base.Frame, what: Message) -> None:
            if isinstance(method, commands.Basic.Return) and self.confirms is not None:
                reached()
                self.returned = method, what
            else:
                super().send_content(method, what)

        def flush(self) -> None:
            super().flush()
            if self.returned is not None:
                returned, self.returned = self.returned, None
                super().send_content(*returned)

    return replace(parts, channel091=Faulty)


# --- transactions ---------------------------------------------------------------------------------


@amqp091_settling.mutant("AMQP091-TX-01")
def a_transaction_hides_nothing(parts: Parts, reached: Reached) -> Parts:
    """What is published in a transaction is in its queues at once."""

    class Faulty(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            super().frame(type, payload, method)
            if self.transaction is not None and self.transaction.sends:
                reached()
                sends, self.transaction.sends = self.transaction.sends, []
                for message, queues, _ in sends:
                    self.topology.route(message, queues)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("AMQP091-TX-01")
def a_rollback_publishes(parts: Parts, reached: Reached) -> Parts:
    """What was published in a transaction that is rolled back is in its queues with the next
    commit."""

    class Faulty(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            kept = []
            if isinstance(method, commands.Tx.Rollback) and self.transaction is not None:
                kept = self.transaction.sends
            super().frame(type, payload, method)
            if kept and self.transaction is not None:
                reached()
                self.transaction.sends = kept

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("AMQP091-TX-02")
def acknowledgements_know_no_transaction(parts: Parts, reached: Reached) -> Parts:
    """What is acknowledged in a transaction is acknowledged at once."""

    class Faulty(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            super().frame(type, payload, method)
            if self.transaction is not None and self.transaction.settlements:
                reached()
                settlements, self.transaction.settlements = self.transaction.settlements, []
                for settled, outcome in settlements:
                    self.settle(settled, outcome)

    return replace(parts, channel091=Faulty)


# --- prefetch -------------------------------------------------------------------------------------


@amqp091_settling.mutant("RABBITMQ-AMQP091-QOS-01")
def consumers_share_no_limit(parts: Parts, reached: Reached) -> Parts:
    """A prefetch with global limits each consumer, and not all of the channel together."""

    class Faulty(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            if isinstance(method, commands.Basic.Qos) and method.global_:
                reached()
                method.global_ = False
            super().frame(type, payload, method)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("RABBITMQ-AMQP091-QOS-01")
def a_prefetch_is_for_who_was_there_before(parts: Parts, reached: Reached) -> Parts:
    """A prefetch without global is for the consumers that have begun already, too."""

    class Faulty(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            if isinstance(method, commands.Basic.Qos) and not method.global_:
                for each in self.consumers.values():
                    reached()
                    each.prefetch.limit = method.prefetch_count
            super().frame(type, payload, method)

    return replace(parts, channel091=Faulty)


# --- what comes back ------------------------------------------------------------------------------


@amqp091_settling.mutant("RABBITMQ-AMQP091-NACK-01")
def nack_knows_no_multiple(parts: Parts, reached: Reached) -> Parts:
    """basic.nack is about the delivery of its tag alone, multiple or not."""

    class Faulty(Channel):
        def frame(self, type: int, payload: bytes, method: base.Frame | None) -> None:
            if isinstance(method, commands.Basic.Nack) and method.multiple:
                reached()
                method.multiple = False
            super().frame(type, payload, method)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("RABBITMQ-AMQP091-NACK-02")
def what_is_requeued_comes_last(parts: Parts, reached: Reached) -> Parts:
    """What is requeued goes to the end of its queue."""

    class Faulty(Channel):
        def settle(self, settled: Iterable[Unacked], outcome: Outcome) -> None:
            back = list(settled) if outcome is Outcome.RELEASED else []
            super().settle(back or settled, Outcome.ACCEPTED if back else outcome)
            for each in back:
                reached()
                each.declared.queue.put(each.entry.message, each.entry)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("AMQP091-REJ-01")
def what_is_rejected_comes_again(parts: Parts, reached: Reached) -> Parts:
    """A message that is rejected without requeue is delivered again."""

    class Faulty(Channel):
        def settle(self, settled: Iterable[Unacked], outcome: Outcome) -> None:
            if outcome is Outcome.REJECTED:
                reached()
                outcome = Outcome.RELEASED
            super().settle(settled, outcome)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("AMQP091-GET-01")
def the_one_got_counts_as_left(parts: Parts, reached: Reached) -> Parts:
    """get-ok counts the message that it brings among those that are left."""

    class Faulty(Channel):
        def send_content(self, method: base.Frame, what: Message) -> None:
            if isinstance(method, commands.Basic.GetOk):
                reached()
                method.message_count += 1
            super().send_content(method, what)

    return replace(parts, channel091=Faulty)


# --- order ----------------------------------------------------------------------------------------


@amqp091_settling.mutant("AMQP091-PUB-04")
def two_change_places(parts: Parts, reached: Reached) -> Parts:
    """Of what waits in a queue when its consumer begins the first two change places."""

    class Faulty(Consumer):
        def attach(self) -> None:
            ready = self.declared.queue._ready
            if len(ready) > 1:
                reached()
                ready[0].message, ready[1].message = ready[1].message, ready[0].message
            super().attach()

    return replace(parts, consumer091=Faulty)


@amqp091_settling.mutant("AMQP091-PUB-04")
def a_message_overtakes_those_that_wait(parts: Parts, reached: Reached) -> Parts:
    """A consumer that has room gets a new message before those that wait in the queue."""

    class Faulty(Channel):
        def settle(self, settled: Iterable[Unacked], outcome: Outcome) -> None:
            super().settle(settled, outcome)
            for each in self.consumers.values():
                _turn(each.declared.queue, reached)

    return replace(parts, channel091=Faulty)


def _turn(queue: Queue, reached: Reached) -> None:
    """The last of those that wait is the first now."""
    ready = queue._ready
    if len(ready) > 1:
        reached()
        last = ready[-1].message
        for at in range(len(ready) - 1, 0, -1):
            ready[at].message = ready[at - 1].message
        ready[0].message = last


# --- consumers that end ---------------------------------------------------------------------------


@amqp091_settling.mutant("AMQP091-CONS-03")
def who_has_cancelled_gets_more(parts: Parts, reached: Reached) -> Parts:
    """A consumer that was cancelled gets messages as before."""

    class Faulty(Channel):
        def leave(self, consumer: Consumer) -> None:
            reached()
            self.consumers.pop(consumer.tag, None)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("RABBITMQ-AMQP091-CANCEL-01")
def the_end_of_a_queue_is_not_told(parts: Parts, reached: Reached) -> Parts:
    """A consumer whose queue is deleted waits for ever."""

    class Faulty(Channel):
        def cancelled(self, consumer: Consumer) -> None:
            reached()
            self.consumers.pop(consumer.tag, None)

    return replace(parts, channel091=Faulty)


@amqp091_settling.mutant("AMQP091-CONS-04")
def without_acknowledgement_a_message_stays(parts: Parts, reached: Reached) -> Parts:
    """What a consumer without acknowledgement has got comes again when its channel is closed."""

    class Faulty(Channel):
        def send_delivery(self, consumer: str, tag: int, redelivered: bool, what: Message) -> None:
            super().send_delivery(consumer, tag, redelivered, what)
            found = self.consumers.get(consumer)
            if found is not None and found.no_ack:
                reached()
                self.kept = [*getattr(self, "kept", []), (found.declared, what)]

        def stop(self) -> None:
            super().stop()
            for declared, message in getattr(self, "kept", []):
                self.topology.route(message, [declared.queue])
            self.kept = []

    return replace(parts, channel091=Faulty)
