"""Faults in creating and ending subscriptions."""

from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks

subscriptions = Group("subscriptions")

KEPT = "STOMP10-SUBSCRIBE-05 STOMP11-ACK-05 STOMP12-ACK-04"
ENDED = "STOMP10-UNSUBSCRIBE-02 STOMP11-UNSUB-02 STOMP12-UNSUB-03"


@subscriptions.skips(COMMANDS, "UNSUBSCRIBE", breaks=ENDED)
def unsubscribe_has_no_effect(session, frame):
    """UNSUBSCRIBE is confirmed, but the subscription continues."""
    return any(
        subscription.id == frame.get("id") for subscription in session.subscriptions.values()
    )


@subscriptions.skips(COMMANDS, "UNSUBSCRIBE", breaks=ENDED)
def unsubscribe_leaves_what_selects(session, frame):
    """UNSUBSCRIBE does not end a subscription to a queue that has a selector (Spring 5.2.8)."""
    named = (item for item in session.subscriptions.values() if item.id == frame.get("id"))
    return any(item in item.queue._selection.selectors for item in named)


@subscriptions.mutant(ENDED, recreates="ARTEMIS-1792")
def one_more_message_behind_the_receipt(patch, reached):
    """A message in transit follows the RECEIPT of UNSUBSCRIBE."""
    last: dict[int, tuple[bytes, str | None]] = {}

    @patch.after(Subscription)
    def deliver(self, entry):
        last[self._conn] = (
            self._encoder.message(self._opening, entry.message, b"", False),
            self.id,
        )

    @patch.result(COMMANDS, "UNSUBSCRIBE")
    def unsubscribe(after, session, frame):
        late = last.get(session.conn)
        if late is None or late[1] != frame.get("id"):
            return after
        reached()
        return lambda: session.shared.outbox.send(session.conn, late[0])


@subscriptions.mutant("STOMP10-SUBSCRIBE-02 STOMP11-SUB-07 STOMP12-SUB-08")
def lost_on_the_way_to_a_short_subscription(patch, reached):
    """Auto messages for a new subscription are lost if its UNSUBSCRIBE is in the same write."""
    reading = patch.during(StompConnection, "receive")
    under_way: list[tuple[Subscription, tuple[object, ...]]] = []
    put = Subscription._put

    @patch.override(Subscription)
    def _put(original, self, *frame):
        if reading and not self._unsettled:
            under_way.append((self, frame))
        else:
            original(self, *frame)

    @patch.before(Subscription)
    def unsubscribe(self):
        under_way[:] = [one for one in under_way if one[0] is not self or not reached()]

    @patch.after(StompConnection)
    def receive(self, now, data):
        while under_way:
            subscription, frame = under_way.pop(0)
            put(subscription, *frame)


@subscriptions.after(COMMANDS, "UNSUBSCRIBE", breaks=ENDED)
def unsubscribe_ends_all(reached, session, frame):
    """UNSUBSCRIBE ends every subscription of the connection."""
    others = list(session.subscriptions.values())
    if reached(others):
        session.subscriptions.clear()
        session.release(others)


@subscriptions.override(COMMANDS, "UNSUBSCRIBE", breaks="STOMP11-UNSUB-01 STOMP12-UNSUB-02")
def unknown_ids_confirmed(original, reached, session, frame):
    """UNSUBSCRIBE of a subscription that does not exist is confirmed."""
    try:
        return original(session, frame)
    except Refusal as problem:
        if problem.message != refusal.UNSUB_UNKNOWN.message:
            raise
        reached()
        return None


@subscriptions.override(COMMANDS, "UNSUBSCRIBE")
@breaks("STOMP10-UNSUBSCRIBE-01 STOMP11-UNSUB-01 STOMP12-UNSUB-01 STOMP12-FH-05")
def without_id_the_first(original, reached, session, frame):
    """UNSUBSCRIBE without an id ends the first subscription of the connection."""
    if reached(
        frame.get("id") is None and frame.get("destination") is None and session.subscriptions
    ):
        session.release([session.subscriptions.pop(next(iter(session.subscriptions)))])
        return None
    return original(session, frame)


