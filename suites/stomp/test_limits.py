"""Limits that a server may set on frames, and what it should do when one is exceeded.

No server needs to have limits, and none announces them, so cases search by doubling, up to sizes
that harm no broker. A server that accepts even the largest frame gets a note, not a violation.
"""

from collections.abc import Callable, Iterable

from brokerproof.harness.protocols.stomp import codec
from brokerproof.suites.api import PATIENCE, Bench, case, listed, seconds
from brokerproof.suites.api.stomp import Destination, Frame, frame
from brokerproof.suites.stomp.error_recovery_steps import Bystander, Fate, fate

MAY_LIMIT = {"1.1": "STOMP11-LIMIT-01", "1.2": "STOMP12-LIMIT-01"}
DELIVERED = {"1.1": "STOMP11-SUB-02", "1.2": "STOMP12-SUB-02"}
ALL_PASSED_ON = {"1.1": "STOMP11-SEND-06", "1.2": "STOMP12-SEND-06"}
WHOLE = {"1.1": "STOMP11-MSG-07", "1.2": "STOMP12-MSG-09"}
OVER_LIMIT = {"1.1": "STOMP11-LIMIT-02", "1.2": "STOMP12-LIMIT-02"}

HEADERS = (16, 256, 2048, 8192)
LINE = (256, 4096, 32_768, 262_144)
BODY = (1024, 65_536, 1_048_576, 4_194_304)


def look_for(
    target: Bench,
    version: str,
    what: str,
    sizes: Iterable[int],
    encode: Callable[[Destination, int], bytes],
    judge: Callable[[Bench, str, Frame, int], None],
) -> None:
    """Send increasingly large frames until one is refused. Judge the refusal, and the messages that
    arrived before by ``judge``. If the first message arrives, so must each accepted one."""
    bystander = Bystander(target, version)
    accepted = arrived = 0
    for size in sizes:
        to = target.destination()
        consumer = target.stomp(version)
        consumer.subscribe(to)  # first: a topic keeps nothing
        peer = target.stomp(version)
        peer.write(encode(to, size))
        receipt = frame("RECEIPT", {"receipt-id": "large"})
        seen = None if peer.watch_for(receipt) else fate(target, peer)
        # A late receipt is not a refusal.
        if seen is None or peer.take(receipt) is not None:
            accepted = size
            message = consumer.watch_for(frame("MESSAGE"), within=PATIENCE)
            if arrived:
                detail = f"{arrived} {what} arrived, and {size} were accepted"
                detail += "" if message else f" and did not arrive; {consumer.instead()}"
                target.record_finding(DELIVERED[version], message is not None, detail)
            if message is not None:
                arrived = size
                judge(target, version, message, size)
            continue
        bystander.check()
        words = f"{size} {what} are not a large frame, and were refused: {seen}"
        target.control(accepted > 0, words)
        target.record_behaviour(f"stomp.most-{what.replace(' ', '-')}", accepted)
        _judge_refusal(target, version, f"{accepted} {what} are accepted and {size} are not", seen)
        return
    bystander.check()
    target.record_behaviour(f"stomp.most-{what.replace(' ', '-')}", f"over {accepted}")
    # No limit was exceeded, so none was handled wrongly. The behaviour records that.
    target.record_finding(
        MAY_LIMIT[version], False, f"the broker accepted {accepted} {what}; no limit was reached"
    )
    target.record_not_applicable(
        OVER_LIMIT[version], f"the broker accepted {accepted} {what}; no limit was exceeded"
    )


def _judge_headers(target: Bench, version: str, message: Frame, count: int) -> None:
    missing = [number for number in range(count) if message.get(f"x-{number}") is None]
    detail = f"{len(missing)} of {count} headers are missing: {listed(missing or ['(none)'])}"
    target.record_finding(ALL_PASSED_ON[version], not missing, detail)


