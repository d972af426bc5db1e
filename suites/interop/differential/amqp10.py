"""AMQP 1.0: an open and a few generated performatives with deliberate mistakes.

A transcript omits details that brokers may choose: ids, texts, additional fields, and unrequested
flows. It includes the condition of an error only if the standard names one. A conversation is over
after an error, an end or a close.
"""

import random
import socket
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from brokerproof.harness.model.enums import RoutingType
from brokerproof.harness.protocols.amqp10 import codec, messages, types
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER, Frame
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.suites.interop.differential.amqp10_mistakes import (
    ADDRESSES,
    ATTACHES,
    BEGINS,
    BODY,
    DELIVERY,
    DELIVERY_COUNT,
    FLOWS,
    LITERAL,
    NEXT_INCOMING,
    OPENS,
    PAYLOADS,
    QUEUE,
    RECEIVING,
    SENDING,
    SOURCES,
    STATES,
    TERMINI,
    TRANSFERS,
    WINDOWS,
    Mistakes,
    Step,
)
from brokerproof.suites.interop.differential.grammar import Conversation, Grammar

VERSION = "1.0"
QUIET_S, PATIENT_S = 0.15, 0.8
"""Seconds without a byte that count as silence: in the search, and when a cluster is confirmed."""
AFTER_ANSWER_S = 0.03, 0.3
"""Wait for this silence after the answer to a frame."""
LOGIN_S = 5.0
NAMED_CONDITIONS = {
    "amqp:connection:framing-error": "framing-error",
    "amqp:session:window-violation": "window-violation",
    "amqp:session:errant-link": "errant-link",
    "amqp:session:handle-in-use": "handle-in-use",
    "amqp:session:unattached-handle": "unattached-handle",
    "amqp:link:transfer-limit-exceeded": "transfer-limit-exceeded",
    "amqp:link:message-size-exceeded": "message-size-exceeded",
    "amqp:link:stolen": "stolen",
}
"""Conditions that the standard names for certain mistakes. Of others only the presence is
compared."""
ANSWERS = {
    "open": ("open",),
    "begin": ("begin",),
    "attach": ("flow", "detach"),
    "transfer": ("disposition", "detach"),
    "detach": ("detach",),
    "end": ("end",),
    "close": ("close",),
}
"""By performative, the frames that answer it completely."""


# --- the grammar ----------------------------------------------------------------------------------


OF_A_SESSION = {*WINDOWS, "next-incoming-id"}
"""Fields of a flow that concern its session."""


@dataclass
class _Books:
    """The channels, links and deliveries that a conversation has open while it is being drawn."""

    session: bool = False
    links: set[int] = field(default_factory=set)
    sent: int = 0
    behind: str = ""
    """The label of the previous transfer, if it decides the next one's label."""
    huge_credit: bool = False


def conversation(draw: random.Random) -> Conversation:
    """Return a conversation of the grammar; half of its frames are correct."""

    def mistake(choices: Mistakes, share: float = 0.5) -> tuple[str, Mapping[str, Any]]:
        return draw.choice(choices) if draw.random() < share else ("", {})

    books = _Books()
    label, changed = mistake(OPENS, 0.15)
    opening = {"container-id": "differential-{name}", "channel-max": 15, **changed}
    steps = [Step(f"open {label}".strip(), "open", opening)]
    if draw.random() < 0.95:
        steps.append(_begin(books, *mistake(BEGINS, 0.15)))
    if draw.random() < 0.7:
        steps.append(_attach(books, draw, SENDING, "", {}))
    if draw.random() < 0.5:
        if SENDING in books.links:
            steps += [_transfer(books, "", {}) for _ in range(draw.randint(1, 2))]
        steps.append(_attach(books, draw, RECEIVING, "", {}))
    for _ in range(draw.randint(1, 5)):
        steps.append(_step(books, draw, mistake))
    return Conversation(VERSION, tuple(steps))


