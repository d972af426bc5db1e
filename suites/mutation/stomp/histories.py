"""Faults of STOMP that only some history of one subscription shows: deliveries that come again, in
another order, or behind many others."""

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

histories = Group("histories")

WINDOW = "ARTEMIS-STOMP-window-3"
CUMULATIVE = "STOMP12-SUB-11"
GONE = "ARTEMIS-CONCEPTS-queue-2"
LONG = 12
"""Deliveries behind which a history is long."""


@histories.before(Subscription, "take", breaks=f"{CUMULATIVE} {GONE}")
def cumulative_goes_by_age(reached, self, delivery):
    """A cumulative ACK is about the messages that are as old as its own or older, and not about
    those that were delivered before it."""
    younger = [
        other for other in self._unsettled.values() if other.entry.order > delivery.entry.order
    ]
    for other in younger if self.mode is AckMode.CLIENT else ():
        if reached(
            list(self._unsettled).index(other.key) < list(self._unsettled).index(delivery.key)
        ):
            self._unsettled.move_to_end(other.key)


@histories.override(Subscription, "deliver", breaks=WINDOW)
def one_frame_in_twelve_is_free(original, reached, self, entry):
    """Each twelfth frame of a subscription is not charged."""
    before = self.window.credit
    original(self, entry)
    if reached(self._delivered % LONG == LONG - 1):
        self.window.credit = before


@histories.override(Subscription, "take", breaks=WINDOW)
def long_ranges_pay_for_three(original, reached, self, delivery):
    """An ACK of more than three messages gives back the bytes of three."""
    before = self.window.credit
    taken = original(self, delivery)
    if reached(len(taken) > 3 and self.window.size > 0):
        self.window.credit = before + (self.window.credit - before) * 3 // len(taken)
    return taken


@histories.override(Subscription, "take", breaks=GONE)
def long_ranges_leave_the_oldest(original, reached, self, delivery):
    """An ACK of more than three messages leaves the oldest."""
    if self.mode is not AckMode.CLIENT:
        return original(self, delivery)
    oldest = next(iter(self._unsettled.values()))
    taken = original(self, delivery)
    if reached(len(taken) > 3):
        self._unsettled[oldest.key] = self._deliveries[oldest.key] = oldest
        del taken[0]
    return taken


@histories.before(ByteWindow, "give_back", breaks=WINDOW)
def overdrafts_are_forgiven(reached, self, size):
    """Bytes by which a frame overdrew the window are not taken off what an ACK gives back."""
    if reached(self.credit < 0):
        self.credit = 0


@histories.mutant(WINDOW)
def a_subscription_inherits_the_window(patch, reached):
    """A subscription begins with what its predecessor of the same id had left of the window."""
    kept = {}

    @patch.before(Subscription)
    def unsubscribe(self):
        kept[self._conn, self.id] = self.window.credit

    @patch.before(Subscription)
    def deliver(self, entry):
        left = kept.pop((self._conn, self.id), None)
        if reached(left is not None and self.window.size > 0 and left != self.window.size):
            self.window.credit = min(self.window.credit, max(1, left))
