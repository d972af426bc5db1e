"""Faults in opening a session."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import Instant
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.kernel.context import Shared
from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.frame import Frame, Headers
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.settings import Acceptor
from brokerproof.suites.mutation.mutant import Group, Reached
from brokerproof.suites.mutation.stomp.refusing import cut_off, kept

connecting = Group("connecting")

TURNED_AWAY = "STOMP11-CONNECT-03 STOMP12-CONNECT-03"
SESSION = "STOMP10-CONNECT-03"
SERVER = "STOMP11-CONNECTED-04 STOMP12-CONNECTED-05"


@connecting.mutant("STOMP11-CONNECT-06 STOMP12-CONNECT-04")
def stomp_not_known(parts: Parts, reached: Reached) -> Parts:
    """A session can be opened with CONNECT and not with STOMP."""

    class Faulty(FrameParser):
        def feed(self, data: bytes) -> None:
            if self._grammar.version is None and data.startswith(b"STOMP"):
                reached()
            super().feed(data)

    return replace(
        parts, opening=replace(parts.opening, commands=frozenset({"CONNECT"})), parser=Faulty
    )


@connecting.mutant("STOMP11-CONNECT-06 STOMP12-CONNECT-04")
def stomp_needs_accept_version(parts: Parts, reached: Reached) -> Parts:
    """STOMP without accept-version is refused, where CONNECT opens a 1.0 session."""

    class Faulty(StompConnection):
        def _connect(self, now: Instant, frame: Frame) -> None:
            if frame.head.command == "STOMP" and frame.get("accept-version") is None:
                reached()
                raise Refusal(refusal.NO_COMMON_VERSION, self.version, "STOMP needs accept-version")
            super()._connect(now, frame)

    return replace(parts, stomp=Faulty)


def _connected(parts: Parts, reached: Reached, name: str, value: str | None) -> Parts:
    class Faulty(FrameEncoder):
        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            if command == "CONNECTED":
                wrong = tuple((name, value) if each[0] == name else each for each in headers)
                headers = reached.instead(
                    headers, tuple(each for each in wrong if each[1] is not None)
                )
            return super().frame(command, headers, body)

    return replace(parts, encoder=Faulty)


@connecting.mutant(SESSION)
def same_session_for_all(parts: Parts, reached: Reached) -> Parts:
    """Every session has the same session id."""
    return _connected(parts, reached, "session", "session-1")


@connecting.mutant(SESSION)
def no_session(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED has no session id, which 1.0 demands."""
    return _connected(parts, reached, "session", None)


@connecting.mutant(SERVER)
def server_without_name(parts: Parts, reached: Reached) -> Parts:
    """The header server begins with a slash and a version."""
    return _connected(parts, reached, "server", "/1.0")


@connecting.mutant(SERVER)
def server_with_brackets(parts: Parts, reached: Reached) -> Parts:
    """The header server is a name with a version in brackets."""
    return _connected(parts, reached, "server", "broker(1.0)")


@connecting.mutant(TURNED_AWAY)
def wrong_login_cut_off(parts: Parts, reached: Reached) -> Parts:
    """A wrong login is closed without an ERROR."""
    return cut_off(parts, reached, refusal.BAD_LOGIN)


@connecting.mutant(TURNED_AWAY)
def wrong_login_kept(parts: Parts, reached: Reached) -> Parts:
    """After the ERROR for a wrong login the connection stays open."""
    return kept(parts, reached, refusal.BAD_LOGIN)


@connecting.mutant(TURNED_AWAY)
def connected_behind_the_refusal(parts: Parts, reached: Reached) -> Parts:
    """A wrong login gets ERROR and, right behind it, CONNECTED."""

    class Faulty(StompConnection):
        def _refuse(self, problem: Refusal, frame: Frame | None = None) -> None:
            super()._refuse(problem, frame)
            if problem.message == refusal.BAD_LOGIN.message:
                reached()
                version = () if self.version.wire == "1.0" else (("version", self.version.wire),)
                self.shared.outbox.send(self.conn, self.encoder.frame("CONNECTED", version))

    return replace(parts, stomp=Faulty)


@connecting.mutant("STOMP11-CONNECT-04 STOMP12-LINGER-01")
def lost_connections_count(parts: Parts, reached: Reached) -> Parts:
    """Connections that were lost before CONNECT still count: after ten of them nobody else is let
    in."""
    lost = [0]

    class Faulty(StompConnection):
        def __init__(self, conn: int, acceptor: Acceptor, shared: Shared, now: Instant) -> None:
            super().__init__(conn, acceptor, shared, now)
            if lost[0] >= 10:
                reached()
                self.close()

        def on_peer_gone(self) -> None:
            lost[0] += self._state.name == "OPENING"
            super().on_peer_gone()

    return replace(parts, stomp=Faulty)


@connecting.mutant("ARTEMIS-STOMP-host-1")
def only_its_own_host(parts: Parts, reached: Reached) -> Parts:
    """A host other than localhost is turned away."""

    class Faulty(StompConnection):
        def _connect(self, now: Instant, frame: Frame) -> None:
            if frame.get("host") not in (None, "localhost"):
                reached()
                raise Refusal(refusal.NO_HOST, self.version, "there is no such host")
            super()._connect(now, frame)

    return replace(parts, stomp=Faulty)


@connecting.mutant("STOMP10-CONNECT-02 STOMP11-CONNECT-01 STOMP12-CONNECT-01")
def no_answer_beside_others(parts: Parts, reached: Reached) -> Parts:
    """While ten sessions are open, a further CONNECT is not answered."""
    sessions: set[int] = set()

    class Faulty(StompConnection):
        def _connect(self, now: Instant, frame: Frame) -> None:
            if len(sessions) >= 10:
                reached()
                return
            super()._connect(now, frame)
            sessions.add(self.conn)

        def _end(self) -> None:
            sessions.discard(self.conn)
            super()._end()

    return replace(parts, stomp=Faulty)


@connecting.mutant(
    "STOMP10-FRAME-07 STOMP11-SRV-01 STOMP12-SRV-01 STOMP10-CONNECT-02 STOMP11-CONNECT-01"
    " STOMP12-CONNECT-01"
)
def connected_twice(parts: Parts, reached: Reached) -> Parts:
    """CONNECTED comes twice."""

    class Faulty(FrameEncoder):
        def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
            right = super().frame(command, headers, body)
            return reached.instead(right, right + right) if command == "CONNECTED" else right

    return replace(parts, encoder=Faulty)
