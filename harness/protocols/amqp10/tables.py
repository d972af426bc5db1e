"""The composite types of AMQP 1.0: their descriptors and fields, in order. A table and nothing
else.

Each line: name, code of the descriptor, then ``field:type``. The types are the primitive ones;
besides

* ``!`` behind a type: mandatory;
* ``*``: any value; ``symbol*``: one symbol or an array of them; ``fields``: a map whose keys are
  symbols;
* ``role``: a boolean, false for sender;
* ``error``: that composite.

A test holds it against the machine-readable definition
(``fixtures/vectors/amqp10-definition.json``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

_TABLE = """
open 0x10 container-id:string! hostname:string max-frame-size:uint channel-max:ushort idle-time-out:uint
    outgoing-locales:symbol* incoming-locales:symbol* offered-capabilities:symbol* desired-capabilities:symbol*
    properties:fields
begin 0x11 remote-channel:ushort next-outgoing-id:uint! incoming-window:uint! outgoing-window:uint! handle-max:uint
    offered-capabilities:symbol* desired-capabilities:symbol* properties:fields
attach 0x12 name:string! handle:uint! role:role! snd-settle-mode:ubyte rcv-settle-mode:ubyte source:* target:*
    unsettled:map incomplete-unsettled:boolean initial-delivery-count:uint max-message-size:ulong
    offered-capabilities:symbol* desired-capabilities:symbol* properties:fields
flow 0x13 next-incoming-id:uint incoming-window:uint! next-outgoing-id:uint! outgoing-window:uint! handle:uint
    delivery-count:uint link-credit:uint available:uint drain:boolean echo:boolean properties:fields
transfer 0x14 handle:uint! delivery-id:uint delivery-tag:binary message-format:uint settled:boolean more:boolean
    rcv-settle-mode:ubyte state:* resume:boolean aborted:boolean batchable:boolean
disposition 0x15 role:role! first:uint! last:uint settled:boolean state:* batchable:boolean
detach 0x16 handle:uint! closed:boolean error:error
end 0x17 error:error
close 0x18 error:error
error 0x1d condition:symbol! description:string info:fields
received 0x23 section-number:uint! section-offset:ulong!
accepted 0x24
rejected 0x25 error:error
released 0x26
modified 0x27 delivery-failed:boolean undeliverable-here:boolean message-annotations:fields
source 0x28 address:* durable:uint expiry-policy:symbol timeout:uint dynamic:boolean dynamic-node-properties:fields
    distribution-mode:symbol filter:fields default-outcome:* outcomes:symbol* capabilities:symbol*
target 0x29 address:* durable:uint expiry-policy:symbol timeout:uint dynamic:boolean dynamic-node-properties:fields
    capabilities:symbol*
delete-on-close 0x2b
delete-on-no-links 0x2c
delete-on-no-messages 0x2d
delete-on-no-links-or-messages 0x2e
coordinator 0x30 capabilities:symbol*
declare 0x31 global-id:*
discharge 0x32 txn-id:*! fail:boolean
declared 0x33 txn-id:*!
transactional-state 0x34 txn-id:*! outcome:*
sasl-mechanisms 0x40 sasl-server-mechanisms:symbol*!
sasl-init 0x41 mechanism:symbol! initial-response:binary hostname:string
sasl-challenge 0x42 challenge:binary!
sasl-response 0x43 response:binary!
sasl-outcome 0x44 code:ubyte! additional-data:binary
header 0x70 durable:boolean priority:ubyte ttl:uint first-acquirer:boolean delivery-count:uint
properties 0x73 message-id:* user-id:binary to:* subject:string reply-to:* correlation-id:* content-type:symbol
    content-encoding:symbol absolute-expiry-time:timestamp creation-time:timestamp group-id:string group-sequence:uint
    reply-to-group-id:string
"""  # noqa: E501

SECTIONS: Mapping[str, int] = {
    "header": 0x70,
    "delivery-annotations": 0x71,
    "message-annotations": 0x72,
    "properties": 0x73,
    "application-properties": 0x74,
    "data": 0x75,
    "amqp-sequence": 0x76,
    "amqp-value": 0x77,
    "footer": 0x78,
}
"""The sections of a message, in the order in which they stand, by the code of their descriptor."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a composite; its place is its position."""

    name: str
    type: str
    mandatory: bool


@dataclass(frozen=True, slots=True)
class Composite:
    """A described list with named fields."""

    name: str
    code: int
    fields: tuple[Field, ...]

    @property
    def symbol(self) -> str:
        return f"amqp:{self.name}:list"


def _composites() -> Iterator[Composite]:
    for entry in _TABLE.replace("\n    ", " ").strip().splitlines():
        name, code, *fields = entry.split()
        yield Composite(name, int(code, 16), tuple(_field(field) for field in fields))


def _field(text: str) -> Field:
    name, _, kind = text.partition(":")
    return Field(name, kind.removesuffix("!"), kind.endswith("!"))


COMPOSITES: Mapping[str, Composite] = {composite.name: composite for composite in _composites()}
"""By name."""
BY_CODE: Mapping[int, Composite] = {composite.code: composite for composite in COMPOSITES.values()}
BY_SYMBOL: Mapping[str, Composite] = {
    composite.symbol: composite for composite in COMPOSITES.values()
}

PERFORMATIVES = frozenset(
    name for name, composite in COMPOSITES.items() if 0x10 <= composite.code <= 0x18
)
SASL = frozenset(name for name in COMPOSITES if name.startswith("sasl-"))
