"""Faults of fairness: waiting clients are forgotten, or served out of turn."""

from brokerproof.reference_broker.families.activemq.producer_flow import ProducerFlow
from brokerproof.reference_broker.families.artemis.admission import Admission
from brokerproof.reference_broker.kernel.queue import Queue, RoundRobin, Serving
from brokerproof.reference_broker.protocols.amqp10.session import Session
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.suites.mutation.mutant import Group

fairness = Group("fairness")
fairness_activemq = Group("fairness-activemq", "reference-activemq-flow")

IN_TURN = "ARTEMIS-FLOW-consumer-3"
GO_ON = "ARTEMIS-FLOW-block-1 ARTEMIS-PAGING-12"
CREDIT_AGAIN = "ARTEMIS-FLOW-amqp-2"
EVERY_MESSAGE = "ARTEMIS-CONCEPTS-queue-1"


# --- consumers ------------------------------------------------------------------------------------


@fairness.mutant(IN_TURN)
def the_turn_begins_anew_with_each_input(patch, reached):
    """Turns restart with the first consumer at each input."""
    joined: dict[RoundRobin, list[object]] = {}
    dealt: set[RoundRobin] = set()

    @patch.after(RoundRobin)
    def add(self, consumer):
        joined.setdefault(self, []).append(consumer)

    @patch.after(RoundRobin)
    def remove(self, consumer):
        joined[self].remove(consumer)

    @patch.after(Serving)
    def begin(self):
        dealt.clear()

    @patch.before(RoundRobin)
    def pick(self):
        if self not in dealt:
            dealt.add(self)
            if reached(list(self._turns) != joined.get(self, [])):
                for consumer in joined[self]:
                    self._turns.move_to_end(consumer)


@fairness.override(Serving, "go_on", breaks=EVERY_MESSAGE)
def one_of_several_deep_queues_goes_on(original, reached, self):
    """Of several queues whose deliveries were interrupted by the limit per input, only the first
    continues."""
    while self.interrupted and self.left > 0:
        queue = next(iter(self.interrupted))
        reached(len(self.interrupted) > 1)
        self.interrupted.clear()
        queue.read()


@fairness.override(Session, "resume", breaks=EVERY_MESSAGE)
def one_link_resumes_when_the_window_opens(original, reached, self):
    """When a session's window opens, only one of the waiting links continues."""
    self._transmit_pending()
    if self.blocked and self.can_send():
        reached(len(self.blocked) > 1)
        self.blocked.popitem(last=False)[0].resume()


@fairness.override(Queue, "_take_back", breaks=f"{EVERY_MESSAGE} ARTEMIS-REDELIVERY-back-1")
def what_comes_back_was_looked_at(original, reached, self, back):
    """If consumers have selectors, a returned message is not offered to those that have already
    examined later ones."""
    looked = dict(self._selection.looked)
    original(self, back)
    if reached(looked != self._selection.looked):
        self._selection.looked.update(looked)


# --- producers ------------------------------------------------------------------------------------


@fairness.mutant(f"{GO_ON} {CREDIT_AGAIN}")
def one_producer_an_input_goes_on(patch, reached):
    """New room wakes only one of the producers waiting at an address, however much there is; the
    next one continues on some other event."""
    woken: set[str] = set()

    @patch.after(Serving)
    def begin(self):
        woken.clear()

    @patch.override(Admission)
    def next(original, self):
        for address, waiting in self._waiting.items():
            if self._is_open(address):
                size = self._accounting.find(address).size
                ready = [callback for callback, then in waiting.items() if then != size]
                if ready and address in woken:
                    reached()
                elif ready:
                    woken.add(address)
                    self.forget(ready[0])
                    return ready[0]
        return None


@fairness.override(Admission, "forget", breaks=f"{GO_ON} {CREDIT_AGAIN}")
def a_producer_that_leaves_takes_the_others_along(original, reached, self, on_room):
    """When the producer that waits longest leaves, all waiting at its address are forgotten."""
    address = self._where.get(on_room)
    if address is None:
        return
    waiting = self._waiting[address]
    if len(waiting) == 1 or next(iter(waiting)) is not on_room or self._is_open(address):
        original(self, on_room)
        return
    reached()
    for callback in waiting:
        del self._where[callback]
    del self._waiting[address]