def _step(books: _Books, draw: random.Random, mistake: Any) -> Step:
    kind = draw.choice(
        ("attach", "transfer", "transfer", "flow", "flow", "disposition", "detach", "end", "raw")
    )
    match kind:
        case "attach":
            handle = draw.choice((SENDING, RECEIVING))
            choices = draw.choice(
                (ATTACHES, ADDRESSES, TERMINI, SOURCES if handle == RECEIVING else TERMINI)
            )
            return _attach(books, draw, handle, *mistake(choices, 0.7))
        case "transfer":
            if draw.random() < 0.3:
                label, payload = draw.choice(PAYLOADS)
                return _transfer(books, label, {}, payload)
            return _transfer(books, *mistake(TRANSFERS))
        case "flow":
            return _flow(books, *mistake(FLOWS))
        case "disposition":
            return _disposition(books, *draw.choice(STATES))
        case "detach":
            return _detach(books, draw)
        case "end":
            return _end(books, draw)
    return draw.choice(LITERAL)


def _begin(books: _Books, label: str, changed: Mapping[str, Any]) -> Step:
    again = " again" if books.session else ""
    books.session = True
    fields = {**WINDOWS, **changed}
    return Step(f"begin {label}".strip() + again, "begin", fields)


def _label(books: _Books, name: str, mistake: str, handle: int | None = None) -> str:
    """Return the label of a frame for this link or for the session. A missing link or session takes
    precedence over other mistakes."""
    if not books.session:
        return f"{name} without begin"
    if handle is not None and handle not in books.links:
        return f"{name} of no link"
    return f"{name} {mistake}".strip()


def _attach(
    books: _Books, draw: random.Random, handle: int, label: str, changed: Mapping[str, Any]
) -> Step:
    role = RECEIVER if handle == RECEIVING else SENDER
    name = "receiving" if role is RECEIVER else "sending"
    near, far = ("target", "source") if role is RECEIVER else ("source", "target")
    terminus: dict[str, Any] = {"address": QUEUE}
    link: dict[str, Any] = {}
    (link if label in dict(ATTACHES) else terminus).update(changed)
    if handle in books.links:
        label = draw.choice(("again", "on a handle in use", "with a name in use"))
        link = {"name": "another"} if label == "on a handle in use" else {}
        link |= {"handle": 3} if label == "with a name in use" else {}
        terminus = {"address": QUEUE}
    books.links.add(handle)
    fields = {
        "name": name,
        "handle": handle,
        "role": role,
        near: {},
        far: terminus,
        "initial-delivery-count": 0 if role is SENDER else None,
        **link,
    }
    looks_at = next(iter(changed)) if label in dict((*TERMINI[3:], *SOURCES)) else ""
    named = _label(books, f"attach {name}", label)
    return Step(named, "attach", fields, looks_at=looks_at)


def _transfer(
    books: _Books, label: str, changed: Mapping[str, Any], payload: bytes = messages.message(BODY)
) -> Step:
    fields = {
        "handle": SENDING,
        "delivery-id": books.sent,
        "delivery-tag": b"%d" % books.sent,
        "message-format": 0,
        **changed,
    }
    if books.behind:
        label = f"behind {books.behind}"
    label = label or ("behind link-credit 2^32-1" if books.huge_credit else "")
    books.behind = label if label in ("more", "aborted", "aborted and more") else ""
    sent = changed.get("delivery-id", books.sent)
    books.sent = (sent + 1) % 2**32 if isinstance(sent, int) else books.sent + 1
    return Step(_label(books, "transfer", label, SENDING), "transfer", fields, payload)


def _flow(books: _Books, label: str, changed: Mapping[str, Any]) -> Step:
    fields = {
        "next-incoming-id": NEXT_INCOMING,
        "incoming-window": 100,
        "next-outgoing-id": books.sent,
        "outgoing-window": 100,
        "handle": RECEIVING,
        "delivery-count": DELIVERY_COUNT,
        "link-credit": 10,
        **changed,
    }
    books.huge_credit |= label == "link-credit 2^32-1"
    of_the_link = not OF_A_SESSION & set(changed) and changed.get("handle", "") is not None
    handle = RECEIVING if of_the_link else None
    return Step(
        _label(books, "flow", label, handle),
        "flow",
        fields,
        asks_for_flow=label.startswith(("echo", "drain")),
    )


