"""Opening a session: CONNECT or STOMP, the content of CONNECTED, and rapid reconnecting."""

import re

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, CloseHow, case, ms, over, shown
from brokerproof.suites.api.stomp import CONNECTED
from brokerproof.suites.stomp.error_recovery_steps import Bystander, fate

ADMITTED = {"1.0": "STOMP10-CONNECT-02", "1.1": "STOMP11-CONNECT-01", "1.2": "STOMP12-CONNECT-01"}
VERSION_NAMED = {"1.1": ("STOMP11-CONNECTED-01",), "1.2": ("STOMP12-CONNECTED-01", "STOMP12-FH-02")}
STOMP_COMMAND = {"1.1": "STOMP11-CONNECT-06", "1.2": "STOMP12-CONNECT-04"}
SESSION_ID = {
    "1.0": "STOMP10-CONNECT-03",
    "1.1": "STOMP11-CONNECTED-02",
    "1.2": "STOMP12-CONNECTED-03",
}
SERVER_HEADER = {"1.1": "STOMP11-CONNECTED-03", "1.2": "STOMP12-CONNECTED-04"}
SERVER_NAME = {"1.1": "STOMP11-CONNECTED-04", "1.2": "STOMP12-CONNECTED-05"}
SERVER_COMMENTS = {"1.1": "STOMP11-CONNECTED-05", "1.2": "STOMP12-CONNECTED-06"}
HEART_BEAT_HEADER = "STOMP12-CONNECTED-02"
UNKNOWN_HOST = {"1.1": "STOMP11-CONNECT-11", "1.2": "STOMP12-CONNECT-09"}
RAPID_RECONNECTS = {"1.1": "STOMP11-CONNECT-04", "1.2": "STOMP12-LINGER-01"}

SERVER = re.compile(r"[!#$%&'*+.^_`|~\w-]+(/[!#$%&'*+.^_`|~\w-]+)?( .*)?", re.ASCII)
"""name ["/" version] *(comment): tokens as in HTTP/1.1; a blank separates comments."""


@case(ADMITTED, VERSION_NAMED)
def test_connect_is_answered_with_connected(target: Bench, version: str) -> None:
    """CONNECT for one version gets one CONNECTED, which names that version from 1.1 on. The session
    works."""
    peer = target.peer(version)
    connected = peer.connect(target.connect_headers(version), proves=ADMITTED[version])
    if version != "1.0":
        value = connected.get("version")
        detail = f"the client has {version}; CONNECTED says version:{value}"
        target.record_finding(VERSION_NAMED[version], value == version, detail)
    peer.settle()
    count = 1 + (peer.take(CONNECTED) is not None)
    target.record_finding(ADMITTED[version], count == 1, f"{count} CONNECTED arrived")


