"""STOMP: a CONNECT and a few frames of a grammar with deliberate mistakes.

A transcript omits details that brokers may choose: ids, texts, additional headers. An ERROR ends a
transcript; the ``stomp.errors`` suite judges whether the connection then closes.
"""

import random
import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.protocols.stomp import codec
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.suites.interop.differential import grammar
from brokerproof.suites.interop.differential.grammar import Conversation, Grammar

QUIET_S, PATIENT_S = 0.1, 0.6
"""Seconds without a byte that count as silence: in the search, and when a cluster is confirmed."""
AFTER_RECEIPT_S = 0.02, 0.3
"""Wait for this silence after a receipt; then everything sent before it has arrived."""
ABSENT = "(absent)"


@dataclass(frozen=True)
class Step(grammar.Step):
    """One frame. Placeholders in its values: ``{queue}``, ``{host}``, ``{ack}``, ``{message}``."""

    command: str
    headers: tuple[tuple[str, str], ...] = ()
    body: bytes = b""
    raw: bytes | None = None
    """Bytes in place of a frame."""


# --- the grammar ----------------------------------------------------------------------------------

CONNECTS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("without host", {"host": ABSENT}),
    ("without heart-beat", {"heart-beat": ABSENT}),
    ("heart-beat:0", {"heart-beat": "0"}),
    ("heart-beat:a,b", {"heart-beat": "a,b"}),
    ("heart-beat:-1,0", {"heart-beat": "-1,0"}),
    ("several versions", {"accept-version": "1.0,1.1,1.2"}),
    ("an unknown version", {"accept-version": "9.9"}),
    ("an unknown version beside", {"accept-version": "9.9,{version}"}),
    ("without accept-version", {"accept-version": ABSENT}),
    ("with client-id", {"client-id": "differential-{name}"}),
)
SENDS: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("without destination", {"destination": ABSENT}),
    ("an empty destination", {"destination": ""}),
    ("content-length:0", {"content-length": "0"}),
    ("content-length:-1", {"content-length": "-1"}),
    ("content-length:x", {"content-length": "x"}),
    ("a shorter content-length", {"content-length": "2"}),
    ("an unknown transaction", {"transaction": "nobody"}),
    ("an empty transaction", {"transaction": ""}),
    ("in t", {"transaction": "t"}),
    ("expires:x", {"expires": "x"}),
    ("expires:-1", {"expires": "-1"}),
    ("priority:x", {"priority": "x"}),
    ("priority:11", {"priority": "11"}),
    ("persistent:maybe", {"persistent": "maybe"}),
    ("a header that needs escapes", {"k:e\ny": "v:a\\l"}),
    ("an empty receipt", {"receipt": ""}),
)
SUBSCRIBES: tuple[tuple[str, Mapping[str, str]], ...] = (
    ("without id", {"id": ABSENT}),
    ("an empty id", {"id": ""}),
    ("without destination", {"destination": ABSENT}),
    ("an empty destination", {"destination": ""}),
    ("ack:maybe", {"ack": "maybe"}),
    ("ack:client", {"ack": "client"}),
    ("ack:client-individual", {"ack": "client-individual"}),
    ("without ack", {"ack": ABSENT}),
    ("a bad selector", {"selector": "a = = 1"}),
    ("prefetch-count:x", {"prefetch-count": "x"}),
)
LITERAL = (
    Step("an unknown command", "", raw=b"WIBBLE\n\n\0"),
    Step("a command in small letters", "", raw=b"send\ndestination:{queue}\n\nx\0"),
    Step("ends of line", "", raw=b"\n\n\n"),
    Step("a NUL before SEND", "", raw=b"\0SEND\ndestination:{queue}\nreceipt:{receipt}\n\nx\0"),
    Step("a header line without colon", "", raw=b"SEND\ndestination:{queue}\nnothing\n\nx\0"),
    Step("an empty header name", "", raw=b"SEND\ndestination:{queue}\n:v\n\nx\0"),
    Step("an undefined escape", "", raw=b"SEND\ndestination:{queue}\nk:a\\tb\n\nx\0"),
    Step("a backslash at the end", "", raw=b"SEND\ndestination:{queue}\nk:a\\\n\nx\0"),
    Step("a body on BEGIN", "", raw=b"BEGIN\ntransaction:b\nreceipt:{receipt}\n\nbody\0"),
    Step("header bytes that are not UTF-8", "", raw=b"SEND\ndestination:{queue}\nk:\xff\n\nx\0"),
    Step("MESSAGE from the client", "", raw=b"MESSAGE\ndestination:{queue}\n\nx\0"),
    Step("repeated destination", "", raw=b"SEND\ndestination:{queue}\ndestination:x\n\nx\0"),
)