def _disposition(books: _Books, label: str, changed: Mapping[str, Any]) -> Step:
    fields = {
        "role": RECEIVER,
        "first": DELIVERY,
        "settled": True,
        "state": codec.composite("accepted"),
        **changed,
    }
    return Step(_label(books, "disposition", label), "disposition", fields)


def _detach(books: _Books, draw: random.Random) -> Step:
    handle = draw.choice((SENDING, RECEIVING))
    label, changed = draw.choice(
        (
            ("closed", {"closed": True}),
            ("closed", {"closed": True}),
            ("", {}),
            ("with an error", {"closed": True, "error": "amqp:internal-error"}),
            ("without handle", {"handle": None, "closed": True}),
            ("closed as a uint", {"closed": types.uint(1)}),
        )
    )
    name = "receiving" if handle == RECEIVING else "sending"
    named = _label(books, f"detach {name}", label, handle)
    books.links.discard(handle)
    return Step(named, "detach", {"handle": handle, **changed})


def _end(books: _Books, draw: random.Random) -> Step:
    kind = draw.choice(("begin", "begin", "end", "close"))
    if kind == "begin":
        return _begin(books, "", {})
    label, changed = draw.choice((("", {}), ("with an error", {"error": "amqp:internal-error"})))
    named = _label(books, "end", label) if kind == "end" else f"close {label}".strip()
    return Step(named, kind, changed)


# --- playing a conversation -----------------------------------------------------------------------


class AmqpPlayer:
    """Plays conversations on one broker."""

    def __init__(self, target: SocketTarget) -> None:
        self._target = target
        self._endpoint = target.endpoints[target.identity.default_amqp_acceptor]
        parameters = target.identity.profile.parameters
        self._node = str(parameters.get("anycast_node", "{name}"))
        self._capabilities = tuple(str(parameters.get("anycast_node_capabilities", "")).split())

    def play(self, conversation: Conversation, name: str, patient: bool) -> list[str]:
        """Return the answers to each step, until a link, session or connection ends."""
        place = f"differential.{name}"
        self._target.provide(place, RoutingType.ANYCAST)
        known: dict[str, Any] = {"queue": self._node.format(name=place), "name": name}
        known |= dict.fromkeys((DELIVERY, NEXT_INCOMING, DELIVERY_COUNT), 0)
        answers = []
        with socket.create_connection(self._endpoint, timeout=LOGIN_S) as connection:
            reader = self._logged_in(connection)
            for step in conversation.steps:
                assert isinstance(step, Step)
                data = self._encoded(step, known)
                frames = _exchange(connection, data, step, reader, patient)
                answers.append(transcribed(step, frames, known))
                if _is_over(step, answers[-1]):
                    break
        return answers

    def _logged_in(self, connection: socket.socket) -> codec.Reader:
        """Go through SASL and the exchange of headers; return the reader of later frames."""
        identity, reader = self._target.identity, codec.Reader()
        mechanism, response = "ANONYMOUS", None
        if identity.login is not None:
            mechanism = "PLAIN"
            response = f"\0{identity.login}\0{identity.passcode or ''}".encode()
        init = codec.composite("sasl-init", mechanism=mechanism, initial_response=response)
        connection.sendall(codec.protocol_header(3))
        _await(connection, reader, "sasl-mechanisms")
        connection.sendall(codec.encode_frame(types.encode(init), type=codec.SASL_FRAME))
        _await(connection, reader, "sasl-outcome")
        connection.sendall(codec.protocol_header())  # Artemis answers it with its open
        return reader

    def _encoded(self, step: Step, known: Mapping[str, Any]) -> bytes:
        if step.raw is not None:
            return step.raw
        fields = {name: self._filled(name, value, known) for name, value in step.fields.items()}
        body = types.encode(codec.composite(step.performative, fields)) + step.payload
        return codec.encode_frame(body, channel=step.channel)

    def _filled(self, name: str, value: Any, known: Mapping[str, Any]) -> Any:
        if isinstance(value, dict) and name in ("source", "target"):
            terminus = {part: self._filled(part, item, known) for part, item in value.items()}
            if "address" in terminus and self._capabilities:
                terminus.setdefault("capabilities", self._capabilities)
            return codec.composite(name, terminus)
        if isinstance(value, str) and value in known:
            return known[value]
        if isinstance(value, str):
            return value.replace(QUEUE, known["queue"]).replace("{name}", known["name"])
        return value


