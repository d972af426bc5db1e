"""SEND: what it needs, what becomes of the application's headers and of the body, and how a failed
one is answered."""

from __future__ import annotations

from hypothesis import strategies as st

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import case, over
from brokerproof.harness.targets.target import Target
from brokerproof.suites.steps.refusals import bystander, refused

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
    """A name of 1002 octets, or as long as this family documents: a server may have limits
    (STOMP12-LIMIT-01)."""
    return f"x-{'n' * 1000}"[
        : int(target.identity.profile.parameters.get("stomp_header_name_limit", 1002))
    ]


octets = st.one_of(
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


@case(
    {
        "1.0": ("STOMP10-SEND-01",),
        "1.1": ("STOMP11-SEND-01", "STOMP11-SEND-07"),
        "1.2": ("STOMP12-SEND-01", "STOMP12-FH-03", "STOMP12-SEND-07"),
    }
)
def test_a_send_without_a_destination_is_refused(target: Bench, version: str) -> None:
    """SEND comes without the header destination. It must not be confirmed; from 1.1 on the answer
    is an ERROR and the end of the connection. The same frame with a destination is accepted
    before."""
    needed, answered = (
        (target.cited, ()) if version == "1.0" else (target.cited[:-1], target.cited[-1:])
    )
    with bystander(target, version):
        peer = target.stomp(version)
        peer.publish(target.destination(), b"with a destination")
        refused(
            target,
            peer,
            "SEND",
            {"content-length": 7},
            b"nowhere",
            refuses=needed,
            answers=answered,
        )


@case({"1.1": "STOMP11-SEND-07", "1.2": "STOMP12-SEND-07"}, needs={"transactions"})
def test_a_send_in_a_transaction_that_was_never_begun_is_refused(
    target: Bench, version: str
) -> None:
    """SEND names a transaction that no BEGIN has started, so the server cannot do what it asks:
    neither now nor at a COMMIT. The answer must be an ERROR and the end of the connection, not a
    RECEIPT."""
    queue = target.destination()
    with bystander(target, version):
        peer = target.stomp(version)
        peer.request("BEGIN", {"transaction": "known"})
        peer.publish(queue, b"accepted", {"transaction": "known"}, receipt=False)
        peer.settle()
        fields = (("destination", queue.name), *queue.send_headers, ("transaction", "never begun"))
        refused(target, peer, "SEND", fields, b"lost", refuses=(), answers=target.cited)


@case(
    {
        "1.1": ("STOMP11-SEND-06", "STOMP11-MSG-06"),
        "1.2": ("STOMP12-SEND-06", "STOMP12-MSG-08", "STOMP12-FH-12", "STOMP12-FH-13"),
    }
)
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
    """A SEND carries headers that the application made up, with values of many kinds. The MESSAGE
    has each of them with the same value, whatever the server adds."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    peer.publish(queue, b"body", headers)
    message = peer.message(proves=target.cited[0])
    wrong = {
        name: (value, message.get(name))
        for name, value in headers.items()
        if message.get(name) != value
    }
    target.record_finding(
        target.cited,
        not wrong,
        "; ".join(
            f"{name} was sent as {was!r} and came as {came!r}"
            for name, (was, came) in wrong.items()
        )
        or f"all {len(headers)} headers came as they were sent",
    )


@case(
    {
        "1.0": ("STOMP10-MESSAGE-04", "STOMP10-SEND-05"),
        "1.1": "STOMP11-HDR-03",
        "1.2": "STOMP12-HDR-03",
    }
)
@over(
    examples=60,
    always=lambda target: [{"body": each} for each in (b"\n", b"\n\n\x00\n", b"\x00")],
    body=octets,
)
def test_the_body_comes_out_octet_for_octet(target: Bench, version: str, body: bytes) -> None:
    """A SEND with content-length carries any octets, NUL and ends of line among them. The MESSAGE
    has the same body."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    peer.publish(queue, body)
    message = peer.message(proves=target.cited)
    target.record_finding(
        target.cited,
        message.body == body,
        f"{len(body)} octets were sent, {len(message.body)} came, "
        f"{'the same' if message.body == body else f'and they differ: {message.body[:40]!r} for {body[:40]!r}'}",  # noqa: E501
    )


@case({"1.1": "STOMP11-HDR-02", "1.2": "STOMP12-HDR-06"})
def test_a_message_with_nul_octets_has_a_content_length(target: Bench, version: str) -> None:
    """A body with NUL octets is sent. Without content-length a client could not find its end, so
    the MESSAGE must have the header, with the right number."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    peer.publish(queue, b"before\x00after")
    message = peer.message(proves=target.cited)
    length = message.get("content-length")
    target.record_finding(
        target.cited, length == "12", f"the body has 12 octets, content-length is {length!r}"
    )


@case({"1.0": "STOMP10-SEND-06", "1.1": "STOMP11-HDR-04", "1.2": "STOMP12-HDR-04"})
def test_the_nul_behind_a_counted_body_belongs_to_the_frame(target: Bench, version: str) -> None:
    """Three SENDs with content-length are written as one run of octets, each closed by its NUL and
    nothing else. Each comes out with its own body, and every MESSAGE with content-length ends with
    a NUL too."""
    queue, peer = target.destination(), target.stomp(version)
    peer.subscribe(queue)
    sent = [b"one", b"\x00two\x00", b""]
    frames = [
        f"SEND\ndestination:{queue.name}\n{''.join(f'{k}:{v}{chr(10)}' for k, v in queue.send_headers)}"  # noqa: E501
        f"content-length:{len(body)}\n\n".encode()
        + body
        + b"\x00"
        for body in sent
    ]
    peer.write(b"".join(frames))
    came = [peer.message(proves=target.cited).body for _ in sent]
    target.record_finding(target.cited, came == sent, f"sent {sent!r}, came {came!r}")


@case("STOMP10-SEND-07")
def test_without_content_length_the_first_nul_ends_the_frame(target: Bench) -> None:
    """In 1.0, a SEND without content-length is followed at once by another. The first NUL ends the
    first body, and the frame behind it is read as a frame."""
    queue, peer = target.destination(), target.stomp("1.0")
    peer.subscribe(queue)
    head = f"SEND\ndestination:{queue.name}\n{''.join(f'{k}:{v}{chr(10)}' for k, v in queue.send_headers)}\n".encode()  # noqa: E501
    peer.write(head + b"first\x00" + head + b"second\x00")
    came = [peer.message(proves=target.cited).body for _ in range(2)]
    target.record_finding(
        target.cited, came == [b"first", b"second"], f"sent b'first' and b'second', came {came!r}"
    )