@fairness.override(Admission, "next", breaks=f"{GO_ON} {CREDIT_AGAIN}")
def a_full_address_holds_up_those_behind_it(original, reached, self):
    """Producers of an address continue only once the address at which a producer waited first is no
    longer full."""
    first = next(iter(self._waiting), None)
    if first is None or self._is_open(first):
        return original(self)
    reached(any(self._is_open(address) for address in self._waiting))
    return None


@fairness.mutant(f"{GO_ON} {CREDIT_AGAIN}")
def only_its_own_address_wakes_a_producer(patch, reached):
    """A producer that waits for the limit of all addresses continues when its own address changes,
    but not when another one makes room."""
    sizes: dict[object, tuple[int, int]] = {}

    @patch.after(Admission)
    def _wait(self, address, on_room, size):
        account = self._accounting.find(address)
        if self._accounting.full:
            sizes[on_room] = account.size, account.messages
        else:
            sizes.pop(on_room, None)

    @patch.override(Admission)
    def next(original, self):
        for address, waiting in self._waiting.items():
            if not self._is_open(address):
                continue
            account = self._accounting.find(address)
            for callback, then in waiting.items():
                if then == account.size:
                    continue
                if reached(sizes.get(callback) == (account.size, account.messages)):
                    continue
                self.forget(callback)
                return callback
        return None


@fairness.mutant(GO_ON)
def what_is_behind_a_held_send_waits_for_more(patch, reached):
    """A SEND that waited continues by itself, but the frames that were pipelined after it are read
    only when the client sends something else."""
    left: dict[int, bytes] = {}

    @patch.before(StompConnection)
    def _go_on(self):
        data, self._unread = self._unread, b""
        if reached(data):
            left[self.conn] = left.get(self.conn, b"") + data

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        original(self, now, left.pop(self.conn, b"") + data)


# --- families -------------------------------------------------------------------------------------


@fairness_activemq.override(ProducerFlow, "next", breaks="ACTIVEMQ-ORDER-1")
def the_last_that_waits_goes_on_first(original, reached, self):
    """Of the messages waiting for a destination, the last one continues first."""
    for name, there in self._waiting.items():
        if reached(len(there) > 1):
            self._waiting[name] = dict(reversed(there.items()))
    try:
        return original(self)
    finally:
        for name, there in self._waiting.items():
            self._waiting[name] = dict(sorted(there.items()))


# --- seeded after the suites were strengthened ----------------------------------------------------


@fairness.override(Admission, "forget", breaks=f"{GO_ON} {CREDIT_AGAIN}")
def a_producer_that_leaves_takes_the_next_along(original, reached, self, on_room):
    """When a producer that waits at a full address leaves, the next one is forgotten too."""
    address = self._where.get(on_room)
    waiting = [] if address is None else list(self._waiting[address])
    original(self, on_room)
    if address is None or self._is_open(address):
        return
    for follower in waiting[waiting.index(on_room) + 1 :][:1]:
        reached()
        original(self, follower)


@fairness.before(Session, "resume", breaks=EVERY_MESSAGE)
def the_last_of_the_blocked_links_is_passed_over(reached, self):
    """When a session's window opens again, the link that began to wait last does not continue."""
    if reached(len(self.blocked) > 1 and self.can_send()):
        self.blocked.popitem()


@fairness.after(Queue, "_take_back", breaks=f"{EVERY_MESSAGE} ARTEMIS-REDELIVERY-back-1")
def the_oldest_that_comes_back_was_looked_at(reached, self, back):
    """If consumers have selectors, the oldest of several returned messages is not offered to those
    that have already examined later ones."""
    if len(back) > 1 and self._selection.looked:
        oldest = min(entry.order for entry in back)
        for consumer, looked in self._selection.looked.items():
            if reached(looked < oldest):
                self._selection.looked[consumer] = oldest
