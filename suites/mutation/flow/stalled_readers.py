"""Faults caused by peers that do not read: who waits, and what is lost."""

from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

stalled_readers = Group("stalled-readers")

DELIVERED, ANSWERED, LIVES = "STOMP12-SUB-02", "STOMP12-HDR-17", "STOMP12-HB-08"


@stalled_readers.override(StompConnection, "pause_delivery", breaks=DELIVERED)
def never_resumed(original, reached, self, paused):
    """A peer that once stopped reading gets no more messages."""
    if paused:
        original(self, True)
    else:
        reached()


@stalled_readers.before(Subscription, "pause_delivery", breaks=DELIVERED)
def resumed_without_looking(reached, self, paused):
    """Bytes that waited for a stalled peer are lost when it reads again."""
    if reached(not paused and len(self.queue)):
        self.queue.purge()


@stalled_readers.mutant(DELIVERED)
def everybody_waits(patch, reached):
    """While one peer does not read, no peer receives a message."""
    heard: dict[int, StompConnection] = {}

    @patch.before(StompConnection)
    def receive(self, now, data):
        heard[self.conn] = self

    @patch.override(StompConnection)
    def pause_delivery(original, self, paused):
        for connection in heard.values():
            reached(connection is not self)
            original(connection, paused)


@stalled_readers.override(StompConnection, "pause_delivery", breaks=LIVES)
def stalled_is_dead(original, reached, self, paused):
    """A peer that does not read is disconnected."""
    if reached(paused and self.subscriptions):
        self.close()
    else:
        original(self, paused)


@stalled_readers.mutant(LIVES)
def beats_of_stalled_peers_not_heard(patch, reached):
    """Heartbeats of a peer that does not read do not count."""

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        before = self._liveness.last_heard
        original(self, now, data)
        if reached(self._paused):
            self._liveness.last_heard = before
            self._watch()


@stalled_readers.mutant("ARTEMIS-CONCEPTS-queue-1")
def held_messages_of_stalled_peers_lost(patch, reached):
    """The unacknowledged messages of a stalled peer are lost when its connection breaks."""

    @patch.before(StompConnection)
    def on_peer_gone(self):
        if reached(self._paused):
            for subscription in self.subscriptions.values():
                for delivery in list(subscription._unsettled.values()):
                    subscription.queue.discard(delivery.entry)
                subscription._unsettled.clear()
