"""Header lines that break the grammar are refused or do no harm.

The specifications do not say what happens to such a line. A broker may refuse the frame, keep the
text unchanged, or omit the line. It must not publish anything that was not sent.
"""

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, over, seconds
from brokerproof.suites.api.stomp import MESSAGE, Frame
from brokerproof.suites.stomp.byte_steps import Cut, cuts, raw_frame, raw_line, write_in_pieces
from brokerproof.suites.stomp.error_recovery_steps import Fate, fate

NO_COLON = {
    "1.0": "STOMP10-READING-LINE-01",
    "1.1": "STOMP11-READING-LINE-01",
    "1.2": "STOMP12-READING-LINE-01",
}
RAW_COLON = {"1.1": "STOMP11-READING-COLON-01", "1.2": "STOMP12-READING-COLON-01"}
RAW_CR = "STOMP12-READING-CR-01"


def published(
    target: Bench, version: str, line: bytes, where: tuple[Cut, ...]
) -> tuple[Frame | None, Fate]:
    """Send a SEND with ``line`` between two valid headers. Return the resulting MESSAGE, and what
    happened to the sender. The same SEND without the line arrives before and after."""
    consumer, to = target.stomp(version), target.destination()
    consumer.subscribe(to)
    head = [raw_line(*header, version) for header in (("destination", to.name), *to.send_headers)]

    def accepted(body: bytes) -> None:
        target.stomp(version).write(
            raw_frame("SEND", [*head, b"x-before:one", b"x-behind:two"], body)
        )
        consumer.message(body=body)

    accepted(b"control before")
    offender = target.stomp(version)
    write_in_pieces(
        target,
        offender,
        raw_frame("SEND", [*head, b"x-before:one", line, b"x-behind:two"], b"body"),
        where,
    )
    seen = fate(target, offender, within=seconds(2))
    message = None if seen.refused else consumer.watch_for(MESSAGE, within=seconds(2))
    accepted(b"control after")
    return message, seen


def judge_unbent(
    target: Bench,
    proves: str,
    line: bytes,
    message: Frame | None,
    seen: Fate,
    values: set[str | None],
    behaviour: str,
) -> None:
    """Judge whether nothing was published, or that x-word has one of ``values`` and other headers
    are unchanged."""
    if message is None:
        target.record_behaviour(behaviour, "refuses")
        target.record_held(proves, seen, f"{line!r}: {seen}; nothing was published")
        return
    word, around = message.get("x-word"), (message.get("x-before"), message.get("x-behind"))
    harmless = word in values and around == ("one", "two")
    if harmless:
        target.record_behaviour(behaviour, "keeps" if word else "drops")
    target.record_finding(
        proves,
        harmless,
        f"the header line {line!r} was delivered as x-word:{word!r}; its neighbours became"
        f" x-before:{around[0]!r} and x-behind:{around[1]!r}",
    )


@case(RAW_COLON)
@over(examples=20, value=st.sampled_from(["a:b", "::", "a:", ":a", "http://x:1"]), where=cuts(4))
def test_a_raw_colon_in_a_value_is_refused_or_harmless(
    target: Bench, version: str, value: str, where: tuple[Cut, ...]
) -> None:
    """SEND with an unescaped colon in a header value is refused, or delivered with the whole value
    or without the header."""
    line = f"x-word:{value}".encode()
    message, seen = published(target, version, line, where)
    judge_unbent(target, RAW_COLON[version], line, message, seen, {value, None}, "stomp.raw-colon")


@case(RAW_CR)
@over(examples=20, value=st.sampled_from(["a\rb", "\ra", "a\rb\rc"]), where=cuts(4))
def test_a_raw_cr_in_a_value_is_refused_or_harmless(
    target: Bench, value: str, where: tuple[Cut, ...]
) -> None:
    """A 1.2 SEND with a CR inside a header value is refused, or delivered with the whole value or
    without the header."""
    line = f"x-word:{value}".encode()
    message, seen = published(target, "1.2", line, where)
    judge_unbent(target, RAW_CR, line, message, seen, {value, None}, "stomp.raw-cr")


@case(NO_COLON)
@over(examples=20, line=st.sampled_from([b"x-word", b"no colon in here", b"x"]), where=cuts(4))
def test_a_line_without_a_colon_is_refused_or_harmless(
    target: Bench, version: str, line: bytes, where: tuple[Cut, ...]
) -> None:
    """SEND with a header line that has no colon is refused, or delivered without that line and with
    the headers around it unchanged."""
    message, seen = published(target, version, line, where)
    judge_unbent(target, NO_COLON[version], line, message, seen, {None, ""}, "stomp.no-colon")