@case(STOMP_COMMAND)
def test_stomp_opens_a_session_as_connect_does(target: Bench, version: str) -> None:
    """CONNECT and STOMP with the same headers get CONNECTED with the same version, heartbeats and
    server. If SUBSCRIBE is confirmed in one session, it is confirmed in the other."""
    first = target.peer(version)
    plain = first.connect(target.connect_headers(version))
    second = target.peer(version)
    other = second.connect(
        target.connect_headers(version), command="STOMP", proves=STOMP_COMMAND[version]
    )

    def comparable(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
        # Other headers may differ from connection to connection.
        return sorted(pair for pair in headers if pair[0] in ("version", "heart-beat", "server"))

    target.record_finding(
        STOMP_COMMAND[version],
        comparable(plain.headers) == comparable(other.headers),
        f"CONNECT was answered with {plain.brief()}, and STOMP with {other.brief()}",
    )
    to = target.destination()
    first.subscribe(target.destination())
    second.subscribe(to, proves=STOMP_COMMAND[version])
    first.publish(to, b"body")
    second.message(body=b"body", proves=STOMP_COMMAND[version])


@case(*STOMP_COMMAND.values())
def test_stomp_without_accept_version_is_answered_as_connect_is(target: Bench) -> None:
    """CONNECT and STOMP without accept-version get the same answer."""
    target.stomp("1.2")
    headers = [header for header in target.connect_headers("1.2") if header[0] != "accept-version"]
    answers = {}
    for command in ("CONNECT", "STOMP"):
        peer = target.peer("1.0")
        peer.send(command, headers)
        answer = peer.watch_for(CONNECTED)
        answers[command] = answer is not None
        target.record_note(
            f"{command} without accept-version:"
            f" {answer.brief() if answer is not None else peer.instead()}"
        )
    was = {True: "was", False: "was not"}
    welcome = "connects" if answers["STOMP"] else "does-not-connect"
    target.record_behaviour("stomp.no-accept-version", welcome)
    target.record_finding(
        tuple(STOMP_COMMAND.values()),
        answers["CONNECT"] == answers["STOMP"],
        f"without accept-version, CONNECT {was[answers['CONNECT']]} answered with CONNECTED, and"
        f" STOMP {was[answers['STOMP']]}",
    )


@case(SESSION_ID)
def test_each_session_has_an_id_of_its_own(target: Bench, version: str) -> None:
    """Several sessions are opened, concurrently and one after the other. Each CONNECTED has a
    session id, and all ids differ."""
    ids = []
    for _ in range(4):
        target.stomp(version)  # stays
        peer = target.stomp(version)
        assert peer.connected is not None
        ids.append(peer.connected.get("session"))
        peer.request("DISCONNECT")
        peer.close_socket()
        peer = target.stomp(version)
        assert peer.connected is not None
        ids.append(peer.connected.get("session"))
    missing = sum(session_id is None for session_id in ids)
    target.record_behaviour("stomp.session-id", "some" if missing else "each")
    detail = f"{missing} of {len(ids)} CONNECTED have no session header"
    target.record_finding(SESSION_ID[version], missing == 0, detail)
    given = [session_id for session_id in ids if session_id is not None]
    detail = f"{len(given)} sessions have the ids {', '.join(sorted(given))}"
    target.record_finding(SESSION_ID[version], len(set(given)) == len(given), detail)


@case(SERVER_HEADER, SERVER_NAME, SERVER_COMMENTS)
def test_the_server_header_begins_with_a_name(target: Bench, version: str) -> None:
    """CONNECTED may have a server header: a name, optionally /version and comments."""
    peer = target.stomp(version)
    assert peer.connected is not None
    server = peer.connected.get("server")
    target.record_behaviour("stomp.server", server or "no header")
    target.record_finding(
        SERVER_HEADER[version],
        server is not None,
        f"CONNECTED says server:{server}" if server else "no server header",
    )
    held = server is None or SERVER.fullmatch(server) is not None
    target.record_finding(
        (SERVER_NAME[version], SERVER_COMMENTS[version]),
        held,
        f"server:{server}" if server else "there is no server header to be wrong",
    )


@case(HEART_BEAT_HEADER)
def test_connected_may_carry_heart_beat(target: Bench) -> None:
    """The answer to CONNECT with heart-beat:5000,5000 may have a heart-beat header of two
    numbers."""
    peer = target.stomp("1.2", heart_beat="5000,5000")
    assert peer.connected is not None
    header = peer.connected.get("heart-beat")
    target.record_behaviour("stomp.heart-beat-of-5000", header or "no header")
    held = header is not None and re.fullmatch(r"\d+,\d+", header) is not None
    detail = f"heart-beat:5000,5000 was answered with {shown(header)}"
    target.record_finding(HEART_BEAT_HEADER, held, detail)


STRANGE_HOST = "no-such-host.invalid"
"""RFC 6761 reserves this name, so no broker has a virtual host of that name by chance."""


@case(UNKNOWN_HOST)
@over(
    examples=10,
    always=lambda target: [{"host": STRANGE_HOST}],
    host=st.sampled_from([STRANGE_HOST, "", "/", "::1", "a b", "LOCALHOST", "x" * 255]),
)
def test_a_host_nobody_knows_is_taken_or_turned_away(
    target: Bench, version: str, host: str
) -> None:
    """CONNECT with an unknown host is answered with CONNECTED, ERROR, or a close."""
    peer = target.peer(version)
    peer.send("CONNECT", target.connect_headers(version, {"host": host}))
    taken = peer.watch_for(CONNECTED) is not None
    seen = None if taken else fate(target, peer)
    answered = taken or (seen is not None and seen.refused)
    if answered and host == STRANGE_HOST:
        target.record_behaviour("stomp.unknown-host", "accepts" if taken else "refuses")
    detail = f"host:{host!r} was {'accepted' if taken else f'answered with {seen}'}"
    target.record_finding(UNKNOWN_HOST[version], answered, detail)
    target.stomp(version)


@case(ADMITTED)
def test_forty_sessions_at_the_same_time(target: Bench, version: str) -> None:
    """Forty clients connect and stay connected. Each gets CONNECTED, and at the end each session
    still confirms a frame."""
    peers = []
    for _ in range(40):
        peer = target.peer(version)
        peer.connect(target.connect_headers(version), proves=ADMITTED[version])
        peers.append(peer)
    for peer in peers:
        peer.request("BEGIN", {"transaction": peer.transaction}, proves=ADMITTED[version])


HURRIES = (
    "says nothing",
    "half a frame",
    "connects",
    "connects and leaves",
    "disconnects",
    "is cut",
)


@case(RAPID_RECONNECTS)
@over(examples=15, how=st.lists(st.sampled_from(HURRIES), min_size=20, max_size=60))
def test_clients_may_come_and_go_rapidly(target: Bench, version: str, how: list[str]) -> None:
    """Dozens of connections are opened and closed in a row, before, during and after CONNECT.
    Afterwards a new client is admitted, and a client that was connected throughout is served."""
    bystander = Bystander(target, version)
    headers = target.connect_headers(version)
    for hurry in how:
        peer = target.peer(version)
        if hurry == "half a frame":
            peer.write(b"CONNECT\naccept-ver")
        elif hurry == "connects and leaves":
            peer.send("CONNECT", headers)
        elif hurry in ("connects", "disconnects", "is cut"):
            peer.connect(headers, proves=RAPID_RECONNECTS[version])
        if hurry == "disconnects":
            peer.send("DISCONNECT")
        peer.close_socket(CloseHow.RESET if hurry == "is cut" else CloseHow.EOF)
    late = target.peer(version)
    late.connect(headers, proves=RAPID_RECONNECTS[version])
    late.request("BEGIN", {"transaction": late.transaction}, proves=RAPID_RECONNECTS[version])
    target.advance(ms(50))
    bystander.check(proves=RAPID_RECONNECTS[version])
