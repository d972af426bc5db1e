"""Faults of consumer windows: charges, refunds, and special sizes."""

from collections import Counter
from unittest import mock

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.kernel.credit import UNLIMITED, ByteWindow
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, rewritten, without

windows = Group("windows")

NAMES = "ARTEMIS-STOMP-window-1"
ZERO = "ARTEMIS-STOMP-window-2"
POSITIVE = "ARTEMIS-STOMP-window-3"
NONE = "ARTEMIS-STOMP-window-4"
DEFAULTS = "ARTEMIS-STOMP-window-5"
OURS, THEIRS = "consumer-window-size", "activemq.prefetchSize"


# --- charges --------------------------------------------------------------------------------------


@windows.override(Subscription, "deliver", breaks=POSITIVE)
def body_charged(original, reached, self, entry):
    """A delivery costs the bytes of its body, not of its frame."""
    before = self.window.credit
    original(self, entry)
    if self.window.size != UNLIMITED and self.mode is not AckMode.AUTO:
        delivery = next(reversed(self._unsettled.values()))
        delivery.charge = reached.instead(delivery.charge, len(entry.message.body))
        self.window.credit = before - delivery.charge


@windows.mutant("ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-2")
def nothing_charged(patch, reached):
    """Deliveries cost nothing, so a window never closes."""

    @patch.override(ByteWindow)
    def charge(original, self, size):
        reached(self.size != UNLIMITED)

    @patch.override(ByteWindow)
    def give_back(original, self, size):
        """Do nothing, because nothing was charged."""


@windows.mutant(POSITIVE)
def a_few_bytes_forgotten(patch, reached):
    """The NUL that ends a frame is not charged: every delivery costs one byte too little."""

    @patch.override(ByteWindow)
    def charge(original, self, size):
        original(self, size - 1)
        reached(self.size != UNLIMITED)

    @patch.override(ByteWindow)
    def give_back(original, self, size):
        original(self, size - 1)


@windows.mutant(POSITIVE)
def must_fit(patch, reached):
    """A message is sent only if there is room for one as large as the last: no window is ever
    exceeded."""
    last = {}

    @patch.result(ByteWindow)
    def has_room(right, self):
        return reached.instead(
            right, right and (self.size <= 0 or self.credit >= last.get(self, 0))
        )

    @patch.after(ByteWindow)
    def charge(self, size):
        last[self] = size


@windows.result(ByteWindow, "has_room", breaks=POSITIVE)
def one_more_at_zero(right, self):
    """The window closes when its credit is below zero, not when it is zero: >= for >."""
    return self.credit >= 0 or self.size == UNLIMITED


@windows.after(ByteWindow, "__init__", breaks=POSITIVE)
def counted_from_half(reached, self, size):
    """A window starts with half its size."""
    self.credit = reached.instead(self.credit, self.credit // 2 if size > 1 else self.credit)


# --- refunds --------------------------------------------------------------------------------------


@windows.override(ByteWindow, "give_back", breaks=POSITIVE)
def given_back_twice(original, reached, self, size):
    """A settlement returns twice the cost of its messages."""
    original(self, 2 * size)
    reached(self.size != UNLIMITED)


@windows.override(ByteWindow, "give_back", breaks="ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-2")
def nothing_given_back(original, reached, self, size):
    """Settlements return nothing: a used-up window stays closed."""
    reached(self.size != UNLIMITED)


@windows.mutant(ZERO)
def nothing_given_back_by_nack(patch, reached):
    """ACK returns its bytes but NACK does not."""
    refusing = patch.during(COMMANDS, "NACK")

    @patch.override(ByteWindow)
    def give_back(original, self, size):
        if not refusing:
            original(self, size)
        else:
            reached(self.size != UNLIMITED)


@windows.override(Subscription, "take", breaks=POSITIVE, recreates="ARTEMIS-589")
def cumulative_ack_pays_for_one(original, reached, self, delivery):
    """A cumulative ACK returns only the bytes of the message that it names."""
    covered = len(self._unsettled)
    before = self.window.credit
    taken = original(self, delivery)
    if self.window.size != UNLIMITED and len(taken) > 1 and covered:
        self.window.credit = reached.instead(self.window.credit, before + delivery.charge)
    return taken


@windows.after(ByteWindow, "give_back", breaks=POSITIVE)
def opened_whole_by_any_ack(reached, self, size):
    """Any settlement opens the window to its full size, whatever is still held."""
    if self.size > 0:
        self.credit = reached.instead(self.credit, self.size)


@windows.mutant(POSITIVE)
def paid_by_the_last(patch, reached):
    """A settlement returns the cost of the last delivery, not of the settled ones."""
    last = {}

    @patch.after(ByteWindow)
    def charge(self, size):
        last[self] = size

    @patch.override(ByteWindow)
    def give_back(original, self, size):
        original(self, reached.instead(size, last.get(self, 0)) if self.size > 0 else size)


# --- special sizes --------------------------------------------------------------------------------


@windows.override(ByteWindow, "__init__", breaks=ZERO)
def zero_is_unlimited(original, reached, self, size):
    """A window of 0 holds nothing back."""
    original(self, reached.instead(size, size or UNLIMITED))


@windows.mutant(ZERO)
def zero_gives_two(patch, reached):
    """A window of 0 allows two unsettled messages."""
    unsettled = Counter()

    @patch.result(ByteWindow)
    def has_room(right, self):
        return reached.instead(right, right or (self.size == 0 and unsettled[self] < 2))

    @patch.after(ByteWindow)
    def charge(self, size):
        unsettled[self] += 1

    @patch.after(ByteWindow)
    def give_back(self, size):
        unsettled[self] -= 1


@windows.result(ByteWindow, "has_room", breaks=ZERO)
def zero_gives_none(right, self):
    """A window of 0 allows no message at all."""
    return right if self.size else False


@windows.override(COMMANDS, "SUBSCRIBE", breaks=NONE)
def unlimited_is_zero(original, reached, session, frame):
    """A window of -1 counts as 0: one message at a time."""
    if reached(frame.get(OURS) == "-1"):
        frame = rewritten(frame, ((OURS, "0"), *without(frame, OURS, THEIRS).head.headers))
    return original(session, frame)


@windows.override(COMMANDS, "SUBSCRIBE", breaks="ARTEMIS-STOMP-window-4 ARTEMIS-STOMP-window-5")
def unlimited_is_the_default(original, reached, session, frame):
    """A window of -1 counts as missing: the acceptor's default applies."""
    return original(session, without(frame, OURS) if reached(frame.get(OURS) == "-1") else frame)


@windows.override(ByteWindow, "__init__", breaks="ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-1")
def counted_in_kilobytes(original, reached, self, size):
    """A window is read as kibibytes."""
    original(self, reached.instead(size, size * 1024 if size > 0 else size))


# --- in transactions ------------------------------------------------------------------------------

windows_activemq = Group("windows-activemq", "reference-activemq")


@windows_activemq.override(COMMANDS, "ACK", breaks="OPENWIRE-PREFETCH-1", recreates="AMQ-7211")
def acknowledged_in_a_transaction_keeps_its_room(original, reached, session, frame):
    """A message that is acknowledged in a transaction still counts towards the prefetch."""
    if not reached(frame.get("transaction") is not None):
        return original(session, frame)
    with mock.patch.object(ByteWindow, "give_back"):
        return original(session, frame)
