"""Faults of ERROR: what it says, and what becomes of the connection."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.commands import After
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Headers
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.mutant import Group, Reached, rewritten
from brokerproof.suites.mutation.stomp.acks import commanded

errors = Group("errors")

SEND_FAILED = "STOMP11-SEND-07 STOMP12-SEND-07"
SUBSCRIBE_FAILED = "STOMP11-SUB-03 STOMP12-SUB-03"


class _Kept(StompConnection):
    """A connection that ``close`` does not close after some errors."""

    keeps = False

    def kept(self, problem: Refusal, frame: Frame | None) -> bool:
        raise NotImplementedError

    def noticed(self) -> None:
        raise NotImplementedError

    def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
        self.keeps = self.kept(problem, frame)
        super()._refuse(problem, frame)
        self.keeps = False

    def close(self) -> None:
        if self.keeps:
            self.noticed()
        else:
            super().close()


@errors.mutant(
    f"STOMP12-ERR-02 {SEND_FAILED} {SUBSCRIBE_FAILED}", recreates="ARTEMIS (no id) 1.2 disconnect"
)
def not_closed(parts: Parts, reached: Reached) -> Parts:
    """After the ERROR for a frame the connection stays open, in every version."""

    class Faulty(_Kept):
        def kept(self, problem: Refusal, frame: Frame | None) -> bool:
            return frame is not None and self._state.name == "SESSION"

        def noticed(self) -> None:
            reached()

    return replace(parts, stomp=Faulty)


@errors.mutant(SUBSCRIBE_FAILED)
def subscribe_not_closed(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE that fails gets its ERROR, and the connection stays open."""

    class Faulty(_Kept):
        def kept(self, problem: Refusal, frame: Frame | None) -> bool:
            return frame is not None and frame.head.command == "SUBSCRIBE"

        def noticed(self) -> None:
            reached()

    return replace(parts, stomp=Faulty)


@errors.mutant(f"{SEND_FAILED} {SUBSCRIBE_FAILED}")
def closed_without_a_word(parts: Parts, reached: Reached) -> Parts:
    """A frame that cannot be processed ends the connection without an ERROR."""

    class Faulty(StompConnection):
        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            if self._state.name == "SESSION":
                reached()
                self.close()
            else:
                super()._refuse(problem, frame)

    return replace(parts, stomp=Faulty)


@errors.mutant(
    f"{SEND_FAILED} STOMP10-SEND-01 STOMP11-SEND-01 STOMP12-SEND-01 STOMP12-FH-03 STOMP11-RCPT-01"
    " STOMP12-RCPT-01"
)
def send_to_nowhere_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A SEND without a destination is confirmed and thrown away."""

    def send(session: StompConnection, frame: Frame) -> After:
        if not frame.get("destination"):
            reached()
            return None
        return parts.commands["SEND"](session, frame)

    return commanded(parts, SEND=send)


def _said(parts: Parts, reached: Reached, name: str, value: str | None) -> Parts:
    class Faulty(FrameEncoder):
        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            if command == "ERROR":
                wrong = tuple((name, value) if each[0] == name else each for each in headers)
                headers = reached.instead(
                    headers, tuple(each for each in wrong if each[1] is not None)
                )
            return super().frame(command, headers, body)

    return replace(parts, encoder=Faulty)


@errors.mutant("STOMP10-ERROR-02 STOMP11-ERR-02 STOMP12-ERR-03")
def no_message(parts: Parts, reached: Reached) -> Parts:
    """ERROR has no header message."""
    return _said(parts, reached, "message", None)


@errors.mutant("STOMP10-ERROR-02 STOMP11-ERR-02 STOMP12-ERR-03")
def empty_message(parts: Parts, reached: Reached) -> Parts:
    """The message of every ERROR is empty."""
    return _said(parts, reached, "message", "")


@errors.mutant("STOMP11-ERR-05 STOMP12-ERR-06")
def receipt_id_forgotten(parts: Parts, reached: Reached) -> Parts:
    """The ERROR for a frame that asked for a receipt does not say which."""
    return _said(parts, reached, "receipt-id", None)


@errors.mutant("STOMP11-ERR-05 STOMP12-ERR-06")
def receipt_id_of_another(parts: Parts, reached: Reached) -> Parts:
    """The receipt-id of an ERROR is a number of the server's own."""
    return _said(parts, reached, "receipt-id", "0")