def _await(connection: socket.socket, reader: codec.Reader, name: str) -> None:
    """Read up to the frame ``name``. Raises ``ConnectionError`` if the stream ends before it."""
    while received := connection.recv(1 << 16):
        if any(isinstance(item, Frame) and item.name == name for item in reader.feed(received)):
            return
    raise ConnectionError(f"the broker ended the connection before {name}")


def _exchange(
    connection: socket.socket, data: bytes, step: Step, reader: codec.Reader, patient: bool
) -> list[codec.Read | None]:
    """Send a frame and return the answers until silence; None marks the end of the stream."""
    received: list[codec.Read | None] = []
    answers = ("flow",) if step.asks_for_flow else ANSWERS.get(step.performative, ())
    try:
        connection.sendall(data)
        connection.settimeout(PATIENT_S if patient else QUIET_S)
        while chunk := connection.recv(1 << 16):
            items = list(reader.feed(chunk))
            received += items
            if any(isinstance(item, Frame) and item.name in answers for item in items):
                connection.settimeout(AFTER_ANSWER_S[patient])
        received.append(None)
    except TimeoutError:
        pass
    except OSError:
        received.append(None)
    return received


def transcribed(step: Step, received: Sequence[codec.Read | None], known: dict[str, Any]) -> str:
    """Return an answer in words. If a link, session or connection ended, include only the end with
    the widest scope; otherwise include all frames, sorted."""
    words = sorted(word for item in received for word in _words(step, item, known))
    for end in ("close", "close(", "closed", "end", "end(", "detach("):
        for word in words:
            if word == end or (end.endswith("(") and word.startswith(end)):
                return word
    return " ".join(dict.fromkeys(words)) or "silence"


def _words(step: Step, item: codec.Read | None, known: dict[str, Any]) -> Iterator[str]:
    match item:
        case None:
            yield "closed"
        case codec.Unreadable():
            yield "unreadable"
        case Frame(name="protocol-header"):
            pass
        case Frame(name="flow"):
            if step.asks_for_flow:
                yield "flow"
        case Frame(name="begin"):
            known[NEXT_INCOMING] = item.get("next-outgoing-id", 0)
            yield "begin"
        case Frame(name="attach"):
            if item.get("role") is SENDER:
                known[DELIVERY_COUNT] = item.get("initial-delivery-count", 0)
            end = "target" if item.get("role") is RECEIVER else "source"
            value = item.part(end).get(step.looks_at)
            shown = f" with {step.looks_at}" if value else ""
            shown += f" {value}" if isinstance(value, (int, str)) and value else ""
            yield f"attach{shown}" if end in item.fields else f"attach without {end}"
        case Frame(name="transfer"):
            known[DELIVERY] = item.get("delivery-id", known[DELIVERY])
            for counted in (NEXT_INCOMING, DELIVERY_COUNT):
                known[counted] = (known[counted] + 1) % 2**32
            yield f"transfer({_body(item.payload)})"
        case Frame(name="disposition"):
            settled = "" if item.get("settled") else ", unsettled"
            yield f"disposition({item.kind('state')}{settled})"
        case Frame(name=name) if item.condition is not None:
            yield f"{name}({NAMED_CONDITIONS.get(item.condition, 'error')})"
        case Frame(name=name):
            yield name


def _body(payload: bytes) -> str:
    try:
        return str(messages.read(payload).body)
    except types.Malformed:
        return "no message"


def _is_over(step: Step, answer: str) -> bool:
    """True if the answer ends the conversation: its connection, its session, or a link in error."""
    return answer.startswith(("close", "end", "detach(")) or (
        answer.startswith("detach") and step.performative != "detach"
    )


GRAMMAR = Grammar((VERSION,), conversation, AmqpPlayer, Path(__file__).with_suffix(".toml"))