def frame(label: str, command: str, headers: Mapping[str, str], body: bytes = b"") -> Step:
    """Return a step without its absent headers, and with a receipt unless it already has one."""
    given = {"receipt": "{receipt}", **headers} if command not in ("CONNECT", "STOMP") else headers
    pairs = tuple((name, value) for name, value in given.items() if value != ABSENT)
    return Step(label, command, pairs, body)


def conversation(draw: random.Random) -> Conversation:
    """Return a conversation of the grammar; half of its frames are correct."""
    version = draw.choice(codec.VERSIONS)

    def mistake(choices: Sequence[tuple[str, Mapping[str, str]]]) -> tuple[str, Mapping[str, str]]:
        return ("", {}) if draw.random() < 0.5 else draw.choice(choices)

    label, changed = ("", {}) if draw.random() < 0.8 else draw.choice(CONNECTS)
    command = draw.choice(("CONNECT", "CONNECT", "STOMP"))
    opening = {
        "accept-version": "{version}",
        "host": "{host}",
        "login": "{login}",
        "passcode": "{passcode}",
        "heart-beat": "0,0",
        **changed,
    }
    steps = [frame(f"{command} {label}".strip(), command, opening)]
    names: set[str] = set()  # s for the subscription and t for the transaction, while in use
    for _ in range(draw.randint(1, 5)):
        kind = draw.choice(
            ("SEND", "SEND", "SUBSCRIBE", "SUBSCRIBE", "ACK", "tx", "end", "literal")
        )
        if kind == "SEND":
            label, changed = mistake(SENDS)
            headers = {"destination": "{queue}", **changed}
            label = f"SEND {label}".strip() + (
                " not begun" if label == "in t" and "t" not in names else ""
            )
            if label == "SEND expires:-1":
                names.add("expired")
            steps.append(frame(label, "SEND", headers, b"body"))
        elif kind == "SUBSCRIBE":
            label, changed = mistake(SUBSCRIBES)
            headers = {"destination": "{queue}", "id": "s", "ack": "client", **changed}
            label = f"SUBSCRIBE {label}".strip() + (" again" if headers["id"] in names else "")
            label += " behind expires:-1" if "expired" in names else ""
            names.add(headers["id"])
            steps.append(frame(label, "SUBSCRIBE", headers))
        elif kind == "ACK":
            steps.append(acknowledgement(draw, version))
        elif kind == "tx":
            command = draw.choice(("BEGIN", "BEGIN", "COMMIT", "ABORT"))
            name = draw.choice(("t", "t", "t", "nobody", "", ABSENT))
            label = f"{command} {name}" + (" in use" if name in names else "")
            names = names | {"t"} if command == "BEGIN" and name == "t" else names - {"t"}
            steps.append(frame(label, command, {"transaction": name}))
        elif kind == "end":
            command = draw.choice(("UNSUBSCRIBE", "UNSUBSCRIBE", "DISCONNECT", "CONNECT"))
            headers = {"id": draw.choice(("s", "s", "nobody", ABSENT))}
            headers = headers if command == "UNSUBSCRIBE" else {}
            name = headers.get("id", "")
            label = f"{command} {name}".strip() + (" in use" if name in names else "")
            names.discard(name)
            steps.append(frame(label, command, headers))
        else:
            steps.append(draw.choice(LITERAL))
    return Conversation(version, tuple(steps))


def acknowledgement(draw: random.Random, version: str) -> Step:
    """Return an ACK or NACK of the last message, of no message, or of an unknown one."""
    command = draw.choice(("ACK", "NACK"))
    name = draw.choice(("the last", "the last", "nobody", ABSENT, "the last in nobody"))
    value = "{ack}" if name.startswith("the last") else name
    headers = {"id": value} if version == "1.2" else {"message-id": value}
    if version != "1.2":
        headers["subscription"] = "s"
    if name.endswith("in nobody"):
        headers["transaction"] = "nobody"
    return frame(f"{command} {name}", command, headers)


