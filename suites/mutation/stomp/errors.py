"""Faults of ERROR: its content, and its effect on the connection."""

from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks
from brokerproof.suites.mutation.stomp.shared_faults import replace_header

errors = Group("errors")

SUBSCRIBE_FAILED = "STOMP11-SUB-03 STOMP12-SUB-03"


def _kept_open(patch, reached, keeps):
    """Keep the connection open after an ERROR for a frame if ``keeps``."""
    kept = set()

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        if frame is not None and keeps(self, frame):
            kept.add(self)
        original(self, problem, frame)
        kept.discard(self)

    @patch.override(StompConnection)
    def close(original, self):
        if not reached(self in kept):
            original(self)


@errors.through(_kept_open, recreates="ARTEMIS (no id) 1.2 disconnect")
@breaks("STOMP12-ERR-02 STOMP11-SEND-07 STOMP12-SEND-07 STOMP11-SUB-03 STOMP12-SUB-03")
def not_closed(connection, frame):
    """After the ERROR for a frame the connection stays open, in every version."""
    return connection._state.name == "SESSION"


@errors.through(_kept_open, "STOMP12-ERR-02 STOMP11-CONNECT-03 STOMP12-CONNECT-03")
def refused_login_not_closed(connection, frame):
    """After the ERROR for a refused login, the connection stays open."""
    return frame.head.command == "CONNECT" and connection._state.name != "SESSION"


@errors.through(_kept_open, SUBSCRIBE_FAILED)
def subscribe_not_closed(connection, frame):
    """After the ERROR for a failed SUBSCRIBE, the connection stays open."""
    return frame.head.command == "SUBSCRIBE"


@errors.override(StompConnection, "_refuse")
@breaks("STOMP11-SEND-07 STOMP12-SEND-07 STOMP11-SUB-03 STOMP12-SUB-03")
def closed_without_a_word(original, reached, self, problem, frame=None):
    """A frame that cannot be processed ends the connection without an ERROR."""
    if reached(self._state.name == "SESSION"):
        self.close()
    else:
        original(self, problem, frame)


@errors.override(COMMANDS, "SEND")
@breaks("STOMP11-SEND-07 STOMP12-SEND-07 STOMP11-RCPT-01 STOMP12-RCPT-01")
def send_to_nowhere_confirmed(original, reached, session, frame):
    """A SEND without a destination is confirmed and dropped."""
    return None if reached(not frame.get("destination")) else original(session, frame)


@errors.variant(replace_header, "ERROR", "message", None)
@breaks("STOMP10-ERROR-02 STOMP11-ERR-02 STOMP12-ERR-03")
def no_message():
    """ERROR has no header message."""


@errors.variant(replace_header, "ERROR", "message", "")
@breaks("STOMP10-ERROR-02 STOMP11-ERR-02 STOMP12-ERR-03")
def empty_message():
    """The message of every ERROR is empty."""


@errors.variant(replace_header, "ERROR", "receipt-id", None, breaks="STOMP11-ERR-05 STOMP12-ERR-06")
def receipt_id_forgotten():
    """The ERROR for a frame with a receipt lacks receipt-id."""


@errors.variant(replace_header, "ERROR", "receipt-id", "0", breaks="STOMP11-ERR-05 STOMP12-ERR-06")
def receipt_id_of_another():
    """The receipt-id of an ERROR is a number of the server's own."""


@errors.variant(replace_header, "ERROR", "content-length", None)
@breaks("STOMP10-ERROR-04 STOMP11-ERR-06 STOMP12-ERR-07")
def length_forgotten():
    """An ERROR with a body has no content-length."""


@errors.variant(replace_header, "ERROR", "content-type", None)
@breaks("STOMP11-ERR-07 STOMP12-ERR-08 STOMP11-HDR-05 STOMP12-HDR-07")
def type_forgotten():
    """An ERROR with a body has no content-type."""


@errors.variant(replace_header, "ERROR", "content-type", "text")
@breaks("STOMP11-HDR-06 STOMP12-HDR-08")
def type_is_no_mime_type():
    """The content-type of an ERROR is text."""


@errors.mutant("STOMP12-ERR-02")
def receipt_behind_error(patch, reached):
    """The ERROR for a frame is followed by the RECEIPT of an earlier one."""

    @patch.before(StompConnection)
    def close(self):
        if reached(self._failing):
            self.shared.outbox.send(self.conn, self.encoder.receipt("earlier"))

    patch.set(StompConnection, "_failing", False)

    @patch.before(StompConnection)
    def _refuse(self, problem, frame=None):
        self._failing = self._state.name == "SESSION"


@errors.mutant("STOMP11-SUB-02 STOMP12-SUB-02")
def subscribers_beside_dropped(patch, reached):
    """An error on one connection silently ends the subscriptions of all others."""
    sessions: list[StompConnection] = []

    @patch.after(StompConnection)
    def __init__(self, conn, acceptor, shared, now):
        sessions.append(self)

    @patch.after(StompConnection)
    def _refuse(self, problem, frame=None):
        for session in sessions:
            if reached(session is not self and session.subscriptions):
                subscriptions = list(session.subscriptions.values())
                session.subscriptions.clear()
                session.release(subscriptions)


@errors.override(COMMANDS, "SUBSCRIBE", breaks="STOMP11-SUB-03 STOMP12-SUB-03")
def subscribe_to_nowhere_confirmed(original, reached, session, frame):
    """A SUBSCRIBE without a destination is confirmed."""
    return None if reached(frame.get("destination") is None) else original(session, frame)


@errors.override(COMMANDS, "SUBSCRIBE", recreates="AMQ-7125", breaks=SUBSCRIBE_FAILED)
def subscribe_to_an_empty_name_confirmed(original, reached, session, frame):
    """A SUBSCRIBE whose destination is empty is confirmed."""
    return None if reached(frame.get("destination") == "") else original(session, frame)


@errors.override(COMMANDS, "SUBSCRIBE", breaks="STOMP11-SUB-03 STOMP12-SUB-03")
def id_in_use_confirmed(original, reached, session, frame):
    """A SUBSCRIBE with an id in use is confirmed, but has no effect."""
    try:
        return original(session, frame)
    except Refusal as problem:
        if problem.message != refusal.SUB_ID_IN_USE.message:
            raise
        reached()
        return None


@errors.override(FrameEncoder, "frame")
@breaks("STOMP11-ERR-04 STOMP12-ERR-05 STOMP12-FH-14 STOMP11-ERR-05 STOMP12-ERR-06")
def nothing_points_to_the_frame(original, reached, self, command, headers, body=b""):
    """ERROR has only a message, the same for every mistake."""
    right = original(self, command, headers, body)
    if command != "ERROR":
        return right
    return reached.instead(right, original(self, command, (("message", "error"),)))
