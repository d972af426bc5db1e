"""Encodes frames: escaping per version, and MESSAGE frames made of cached parts.

A MESSAGE consists of the subscription's own beginning (encoded once per subscription), the number
of the message, and the message's headers (encoded once per envelope and version) and body. Numbers
have a fixed width, so equal messages have frames of equal length, which keeps window arithmetic
readable. No byte follows the NUL, so the length of a frame is unambiguous.

Headers that the broker sets itself cannot be forged: a producer's entries with these names are
dropped (:data:`OURS`). All others are passed on in order, including repeated entries
(STOMP11-SEND-06, STOMP12-SEND-06).

STOMP 1.0 has no escapes, so it cannot carry a line end in a header or a colon in a header's name.
Such headers, which only producers of later versions can send, are omitted for 1.0 subscribers.
"""

import re

from brokerproof.reference_broker.kernel.message import Envelope, Message
from brokerproof.reference_broker.protocols.stomp.frame import Headers, Version

OURS = frozenset(
    {
        "destination",
        "message-id",
        "subscription",
        "ack",
        "redelivered",
        "content-length",
        "receipt",
        "transaction",
    }
)
"""Headers of a SEND that are not passed on: the broker sets them, or only the broker needs them."""

_PLAIN_LINE = re.compile(r"[^:\r\n\\]*:[^:\r\n\\]*\n")
"""A header line that needs no escapes in any version."""
_ESCAPES = {
    None: {},
    Version.V1_0: {},
    Version.V1_1: str.maketrans({"\\": "\\\\", "\n": "\\n", ":": "\\c"}),
    Version.V1_2: str.maketrans({"\\": "\\\\", "\n": "\\n", "\r": "\\r", ":": "\\c"}),
}


class FrameEncoder:
    """Encodes frames for one version. None: no version is agreed on yet, nothing is escaped."""

    def __init__(self, version: Version | None) -> None:
        self._escapes = _ESCAPES[version]
        self._key = f"stomp {version}"
        self._length_always = version is not Version.V1_0

    def header(self, name: str, value: str) -> bytes:
        """Return one header line with its line end, or nothing if this version cannot carry it."""
        line = f"{name}:{value}\n"
        if _PLAIN_LINE.fullmatch(line):
            return line.encode()
        if self._escapes:
            return f"{name.translate(self._escapes)}:{value.translate(self._escapes)}\n".encode()
        if "\n" in name or "\n" in value or ":" in name:
            return b""
        return line.encode()

    def frame(self, command: str, headers: Headers, body: bytes = b"") -> bytes:
        """Return a whole frame. CONNECTED is never escaped (STOMP11-ENC-03, STOMP12-ENC-03)."""
        if command == "CONNECTED":
            lines = b"".join(f"{name}:{value}\n".encode() for name, value in headers)
        else:
            lines = b"".join(self.header(name, value) for name, value in headers)
        return b"%b\n%b\n%b\0" % (command.encode(), lines, body)

    def receipt(self, receipt: str) -> bytes:
        return b"RECEIPT\n%b\n\0" % self.header("receipt-id", receipt)

    def message(self, opening: bytes, message: Message, ack: bytes, redelivered: bool) -> bytes:
        """Return a MESSAGE. ``opening`` comes from :meth:`opening`; ``ack`` is a whole header line
        or empty.

        For a large message, the result ends before the body, which is sent separately with its NUL.
        """
        envelope = message.envelope
        headers = envelope.wire.get(self._key)
        if headers is None:
            headers = envelope.wire[self._key] = self._headers(envelope)
        if redelivered:
            ack += b"redelivered:true\n"
        body = message.body
        if message.large is not None:
            length = (
                b"content-length:%d\n" % len(body)
                if self._length_always or not envelope.text
                else b""
            )
            return b"%b%010d\n%b%b%b\n" % (opening, message.number, ack, headers, length)
        if (self._length_always and body) or not envelope.text:
            return b"%b%010d\n%b%bcontent-length:%d\n\n%b\0" % (
                opening,
                message.number,
                ack,
                headers,
                len(body),
                body,
            )
        return b"%b%010d\n%b%b\n%b\0" % (opening, message.number, ack, headers, body)

    def opening(self, consumer: int, subscription: str | None) -> bytes:
        """Return the part of a MESSAGE for one subscription that precedes the message's number."""
        line = b"" if subscription is None else self.header("subscription", subscription)
        return b"MESSAGE\n%bmessage-id:%06d," % (line, consumer)

    def _headers(self, envelope: Envelope) -> bytes:
        lines = [self.header("destination", envelope.destination)]
        lines += [self.header(name, text) for name, text in envelope.headers if name not in OURS]
        return b"".join(lines)
