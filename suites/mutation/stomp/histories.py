"""Faults of STOMP that only certain histories of a subscription reveal: deliveries that are
repeated, reordered, or preceded by many others."""

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.kernel.credit import ByteWindow
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group

histories = Group("histories")

WINDOW = "ARTEMIS-STOMP-window-3"
CUMULATIVE = "STOMP12-SUB-11"
GONE = "ARTEMIS-CONCEPTS-queue-2"
LONG = 12
"""Deliveries after which a history counts as long."""


@histories.before(Subscription, "take", breaks=f"{CUMULATIVE} {GONE}")
def cumulative_goes_by_age(reached, self, delivery):
    """A cumulative ACK covers messages by age, not by order of delivery."""
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
    """Every twelfth frame of a subscription is not charged."""
    before = self.window.credit
    original(self, entry)
    if reached(self._delivered % LONG == LONG - 1):
        self.window.credit = before


@histories.override(Subscription, "take", breaks=WINDOW)
def long_ranges_pay_for_three(original, reached, self, delivery):
    """An ACK of more than three messages returns the bytes of only three."""
    before = self.window.credit
    taken = original(self, delivery)
    if reached(len(taken) > 3 and self.window.size > 0):
        self.window.credit = before + (self.window.credit - before) * 3 // len(taken)
    return taken


@histories.override(Subscription, "take", breaks=GONE)
def long_ranges_leave_the_oldest(original, reached, self, delivery):
    """An ACK of more than three messages omits the oldest."""
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
    """The overdraft of a window is not deducted when an ACK returns bytes."""
    if reached(self.credit < 0):
        self.credit = 0


@histories.mutant(WINDOW)
def a_subscription_inherits_the_window(patch, reached):
    """A subscription begins with the remaining window of its predecessor with the same id."""
    kept = {}

    @patch.before(Subscription)
    def unsubscribe(self):
        kept[self._conn, self.id] = self.window.credit

    @patch.before(Subscription)
    def deliver(self, entry):
        left = kept.pop((self._conn, self.id), None)
        if reached(left is not None and self.window.size > 0 and left != self.window.size):
            self.window.credit = min(self.window.credit, max(1, left))
