"""Faults of acknowledgement: which messages an ACK settles, and how it names them."""

from brokerproof.harness.model.enums import AckMode, Outcome
from brokerproof.reference_broker.kernel.message import Entry
from brokerproof.reference_broker.kernel.queue import Queue
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.protocols.stomp.subscription import Subscription
from brokerproof.suites.mutation.mutant import Group, breaks, rewritten, without

acks = Group("acks")

CUMULATIVE = "STOMP11-SUB-10 STOMP12-SUB-11"
INDIVIDUAL = "STOMP11-SUB-11 STOMP12-SUB-13"
UNTIL_THEN = "STOMP11-ACK-05 STOMP12-ACK-04"
AUTO = "STOMP10-SUBSCRIBE-03 STOMP11-SUB-07 STOMP12-SUB-08"


def as_mode(patch, reached, asked, got):
    """Give a SUBSCRIBE with a mode in ``asked`` (None stands for no mode) the mode ``got``."""

    @patch.override(COMMANDS, "SUBSCRIBE")
    def subscribe(original, session, frame):
        if reached(frame.get("ack") in asked):
            rest = tuple(header for header in frame.head.headers if header[0] != "ack")
            frame = rewritten(frame, (*rest, ("ack", got)))
        return original(session, frame)


@acks.override(Subscription, "take", breaks=CUMULATIVE)
def client_is_individual(original, reached, self, delivery):
    """In mode client an ACK settles only the message that it names."""
    reached(next(iter(self._unsettled.values())) is not delivery and self.mode is AckMode.CLIENT)
    mode, self.mode = self.mode, AckMode.CLIENT_INDIVIDUAL
    taken = original(self, delivery)
    self.mode = mode
    return taken


@acks.override(Subscription, "take", breaks=INDIVIDUAL)
def individual_is_cumulative(original, reached, self, delivery):
    """In mode client-individual an ACK settles all earlier messages too."""
    reached(
        next(iter(self._unsettled.values())) is not delivery
        and self.mode is AckMode.CLIENT_INDIVIDUAL
    )
    mode, self.mode = self.mode, AckMode.CLIENT
    taken = original(self, delivery)
    self.mode = mode
    return taken


@acks.mutant(INDIVIDUAL)
def the_mode_of_the_next_one(patch, reached):
    """An ACK for a delivery of an ended subscription settles it, in the mode of the subscription
    that now has the same id."""
    gone = {}

    @patch.override(Subscription)
    def unsubscribe(original, self):
        keys, entries = list(self._unsettled), original(self)
        gone.update({key: (self, entries[: at + 1]) for at, key in enumerate(keys)})
        return entries

    @patch.override(COMMANDS, "ACK")
    def ack(original, session, frame):
        old, entries = gone.pop(frame.get("id") or frame.get("message-id"), (None, ()))
        if old is None:
            return original(session, frame)
        now = session.subscriptions.get((old.id, None))
        if not reached(now is not None and now.mode is AckMode.CLIENT):
            entries = entries[-1:]
        for entry in entries:
            old.queue._ready.remove(entry)
            old.queue.discard(entry)
        return None


@acks.override(Subscription, "take", breaks=UNTIL_THEN)
def cumulative_covers_later_ones(original, reached, self, delivery):
    """In mode client an ACK settles everything that was sent, even later messages."""
    last = next(reversed(self._unsettled.values()))
    return original(
        self, reached.instead(delivery, last) if self.mode is AckMode.CLIENT else delivery
    )


@acks.override(Subscription, "take", breaks=f"{CUMULATIVE} ARTEMIS-CONCEPTS-queue-2")
def cumulative_stops_short(original, reached, self, delivery):
    """In mode client an ACK settles all earlier messages but not the one that it names."""
    earlier = None
    for unsettled in self._unsettled.values():
        if unsettled is delivery:
            break
        earlier = unsettled
    if self.mode is not AckMode.CLIENT or earlier is None:
        return original(self, delivery)
    reached()
    return original(self, earlier)


@acks.after(COMMANDS, "ACK", breaks=UNTIL_THEN)
def cumulative_covers_all_subscriptions(reached, session, frame):
    """In mode client an ACK settles the messages that all subscriptions of the connection hold."""
    for subscription in session.subscriptions.values():
        held = list(subscription._unsettled.values())
        if reached(held and subscription.mode is AckMode.CLIENT and len(session.subscriptions) > 1):
            subscription.queue.settle(subscription.take(held[-1]), Outcome.ACCEPTED)


@acks.override(COMMANDS, "ACK")
@breaks("STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01 ARTEMIS-CONCEPTS-queue-2")
def ack_has_no_effect(original, reached, session, frame):
    """ACK is confirmed and settles nothing."""
    reached()
    return


@acks.mutant("STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01 ARTEMIS-CONCEPTS-queue-2")
def acknowledged_comes_back(patch, reached):
    """An acknowledged message returns to its queue when its connection is lost."""
    settled: dict[int, list[tuple[Queue, list[Entry]]]] = {}

    @patch.result(Subscription)
    def take(taken, self, delivery):
        settled.setdefault(self._conn, []).append((self.queue, taken))
        return taken

    @patch.before(StompConnection)
    def on_peer_gone(self):
        for queue, entries in settled.pop(self.conn, []):
            reached()
            queue.unsettled += len(entries)
            queue.settle(entries, Outcome.RELEASED)


