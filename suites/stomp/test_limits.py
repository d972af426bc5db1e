"""Limits that a server may set on what a frame occupies, and what it should do when one is
exceeded.

Nobody has to have limits, and nobody says where they are: they are looked for by doubling, up to
sizes that hurt no broker. One that takes everything up to there is noted and not blamed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case
from brokerproof.harness.model.time import seconds
from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.protocols.stomp.raw_peer import Destination, frame
from brokerproof.suites.stomp.error_recovery_steps import Bystander, Fate, fate

REQUIREMENTS = {
    "1.1": ("STOMP11-LIMIT-01", "STOMP11-LIMIT-02"),
    "1.2": ("STOMP12-LIMIT-01", "STOMP12-LIMIT-02"),
}
HEADERS = (16, 256, 2048, 8192)
LINE = (256, 4096, 32_768, 262_144)
BODY = (1024, 65_536, 1_048_576, 4_194_304)

Send = Callable[[int], bytes]


def look_for(
    target: Bench,
    version: str,
    what: str,
    sizes: Iterable[int],
    octets: Callable[[Destination, int], bytes],
) -> None:
    """Sends ever larger frames, each on a connection of its own, until one is refused; judges how
    it is refused."""
    may, should = target.cited
    bystander = Bystander(target, version)
    taken = 0
    for size in sizes:
        to = target.destination()
        peer = target.stomp(version)
        peer.write(octets(to, size))
        if peer.watch_for(frame("RECEIPT", {"receipt-id": "large"})) is not None:
            taken = size
            continue
        seen = fate(target, peer)
        bystander.check()
        target.control(taken > 0, f"{size} {what} are no large frame, and were refused: {seen}")
        _judge_refusal(target, f"of {what} {taken} are taken and {size} are not", seen)
        return
    bystander.check()
    # Nothing was exceeded, so nothing can have been done wrongly; that there is no limit is worth a
    # note.
    target.record_finding(may, False, f"no limit was met up to {taken} {what}")
    target.record_finding(should, True, f"no limit was exceeded up to {taken} {what}")


def _judge_refusal(target: Bench, words: str, seen: Fate) -> None:
    may, should = target.cited
    target.record_finding(may, True, words)
    target.record_finding(
        should, seen.explained and seen.ended is not None, f"{words}; beyond the limit {seen}"
    )


def _send(
    to: Destination, version: str, headers: Iterable[tuple[str, str | int]], body: bytes
) -> bytes:
    return codec.encode(
        "SEND",
        (("destination", to.name), *to.send_headers, ("receipt", "large"), *headers),
        body,
        version=version,
    )


@case(REQUIREMENTS)
def test_too_many_headers_are_refused_with_error(target: Bench, version: str) -> None:
    """SENDs with up to 8192 headers. If the server has had enough it says ERROR and closes; another
    connection notices nothing."""
    look_for(
        target,
        version,
        "headers",
        HEADERS,
        lambda to, size: _send(
            to, version, ((f"x-{number}", "value") for number in range(size)), b"body"
        ),
    )


@case(REQUIREMENTS)
def test_too_long_a_header_line_is_refused_with_error(target: Bench, version: str) -> None:
    """SENDs with a header of up to 256 KiB. If it is too long for the server it says ERROR and
    closes; another connection notices nothing."""
    look_for(
        target,
        version,
        "octets in a header line",
        LINE,
        lambda to, size: _send(to, version, [("x", "v" * size)], b"body"),
    )


@case(REQUIREMENTS)
def test_too_large_a_body_is_refused_with_error(target: Bench, version: str) -> None:
    """SENDs with a body of up to 4 MiB. If it is too large for the server it says ERROR and closes;
    another connection notices nothing."""
    look_for(
        target,
        version,
        "octets of body",
        BODY,
        lambda to, size: _send(to, version, [("content-length", size)], b"b" * size),
    )


@case(REQUIREMENTS)
def test_a_body_announced_beyond_all_measure_may_be_refused(target: Bench, version: str) -> None:
    """SEND announces a body of a tebibyte and sends none of it. The server may refuse by ERROR and
    close without waiting for it, or wait; another connection notices nothing."""
    may, should = target.cited
    bystander = Bystander(target, version)
    to, peer = target.destination(), target.stomp(version)
    peer.write(_send(to, version, [("content-length", 1 << 40)], b"")[:-1])
    seen = fate(target, peer, within=seconds(1))
    if seen.refused:
        _judge_refusal(target, "a body of a tebibyte is too large", seen)
    else:
        target.record_finding(may, False, "the server waits for a body of a tebibyte")
        target.record_finding(should, True, "no limit was exceeded")
    bystander.check()
