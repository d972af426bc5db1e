"""Faults in opening a session."""

from dataclasses import replace

from brokerproof.reference_broker.protocols.stomp import grammar, refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.encoder import FrameEncoder
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.suites.mutation.mutant import Group, breaks
from brokerproof.suites.mutation.stomp.shared_faults import cut_off, kept, replace_header

connecting = Group("connecting")

TURNED_AWAY = "STOMP11-CONNECT-03 STOMP12-CONNECT-03"
SESSION = "STOMP10-CONNECT-03"
SERVER = "STOMP11-CONNECTED-04 STOMP12-CONNECTED-05"


@connecting.mutant("STOMP11-CONNECT-06 STOMP12-CONNECT-04")
def stomp_not_known(patch, reached):
    """A session can be opened with CONNECT but not with STOMP."""
    patch.set(grammar, "OPENING", replace(grammar.OPENING, commands=frozenset({"CONNECT"})))

    @patch.before(FrameParser)
    def feed(self, data):
        reached(self._grammar.version is None and data.startswith(b"STOMP"))


@connecting.before(StompConnection, "_connect", breaks="STOMP11-CONNECT-06 STOMP12-CONNECT-04")
def stomp_needs_accept_version(reached, self, now, frame):
    """STOMP without accept-version is refused, although CONNECT opens a 1.0 session."""
    if reached(frame.head.command == "STOMP" and frame.get("accept-version") is None):
        raise Refusal(refusal.NO_COMMON_VERSION, self.version, "STOMP needs accept-version")


@connecting.variant(replace_header, "CONNECTED", "session", "session-1", breaks=SESSION)
def same_session_for_all():
    """Every session has the same session id."""


@connecting.variant(replace_header, "CONNECTED", "session", None, breaks=SESSION)
def no_session():
    """CONNECTED has no session id, which 1.0 requires."""


@connecting.variant(replace_header, "CONNECTED", "server", "/1.0", breaks=SERVER)
def server_without_name():
    """The header server begins with a slash and a version."""


@connecting.variant(replace_header, "CONNECTED", "server", "broker(1.0)", breaks=SERVER)
def server_with_brackets():
    """The header server is a name with a version in brackets."""


@connecting.variant(cut_off, refusal.BAD_LOGIN, breaks=TURNED_AWAY)
def wrong_login_cut_off():
    """A wrong login ends the connection without an ERROR."""


@connecting.variant(kept, refusal.BAD_LOGIN, breaks=TURNED_AWAY)
def wrong_login_kept():
    """After the ERROR for a wrong login the connection stays open."""


@connecting.after(StompConnection, "_refuse", breaks=TURNED_AWAY)
def connected_behind_the_refusal(reached, self, problem, frame=None):
    """A wrong login gets ERROR, immediately followed by CONNECTED."""
    if reached(problem.message == refusal.BAD_LOGIN.message):
        version = () if self.version.wire == "1.0" else (("version", self.version.wire),)
        self.shared.outbox.send(self.conn, self.encoder.frame("CONNECTED", version))


@connecting.mutant("STOMP11-CONNECT-04 STOMP12-LINGER-01")
def lost_connections_count(patch, reached):
    """Connections lost before CONNECT still count: after ten of them, all others are refused."""
    lost = [0]

    @patch.after(StompConnection)
    def __init__(self, conn, acceptor, shared, now):
        if reached(lost[0] >= 10):
            self.close()

    @patch.before(StompConnection)
    def on_peer_gone(self):
        lost[0] += self._state.name == "OPENING"


@connecting.before(StompConnection, "_connect", breaks="ARTEMIS-STOMP-host-1")
def only_its_own_host(reached, self, now, frame):
    """A host other than localhost is refused."""
    if reached(frame.get("host") not in (None, "localhost")):
        raise Refusal(refusal.NO_HOST, self.version, "there is no such host")


@connecting.mutant("STOMP10-CONNECT-02 STOMP11-CONNECT-01 STOMP12-CONNECT-01")
def no_answer_beside_others(patch, reached):
    """While ten sessions are open, a further CONNECT is not answered."""
    sessions: set[int] = set()

    @patch.override(StompConnection)
    def _connect(original, self, now, frame):
        if reached(len(sessions) >= 10):
            return
        original(self, now, frame)
        sessions.add(self.conn)

    @patch.before(StompConnection)
    def _end(self):
        sessions.discard(self.conn)


@connecting.result(FrameEncoder, "frame")
@breaks(
    "STOMP10-FRAME-07 STOMP11-SRV-01 STOMP12-SRV-01 STOMP10-CONNECT-02 STOMP11-CONNECT-01",
    "STOMP12-CONNECT-01",
)
def connected_twice(right, self, command, headers, body=b""):
    """CONNECTED is sent twice."""
    return right + right if command == "CONNECTED" else right


@connecting.mutant("STOMP10-FRAME-07 STOMP11-SRV-01 STOMP12-SRV-01")
def opened_again(patch, reached):
    """CONNECT and STOMP are answered with CONNECTED even in an open session."""
    opening = {"CONNECT", "STOMP"}
    again = {
        version: replace(each, commands=each.commands | opening)
        for version, each in grammar.GRAMMARS.items()
    }
    patch.set(grammar, "GRAMMARS", again)

    @patch.override(StompConnection)
    def _command(original, self, frame):
        if reached(frame.head.command in opening):
            self.shared.outbox.send(self.conn, self.encoder.frame("CONNECTED", ()))
        else:
            original(self, frame)
