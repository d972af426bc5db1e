"""Windows and credit: how much one side may still send to the other.

Two kinds that share no arithmetic: bytes of STOMP frames (:class:`ByteWindow`), and deliveries of
AMQP links (:class:`SenderCredit`, :class:`ReceiverCredit`).

Bytes
-----
The arithmetic of ``consumer-window-size`` (ARTEMIS-STOMP-window-1 to -5), in bytes of whole
encoded frames:

1. A window of size W starts with a credit of W. Two sizes are special: -1 means no flow control at
   all, and 0 starts with a credit of 1.
2. There is room while the credit is above zero. Room is checked *before* the frame's length is
known.
3. A delivery charges the length L of the whole encoded frame. The credit may become negative: a
   window never stops a frame that starts with credit left, so up to L - 1 bytes more than W can be
   outstanding.
4. A settlement restores exactly what was charged for the deliveries it settles: never an estimate,
   and never the same charge twice.

From 2 and 3: without settlements, frames of equal length L are delivered ceil(W / L) times for W >=
1. From 1 to 4: a window of 0 delivers strictly one at a time, because 1 - L is not above zero for
any frame and giving back L restores exactly 1. So 0 can start with 1 and needs no special rule.

An ``auto`` subscription settles nothing, so a window requested for it is used up and never
restored.

Deliveries
----------
Link credit (2.6.7 of AMQP 1.0). The two ends of a link keep the same two numbers, and each changes
one of them:

1. ``delivery-count`` is the sender's. It starts at the sender's choice, increases by one per
   delivery and wraps at 2^32. Only differences are meaningful (AMQP10-CREDIT-01, -13).
2. ``link-credit`` is the receiver's, and says how many more deliveries it will accept
  (AMQP10-CREDIT-02, -23).
3. Their sum is the count at which the sender must stop. The receiver chooses that limit; a delivery
   adds one to the count, subtracts one from the credit, and leaves the limit unchanged
   (AMQP10-CREDIT-05).
4. A flow from the receiver states the limit relative to the last count it knew. The sender's count
   already includes later deliveries, so the sender subtracts them (AMQP10-CREDIT-03)::

       credit := count_receiver + credit_receiver - count_sender

   The result can be negative if credit was withdrawn while deliveries were in flight. It then
   counts as zero.
5. A flow without a count means that the receiver did not know one yet: the sender's initial count
   is used (AMQP10-CREDIT-04).
6. On drain the sender sends what it has, then *advances the count by the remaining credit*
   (AMQP10-CREDIT-12). It must not just set the credit to zero: credit belongs to the receiver, and
   less credit at the same count would lower the limit, which only the receiver can choose. The
   sender may always use up the limit, and reports that through the count. When the receiver sees
   the count at the limit, it knows that nothing more will be sent and nothing is in flight.
7. The receiver adopts the sender's count from its flows and reduces the credit by the difference
   (AMQP10-CREDIT-05). A count beyond the limit is an error.
"""

from brokerproof.reference_broker.kernel import serial_numbers

UNLIMITED = -1


class ByteWindow:
    """The credit of one subscription. ``size`` is in bytes: -1 (unlimited), or at least 0."""

    __slots__ = ("credit", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.credit = 1 if size == 0 else size

    def has_room(self) -> bool:
        """Return True if one more frame, of any length, may be sent."""
        return self.credit > 0 or self.size == UNLIMITED

    def cost(self, size: int) -> int:
        """Return the charge for a frame of ``size`` bytes."""
        return size

    def charge(self, size: int) -> None:
        if self.size != UNLIMITED:
            self.credit -= size

    def give_back(self, size: int) -> None:
        """Restore ``size``, the total charge of deliveries now settled."""
        if self.size != UNLIMITED:
            self.credit += size


class MessageWindow(ByteWindow):
    """The prefetch of one subscription: its maximum of unacknowledged messages (0: none)."""

    __slots__ = ()

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.credit = size

    def cost(self, size: int) -> int:
        return 1


class SenderCredit:
    """Our end of a link on which we send: rules 1, 4, 5 and 6. ``first`` is our first
    delivery-count."""

    __slots__ = ("count", "credit", "drain", "first")

    def __init__(self, first: int) -> None:
        self.first = self.count = first
        self.credit = 0
        self.drain = False

    def flow(self, count: int | None, credit: int, drain: bool) -> bool:
        """Apply the receiver's flow. If we never had its count, change nothing and return False."""
        known = self.first if count is None else count
        if serial_numbers.before(self.count, known):
            return False
        self.credit = max(0, credit - serial_numbers.distance(known, self.count))
        self.drain = drain
        return True

    def spend(self) -> None:
        """Record that a delivery has begun."""
        self.count = (self.count + 1) & serial_numbers.MASK
        self.credit -= 1

    def drained(self) -> None:
        """Use up the remaining credit, because there is nothing to send (rule 6)."""
        self.count = serial_numbers.add(self.count, self.credit)
        self.credit = 0


class ReceiverCredit:
    """Our end of a link on which we receive: rules 2, 3 and 7. ``count`` is the sender's first
    delivery-count."""

    __slots__ = ("count", "credit")

    def __init__(self, count: int) -> None:
        self.count = count
        self.credit = 0

    def grant(self, deliveries: int) -> None:
        """Permit this many more ``deliveries``."""
        self.credit += deliveries

    def spend(self) -> bool:
        """Record the start of an incoming delivery. If there was no credit for it, change nothing
        and return False (AMQP10-CREDIT-09)."""
        if self.credit <= 0:
            return False
        self.count = (self.count + 1) & serial_numbers.MASK
        self.credit -= 1
        return True

    def flow(self, count: int) -> bool:
        """Apply the sender's flow. If its count is too high (rule 7), change nothing and return
        False.

        A count behind ours is ignored: a connection preserves order, so it can only be a mistake.
        """
        skipped = serial_numbers.ahead(self.count, count)
        if skipped > self.credit:
            return False
        if skipped > 0:
            self.count = count
            self.credit -= skipped
        return True
