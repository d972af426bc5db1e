"""Faults after the answer that an AMQP 0-9-1 case waits for: the answer is right, but a later frame
is wrong."""

from collections import Counter

from pamqp import commands

from brokerproof.harness.model.time import seconds
from brokerproof.reference_broker.protocols.amqp091.channel import Channel
from brokerproof.reference_broker.protocols.amqp091.connection import BEAT, Amqp091Connection, State
from brokerproof.reference_broker.protocols.amqp091.heartbeat import HeartBeats
from brokerproof.suites.mutation.mutant import Group

amqp091_aftermath = Group("amqp091-aftermath", "reference-rabbitmq")


def _after(connection, delay, action):
    """Run an action ``delay`` seconds later if the connection is still open then."""
    shared = connection.shared

    def act(now):
        if connection._state is State.RUNNING:
            action()

    shared.deadlines.call_at(shared.clock.now + seconds(delay), act)


@amqp091_aftermath.after(Channel, "refuse", breaks="AMQP091-CHAN-02")
def closed_channel_speaks(reached, self, problem, method):
    """A channel sends a method half a second after an exception closed it."""

    def speak():
        if reached(self.is_closing):
            self.tell(commands.Channel.Flow(True))

    _after(self.connection, 0.5, speak)


@amqp091_aftermath.mutant("AMQP091-CONS-03")
def cancelled_consumer_gets_one_more(patch, reached):
    """A consumer gets its last message again a second after its cancel was confirmed."""
    last = {}

    @patch.before(Channel)
    def send_delivery(self, consumer, tag, redelivered, what):
        last[self, consumer] = what

    @patch.after(Channel)
    def cancel(self, consumer):
        what = last.get((self, consumer.tag))

        def deliver():
            if reached(what is not None and not self.is_closing and not self.is_closed):
                self.send_delivery(consumer.tag, self.next_tag(), True, what)

        _after(self.connection, 1, deliver)


@amqp091_aftermath.override(Channel, "tell", breaks="RABBITMQ-AMQP091-CONF-01")
def confirms_again(original, reached, self, method):
    """A confirm is sent again a second later."""
    original(self, method)
    if isinstance(method, commands.Basic.Ack):

        def again():
            if reached(not self.is_closing and not self.is_closed):
                original(self, method)

        _after(self.connection, 1, again)


@amqp091_aftermath.after(Amqp091Connection, "_open", breaks="AMQP091-HB-06")
def beats_that_nobody_wants(reached, self, method):
    """Two seconds after open-ok a heartbeat arrives, though none were agreed."""
    if not self._heartbeat:

        def beat():
            reached()
            self.shared.outbox.send(self.conn, BEAT)

        _after(self, 2, beat)


@amqp091_aftermath.after(Amqp091Connection, "_open", breaks="AMQP091-HB-05")
def beating_client_is_given_up(reached, self, method):
    """A connection ends 3.3 seconds after its open, whatever its client sends."""
    if self._heartbeat:

        def end():
            reached()
            self.end()

        _after(self, 3.3, end)


@amqp091_aftermath.mutant("AMQP091-HB-02")
def beats_stop(patch, reached):
    """Eight heartbeats are sent, and no more."""
    beats = Counter()

    @patch.result(HeartBeats)
    def beat_due(due, self, now):
        beats[self] += due
        return False if reached(due and beats[self] > 8) else due