def _judge_line(target: Bench, version: str, message: Frame, size: int) -> None:
    same, got = message.get("x") == "v" * size, len(message.get("x") or "")
    target.record_finding(ALL_PASSED_ON[version], same, f"of {size} bytes of a value {got} arrived")


def _judge_body(target: Bench, version: str, message: Frame, size: int) -> None:
    same = message.body == b"b" * size
    detail = f"of a body of {size} bytes, {len(message.body)} arrived"
    target.record_finding(WHOLE[version], same, detail)


def _judge_refusal(target: Bench, version: str, words: str, seen: Fate) -> None:
    target.record_finding(MAY_LIMIT[version], seen.refused, words)
    detail = f"{words}; beyond the limit {seen}"
    target.record_finding(OVER_LIMIT[version], seen.explained and seen.ended is not None, detail)


def _send(
    to: Destination, version: str, headers: Iterable[tuple[str, str | int]], body: bytes
) -> bytes:
    return codec.encode(
        "SEND",
        (("destination", to.name), *to.send_headers, *headers, ("receipt", "large")),
        body,
        version=version,
    )


@case(MAY_LIMIT, OVER_LIMIT, ALL_PASSED_ON, DELIVERED)
def test_too_many_headers_are_refused_with_error(target: Bench, version: str) -> None:
    """SENDs with up to 8192 headers are accepted, or answered with ERROR and a close. Accepted
    SENDs arrive with all headers. Another connection is still served. One scenario: frames of
    growing size."""
    look_for(
        target,
        version,
        "headers",
        HEADERS,
        lambda to, size: _send(
            to, version, ((f"x-{number}", "value") for number in range(size)), b"body"
        ),
        _judge_headers,
    )


@case(MAY_LIMIT, OVER_LIMIT, ALL_PASSED_ON, DELIVERED)
def test_too_long_a_header_line_is_refused_with_error(target: Bench, version: str) -> None:
    """SENDs with a header of up to 256 KiB are accepted, or answered with ERROR and a close.
    Accepted SENDs arrive with that header. Another connection is still served. One scenario: frames
    of growing size."""
    look_for(
        target,
        version,
        "bytes in a header line",
        LINE,
        lambda to, size: _send(to, version, [("x", "v" * size)], b"body"),
        _judge_line,
    )


@case(MAY_LIMIT, OVER_LIMIT, WHOLE, DELIVERED)
def test_too_large_a_body_is_refused_with_error(target: Bench, version: str) -> None:
    """SENDs with a body of up to 4 MiB are accepted, or answered with ERROR and a close. Accepted
    SENDs arrive whole. Another connection is still served. One scenario: frames of growing size."""
    most = target.profile.parameters["largest_body_tried_bytes"]
    look_for(
        target,
        version,
        "bytes of body",
        [size for size in BODY if size <= float(most or 0)],
        lambda to, size: _send(to, version, [("content-length", size)], b"b" * size),
        _judge_body,
    )


@case(MAY_LIMIT, OVER_LIMIT)
def test_a_body_announced_beyond_all_measure_may_be_refused(target: Bench, version: str) -> None:
    """SEND announces a body of a tebibyte, and the client sends none of it. The server waits for
    it, or answers with ERROR and closes the connection. Another connection is still served."""
    bystander = Bystander(target, version)
    to, peer = target.destination(), target.stomp(version)
    peer.write(_send(to, version, [("content-length", 1 << 40)], b"")[:-1])
    seen = fate(target, peer, within=seconds(1))
    target.record_behaviour("stomp.tebibyte", "refuses" if seen.refused else "waits")
    if seen.refused:
        _judge_refusal(target, version, "a body of a tebibyte is too large", seen)
    else:
        target.record_finding(
            MAY_LIMIT[version], False, "the server waits for a body of a tebibyte"
        )
        target.record_not_applicable(OVER_LIMIT[version], "no limit was exceeded")
    bystander.check()