# --- playing a conversation -----------------------------------------------------------------------


class StompPlayer:
    """Plays conversations on one broker."""

    def __init__(self, target: SocketTarget) -> None:
        self.endpoint = target.endpoints["stomp"]
        parameters = target.identity.profile.parameters
        self._destination = str(parameters["anycast_destination"])
        self._values = {
            "host": str(parameters["stomp_host"]),
            "login": target.identity.login or "",
            "passcode": target.identity.passcode or "",
        }
        self._routing = {
            command: _pair(str(parameters.get(f"anycast_{command.lower()}_headers", "")))
            for command in ("SEND", "SUBSCRIBE")
        }

    def play(self, conversation: Conversation, name: str, patient: bool) -> list[str]:
        """Return the answers to each step, up to the first ERROR or close."""
        queue = self._destination.replace("{name}", f"differential.{name}")
        values = {**self._values, "queue": queue, "name": name, "version": conversation.version}
        reader = codec.Reader(conversation.version)
        answers = []
        with socket.create_connection(self.endpoint, timeout=5) as connection:
            for number, step in enumerate(conversation.steps):
                assert isinstance(step, Step)
                values["receipt"] = f"r{number}"
                data = self._encoded(step, values, conversation.version)
                answers.append(_exchange(connection, data, reader, values, patient))
                if answers[-1] in ("ERROR", "closed"):
                    break
        return answers

    def _encoded(self, step: Step, values: Mapping[str, str], version: str) -> bytes:
        if step.raw is not None:
            raw = step.raw
            for name in ("queue", "receipt"):
                raw = raw.replace(b"{%b}" % name.encode(), values[name].encode())
            return raw
        headers = [(name, _filled(value, values)) for name, value in step.headers]
        headers += self._routing.get(step.command, ())
        return codec.encode(step.command, headers, step.body, version=version)


def _pair(text: str) -> tuple[tuple[str, str], ...]:
    name, colon, value = text.partition(":")
    return ((name, value),) if colon else ()


def _filled(text: str, values: Mapping[str, str]) -> str:
    for name, value in values.items():
        text = text.replace(f"{{{name}}}", value)
    return text.replace("{ack}", "nothing")


def _exchange(
    connection: socket.socket,
    data: bytes,
    reader: codec.Reader,
    values: dict[str, str],
    patient: bool,
) -> str:
    """Send a frame and return the answers, sorted, because a message may overtake a receipt."""
    answers = []
    quiet = PATIENT_S if patient else QUIET_S
    try:
        connection.sendall(data)
        connection.settimeout(quiet)
        while received := connection.recv(1 << 16):
            for item in reader.feed(received):
                if isinstance(item, codec.Frame):
                    answers.append(_normalised(item))
                    _remember(item, values)
                    if item.command == "ERROR":
                        return "ERROR"
                    if item.command in ("RECEIPT", "CONNECTED"):
                        connection.settimeout(AFTER_RECEIPT_S[patient])
                elif isinstance(item, codec.Unreadable):
                    answers.append("unreadable")
        answers.append("closed")
    except TimeoutError:
        pass
    except OSError:
        answers.append("closed")
    if "closed" in answers:
        return "closed"
    return " ".join(sorted(answers)) or "silence"


def _normalised(frame: codec.Frame) -> str:
    match frame.command:
        case "CONNECTED":
            return f"CONNECTED({frame.get('version', 'no version')})"
        case "MESSAGE":
            return f"MESSAGE({frame.body.decode('utf-8', 'replace')})"
        case command:
            return command


def _remember(frame: codec.Frame, values: dict[str, str]) -> None:
    if frame.command == "MESSAGE":
        values["ack"] = frame.get("ack") or frame.get("message-id") or ""


def kind(answer: str) -> str:
    """Return RECEIPT for any confirming answer, whatever messages accompany it."""
    return "RECEIPT" if answer.endswith("RECEIPT") else answer


GRAMMAR = Grammar(
    codec.VERSIONS, conversation, StompPlayer, Path(__file__).with_suffix(".toml"), kind
)
