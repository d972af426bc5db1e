"""Faults towards peers that do not read: who waits with them, and what they lose."""

from __future__ import annotations

from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

stalled_readers = Group("stalled-readers")

DELIVERED, ANSWERED, LIVES = "STOMP12-SUB-02", "STOMP12-HDR-17", "STOMP12-HB-08"


@stalled_readers.override(StompConnection, "pause_delivery", breaks=DELIVERED)
def never_resumed(original, reached, self, paused):
    """A peer that stopped reading once is sent no message again."""
    if paused:
        original(self, True)
    else:
        reached()


@stalled_readers.override(Subscription, "pause_delivery", breaks=DELIVERED)
def resumed_without_looking(original, reached, self, paused):
    """Bytes that waited for a peer which did not read are gone when it reads again."""
    if not paused and len(self.queue):
        reached()
        self.queue.purge()
    original(self, paused)


@stalled_readers.mutant(DELIVERED)
def everybody_waits(patch, reached):
    """While one peer does not read, no peer is sent a message."""
    heard: dict[int, StompConnection] = {}

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        heard[self.conn] = self
        original(self, now, data)

    @patch.override(StompConnection)
    def pause_delivery(original, self, paused):
        for connection in heard.values():
            if connection is not self:
                reached()
            original(connection, paused)


@stalled_readers.override(StompConnection, "pause_delivery", breaks=LIVES)
def stalled_is_dead(original, reached, self, paused):
    """A peer that does not read is closed."""
    if paused and self.subscriptions:
        reached()
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
        if self._paused:
            reached()
            self._liveness.last_heard = before
            self._watch()


@stalled_readers.mutant("ARTEMIS-CONCEPTS-queue-1")
def held_messages_of_stalled_peers_lost(patch, reached):
    """The unacknowledged messages of a stalled peer are lost when it breaks off."""

    @patch.override(StompConnection)
    def on_peer_gone(original, self):
        if self._paused:
            reached()
            for subscription in self.subscriptions.values():
                for delivery in list(subscription._unsettled.values()):
                    subscription.queue.discard(delivery.entry)
                subscription._unsettled.clear()
        original(self)
