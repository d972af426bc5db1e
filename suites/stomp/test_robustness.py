"""Malformed frames of every kind, in any pieces: only their sender may be affected.

A server may mostly choose how to treat a client that breaks the grammar: it may send an ERROR,
close, or read on. But a 1.2 connection must end after its ERROR, and other connections, including
new ones, must be served. Errors that a version calls fatal are judged in test_escapes.
"""

from collections.abc import Iterable

from hypothesis import strategies as st

from brokerproof.suites.api import PATIENCE, Bench, CloseHow, case, ms, over, seconds, shown
from brokerproof.suites.api.stomp import frame
from brokerproof.suites.stomp.byte_steps import Cut, cuts, write_in_pieces
from brokerproof.suites.stomp.error_recovery_steps import Bystander, Fate, fate, fates
from brokerproof.suites.stomp.malformations import KINDS, Malformation, some_kinds

CLOSE_AFTER_ERROR = "STOMP12-ERR-02"
MAY_SEND_ERROR = {"1.0": "STOMP10-ERROR-01", "1.1": "STOMP11-ERR-01", "1.2": "STOMP12-ERR-01"}
MAY_REFUSE = {"1.1": "STOMP11-CONNECT-02", "1.2": "STOMP12-CONNECT-02"}

SERVED = {
    "1.0": ("STOMP10-RECEIPT-02", "STOMP10-CONNECT-02"),
    "1.1": ("STOMP11-HDR-13", "STOMP11-CONNECT-01"),
    "1.2": ("STOMP12-HDR-17", "STOMP12-CONNECT-01"),
}


def misbehave(
    target: Bench, version: str, wrong: Iterable[Malformation], where: tuple[Cut, ...] = ()
) -> list[tuple[str, Fate]]:
    """Send each kind in pieces on its own connection; return what happened to each connection."""
    present = [malformation for malformation in wrong if version in malformation.versions]
    offenders = [target.stomp(version) for _ in present]
    for offender, kind in zip(offenders, present, strict=True):
        write_in_pieces(target, offender, kind.data(target.destination(), version), where)
    # Only 1.2 requires ERROR to end the connection; for other versions the case does not wait.
    seen = fates(
        target, offenders, within=seconds(2), end_within=PATIENCE if version == "1.2" else ms(50)
    )
    names = [malformation.name for malformation in present]
    for name, became in zip(names, seen, strict=True):
        target.record_note(f"{name}: {became}")
    return list(zip(names, seen, strict=True))


def judge_service(target: Bench, version: str, bystander: Bystander) -> None:
    """Judge whether connected clients are served and that a new client is admitted and served."""
    served, admitted = SERVED[version]
    bystander.check(proves=served)
    peer = target.peer(version)
    peer.connect(target.connect_headers(version), proves=admitted)
    peer.request("BEGIN", {"transaction": peer.transaction}, proves=served)


@case(SERVED)
@over(examples=30, wrong=some_kinds(), where=cuts())
def test_others_do_not_notice_malformed_frames(
    target: Bench, version: str, wrong: list[Malformation], where: tuple[Cut, ...]
) -> None:
    """Several connections send malformed frames, split anywhere. An older connection still gets its
    RECEIPTs and MESSAGEs, and a new one is admitted and served."""
    bystander = Bystander(target, version)
    misbehave(target, version, wrong, where)
    judge_service(target, version, bystander)


@case(CLOSE_AFTER_ERROR)
@over(examples=30, wrong=some_kinds(), where=cuts())
def test_an_error_ends_the_connection_in_1_2(
    target: Bench, wrong: list[Malformation], where: tuple[Cut, ...]
) -> None:
    """Connections send a malformed frame, or COMMIT of an unknown transaction. A connection that
    gets an ERROR is closed right after it."""
    never_begun = next(kind for kind in KINDS if kind.name == "a COMMIT of an unknown transaction")
    for name, seen in misbehave(target, "1.2", [never_begun, *wrong], where):
        if seen.error is not None:
            target.record_finding(
                CLOSE_AFTER_ERROR, seen.ended is not None, f"after {name}, {seen}"
            )