@subscriptions.before(StompConnection, "on_peer_gone", breaks=KEPT)
def the_second_of_a_lost_connection_stays(reached, self):
    """Of a lost connection's subscriptions to one queue only the first ends (vertx-stomp 5.1.0)."""
    queues = set()
    for key, subscription in list(self.subscriptions.items()):
        if reached(subscription.queue in queues):
            del self.subscriptions[key]
        queues.add(subscription.queue)


@subscriptions.before(COMMANDS, "UNSUBSCRIBE", breaks="STOMP10-UNSUBSCRIBE-01")
def not_by_destination(reached, session, frame):
    """In 1.0 a subscription cannot be ended by its destination."""
    if reached(
        session.version is Version.V1_0
        and frame.get("id") is None
        and frame.get("destination") is not None
    ):
        raise Refusal(refusal.UNSUB_NO_ID, session.version, "give an id")


@subscriptions.before(COMMANDS, "UNSUBSCRIBE", breaks="STOMP10-SUBSCRIBE-08 STOMP10-UNSUBSCRIBE-01")
def not_by_id_in_1_0(reached, session, frame):
    """In 1.0 UNSUBSCRIBE ignores the id of a subscription."""
    if reached(
        session.version is Version.V1_0
        and frame.get("id") is not None
        and frame.get("destination") is None
    ):
        raise Refusal(refusal.UNSUB_NO_ID, session.version, "give a destination")


@subscriptions.override(COMMANDS, "UNSUBSCRIBE", breaks="STOMP11-UNSUB-02 STOMP12-UNSUB-03")
def one_consumer_per_queue_and_connection(original, reached, session, frame):
    """Ending one of a connection's two subscriptions to a queue ends both."""
    ended = next(
        (
            subscription
            for subscription in session.subscriptions.values()
            if subscription.id == frame.get("id")
        ),
        None,
    )
    after = original(session, frame)
    if ended is not None:
        twins = [
            key
            for key, candidate in session.subscriptions.items()
            if candidate.queue is ended.queue
        ]
        if reached(twins):
            session.release([session.subscriptions.pop(key) for key in twins])
    return after


@subscriptions.mutant("STOMP10-SUBSCRIBE-02 STOMP11-SUB-02 STOMP12-SUB-02")
def an_id_is_used_up(patch, reached):
    """A subscription with the id of an earlier one on its connection gets nothing."""
    ended: set[tuple[int, str | None]] = set()

    @patch.before(COMMANDS, "UNSUBSCRIBE")
    def unsubscribe(session, frame):
        ended.add((session.conn, frame.get("id")))

    @patch.override(Subscription)
    def deliver(original, self, entry):
        if not reached((self._conn, self.id) in ended):
            original(self, entry)


@subscriptions.mutant("STOMP10-SUBSCRIBE-02 STOMP11-SUB-02 STOMP12-SUB-02")
def not_its_own_messages(patch, reached):
    """A connection does not get its own messages."""
    senders: dict[int, int] = {}

    @patch.override(Subscription)
    def deliver(original, self, entry):
        if not reached(senders.get(entry.message.number) == self._conn):
            original(self, entry)

    @patch.before(COMMANDS, "SEND")
    def send(session, frame):
        senders[session.shared.router._messages + 1] = session.conn


@subscriptions.mutant(
    "STOMP10-SUBSCRIBE-02 STOMP11-SUB-02 STOMP12-SUB-02 STOMP11-SUB-07 STOMP12-SUB-08"
)
def auto_stops_after_a_hundred(patch, reached):
    """An auto subscription gets a hundred messages and no more."""

    @patch.after(Subscription)
    def __init__(self, *args):
        self.sent = 0
        room = self.has_room
        if self.mode.name == "AUTO":
            self.has_room = lambda: room() and self.sent < 100

    @patch.override(Subscription)
    def pause_delivery(original, self, paused):
        if self.mode.name != "AUTO":
            original(self, paused)

    @patch.before(Subscription)
    def deliver(self, entry):
        self.sent += 1
        reached(self.sent == 100 and self.mode.name == "AUTO")
