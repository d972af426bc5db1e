"""Windows and credit: how much one side may still send to the other.

Two kinds that share no arithmetic: bytes of STOMP frames (:class:`ByteWindow`), and deliveries of
AMQP links (:class:`SenderCredit`, :class:`ReceiverCredit`).

Bytes
-----
The arithmetic of ``consumer-window-size`` (ARTEMIS-STOMP-window-1 to -5), in bytes of whole
encoded frames:

1. A window of size W starts with a credit of W. Two sizes are special: -1 is no flow control at
   all, and 0 starts with a credit of 1.
2. There is room while the credit is above zero. Room is asked *before* the frame's length is known.
3. A delivery charges the length L of the whole encoded frame. The credit may become negative: a
   window never stops a frame that starts with credit left, so up to L - 1 bytes more than W can be
   outstanding.
4. A settlement gives back exactly what was charged for the deliveries that it settles; never an
   estimate, and never the same charge twice.

From 2 and 3: without settlements, frames of equal length L are delivered ceil(W / L) times for W >=
1. From 1 to 4: a window of 0 delivers strictly one at a time, because 1 - L is not above zero for
any frame and giving back L restores exactly 1. That is why 0 can start with 1 and needs no rule of
its own.

An ``auto`` subscription settles nothing, so a window that was asked for there is used up and never
comes back.

Deliveries
----------
Link credit (2.6.7 of AMQP 1.0). The two ends of a link keep the same two numbers, and each changes
one of them:

1. ``delivery-count`` is the sender's. It starts where the sender says, goes up by one for each
   delivery, wraps at 2^32, and is not a count of anything in particular: only differences mean
   something (AMQP10-CREDIT-01, -13).
2. ``link-credit`` is the receiver's, and says how many deliveries more it will take
  (AMQP10-CREDIT-02, -23).
3. What both really agree on is their sum, the count at which the sender must stop. The receiver
   chooses that limit; a delivery moves the count by one and the credit by minus one and leaves the
   limit alone (AMQP10-CREDIT-05).
4. A flow from the receiver says the limit in terms of the last count it knew. Deliveries sent since
   then are already in the sender's count, so the sender subtracts them (AMQP10-CREDIT-03)::

       credit := count_receiver + credit_receiver - count_sender

   The result can be below zero when credit was taken back while deliveries were on their way. It
   counts as zero.
5. Without a count in the flow the receiver did not know one yet: the sender's first count takes its
   place (AMQP10-CREDIT-04).
6. With drain the sender sends what it has, then *advances the count by the rest of the credit*
   (AMQP10-CREDIT-12). It may not just set the credit to zero: credit is the receiver's number, and
   a smaller credit at the same count would be a smaller limit, which only the receiver can choose.
   Using up the limit is something the sender may always do, and the count is how it says so. The
   receiver sees the count arrive at the limit and knows both that nothing more comes and that
   nothing is under way, without any message that could be lost or late.
7. The receiver takes over the sender's count from its flows, and pays for the difference with
   credit (AMQP10-CREDIT-05). A count beyond the limit is a lie.
"""

from __future__ import annotations

from brokerproof.reference_broker.kernel import serial_numbers

UNLIMITED = -1


class ByteWindow:
    """The credit of one subscription. ``size`` is -1 (no limit) or at least 0, in bytes."""

    __slots__ = ("credit", "size")

    def __init__(self, size: int) -> None:
        self.size = size
        self.credit = 1 if size == 0 else size

    def has_room(self) -> bool:
        """True if one more frame, of whatever length, may be sent."""
        return self.credit > 0 or self.size == UNLIMITED

    def cost(self, size: int) -> int:
        """Return the charge for a frame of ``size`` bytes."""
        return size

    def charge(self, size: int) -> None:
        if self.size != UNLIMITED:
            self.credit -= size

    def give_back(self, size: int) -> None:
        """Deliveries that were charged ``size`` together have been settled."""
        if self.size != UNLIMITED:
            self.credit += size


class MessageWindow(ByteWindow):
    """The prefetch of one subscription: how many messages it may have that are not acknowledged. 0
    is none at all."""

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
        """The receiver's flow. False, and nothing changed, if it knows a count that we never
        had."""
        known = self.first if count is None else count
        if serial_numbers.before(self.count, known):
            return False
        self.credit = max(0, credit - serial_numbers.distance(known, self.count))
        self.drain = drain
        return True

    def spend(self) -> None:
        """A delivery was begun."""
        self.count = (self.count + 1) & serial_numbers.MASK
        self.credit -= 1

    def drained(self) -> None:
        """There is nothing to send: the rest of the credit is used up (rule 6)."""
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
        """``deliveries`` more may be sent."""
        self.credit += deliveries

    def spend(self) -> bool:
        """A delivery began to arrive. False, and nothing changed, if there was no credit for it
        (AMQP10-CREDIT-09)."""
        if self.credit <= 0:
            return False
        self.count = (self.count + 1) & serial_numbers.MASK
        self.credit -= 1
        return True

    def flow(self, count: int) -> bool:
        """The sender's flow. False, and nothing changed, if its count is beyond the limit (rule 7).

        A count behind ours is no news: nothing on a connection overtakes, so it can only be a
        mistake.
        """
        skipped = serial_numbers.ahead(self.count, count)
        if skipped > self.credit:
            return False
        if skipped > 0:
            self.count = count
            self.credit -= skipped
        return True
