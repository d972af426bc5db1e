"""Faults of consumer windows: the choice of a size."""

from collections import Counter

from brokerproof.harness.model.enums import AckMode
from brokerproof.reference_broker.kernel.credit import UNLIMITED, ByteWindow
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.suites.mutation.mutant import Group, breaks, rewritten, without
from brokerproof.suites.mutation.stomp.windows import DEFAULTS, NAMES, OURS, POSITIVE, THEIRS

window_sizes = Group("windows")


@window_sizes.override(COMMANDS, "SUBSCRIBE", breaks=NAMES)
def precedence_turned_round(original, reached, session, frame):
    """activemq.prefetchSize takes precedence over consumer-window-size."""
    if reached(frame.get(OURS) is not None and frame.get(THEIRS) is not None):
        frame = without(frame, OURS)
    return original(session, frame)


@window_sizes.override(COMMANDS, "SUBSCRIBE", breaks=NAMES)
def prefetch_size_ignored(original, reached, session, frame):
    """activemq.prefetchSize is ignored."""
    reached(frame.get(THEIRS) is not None and frame.get(OURS) is None)
    return original(session, without(frame, THEIRS))


@window_sizes.override(COMMANDS, "SUBSCRIBE")
@breaks(
    "ARTEMIS-STOMP-window-1 ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-4"
)
def window_size_ignored(original, reached, session, frame):
    """consumer-window-size is ignored: the acceptor's default applies."""
    reached(frame.get(OURS) is not None)
    return original(session, without(frame, OURS))


@window_sizes.override(COMMANDS, "SUBSCRIBE", breaks=NAMES, recreates="AMQ-4234")
def prefetch_size_lost_with_a_receipt(original, reached, session, frame):
    """activemq.prefetchSize is not applied if the SUBSCRIBE requests a receipt."""
    if reached(frame.get(THEIRS) is not None and frame.get("receipt") is not None):
        frame = without(frame, THEIRS)
    return original(session, frame)


@window_sizes.mutant(NAMES)
def prefetch_size_in_messages(patch, reached):
    """activemq.prefetchSize counts messages, as in ActiveMQ, which defines the name."""
    asked = None
    limits = {}
    unsettled = Counter()

    @patch.result(ByteWindow)
    def has_room(right, self):
        if self not in limits:
            return right
        return reached.instead(right, unsettled[self] < max(1, limits[self]))

    @patch.after(ByteWindow)
    def charge(self, size):
        unsettled[self] += 1

    @patch.after(Subscription)
    def __init__(self, *arguments):
        if asked is not None:
            limits[self.window] = asked

    @patch.result(Subscription)
    def take(taken, self, delivery):
        unsettled[self.window] -= len(taken)
        return taken

    @patch.before(COMMANDS, "SUBSCRIBE")
    def subscribe(session, frame):
        nonlocal asked
        size = frame.get(THEIRS)
        theirs = size is not None and frame.get(OURS) is None and size.isdecimal()
        asked = int(size) if theirs else None


@window_sizes.override(StompConnection, "__init__", breaks=DEFAULTS)
def acceptor_default_ignored(original, reached, self, conn, acceptor, shared, now):
    """The default window is 10240, whatever the acceptor says."""
    size = reached.instead(acceptor.stomp.consumer_window_size, 10_240)
    original(self, conn, with_parameters(acceptor, stomp_consumer_window_size=size), shared, now)


@window_sizes.override(StompConnection, "__init__", breaks=DEFAULTS)
def no_default(original, reached, self, conn, acceptor, shared, now):
    """A subscription that names no window has none."""
    size = reached.instead(acceptor.stomp.consumer_window_size, UNLIMITED)
    original(self, conn, with_parameters(acceptor, stomp_consumer_window_size=size), shared, now)


@window_sizes.override(COMMANDS, "SUBSCRIBE")
@breaks("ARTEMIS-STOMP-window-5 ARTEMIS-STOMP-window-4 STOMP11-SUB-07 STOMP12-SUB-08")
def auto_has_the_default(original, reached, session, frame):
    """An auto subscription gets the acceptor's window too, which never reopens."""
    if frame.get("ack") in (None, "auto") and frame.get(OURS) is None and frame.get(THEIRS) is None:
        size = session.acceptor.stomp.consumer_window_size
        if reached(size != UNLIMITED):
            frame = rewritten(frame, ((OURS, str(size)), *frame.head.headers))
    return original(session, frame)


@window_sizes.override(COMMANDS, "SUBSCRIBE", breaks=DEFAULTS)
def individual_without_default(original, reached, session, frame):
    """Only mode client has the acceptor's window; client-individual has none."""
    named = frame.get(OURS) is not None or frame.get(THEIRS) is not None
    if reached(frame.get("ack") == "client-individual" and not named):
        frame = rewritten(frame, ((OURS, "-1"), *frame.head.headers))
    return original(session, frame)


@window_sizes.mutant(POSITIVE)
def one_window_per_connection(patch, reached):
    """All subscriptions of a connection share the window of the first."""
    first: dict[int, ByteWindow] = {}

    @patch.after(Subscription)
    def __init__(self, *args):
        shared = first.setdefault(self._conn, self.window)
        reached(shared is not self.window)
        self.window = shared
        self.has_room = shared.has_room


@window_sizes.override(Subscription, "deliver", breaks=POSITIVE)
def delivered_again_for_nothing(original, reached, self, entry):
    """A redelivered message is not charged."""
    before = self.window.credit
    original(self, entry)
    if entry.deliveries > 1 and self.window.size > 0 and self.mode is not AckMode.AUTO:
        next(reversed(self._unsettled.values())).charge = 0
        self.window.credit = reached.instead(self.window.credit, before)


@window_sizes.override(Queue, "enqueue")
@breaks("ARTEMIS-CONCEPTS-queue-1 ARTEMIS-STOMP-window-2 ARTEMIS-STOMP-window-3")
def shut_window_drops(original, reached, self, message, *rest):
    """A message for a subscription with a closed window is dropped instead of kept."""
    waiting = len(self)
    original(self, message, *rest)
    if reached(len(self) > waiting and len(self._dispatcher) > 0):
        self._ready.pop()


@window_sizes.override(ByteWindow, "give_back", breaks=POSITIVE)
def a_byte_leaks_with_every_ack(original, reached, self, size):
    """Every settlement returns one byte too few: after many of them the window stays closed."""
    original(self, size - 1 if self.size > 0 else size)
    reached(self.size > 0)


@window_sizes.override(ByteWindow, "__init__")
@breaks("ARTEMIS-STOMP-window-3 ARTEMIS-STOMP-window-5")
def sixteen_bits(original, reached, self, size):
    """The size of a window is kept in 16 bits."""
    original(self, reached.instead(size, size & 0xFFFF if size > 0 else size))
