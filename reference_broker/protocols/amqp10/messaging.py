"""Delivery states, termini, message sections (part 3) and transaction types (part 4), as tables."""

from typing import Any

from brokerproof.reference_broker.protocols.amqp10.composite import Composite, composite, field
from brokerproof.reference_broker.protocols.amqp10.performatives import Error

# --- sections of a message (3.2) ------------------------------------------------------------------


@composite("header", 0x70, provides="section")
class Header(Composite):
    durable: bool | None = field("boolean", default=None)
    priority: int | None = field("ubyte", default=None)
    ttl: int | None = field("milliseconds", default=None)
    first_acquirer: bool | None = field("boolean", default=None)
    delivery_count: int | None = field("uint", default=None)


@composite("properties", 0x73, provides="section")
class Properties(Composite):
    message_id: Any = field("*", requires="message-id", default=None)
    user_id: bytes | None = field("binary", default=None)
    to: str | None = field("*", requires="address", default=None)
    subject: str | None = field("string", default=None)
    reply_to: str | None = field("*", requires="address", default=None)
    correlation_id: Any = field("*", requires="message-id", default=None)
    content_type: str | None = field("symbol", default=None)
    content_encoding: str | None = field("symbol", default=None)
    absolute_expiry_time: int | None = field("timestamp", default=None)
    creation_time: int | None = field("timestamp", default=None)
    group_id: str | None = field("string", default=None)
    group_sequence: int | None = field("sequence-no", default=None)
    reply_to_group_id: str | None = field("string", default=None)


DELIVERY_ANNOTATIONS, MESSAGE_ANNOTATIONS = 0x71, 0x72
APPLICATION_PROPERTIES, DATA, AMQP_SEQUENCE, AMQP_VALUE, FOOTER = 0x74, 0x75, 0x76, 0x77, 0x78

SECTIONS: dict[str, tuple[int, str]] = {
    "delivery-annotations:map": (DELIVERY_ANNOTATIONS, "map"),
    "message-annotations:map": (MESSAGE_ANNOTATIONS, "map"),
    "application-properties:map": (APPLICATION_PROPERTIES, "map"),
    "data:binary": (DATA, "binary"),
    "amqp-sequence:list": (AMQP_SEQUENCE, "list"),
    "amqp-value:*": (AMQP_VALUE, "*"),
    "footer:map": (FOOTER, "map"),
}
"""The numeric descriptor and type of non-composite sections, by symbol without ``amqp:``."""

# --- delivery states (3.4) ------------------------------------------------------------------------


@composite("received", 0x23, provides="delivery-state")
class Received(Composite):
    section_number: int = field("uint", mandatory=True)
    section_offset: int = field("ulong", mandatory=True)


@composite("accepted", 0x24, provides="delivery-state outcome")
class Accepted(Composite):
    pass


@composite("rejected", 0x25, provides="delivery-state outcome")
class Rejected(Composite):
    error: Error | None = field("error", default=None)


@composite("released", 0x26, provides="delivery-state outcome")
class Released(Composite):
    pass


@composite("modified", 0x27, provides="delivery-state outcome")
class Modified(Composite):
    delivery_failed: bool | None = field("boolean", default=None)
    undeliverable_here: bool | None = field("boolean", default=None)
    message_annotations: dict[Any, Any] | None = field("fields", default=None)


OUTCOMES = (Accepted, Rejected, Released, Modified)
"""The outcomes that this broker applies at its sources."""

# --- termini (3.5) --------------------------------------------------------------------------------

DURABLE_NONE, DURABLE_CONFIGURATION, DURABLE_UNSETTLED_STATE = 0, 1, 2
LINK_DETACH, SESSION_END = "link-detach", "session-end"
MOVE, COPY = "move", "copy"


@composite("source", 0x28, provides="source")
class Source(Composite):
    address: str | None = field("*", requires="address", default=None)
    durable: int = field("terminus-durability", default=DURABLE_NONE)
    expiry_policy: str = field("terminus-expiry-policy", default=SESSION_END)
    timeout: int = field("seconds", default=0)
    dynamic: bool = field("boolean", default=False)
    dynamic_node_properties: dict[Any, Any] | None = field("node-properties", default=None)
    distribution_mode: str | None = field("symbol", requires="distribution-mode", default=None)
    filter: dict[Any, Any] | None = field("filter-set", default=None)
    default_outcome: Any = field("*", requires="outcome", default=None)
    outcomes: tuple[str, ...] = field("symbol", multiple=True, default=())
    capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())


@composite("target", 0x29, provides="target")
class Target(Composite):
    address: str | None = field("*", requires="address", default=None)
    durable: int = field("terminus-durability", default=DURABLE_NONE)
    expiry_policy: str = field("terminus-expiry-policy", default=SESSION_END)
    timeout: int = field("seconds", default=0)
    dynamic: bool = field("boolean", default=False)
    dynamic_node_properties: dict[Any, Any] | None = field("node-properties", default=None)
    capabilities: tuple[str, ...] = field("symbol", multiple=True, default=())


@composite("delete-on-close", 0x2B, provides="lifetime-policy")
class DeleteOnClose(Composite):
    pass


@composite("delete-on-no-links", 0x2C, provides="lifetime-policy")
class DeleteOnNoLinks(Composite):
    pass


@composite("delete-on-no-messages", 0x2D, provides="lifetime-policy")
class DeleteOnNoMessages(Composite):
    pass


@composite("delete-on-no-links-or-messages", 0x2E, provides="lifetime-policy")
class DeleteOnNoLinksOrMessages(Composite):
    pass


# --- transactions (4.5) ---------------------------------------------------------------------------


@composite("coordinator", 0x30, provides="target")
class Coordinator(Composite):
    capabilities: tuple[str, ...] = field(
        "symbol", multiple=True, requires="txn-capability", default=()
    )


@composite("declare", 0x31)
class Declare(Composite):
    global_id: Any = field("*", requires="global-tx-id", default=None)


@composite("discharge", 0x32)
class Discharge(Composite):
    txn_id: bytes = field("*", mandatory=True, requires="txn-id")
    fail: bool | None = field("boolean", default=None)


@composite("declared", 0x33, provides="delivery-state outcome")
class Declared(Composite):
    txn_id: bytes = field("*", mandatory=True, requires="txn-id")


@composite("transactional-state", 0x34, provides="delivery-state")
class TransactionalState(Composite):
    txn_id: bytes = field("*", mandatory=True, requires="txn-id")
    outcome: Any = field("*", requires="outcome", default=None)
