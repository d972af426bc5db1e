"""Opening a session: CONNECT or STOMP, what CONNECTED says, and clients that come and go in a
hurry."""

from __future__ import annotations

import re

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import ms
from brokerproof.harness.protocols.stomp.raw_peer import CONNECTED
from brokerproof.suites.stomp.error_recovery_steps import Bystander, fate

SERVER = re.compile(r"[!#$%&'*+.^_`|~\w-]+(/[!#$%&'*+.^_`|~\w-]+)?( .*)?", re.ASCII)
"""name ["/" version] *(comment): tokens as HTTP/1.1 has them, comments set off by a blank."""


@case(
    {
        "1.0": "STOMP10-CONNECT-02",
        "1.1": ("STOMP11-CONNECT-01", "STOMP11-CONNECTED-01"),
        "1.2": ("STOMP12-CONNECT-01", "STOMP12-CONNECTED-01", "STOMP12-FH-02"),
    }
)
def test_connect_is_answered_with_connected(target: Bench, version: str) -> None:
    """A well-behaved client connects and asks for one version. CONNECTED comes, once, and from 1.1
    on says that version; frames sent then are answered."""
    peer = target.peer(version)
    connected = peer.connect(target.connect_headers(version), proves=target.cited[0])
    if version != "1.0":
        said = connected.get("version")
        target.record_finding(
            target.cited[1:],
            said == version,
            f"the client has {version}, CONNECTED says version:{said}",
        )
    peer.settle()
    target.record_finding(target.cited[0], peer.take(CONNECTED) is None, "CONNECTED came once")


@case({"1.1": "STOMP11-CONNECT-06", "1.2": "STOMP12-CONNECT-04"})
def test_stomp_opens_a_session_as_connect_does(target: Bench, version: str) -> None:
    """The same headers are sent once with CONNECT and once with STOMP. The answers have the same
    headers (sessions have ids of their own), and both sessions work."""
    first = target.peer(version)
    plain = first.connect(target.connect_headers(version))
    second = target.peer(version)
    other = second.connect(target.connect_headers(version), command="STOMP", proves=target.cited)

    def comparable(headers: tuple[tuple[str, str], ...]) -> list[tuple[str, str]]:
        return sorted((name, "" if name == "session" else value) for name, value in headers)

    target.record_finding(
        target.cited,
        comparable(plain.headers) == comparable(other.headers),
        f"CONNECT was answered {plain.brief()}, STOMP {other.brief()}",
    )
    to = target.destination()
    second.subscribe(to, proves=target.cited)
    first.publish(to, b"body")
    second.message(body=b"body", proves=target.cited)


@case("STOMP11-CONNECT-06", "STOMP12-CONNECT-04")
def test_stomp_without_accept_version_is_answered_as_connect_is(target: Bench) -> None:
    """Both CONNECT and STOMP are sent without accept-version, by which a client says that it has
    only 1.0. Whatever the server makes of that, it makes the same of both. With accept-version a
    client is admitted before."""
    target.stomp("1.2")
    headers = [each for each in target.connect_headers("1.2") if each[0] != "accept-version"]
    answers = {}
    for command in ("CONNECT", "STOMP"):
        peer = target.peer("1.0")
        peer.send(command, headers)
        came = peer.watch_for(CONNECTED)
        answers[command] = came is not None
        target.note(
            f"{command} without accept-version:"
            f" {came.brief() if came is not None else peer.instead()}"
        )
    target.record_finding(
        target.cited,
        answers["CONNECT"] == answers["STOMP"],
        f"without accept-version, was it answered CONNECTED? CONNECT: {answers['CONNECT']}, STOMP:"
        f" {answers['STOMP']}",
    )


@case({"1.0": "STOMP10-CONNECT-03", "1.1": "STOMP11-CONNECTED-02", "1.2": "STOMP12-CONNECTED-03"})
def test_each_session_has_an_id_of_its_own(target: Bench, version: str) -> None:
    """Several sessions, some at the same time and some one after the other. CONNECTED of each has a
    session id (in 1.0 it must) and no two are the same."""
    ids = []
    for _ in range(4):
        target.stomp(version)  # stays
        peer = target.stomp(version)
        assert peer.connected is not None
        ids.append(peer.connected.get("session"))
        peer.request("DISCONNECT")
        peer.leave()
        peer = target.stomp(version)
        assert peer.connected is not None
        ids.append(peer.connected.get("session"))
    missing = sum(each is None for each in ids)
    target.record_finding(
        target.cited, missing == 0, f"{missing} of {len(ids)} CONNECTED have no session header"
    )
    given = [each for each in ids if each is not None]
    target.record_finding(
        target.cited,
        len(set(given)) == len(given),
        f"session ids of {len(given)} sessions: {sorted(given)}",
    )