@case(MAY_SEND_ERROR)
def test_malformed_frames_may_be_answered_with_error(target: Bench, version: str) -> None:
    """Each kind of malformed frame, on a separate connection, may be answered with ERROR."""
    bystander = Bystander(target, version)
    reported: list[str] = []
    ended: list[str] = []
    silent: list[str] = []
    passed: list[str] = []
    for name, seen in misbehave(target, version, KINDS):
        if seen.error is not None:
            reported.append(name)
        else:
            (ended if seen.ended is not None else passed if seen.answered else silent).append(name)
    bystander.check()
    others = (
        ("closed the connection without an ERROR after", ended),
        ("did not answer", silent),
        ("accepted", passed),
    )
    detail = "; it ".join(f"{words} {', '.join(names)}" for words, names in others if names)
    target.record_finding(
        MAY_SEND_ERROR[version],
        not detail,
        f"the broker answered {len(reported)} kinds of malformed frames with ERROR"
        f"{detail and f'; it {detail}'}",
    )


FIRST_WORDS = (
    b"SEND\ndestination:x\nreceipt:r\n\nbody\x00",
    b"SUBSCRIBE\ndestination:x\nid:0\nreceipt:r\n\n\x00",
    b"DISCONNECT\nreceipt:r\n\n\x00",
    b"connect\naccept-version:1.2\nhost:x\n\n\x00",
    b"CONNECT \naccept-version:1.2\nhost:x\n\n\x00",
    b"CONNECTX\naccept-version:1.2\nhost:x\n\n\x00",
    b"CONNECT\naccept-version\n\n\x00",
    b"CONNECT\n:1.2\n\n\x00",
    b"\x00" * 9,
    b"\n\n\n\n\n\n\n\n\x00",
    b"AMQP\x00\x01\x00\x00",
    b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x5a" * 40,
)


@case(SERVED)
@over(
    examples=30,
    first=st.lists(
        st.one_of(st.sampled_from(FIRST_WORDS), st.binary(min_size=1, max_size=60)),
        min_size=1,
        max_size=6,
    ),
    where=cuts(),
    cut=st.booleans(),
)
def test_others_do_not_notice_connections_that_begin_wrongly(
    target: Bench, version: str, first: list[bytes], where: tuple[Cut, ...], cut: bool
) -> None:
    """Connections begin with other frames, other protocols or random bytes, and some are reset. An
    older connection and a new one are still served."""
    bystander = Bystander(target, version)
    for data in first:
        peer = target.peer(version)
        write_in_pieces(target, peer, data, where)
        target.advance(ms(20))
        if cut:
            peer.close_socket(CloseHow.RESET)
    judge_service(target, version, bystander)


@case(MAY_REFUSE)
def test_a_session_does_not_begin_without_connect(target: Bench, version: str) -> None:
    """A SEND as the first frame of a connection is not confirmed and publishes nothing."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    peer = target.peer(version)
    peer.send("SEND", (("destination", to.name), *to.send_headers, ("receipt", "r")), b"evil")
    seen = fate(target, peer, within=seconds(2))
    receipted = peer.take(frame("RECEIPT", {"receipt-id": "r"})) is not None
    target.stomp(version).publish(to, b"after")
    consumer.message(body=b"after")
    published = [message.brief() for message in consumer.take_messages()]
    if seen.refused or not (seen.answered or receipted or published):
        reaction = "refuses" if seen.refused else "waits"
        target.record_behaviour("stomp.first-frame-no-connect", reaction)
    received = (
        f"; {'a' if receipted else 'no'} RECEIPT and {shown(published or 'no MESSAGE')} arrived"
    )
    target.record_finding(
        MAY_REFUSE[version],
        seen.refused and not receipted and not published,
        f"after SEND without CONNECT, {seen}{received}",
    )
