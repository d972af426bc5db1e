"""Faults of receipts."""

from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, breaks, without

receipts = Group("receipts")

EVERY = "STOMP10-RECEIPT-02 STOMP11-HDR-13 STOMP12-HDR-17"
VALUE = "STOMP10-RECEIPT-02 STOMP11-RCPT-02 STOMP12-RCPT-02"
SUCCESS = "STOMP11-RCPT-01 STOMP12-RCPT-01"


def _missing(patch, reached, command):
    @patch.override(StompConnection)
    def _command(original, self, frame):
        if reached(frame.head.command == command and frame.get("receipt") is not None):
            frame = without(frame, "receipt")
        original(self, frame)


@receipts.variant(_missing, "ACK", breaks=EVERY)
def none_for_ack():
    """An ACK that requests a receipt gets none."""


@receipts.variant(_missing, "NACK", breaks="STOMP11-HDR-13 STOMP12-HDR-17")
def none_for_nack():
    """A NACK that requests a receipt gets none."""


@receipts.variant(_missing, "UNSUBSCRIBE", breaks=EVERY)
def none_for_unsubscribe():
    """An UNSUBSCRIBE that requests a receipt gets none."""


@receipts.variant(_missing, "COMMIT", breaks=EVERY)
def none_for_commit():
    """A COMMIT that requests a receipt gets none."""


@receipts.variant(_missing, "DISCONNECT")
@breaks(f"{EVERY} STOMP10-DISCONNECT-01 STOMP11-DISC-01 STOMP12-DISC-01 STOMP12-FH-08")
def none_for_disconnect():
    """A DISCONNECT that requests a receipt ends the connection without one."""


@receipts.override(StompConnection, "_command", breaks=EVERY)
def none_in_transactions(original, reached, self, frame):
    """A SEND in a transaction gets no receipt."""
    if reached(frame.head.command == "SEND" and frame.get("transaction") and frame.get("receipt")):
        frame = without(frame, "receipt")
    original(self, frame)


@receipts.after(COMMANDS, "SUBSCRIBE", breaks=EVERY, recreates="ARTEMIS-2289")
def two_for_subscribe(reached, session, frame):
    """A SUBSCRIBE that requests a receipt gets two."""
    receipt = frame.get("receipt")
    if reached(receipt is not None):
        session.shared.outbox.send(session.conn, session.encoder.receipt(receipt))


@receipts.override(FrameEncoder, "receipt", breaks=VALUE)
def cut_at_twelve(original, reached, self, receipt):
    """A receipt-id has at most twelve characters; longer ones are cut."""
    return original(self, reached.instead(receipt, receipt[:12]))


@receipts.override(FrameEncoder, "receipt", breaks=VALUE)
def in_small_letters(original, reached, self, receipt):
    """A receipt-id is converted to lower case."""
    return original(self, reached.instead(receipt, receipt.lower()))


@receipts.mutant(VALUE)
def of_the_frame_before(patch, reached):
    """If a SEND begins like an earlier one, its RECEIPT has the value of the earlier one."""
    patch.set(FrameParser, "first", None)

    @patch.result(FrameParser)
    def _receipt(right, self, value, number):
        if self.first is None:
            self.first = right
        return reached.instead(right, self.first)


@receipts.result(FrameEncoder, "receipt", breaks=f"{VALUE} {EVERY} STOMP12-FH-10")
def under_another_name(right, self, receipt):
    """RECEIPT has its value in a header receipt instead of receipt-id."""
    return right.replace(b"receipt-id:", b"receipt:", 1)


@receipts.result(FrameEncoder, "receipt")
@breaks("STOMP10-RECEIPT-03 STOMP11-RCPT-03 STOMP11-BODY-02 STOMP12-BODY-02")
def with_a_body(right, self, receipt):
    """RECEIPT has a body."""
    return right[:-1] + b"ok\0"


@receipts.before(StompConnection, "_refuse", breaks=SUCCESS)
def for_failed_frames(reached, self, problem, frame=None):
    """A frame that failed gets its RECEIPT before the ERROR."""
    receipt = None if frame is None else frame.get("receipt")
    if reached(receipt is not None):
        self.shared.outbox.send(self.conn, self.encoder.receipt(receipt))


@receipts.after(COMMANDS, "SEND", breaks=SUCCESS)
def unasked_for_send(reached, session, frame):
    """A SEND that requests no receipt gets one."""
    if reached(frame.get("receipt") is None):
        session.shared.outbox.send(session.conn, session.encoder.receipt("send"))


@receipts.mutant("STOMP11-RCPT-01 STOMP12-RCPT-01 STOMP12-RCPT-04")
def before_the_deed(patch, reached):
    """The RECEIPT of a SEND is sent before the message is in its queue. If the connection ends in
    between, the message is lost."""
    publish = COMMANDS["SEND"]
    waiting = {}

    @patch.before(StompConnection)
    def receive(self, now, data):
        for frame in waiting.pop(self.conn, []):
            publish(self, without(frame, "receipt"))

    @patch.override(COMMANDS, "SEND")
    def send(original, session, frame):
        simple = frame.get("transaction") is None and frame.get("destination")
        routed = frame.get("destination-type") in ("ANYCAST", "MULTICAST")
        if frame.get("receipt") is None or not simple or not routed:
            return original(session, frame)
        reached()
        waiting.setdefault(session.conn, []).append(frame)
        return None


@receipts.mutant("STOMP10-RECEIPT-02 STOMP11-HDR-13 STOMP12-HDR-17 STOMP12-RCPT-02 STOMP11-RCPT-02")
def one_for_a_batch(patch, reached):
    """Of several frames that arrive together only the last gets its receipt."""
    patch.set(StompConnection, "last", None)

    @patch.override(StompConnection)
    def receive(original, self, now, data):
        self.last = None
        original(self, now, data)
        if self.last is not None and self.is_open:
            self.shared.outbox.send(self.conn, self.encoder.receipt(self.last))

    @patch.override(StompConnection)
    def _command(original, self, frame):
        receipt = frame.get("receipt")
        if receipt is None or frame.head.command == "DISCONNECT":
            original(self, frame)
            return
        original(self, without(frame, "receipt"))
        reached(self.last is not None)
        self.last = receipt


@receipts.mutant(SUCCESS)
def before_the_subscription(patch, reached):
    """The RECEIPT of a SUBSCRIBE to a topic is sent before the subscription begins, at the next
    frame."""
    subscribed = COMMANDS["SUBSCRIBE"]
    waiting = {}

    @patch.before(StompConnection)
    def receive(self, now, data):
        for frame in waiting.pop(self.conn, []):
            after = subscribed(self, frame)
            if after is not None:
                after()

    @patch.override(COMMANDS, "SUBSCRIBE")
    def subscribe(original, session, frame):
        if frame.get("subscription-type") != "MULTICAST" or frame.get("id") is None:
            return original(session, frame)
        reached()
        waiting.setdefault(session.conn, []).append(frame)
        return None


@receipts.mutant(
    "STOMP10-RECEIPT-02 STOMP11-HDR-13 STOMP12-HDR-17 STOMP10-RECEIPT-02"
    " STOMP11-RCPT-02 STOMP12-RCPT-02"
)
def none_after_fifty(patch, reached):
    """After fifty receipts a connection gets no more."""
    patch.set(FrameEncoder, "sent", 0)

    @patch.override(FrameEncoder, "receipt")
    def frameencoder_receipt(original, self, receipt):
        self.sent += 1
        return b"" if reached(self.sent > 50) else original(self, receipt)
