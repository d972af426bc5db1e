"""Performatives of AMQP 1.0 with mistakes (absent, mistyped or impossible fields), malformed
messages, and frames that no client would send."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias
from uuid import UUID

from brokerproof.harness.protocols.amqp10 import codec, messages, types
from brokerproof.harness.protocols.amqp10.codec import RECEIVER, SENDER
from brokerproof.suites.interop.differential import grammar

SENDING, RECEIVING = 0, 1
"""The handles of the two links, both on channel 0."""
BODY = b"body"
DELIVERY, NEXT_INCOMING, DELIVERY_COUNT = "{delivery}", "{next-incoming}", "{delivery-count}"
"""Placeholders for the broker's latest values: a delivery's id, the id of the next transfer, and
the delivery-count of its link; 0 at first."""
QUEUE = "{queue}"
RECEIVED = codec.composite("received", section_number=0, section_offset=types.ulong(0))
SYMBOL = types.symbol("x")
Mistakes: TypeAlias = Sequence[tuple[str, Mapping[str, Any]]]


@dataclass(frozen=True)
class Step(grammar.Step):
    performative: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = b""
    channel: int = 0
    raw: bytes | None = None
    """Bytes in place of a frame."""
    asks_for_flow: bool = False
    looks_at: str = ""
    """A property of the terminus whose value in the answer is part of the transcript."""


def without(*names: str) -> Mistakes:
    return [(f"without {name}", {name: None}) for name in names]


OPENS: Mistakes = (
    ("without container-id", {"container-id": None}),
    ("an empty container-id", {"container-id": ""}),
    ("container-id as a symbol", {"container-id": types.symbol("differential")}),
    ("max-frame-size 511", {"max-frame-size": 511}),
    ("max-frame-size 0", {"max-frame-size": 0}),
    ("max-frame-size as a string", {"max-frame-size": types.string("512")}),
    ("channel-max 0", {"channel-max": 0}),
    ("channel-max as a uint", {"channel-max": types.uint(10)}),
    ("idle-time-out 0", {"idle-time-out": 0}),
    ("an unknown hostname", {"hostname": "nobody.example"}),
    ("unknown locales", {"outgoing-locales": "xx-XX", "incoming-locales": "xx-XX"}),
    ("unknown desired-capabilities", {"desired-capabilities": ("brokerproof-nothing",)}),
    (
        "properties with keys that are not symbols",
        {"properties": types.Value("map", ((types.string("k"), types.string("v")),))},
    ),
)
BEGINS: Mistakes = (
    *without("next-outgoing-id", "incoming-window", "outgoing-window"),
    ("incoming-window 0", {"incoming-window": 0}),
    ("outgoing-window 0", {"outgoing-window": 0}),
    ("remote-channel", {"remote-channel": 7}),
    ("next-outgoing-id as a ulong", {"next-outgoing-id": types.ulong(0)}),
    ("next-outgoing-id 2^32-1", {"next-outgoing-id": 2**32 - 1}),
    ("handle-max 0", {"handle-max": 0}),
)
ATTACHES: Mistakes = (
    ("without name", {"name": None}),
    ("an empty name", {"name": ""}),
    ("name as a symbol", {"name": types.symbol("link")}),
    ("without handle", {"handle": None}),
    ("handle as a ulong", {"handle": types.ulong(0)}),
    ("without role", {"role": None}),
    ("role as a string", {"role": types.string("sender")}),
    *without("source", "target"),
    ("snd-settle-mode 7", {"snd-settle-mode": 7}),
    ("snd-settle-mode settled", {"snd-settle-mode": 1}),
    ("snd-settle-mode unsettled", {"snd-settle-mode": 0}),
    ("rcv-settle-mode second", {"rcv-settle-mode": 1}),
    ("rcv-settle-mode 7", {"rcv-settle-mode": 7}),
    ("max-message-size 1", {"max-message-size": 1}),
    ("max-message-size 0", {"max-message-size": 0}),
    ("incomplete-unsettled", {"incomplete-unsettled": True}),
    ("unknown desired-capabilities", {"desired-capabilities": ("brokerproof-nothing",)}),
    ("a name of 300 bytes", {"name": "n" * 300}),
)
TERMINI: Mistakes = (
    ("without address", {"address": None}),
    ("an empty address", {"address": ""}),
    ("address as a uint", {"address": types.uint(1)}),
    ("durable 9", {"durable": 9}),
    ("durable 2", {"durable": 2}),
    ("an unknown expiry-policy", {"expiry-policy": "brokerproof-never"}),
    ("expiry-policy as a string", {"expiry-policy": types.string("never")}),
    ("timeout 1", {"timeout": 1}),
    ("dynamic and an address", {"dynamic": True}),
    ("dynamic as a uint", {"dynamic": types.uint(1)}),
    ("unknown capabilities", {"capabilities": ("brokerproof-nothing",)}),
)
SOURCES: Mistakes = (
    ("an unknown distribution-mode", {"distribution-mode": "brokerproof-throw"}),
    ("distribution-mode copy", {"distribution-mode": "copy"}),
    ("an unknown filter", {"filter": {"brokerproof": types.Described(SYMBOL, types.NULL)}}),
    ("a filter that is not described", {"filter": {"brokerproof": types.string("x")}}),
    ("unknown outcomes", {"outcomes": ("brokerproof:outcome:list",)}),
    ("outcomes without accepted", {"outcomes": ("amqp:released:list",)}),
    ("default-outcome received", {"default-outcome": RECEIVED}),
    ("default-outcome released", {"default-outcome": codec.composite("released")}),
)
ADDRESSES: Mistakes = (("an unknown place", {"address": "brokerproof/no/such/place?"}),)
TRANSFERS: Mistakes = (
    ("settled", {"settled": True}),
    *without("delivery-id", "delivery-tag", "message-format", "handle"),
    ("a delivery-tag of 33 bytes", {"delivery-tag": b"t" * 33}),
    ("a delivery-tag of 0 bytes", {"delivery-tag": b""}),
    ("a delivery-id ahead", {"delivery-id": 1000}),
    ("delivery-id 2^32-1", {"delivery-id": 2**32 - 1}),
    ("delivery-id as a ulong", {"delivery-id": types.ulong(0)}),
    ("delivery-tag as a string", {"delivery-tag": types.string("t")}),
    ("message-format 1", {"message-format": 1}),
    ("message-format 2^32-1", {"message-format": 2**32 - 1}),
    ("on another handle", {"handle": 5}),
    ("on the receiving link", {"handle": RECEIVING}),
    ("aborted", {"aborted": True}),
    ("aborted and more", {"aborted": True, "more": True}),
    ("more", {"more": True}),
    ("resume", {"resume": True}),
    ("state accepted", {"state": codec.composite("accepted")}),
    ("state accepted and settled", {"state": codec.composite("accepted"), "settled": True}),
    ("rcv-settle-mode second", {"rcv-settle-mode": 1}),
    ("rcv-settle-mode 7", {"rcv-settle-mode": 7}),
    ("settled as a uint", {"settled": types.uint(1)}),
)
PAYLOADS: Sequence[tuple[str, bytes]] = (
    ("without payload", b""),
    ("no sections", b"\xff\xfe\xfd"),
    ("an unknown section", types.encode(types.Described(types.ulong(0x99), types.binary(b"x")))),
    ("a header alone", messages.message(None, header={"durable": True})),
    ("sections in another order", messages.message(BODY) + messages.message(None, header={})),
    ("a body of two kinds", messages.message(BODY) + messages.message("value")),
    ("two data sections", messages.message(BODY) * 2),
    ("header durable as a string", messages.message(BODY, header={"durable": types.string("yes")})),
    ("priority 255", messages.message(BODY, header={"priority": 255})),
    ("ttl 0", messages.message(BODY, header={"ttl": 0})),
    ("an unknown annotation", messages.message(BODY, message_annotations={"k": "v"})),
    ("an unknown x-opt annotation", messages.message(BODY, message_annotations={"x-opt-k": "v"})),
    ("message-id as a symbol", messages.message(BODY, properties={"message-id": SYMBOL})),
    ("message-id as a uuid", messages.message(BODY, properties={"message-id": UUID(int=1)})),
    ("user-id of nobody", messages.message(BODY, properties={"user-id": b"nobody"})),
    ("a list of the application", messages.message(BODY, application_properties={"k": ["v"]})),
    ("a truncated section", messages.message(BODY)[:-2]),
)
OF_THE_SESSION = {"handle": None, "link-credit": None, "delivery-count": None}
FLOWS: Mistakes = (
    *without("incoming-window", "next-outgoing-id", "outgoing-window", "next-incoming-id"),
    ("next-incoming-id ahead", {"next-incoming-id": 1000}),
    ("next-outgoing-id ahead", {"next-outgoing-id": 1000}),
    ("incoming-window 0", {"incoming-window": 0}),
    ("incoming-window 2^32-1", {"incoming-window": 2**32 - 1}),
    ("incoming-window as a ulong", {"incoming-window": types.ulong(10)}),
    ("link-credit without handle", {"handle": None}),
    ("a handle without link-credit", {"link-credit": None}),
    ("without delivery-count", {"delivery-count": None}),
    ("delivery-count ahead", {"delivery-count": 1000}),
    ("link-credit 0", {"link-credit": 0}),
    ("link-credit 2^32-1", {"link-credit": 2**32 - 1}),
    ("link-credit as a ubyte", {"link-credit": types.ubyte(1)}),
    ("drain", {"drain": True}),
    ("drain without link-credit", {"drain": True, "link-credit": None}),
    ("drain as a string", {"drain": types.string("yes")}),
    ("echo", {"echo": True}),
    ("echo of the session", {"echo": True, **OF_THE_SESSION}),
    ("available", {"available": 10}),
    ("on another handle", {"handle": 5}),
    ("for the sending link", {"handle": SENDING}),
)
STATES: Mistakes = (
    ("accepted", {"state": codec.composite("accepted")}),
    ("released", {"state": codec.composite("released")}),
    ("rejected", {"state": codec.composite("rejected")}),
    ("modified", {"state": codec.composite("modified", delivery_failed=True)}),
    ("undeliverable-here", {"state": codec.composite("modified", undeliverable_here=True)}),
    ("received", {"state": RECEIVED}),
    ("without state", {"state": None}),
    ("accepted, unsettled", {"state": codec.composite("accepted"), "settled": None}),
    ("an unknown state", {"state": types.Described(SYMBOL, types.Value("list", ()))}),
    ("a state that is not a composite", {"state": types.string("accepted")}),
    ("without role", {"role": None}),
    ("role as a uint", {"role": types.uint(1)}),
    ("without first", {"first": None}),
    ("first unknown", {"first": 1000}),
    ("last below first", {"first": 10, "last": 5}),
    ("last ahead", {"last": 1000}),
    ("role of the sender", {"role": SENDER}),
)

WINDOWS = {"next-outgoing-id": 0, "incoming-window": 100, "outgoing-window": 100}
LINK = {"name": "x", "handle": 0, "role": RECEIVER}


def raw(body: bytes, **layout: Any) -> bytes:
    return codec.encode_frame(body, **layout)


def performative(code: int, *items: types.Item) -> bytes:
    """Return a described list."""
    return types.encode(types.Described(types.ulong(code), types.Value("list", items)))


LITERAL = (
    Step("an empty frame", raw=raw(b"")),
    Step("an empty frame on another channel", raw=raw(b"", channel=9)),
    Step("an unknown performative", raw=raw(performative(0x19))),
    Step("a section in place of a performative", raw=raw(messages.message(BODY))),
    Step("a SASL frame", raw=raw(performative(0x41, types.symbol("ANONYMOUS")), type=1)),
    Step("a frame of type 5", raw=raw(performative(0x18), type=5)),
    Step("a data offset of 1", raw=raw(performative(0x18), doff=1)),
    Step("a size of 4", raw=raw(b"", size=4)),
    Step("an extended header", raw=raw(performative(0x13, types.NULL), extended=b"abcd")),
    Step("a protocol header", raw=codec.protocol_header()),
    Step("a value that is not described", raw=raw(types.encode(types.string("open")))),
    Step(
        "a performative that is a map",
        raw=raw(types.encode(types.Described(types.ulong(0x17), types.Value("map", ())))),
    ),
    Step("a truncated performative", raw=raw(performative(0x18, types.NULL)[:-1])),
    Step(
        "end by its symbol",
        raw=raw(
            types.encode(types.Described(types.symbol("amqp:end:list"), types.Value("list", ())))
        ),
    ),
    Step("close with a field too many", raw=raw(performative(0x18, types.NULL, SYMBOL))),
    Step("close on another channel", "close", channel=3),
    Step("a second open", "open", {"container-id": "differential"}),
    Step("flow on another channel", "flow", WINDOWS, channel=3),
    Step("end on another channel", "end", channel=3),
    Step("attach on another channel", "attach", LINK, channel=3),
)
