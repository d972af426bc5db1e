"""A grammar of malformed frames. Each kind is one way to break a client's frame."""

from collections.abc import Callable
from dataclasses import dataclass

from hypothesis import strategies as st

from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.stomp.byte_steps import raw_frame, raw_line

VERSIONS = frozenset({"1.0", "1.1", "1.2"})
ESCAPING = VERSIONS - {"1.0"}


@dataclass(frozen=True)
class Malformation:
    """A kind of malformed frame. ``data`` returns its bytes for a destination and a version."""

    name: str
    data: Callable[[Destination, str], bytes]
    versions: frozenset[str] = VERSIONS
    """The versions in which the frame is malformed, or at least unusual."""


def send(
    *lines: bytes, body: bytes = b"evil", eol: bytes = b"\n"
) -> Callable[[Destination, str], bytes]:
    """Return a SEND to a valid destination with these additional lines."""

    def encoded(to: Destination, version: str) -> bytes:
        named = [
            raw_line("destination", to.name, version),
            *(raw_line(*header, version) for header in to.send_headers),
        ]
        return raw_frame("SEND", [*named, *lines], body, eol=eol)

    return encoded


def literally(data: bytes) -> Callable[[Destination, str], bytes]:
    return lambda to, version: data


def command(text: str) -> Callable[[Destination, str], bytes]:
    """Return a SEND that is valid except for its command."""
    return lambda to, version: send()(to, version).replace(b"SEND", text.encode(), 1)


KINDS = (
    Malformation("an unknown command", literally(b"HELLO\n\n\x00")),
    Malformation("a command in small letters", command("send")),
    Malformation("a blank before the command", command(" SEND")),
    Malformation("a blank after the command", command("SEND ")),
    Malformation("a command with letters after it", command("SENDING")),
    Malformation("a command cut short", command("SEN")),
    Malformation("a command that is not UTF-8", literally(b"S\xff\xfeND\n\n\x00")),
    Malformation("a command of a thousand letters", literally(b"A" * 1000 + b"\n\n\x00")),
    Malformation("no command, only headers", literally(b"destination:x\n\nbody\x00")),
    Malformation("a NUL alone", literally(b"\x00")),
    Malformation("NULs in a row", literally(b"\x00" * 20)),
    Malformation("bytes that form no command", literally(bytes(range(255, 0, -1)) + b"\x00\n\x00")),
    Malformation("an HTTP request", literally(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")),
    Malformation(
        "a MESSAGE from a client",
        literally(b"MESSAGE\ndestination:x\nmessage-id:1\nsubscription:0\n\nbody\x00"),
    ),
    Malformation("CONNECTED from a client", literally(b"CONNECTED\nversion:1.2\n\n\x00")),
    Malformation("ERROR from a client", literally(b"ERROR\nmessage:no\n\nno\x00")),
    Malformation(
        "a second CONNECT", literally(b"CONNECT\naccept-version:1.0,1.1,1.2\nhost:x\n\n\x00")
    ),
    Malformation("a header without a colon", send(b"no colon in here")),
    Malformation("a header without a name", send(b":value")),
    Malformation("a header that is a colon", send(b":")),
    Malformation("a header that is not UTF-8", send(b"x-word:\xff\xfe\xc3\x28"), ESCAPING),
    Malformation("a header name that is not UTF-8", send(b"x-\xff:value"), ESCAPING),
    Malformation("a raw colon in a value", send(b"x-word:a:b"), ESCAPING),
    Malformation("a CR within a value", send(b"x-word:a\rb"), frozenset({"1.2"})),
    Malformation("two CRs before an LF", send(b"x-word:a\r\r"), frozenset({"1.2"})),
    Malformation("lines that end with CR alone", send(eol=b"\r")),
    Malformation("lines that end with CR LF", send(eol=b"\r\n"), frozenset({"1.0", "1.1"})),
    Malformation("an undefined escape", send(b"x-word:a\\tb"), ESCAPING),
    Malformation("an undefined escape in a name", send(b"x-\\t:a"), ESCAPING),
    Malformation("a backslash at the end of a line", send(b"x-word:a\\"), ESCAPING),
    Malformation("a content-length in letters", send(b"content-length:four")),
    Malformation("an empty content-length", send(b"content-length:")),
    Malformation("a negative content-length", send(b"content-length:-1")),
    Malformation("a content-length with a fraction", send(b"content-length:4.0")),
    Malformation("a content-length of 30 digits", send(b"content-length:" + b"9" * 30)),
    Malformation("a content-length that is too small", send(b"content-length:1")),
    Malformation("a SEND without destination", literally(b"SEND\n\nbody\x00")),
    Malformation("a SUBSCRIBE without headers", literally(b"SUBSCRIBE\n\n\x00")),
    Malformation("an UNSUBSCRIBE without headers", literally(b"UNSUBSCRIBE\n\n\x00")),
    Malformation("an ACK without headers", literally(b"ACK\n\n\x00")),
    Malformation(
        "an ACK of an unknown message",
        literally(b"ACK\nid:none\nmessage-id:none\nsubscription:none\n\n\x00"),
    ),
    Malformation("a NACK without headers", literally(b"NACK\n\n\x00")),
    Malformation("a BEGIN without headers", literally(b"BEGIN\n\n\x00")),
    Malformation("a COMMIT without headers", literally(b"COMMIT\n\n\x00")),
    Malformation(
        "a COMMIT of an unknown transaction", literally(b"COMMIT\ntransaction:none\n\n\x00")
    ),
    Malformation(
        "an ABORT of an unknown transaction", literally(b"ABORT\ntransaction:none\n\n\x00")
    ),
    Malformation("a BEGIN with a body", literally(b"BEGIN\ntransaction:t\n\nbody\x00"), ESCAPING),
    Malformation(
        "an unknown ack mode", literally(b"SUBSCRIBE\ndestination:x\nid:1\nack:sometimes\n\n\x00")
    ),
)


def some_kinds() -> st.SearchStrategy[list[Malformation]]:
    """Draw a few of the kinds; the caller skips those that the version allows."""
    return st.lists(
        st.sampled_from(KINDS),
        min_size=3,
        max_size=6,
        unique_by=lambda malformation: malformation.name,
    )
