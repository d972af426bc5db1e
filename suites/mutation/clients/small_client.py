"""A small STOMP client and its driver, without sockets or a clock, into which faults are seeded.

It does only what the specifications require. Each of its habits is a separate method or constant,
so that a style or a fault can replace just that one.
"""

from collections.abc import Iterator
from typing import Any

from brokerproof.harness.model.time import Instant, ms
from brokerproof.suites.mutation.clients.sans_io import SansIoClient

Headers = list[tuple[str, str]]

ESCAPES = {
    "1.0": {},
    "1.1": {"\\": "\\\\", "\n": "\\n", ":": "\\c"},
    "1.2": {"\\": "\\\\", "\n": "\\n", ":": "\\c", "\r": "\\r"},
}


class Fatal(Exception):
    """The server sent something after which a client must not continue."""


class SmallClient(SansIoClient):
    """A STOMP client for any version."""

    def __init__(self) -> None:
        super().__init__()
        self.version = "1.2"
        self.pending = b""

    # heartbeats

    def agree(self, connected: dict[str, str]) -> None:
        theirs = connected.get("heart-beat")
        can, wanted = (0, 0) if theirs is None else map(int, theirs.split(","))
        cx, cy = self.connecting["heart_beat"]
        self.sends_every = ms(max(cx, wanted)) if cx and wanted else 0
        self.awaits_every = ms(max(cy, can)) if cy and can else 0

    def beat(self) -> None:
        self.write(b"\n")

    def do_connect(self, **fields: Any) -> None:
        self.connecting = fields
        self.version = fields["version"]
        self.connected = self.leaving = False
        self.pending = b""
        self.report("dials")

    def dialled(self) -> None:
        self.send_frame("CONNECT", self.connect_headers())

    def connect_headers(self) -> Headers:
        about = self.connecting
        headers = [("login", about["login"]), ("passcode", about["passcode"])]
        if self.version != "1.0":
            headers += [("accept-version", self.version), ("host", about["vhost"])]
            headers += [("heart-beat", "{},{}".format(*about["heart_beat"]))]
        return headers

    def do_subscribe(self, destination: str, id: str, ack: str) -> None:
        self.send_frame("SUBSCRIBE", [("destination", destination), ("id", id), ("ack", ack)])

    def do_unsubscribe(self, id: str, destination: str) -> None:
        self.send_frame("UNSUBSCRIBE", [("id", id)])

    def do_send(
        self,
        destination: str,
        body: str | bytes,
        headers: dict[str, str] | None = None,
        content_type: str | None = None,
        transaction: str | None = None,
    ) -> None:
        data = body.encode() if isinstance(body, str) else body
        fields = [("destination", destination), *(headers or {}).items()]
        if content_type is not None:
            fields.append(("content-type", content_type))
        if transaction is not None:
            fields.append(("transaction", transaction))
        self.send_frame("SEND", [*fields, *self.length(data)], data)

    def length(self, body: bytes) -> Headers:
        return [("content-length", str(len(body)))]

    def do_ack(self, message: int, transaction: str | None = None) -> None:
        self.settle("ACK", message, transaction)

    def do_nack(self, message: int, transaction: str | None = None) -> None:
        self.settle("NACK", message, transaction)

    def settle(self, command: str, message: int, transaction: str | None) -> None:
        headers = self.naming(self.as_mapping(self.received[message - 1]))
        if transaction is not None:
            headers.append(("transaction", transaction))
        self.send_frame(command, headers)

    def naming(self, message: dict[str, str]) -> Headers:
        if self.version == "1.2":
            return [("id", message["ack"])]
        named = [("message-id", message["message-id"])]
        return (
            [*named, ("subscription", message["subscription"])] if self.version == "1.1" else named
        )

    def do_begin(self, transaction: str) -> None:
        self.send_frame("BEGIN", [("transaction", transaction)])

    def do_commit(self, transaction: str) -> None:
        self.send_frame("COMMIT", [("transaction", transaction)])

    def do_abort(self, transaction: str) -> None:
        self.send_frame("ABORT", [("transaction", transaction)])

    def do_disconnect(self) -> None:
        self.leaving = True
        self.send_frame("DISCONNECT", [("receipt", "bye")])

    # the wire's side: writing

    line_end = b"\n"

    def send_frame(self, command: str, headers: Headers, body: bytes = b"") -> None:
        lines = [command.encode()]
        for name, value in headers:
            quoted = (command == "CONNECT" and (name, value)) or (
                self.escape(name),
                self.escape(value),
            )
            lines.append(":".join(quoted).encode())
        self.write(self.line_end.join([*lines, b"", b""]) + body + b"\0")

    def escape(self, text: str) -> str:
        return text.translate(str.maketrans(ESCAPES[self.version]))

    # the wire's side: reading

    def receive(self, data: bytes) -> None:
        self.heard(data)
        self.pending += data
        try:
            for command, headers, body in self.frames():
                self.take(command, headers, body)
        except Fatal as problem:
            self.report("error", headers={}, body=str(problem))
            self.end()

    def frames(self) -> Iterator[tuple[str, Headers, bytes]]:
        """Return the complete frames."""
        while True:
            self.pending = self.pending.lstrip(b"\r\n")
            head, blank, rest = self.pending.replace(b"\r\n", b"\n").partition(b"\n\n")
            if not blank:
                return
            head, rest = self.split_head()
            command, *lines = head.decode().split("\n")
            headers = [self.header(command, line) for line in lines]
            length = self.body_length(headers, rest)
            if length is None or len(rest) <= length:
                return
            self.pending = rest[length + 1 :]
            yield command, headers, rest[:length]

    def split_head(self) -> tuple[bytes, bytes]:
        """Return the lines before the body, without CR in 1.2, and the rest after the empty
        line."""
        for blank in (b"\n\n", b"\n\r\n"):
            head, found, rest = self.pending.partition(blank)
            if found and (blank != b"\n\n" or b"\n\r\n" not in head):
                return (head.replace(b"\r\n", b"\n").removesuffix(b"\r"), rest)
        return self.pending, b""

    def body_length(self, headers: Headers, rest: bytes) -> int | None:
        named = dict(reversed(headers)).get("content-length")
        if named is not None:
            return int(named)
        return rest.index(b"\0") if b"\0" in rest else None

    def header(self, command: str, line: str) -> tuple[str, str]:
        name, _, value = line.partition(":")
        if command == "CONNECTED":
            return name, value
        return self.unescape(name), self.unescape(value)

    def unescape(self, text: str) -> str:
        known = {written[1]: meant for meant, written in ESCAPES[self.version].items()}
        if not known:
            return text
        letters, parts = iter(text), []
        for letter in letters:
            if letter == "\\":
                letter = self.unescaped(known, next(letters, ""))
            parts.append(letter)
        return "".join(parts)

    def unescaped(self, known: dict[str, str], letter: str) -> str:
        if letter not in known:
            raise Fatal(f"undefined escape \\{letter}")
        return known[letter]

    def take(self, command: str, headers: Headers, body: bytes) -> None:
        first = self.as_mapping(headers)
        match command:
            case "CONNECTED":
                self.connected, self.heard_at = True, self.now
                self.agree(first)
                self.report("connected", headers=first)
            case "MESSAGE" if not self.leaving:
                self.hand_out(headers, body)
            case "RECEIPT":
                self.report("receipt", id=first.get("receipt-id"))
                if self.leaving:
                    self.end()
            case "ERROR":
                self.report("error", headers=first, body=body.decode())
                self.end()
            case _:
                pass

    def as_mapping(self, headers: Headers) -> dict[str, str]:
        return dict(reversed(headers))

    def headers_of(self, about: Headers) -> dict[str, str]:
        return self.as_mapping(about)


