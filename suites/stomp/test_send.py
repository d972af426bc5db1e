"""SEND: its required headers, the application's headers and body, and the answer if it fails."""

import pytest
from hypothesis import strategies as st

from brokerproof.suites.api import Bench, Target, case, listed, over
from brokerproof.suites.steps.refusals import bystander, refused

HEADER_MISSING = "STOMP10-READING-HEADER-01"
USER_HEADERS = {"1.1": "STOMP11-SEND-06", "1.2": "STOMP12-SEND-06"}
ALL_HEADERS = {
    "1.1": ("STOMP11-MSG-06",),
    "1.2": ("STOMP12-MSG-08", "STOMP12-FH-12", "STOMP12-FH-13"),
}
FAILED_SEND = {"1.1": "STOMP11-SEND-07", "1.2": "STOMP12-SEND-07"}
COUNTED_BODY = {
    "1.0": ("STOMP10-MESSAGE-04", "STOMP10-SEND-05"),
    "1.1": ("STOMP11-HDR-03",),
    "1.2": ("STOMP12-HDR-03",),
}
LENGTH_OF_NULS = {"1.1": "STOMP11-HDR-02", "1.2": "STOMP12-HDR-06"}
NUL_AFTER_BODY = {"1.0": "STOMP10-SEND-06", "1.1": "STOMP11-HDR-04", "1.2": "STOMP12-HDR-04"}
NUL_ENDS_BODY = "STOMP10-SEND-07"

ODD_DESTINATIONS = {
    # longer than an AMQP short string, shorter than any header line limit
    "empty": "",
    "slash": "/",
    "blank": " ",
    "queue": "/queue/",
    "long": "d" * 300,
    "exchange": "/exchange/that-nobody-declared/key",
}
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789-_."
names = st.text(LETTERS, min_size=1, max_size=12).map(lambda text: f"x-{text}")
values = st.one_of(
    st.sampled_from(
        ["", "0", "true", "null", "NaN", "a b", "=;,'\"/", "ünïcödé", "漢字", "🐇", "x" * 1000]
    ),
    st.text(
        st.characters(min_codepoint=0x21, max_codepoint=0x2FF, exclude_characters=":\\\x7f"),
        max_size=40,
    ).filter(lambda text: text.isprintable() and text == text.strip()),
)


def longest_name(target: Target) -> str:
    """Return a name of 1002 bytes, or less if this family documents a lower limit: a server may
    have limits (STOMP12-LIMIT-01)."""
    return f"x-{'n' * 1000}"[
        : int(target.identity.profile.parameters.get("stomp_header_name_limit", 1002))
    ]


any_bodies = st.one_of(
    st.sampled_from(
        [
            b"",
            b"\x00",
            b"\x00\x00",
            b"a\x00b",
            b"\n",
            b"\r\n\x00\n",
            b"\x00\nMESSAGE\n\n\x00",
            b"\xff\xfe",
        ]
    ),
    st.binary(max_size=200),
    st.sampled_from([127, 128, 1023, 1024, 4096, 10_239, 10_240]).map(
        lambda size: bytes(index % 256 for index in range(size))
    ),
)


@case({"1.0": HEADER_MISSING}, FAILED_SEND)
def test_a_send_without_a_destination_is_refused(target: Bench, version: str) -> None:
    """SEND without a destination is not confirmed; from 1.1 on it is answered with ERROR and the
    connection closes. The same frame with a destination is accepted first."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.publish(target.destination(), b"with a destination")
        refused(
            target,
            peer,
            "SEND",
            {"content-length": 7},
            b"nowhere",
            refuses=FAILED_SEND.get(version, HEADER_MISSING),
            answers=FAILED_SEND.get(version, ()),
        )


@case(FAILED_SEND)
@pytest.mark.parametrize("name", [*ODD_DESTINATIONS])
def test_a_send_to_an_odd_destination_is_taken_or_refused(
    target: Bench, version: str, name: str
) -> None:
    """SEND to a destination that may be invalid (empty, a slash, a blank, only a prefix, 300
    letters, an exchange) is confirmed, or answered with ERROR and the connection closes."""
    with bystander(target, version):
        peer = target.stomp(version)
        peer.publish(target.destination(), b"to a usual destination")
        headers = {"destination": ODD_DESTINATIONS[name], "content-length": "7"}
        refused(
            target,
            peer,
            "SEND",
            headers,
            b"nowhere",
            refuses=(),
            answers=FAILED_SEND[version],
            behaviour=f"stomp.destination-{name}" if name in ("empty", "long") else "",
        )


@case(FAILED_SEND, needs={"transactions"})
def test_a_send_in_a_transaction_that_was_never_begun_is_refused(
    target: Bench, version: str
) -> None:
    """SEND that names an unknown transaction is answered with ERROR and the connection closes: it
    cannot take part in a transaction that does not exist."""
    failed, queue = FAILED_SEND[version], target.destination()
    with bystander(target, version):
        peer = target.stomp(version)
        peer.request("BEGIN", {"transaction": peer.transaction})
        peer.publish(queue, b"accepted", {"transaction": peer.transaction}, receipt=False)
        peer.settle()
        fields = (("destination", queue.name), *queue.send_headers, ("transaction", "never begun"))
        refused(
            target,
            peer,
            "SEND",
            fields,
            b"lost",
            refuses=failed,
            answers=failed,
            behaviour="stomp.send-in-unknown-transaction",
        )


@case(USER_HEADERS, ALL_HEADERS)
@over(
    examples=60,
    always=lambda target: [
        {"headers": {"x-number": "007", "x-sign": "+5", "x-real": "1.50", "x-truth": "TRUE"}},
        {"headers": {"x-long": "v" * 5000, longest_name(target): "value"}},
    ],
    headers=st.dictionaries(names, values, min_size=1, max_size=8),
)
def test_headers_of_the_application_come_out_in_the_message(
    target: Bench, version: str, headers: dict[str, str]
) -> None:
    """SEND with the application's own headers arrives as MESSAGE with each of them unchanged. One
    scenario: 1.2 repeats the promise in four places."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    peer.publish(queue, b"body", headers)
    message = peer.message(proves=USER_HEADERS[version])
    wrong = {
        name: (value, message.get(name))
        for name, value in headers.items()
        if message.get(name) != value
    }
    target.record_finding(
        (USER_HEADERS[version], *ALL_HEADERS[version]),
        not wrong,
        "; ".join(
            f"{name} was sent as {was!r} and arrived as {received!r}"
            for name, (was, received) in wrong.items()
        )
        or f"all {len(headers)} headers arrived as they were sent",
    )