@case(
    {
        "1.1": ("STOMP11-CONNECTED-03", "STOMP11-CONNECTED-04", "STOMP11-CONNECTED-05"),
        "1.2": ("STOMP12-CONNECTED-04", "STOMP12-CONNECTED-05", "STOMP12-CONNECTED-06"),
    }
)
def test_the_server_header_begins_with_a_name(target: Bench, version: str) -> None:
    """CONNECTED may say what the server is. If it does, the header is a name, perhaps a slash and a
    version, and perhaps comments behind a blank."""
    offered, named, comments = target.cited
    peer = target.stomp(version)
    assert peer.connected is not None
    server = peer.connected.get("server")
    target.record_finding(
        offered,
        server is not None,
        f"CONNECTED says server:{server}" if server else "no server header",
    )
    held = server is None or SERVER.fullmatch(server) is not None
    target.record_finding(
        (named, comments),
        held,
        f"server:{server}" if server else "there is no server header to be wrong",
    )


@case("STOMP12-CONNECTED-02")
def test_connected_may_carry_heart_beat(target: Bench) -> None:
    """A client that offers heart-beats connects. CONNECTED may have a heart-beat header; if so it
    is two numbers."""
    peer = target.stomp("1.2", heart_beat="5000,5000")
    assert peer.connected is not None
    header = peer.connected.get("heart-beat")
    held = header is not None and re.fullmatch(r"\d+,\d+", header) is not None
    target.record_finding(target.cited, held, f"heart-beat:5000,5000 was answered with {header}")


@case({"1.1": "STOMP11-CONNECT-11", "1.2": "STOMP12-CONNECT-09"})
@over(
    examples=10,
    host=st.sampled_from(["no-such-host.invalid", "", "/", "::1", "a b", "LOCALHOST", "x" * 255]),
)
def test_a_host_nobody_knows_is_taken_or_turned_away(
    target: Bench, version: str, host: str
) -> None:
    """CONNECT names a virtual host of the client's invention. The server takes a default one, or
    says ERROR, or closes; it does not leave the client without an answer."""
    peer = target.peer(version)
    peer.send("CONNECT", target.connect_headers(version, {"host": host}))
    taken = peer.watch_for(CONNECTED) is not None
    seen = None if taken else fate(target, peer)
    answered = taken or (seen is not None and seen.refused)
    target.record_finding(
        target.cited, answered, f"host:{host!r} was {'taken' if taken else f'answered so: {seen}'}"
    )
    target.stomp(version)


@case({"1.0": "STOMP10-CONNECT-02", "1.1": "STOMP11-CONNECT-01", "1.2": "STOMP12-CONNECT-01"})
def test_forty_sessions_at_the_same_time(target: Bench, version: str) -> None:
    """Forty clients connect and stay. Each of them gets CONNECTED, and all sessions work side by
    side: each confirms a frame in the end."""
    peers = []
    for _ in range(40):
        peer = target.peer(version)
        peer.connect(target.connect_headers(version), proves=target.cited)
        peers.append(peer)
    for peer in peers:
        peer.request("BEGIN", {"transaction": "t"}, proves=target.cited)


HURRIES = (
    "says nothing",
    "half a frame",
    "connects",
    "connects and leaves",
    "disconnects",
    "is cut",
)


@case({"1.1": "STOMP11-CONNECT-04", "1.2": "STOMP12-LINGER-01"})
@over(examples=15, how=st.lists(st.sampled_from(HURRIES), min_size=20, max_size=60))
def test_clients_may_come_and_go_rapidly(target: Bench, version: str, how: list[str]) -> None:
    """Dozens of connections are opened and closed in a row: without a word, in the middle of
    CONNECT, before or after CONNECTED, with DISCONNECT, or by a reset. Then a client connects as
    ever, and one that was there all along noticed nothing."""
    bystander = Bystander(target, version)
    headers = target.connect_headers(version)
    for hurry in how:
        peer = target.peer(version)
        if hurry == "half a frame":
            peer.write(b"CONNECT\naccept-ver")
        elif hurry == "connects and leaves":
            peer.send("CONNECT", headers)
        elif hurry in ("connects", "disconnects", "is cut"):
            peer.connect(headers, proves=target.cited)
        if hurry == "disconnects":
            peer.send("DISCONNECT")
        peer.leave(CloseHow.RESET if hurry == "is cut" else CloseHow.EOF)
    late = target.peer(version)
    late.connect(headers, proves=target.cited)
    late.request("BEGIN", {"transaction": "t"}, proves=target.cited)
    target.advance(ms(50))
    bystander.check(proves=target.cited)