@errors.mutant("STOMP10-ERROR-04 STOMP11-ERR-06 STOMP12-ERR-07")
def length_forgotten(parts: Parts, reached: Reached) -> Parts:
    """An ERROR with a body has no content-length."""
    return _said(parts, reached, "content-length", None)


@errors.mutant("STOMP11-ERR-07 STOMP12-ERR-08 STOMP11-HDR-05 STOMP12-HDR-07")
def type_forgotten(parts: Parts, reached: Reached) -> Parts:
    """An ERROR with a body has no content-type."""
    return _said(parts, reached, "content-type", None)


@errors.mutant("STOMP11-HDR-06 STOMP12-HDR-08")
def type_is_no_mime_type(parts: Parts, reached: Reached) -> Parts:
    """The content-type of an ERROR is text."""
    return _said(parts, reached, "content-type", "text")


@errors.mutant("STOMP12-ERR-02")
def receipt_behind_error(parts: Parts, reached: Reached) -> Parts:
    """Behind the ERROR for a frame comes the RECEIPT of an earlier one."""

    class Faulty(StompConnection):
        def close(self) -> None:
            if self._failing:
                reached()
                self.shared.outbox.send(self.conn, self.encoder.receipt("earlier"))
            super().close()

        _failing = False

        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            self._failing = self._state.name == "SESSION"
            super()._refuse(problem, frame)

    return replace(parts, stomp=Faulty)


@errors.mutant("STOMP11-SUB-02 STOMP12-SUB-02")
def subscribers_beside_dropped(parts: Parts, reached: Reached) -> Parts:
    """An error on one connection ends the subscriptions of all others, which are not told."""
    sessions: list[StompConnection] = []

    class Faulty(StompConnection):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            super().__init__(conn, acceptor, shared, now)
            sessions.append(self)

        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            super()._refuse(problem, frame)
            for each in sessions:
                if each is not self and each.subscriptions:
                    reached()
                    subscriptions = list(each.subscriptions.values())
                    each.subscriptions.clear()
                    each.release(subscriptions)

    return replace(parts, stomp=Faulty)


@errors.mutant(
    "STOMP10-SUBSCRIBE-01 STOMP11-SUB-01 STOMP11-SUB-03 STOMP12-SUB-01 STOMP12-FH-04 STOMP12-SUB-03"
)
def subscribe_to_nowhere_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE without a destination is confirmed."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("destination") is None:
            reached()
            return None
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@errors.mutant("STOMP11-SUB-01 STOMP11-SUB-03 STOMP12-SUB-01 STOMP12-SUB-03", recreates="AMQ-7125")
def subscribe_to_an_empty_name_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE whose destination is empty is confirmed."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("destination") == "":
            reached()
            return None
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@errors.mutant("STOMP11-SUB-05 STOMP11-SUB-03 STOMP12-SUB-05 STOMP12-SUB-03 STOMP12-FH-04")
def subscribe_without_id_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE without an id makes a subscription, as in 1.0."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        if frame.get("id") is None and session.version.wire != "1.0":
            reached()
            frame = rewritten(
                frame, (*frame.head.headers, ("id", f"unnamed-{len(session.subscriptions)}"))
            )
        return parts.commands["SUBSCRIBE"](session, frame)

    return commanded(parts, SUBSCRIBE=subscribe)


@errors.mutant("STOMP11-SUB-05 STOMP11-SUB-03 STOMP12-SUB-06 STOMP12-SUB-03")
def id_in_use_confirmed(parts: Parts, reached: Reached) -> Parts:
    """A SUBSCRIBE with an id in use is confirmed; the subscription that had it stays."""

    def subscribe(session: StompConnection, frame: Frame) -> After:
        try:
            return parts.commands["SUBSCRIBE"](session, frame)
        except Refusal as problem:
            if problem.message != refusal.SUB_ID_IN_USE.message:
                raise
            reached()
            return None

    return commanded(parts, SUBSCRIBE=subscribe)


@errors.mutant("STOMP11-ERR-04 STOMP12-ERR-05 STOMP12-FH-14 STOMP11-ERR-05 STOMP12-ERR-06")
def nothing_points_to_the_frame(parts: Parts, reached: Reached) -> Parts:
    """ERROR has nothing but a message that is the same for every mistake."""

    class Faulty(FrameEncoder):
        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            right = super().frame(command, headers, body)
            if command != "ERROR":
                return right
            return reached.instead(right, super().frame(command, (("message", "error"),)))

    return replace(parts, encoder=Faulty)
