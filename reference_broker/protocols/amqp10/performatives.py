"""The transport's performatives (2.7), SASL frames (5.3.3) and error type (2.8.14), as tables."""

from typing import Any

from brokerproof.reference_broker.protocols.amqp10.composite import Composite, composite, field

SENDER, RECEIVER = False, True
"""The values of a role."""

UNSETTLED, SETTLED, MIXED = 0, 1, 2
"""Settlement modes of a sender."""
FIRST, SECOND = 0, 1
"""Settlement modes of a receiver."""

UINT_MAX = 0xFFFF_FFFF
MIN_MAX_FRAME_SIZE = 512
"""The size, in bytes, of a frame that every peer can accept."""


@composite("error", 0x1D)
class Error(Composite):
    condition: str = field("symbol", mandatory=True, requires="error-condition")
    description: str | None = field("string", default=None)
    info: dict[Any, Any] | None = field("fields", default=None)


@composite("open", 0x10, provides="frame")
class Open(Composite):
    container_id: str = field("string", mandatory=True)
    hostname: str | None = field("string", default=None)
    max_frame_size: int = field("uint", default=UINT_MAX)
    channel_max: int = field("ushort", default=65535)
    idle_time_out: int | None = field("milliseconds", default=None)
    outgoing_locales: tuple[str, ...] = field("ietf-language-tag", multiple=True, default=())
    incoming_locales: tuple[str, ...] = field("ietf-language-tag", multiple=True, default=())
    offered_capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())
    desired_capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())
    properties: dict[Any, Any] | None = field("fields", default=None)


@composite("begin", 0x11, provides="frame")
class Begin(Composite):
    remote_channel: int | None = field("ushort", default=None)
    next_outgoing_id: int = field("transfer-number", mandatory=True)
    incoming_window: int = field("uint", mandatory=True)
    outgoing_window: int = field("uint", mandatory=True)
    handle_max: int = field("handle", default=UINT_MAX)
    offered_capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())
    desired_capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())
    properties: dict[Any, Any] | None = field("fields", default=None)


@composite("attach", 0x12, provides="frame")
class Attach(Composite):
    name: str = field("string", mandatory=True)
    handle: int = field("handle", mandatory=True)
    role: bool = field("role", mandatory=True)
    snd_settle_mode: int = field("sender-settle-mode", default=MIXED)
    rcv_settle_mode: int = field("receiver-settle-mode", default=FIRST)
    source: Any = field("*", requires="source", default=None)
    target: Any = field("*", requires="target", default=None)
    unsettled: Any = field("map", default=None)
    incomplete_unsettled: bool = field("boolean", default=False)
    initial_delivery_count: int | None = field("sequence-no", default=None)
    max_message_size: int | None = field("ulong", default=None)
    offered_capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())
    desired_capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())
    properties: dict[Any, Any] | None = field("fields", default=None)


@composite("flow", 0x13, provides="frame")
class Flow(Composite):
    next_incoming_id: int | None = field("transfer-number", default=None)
    incoming_window: int = field("uint", mandatory=True)
    next_outgoing_id: int = field("transfer-number", mandatory=True)
    outgoing_window: int = field("uint", mandatory=True)
    handle: int | None = field("handle", default=None)
    delivery_count: int | None = field("sequence-no", default=None)
    link_credit: int | None = field("uint", default=None)
    available: int | None = field("uint", default=None)
    drain: bool = field("boolean", default=False)
    echo: bool = field("boolean", default=False)
    properties: dict[Any, Any] | None = field("fields", default=None)


@composite("transfer", 0x14, provides="frame")
class Transfer(Composite):
    handle: int = field("handle", mandatory=True)
    delivery_id: int | None = field("delivery-number", default=None)
    delivery_tag: bytes | None = field("delivery-tag", default=None)
    message_format: int | None = field("message-format", default=None)
    settled: bool | None = field("boolean", default=None)
    more: bool = field("boolean", default=False)
    rcv_settle_mode: int | None = field("receiver-settle-mode", default=None)
    state: Any = field("*", requires="delivery-state", default=None)
    resume: bool = field("boolean", default=False)
    aborted: bool = field("boolean", default=False)
    batchable: bool = field("boolean", default=False)


@composite("disposition", 0x15, provides="frame")
class Disposition(Composite):
    role: bool = field("role", mandatory=True)
    first: int = field("delivery-number", mandatory=True)
    last: int | None = field("delivery-number", default=None)
    settled: bool = field("boolean", default=False)
    state: Any = field("*", requires="delivery-state", default=None)
    batchable: bool = field("boolean", default=False)


@composite("detach", 0x16, provides="frame")
class Detach(Composite):
    handle: int = field("handle", mandatory=True)
    closed: bool = field("boolean", default=False)
    error: Error | None = field("error", default=None)


@composite("end", 0x17, provides="frame")
class End(Composite):
    error: Error | None = field("error", default=None)


@composite("close", 0x18, provides="frame")
class Close(Composite):
    error: Error | None = field("error", default=None)


@composite("sasl-mechanisms", 0x40, provides="sasl-frame")
class SaslMechanisms(Composite):
    sasl_server_mechanisms: tuple[str, ...] = field("symbol", mandatory=True, multiple=True)


@composite("sasl-init", 0x41, provides="sasl-frame")
class SaslInit(Composite):
    mechanism: str = field("symbol", mandatory=True)
    initial_response: bytes | None = field("binary", default=None)
    hostname: str | None = field("string", default=None)


@composite("sasl-challenge", 0x42, provides="sasl-frame")
class SaslChallenge(Composite):
    challenge: bytes = field("binary", mandatory=True)


@composite("sasl-response", 0x43, provides="sasl-frame")
class SaslResponse(Composite):
    response: bytes = field("binary", mandatory=True)


@composite("sasl-outcome", 0x44, provides="sasl-frame")
class SaslOutcome(Composite):
    code: int = field("sasl-code", mandatory=True)
    additional_data: bytes | None = field("binary", default=None)