@case(COUNTED_BODY)
@over(
    examples=60,
    always=lambda target: [{"body": body} for body in (b"", b"\n", b"\n\n\x00\n", b"\x00")],
    body=any_bodies,
)
def test_the_body_comes_out_octet_for_octet(target: Bench, version: str, body: bytes) -> None:
    """SEND with content-length and a body of any bytes arrives as MESSAGE with the same body."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    peer.publish(queue, body)
    message = peer.message(proves=COUNTED_BODY[version])
    target.record_finding(
        COUNTED_BODY[version],
        message.body == body,
        f"{len(body)} bytes were sent, {len(message.body)} arrived, "
        f"{'the same' if message.body == body else f'and they differ: {message.body[:40]!r} for {body[:40]!r}'}",  # noqa: E501
    )


@case(LENGTH_OF_NULS)
def test_a_message_with_nul_octets_has_a_content_length(target: Bench, version: str) -> None:
    """SENDs with NUL bytes in their bodies, as text and without a content-type, arrive as MESSAGEs
    with the correct content-length."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    for headers in ({}, {"content-type": "text/plain"}):
        peer.publish(queue, b"before\x00after", headers)
        message = peer.message(proves=LENGTH_OF_NULS[version])
        length = message.get("content-length")
        words = f"the body has 12 bytes; content-length is {length!r}"
        target.record_finding(LENGTH_OF_NULS[version], length == "12", words)


@case(NUL_AFTER_BODY)
def test_the_nul_behind_a_counted_body_belongs_to_the_frame(target: Bench, version: str) -> None:
    """Three SENDs with content-length are sent in one write, each ended by its NUL. Each arrives
    with its own body, and every MESSAGE with content-length ends with a NUL."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    sent = [b"one", b"\x00two\x00", b"three"]
    frames = [
        f"SEND\ndestination:{queue.name}\n{''.join(f'{k}:{v}{chr(10)}' for k, v in queue.send_headers)}"  # noqa: E501
        f"content-length:{len(body)}\n\n".encode()
        + body
        + b"\x00"
        for body in sent
    ]
    peer.write(b"".join(frames))
    received = [peer.message(proves=NUL_AFTER_BODY[version]).body for _ in sent]
    detail = f"{sent!r} was sent and {received!r} arrived"
    target.record_finding(NUL_AFTER_BODY[version], received == sent, detail)


@case(NUL_ENDS_BODY)
def test_without_content_length_the_first_nul_ends_the_frame(target: Bench) -> None:
    """A 1.0 SEND without content-length is followed immediately by another. The first NUL ends the
    first body, and both messages arrive."""
    queue, peer = target.destination(), target.stomp("1.0")
    peer.subscribe(queue)
    head = f"SEND\ndestination:{queue.name}\n{''.join(f'{k}:{v}{chr(10)}' for k, v in queue.send_headers)}\n".encode()  # noqa: E501
    peer.write(head + b"first\x00" + head + b"second\x00")
    received = [peer.message(proves=NUL_ENDS_BODY).body for _ in range(2)]
    detail = f"'first' and 'second' were sent; {listed(received)} arrived"
    target.record_finding(NUL_ENDS_BODY, received == [b"first", b"second"], detail)