@acks.mutant("STOMP12-ACK-01 STOMP12-FH-06", recreates="rabbitmq-server#16206")
def names_of_1_1_in_1_2(patch, reached):
    """In 1.2 an ACK or NACK with only its id is refused: message-id and subscription are
    required."""

    def demand(original, session, frame):
        if reached(session.version is Version.V1_2 and frame.get("message-id") is None):
            raise Refusal(
                refusal.ACK_UNKNOWN,
                session.version,
                f"{frame.head.command} needs message-id and subscription",
            )
        return original(session, frame)

    for command in ("ACK", "NACK"):
        patch.override(COMMANDS, command)(demand)


@acks.override(COMMANDS, "ACK", breaks="STOMP10-SUBSCRIBE-05 STOMP11-ACK-05 STOMP12-ACK-04")
def nameless_acks_settle_the_oldest(original, reached, session, frame):
    """An ACK that names no message settles the oldest one."""
    name = "id" if session.version is Version.V1_2 else "message-id"
    if reached(frame.get(name) is None and session.deliveries):
        key, delivery = next(iter(session.deliveries.items()))
        named = ((name, key), ("subscription", delivery.subscription.id or ""))
        frame = rewritten(frame, (*named, *frame.head.headers))
    return original(session, frame)


@acks.variant(as_mode, (None, "auto"), "client", breaks=f"{AUTO} ARTEMIS-CONCEPTS-queue-2")
def auto_waits_for_acks():
    """Messages of an auto subscription are kept, and redelivered to the next consumer when their
    connection ends."""


@acks.result(Subscription, "unsubscribe", breaks=f"STOMP10-SUBSCRIBE-05 {UNTIL_THEN}")
def client_is_auto(left, self):
    """In mode client messages count as consumed when they are sent."""
    if self.mode is AckMode.CLIENT and left:
        self.queue.settle(left, Outcome.ACCEPTED)
        return []
    return left


@acks.result(Subscription, "unsubscribe", breaks=UNTIL_THEN)
def individual_is_auto(left, self):
    """In mode client-individual messages count as consumed when they are sent."""
    if self.mode is AckMode.CLIENT_INDIVIDUAL and left:
        self.queue.settle(left, Outcome.ACCEPTED)
        return []
    return left


@acks.variant(as_mode, (None,), "client")
@breaks("STOMP10-SUBSCRIBE-03 STOMP11-SUB-06 STOMP11-SUB-07 STOMP12-SUB-07 STOMP12-SUB-08")
def client_by_default():
    """A SUBSCRIBE without the header ack gets the mode client."""


@acks.mutant(
    "STOMP10-ACK-01 STOMP11-ACK-01 STOMP12-ACK-01 STOMP11-SUB-10 STOMP12-SUB-11"
    " STOMP11-SUB-11 STOMP12-SUB-13"
)
def names_forgotten(patch, reached):
    """A connection remembers the last ten unsettled messages; an ACK for an older one is
    refused."""

    @patch.after(Subscription)
    def deliver(self, entry):
        reached(self.mode is not AckMode.AUTO and len(self._unsettled) > 10)

    @patch.before(COMMANDS, "ACK")
    def ack(session, frame):
        key = frame.get("id" if session.version is Version.V1_2 else "message-id")
        delivery = session.deliveries.get(key or "")
        if delivery is not None and key not in list(delivery.subscription._unsettled)[-10:]:
            raise Refusal(refusal.ACK_UNKNOWN, session.version, "that was long ago")


@acks.override(COMMANDS, "ACK", breaks="STOMP10-SUBSCRIBE-05 STOMP11-ACK-05 STOMP12-ACK-04")
def tags_of_another_session(original, reached, session, frame):
    """An ACK that names a message of another connection settles the oldest one of its own."""
    header = "id" if session.version is Version.V1_2 else "message-id"
    if reached(frame.get(header) not in session.deliveries and session.deliveries):
        other = (header, next(iter(session.deliveries)))
        frame = rewritten(frame, (*without(frame, header).head.headers, other))
    return original(session, frame)


@acks.mutant("STOMP11-RCPT-01 STOMP12-RCPT-01")
def refused_behind_its_receipt(patch, reached):
    """An ACK that names nothing is confirmed; the next frame is answered with ERROR."""
    doomed: dict[int, Refusal] = {}

    @patch.override(COMMANDS, "ACK")
    def ack(original, session, frame):
        try:
            return original(session, frame)
        except Refusal as problem:
            reached()
            doomed[session.conn] = problem

    @patch.before(COMMANDS, "BEGIN")
    def begin(session, frame):
        if session.conn in doomed:
            raise doomed[session.conn]


@acks.skips(COMMANDS, "ACK", breaks="STOMP11-RCPT-01 STOMP12-RCPT-01")
def confirmed_without_effect(session, frame):
    """On a connection without a subscription every ACK is confirmed."""
    return not session.subscriptions