# Honest clients in other styles, of which no case may report a violation.


class Eager(SmallClient):
    """A client that sends heartbeats three times as often as agreed and, if allowed, ends its lines
    with CR LF."""

    def beat_due(self) -> Instant | None:
        due = super().beat_due()
        return None if due is None else due - 2 * self.sends_every // 3

    def connect_headers(self) -> Headers:
        return [("x-style", "eager"), *super().connect_headers()]

    def send_frame(self, command: str, headers: Headers, body: bytes = b"") -> None:
        self.line_end = b"\r\n" if self.version == "1.2" else b"\n"
        super().send_frame(command, headers, body)


class Trusting(SmallClient):
    """A client that never leaves a silent server, and that lists all known versions, its preferred
    one last."""

    patience = 0

    def connect_headers(self) -> Headers:
        known = [version for version in ESCAPES if version <= self.version]
        return [
            (name, ",".join(known) if name == "accept-version" else value)
            for name, value in super().connect_headers()
        ]

    def do_subscribe(self, destination: str, id: str, ack: str) -> None:
        mode = [] if ack == "auto" else [("ack", ack)]
        self.send_frame("SUBSCRIBE", [("id", id), ("destination", destination), *mode])


STYLES = {"small": SmallClient, "eager": Eager, "trusting": Trusting}
