"""Refusals: kinds of mistakes, and for each the endpoint that it ends, the condition and the
requirement.

An error ends the smallest endpoint that cannot continue: a link (``detach``), a session (``end``)
or the connection (``close``). Where the specification names the endpoint, we follow it, even if
that is harsh: a handle that is above the maximum or in use closes the connection.
"""

import enum
from typing import NamedTuple

from brokerproof.reference_broker.protocols.amqp10 import conditions
from brokerproof.reference_broker.protocols.amqp10.performatives import Error


class Scope(enum.Enum):
    CONNECTION = "connection"
    SESSION = "session"
    LINK = "link"


class Fault(NamedTuple):
    scope: Scope
    condition: str
    requirement: str


def _connection(condition: str, requirement: str) -> Fault:
    return Fault(Scope.CONNECTION, condition, requirement)


def _session(condition: str, requirement: str) -> Fault:
    return Fault(Scope.SESSION, condition, requirement)


def _link(condition: str, requirement: str) -> Fault:
    return Fault(Scope.LINK, condition, requirement)


# --- frames ---------------------------------------------------------------------------------------
FRAME_TOO_SMALL = _connection(conditions.FRAMING_ERROR, "AMQP10-FRAME-02")
FRAME_TOO_LARGE = _connection(conditions.FRAMING_ERROR, "AMQP10-MFS-03")
BAD_DOFF = _connection(conditions.FRAMING_ERROR, "AMQP10-FRAME-03")
BAD_FRAME_TYPE = _connection(conditions.FRAMING_ERROR, "AMQP10-VER-02")
CHANNEL_TOO_HIGH = _connection(conditions.FRAMING_ERROR, "AMQP10-CHMAX-02")
HANDLE_TOO_HIGH = _connection(conditions.FRAMING_ERROR, "AMQP10-CHMAX-05")
NOT_A_PERFORMATIVE = _connection(conditions.DECODE_ERROR, "AMQP10-FRAME-05")
BAD_PERFORMATIVE = _connection(conditions.DECODE_ERROR, "AMQP10-FRAME-05")
BAD_FIELD = _connection(conditions.INVALID_FIELD, "AMQP10-FRAME-05")

BAD_SASL_FRAME = _connection(conditions.NOT_ALLOWED, "AMQP10-SASL-05")
EMPTY_SASL_FRAME = _connection(conditions.NOT_ALLOWED, "AMQP10-SASL-06")
LOGIN_FAILED = _connection(conditions.UNAUTHORIZED_ACCESS, "AMQP10-SASL-11")

NOT_STORED = _connection(conditions.INTERNAL_ERROR, "AMQP10-CLOSE-01")

# --- connections ----------------------------------------------------------------------------------
NOT_OPEN_FIRST = _connection(conditions.NOT_ALLOWED, "AMQP10-OPEN-02")
OPEN_AGAIN = _connection(conditions.ILLEGAL_STATE, "AMQP10-OPEN-02")
OPEN_ON_CHANNEL = _connection(conditions.NOT_ALLOWED, "AMQP10-OPEN-04")
MAX_FRAME_SIZE_TOO_SMALL = _connection(conditions.INVALID_FIELD, "AMQP10-MFS-04")
IDLE_TOO_SHORT = _connection(conditions.NOT_ALLOWED, "AMQP10-IDLE-09")
SILENT = _connection(conditions.RESOURCE_LIMIT_EXCEEDED, "AMQP10-IDLE-03")

# --- sessions -------------------------------------------------------------------------------------
CHANNEL_IN_USE = _connection(conditions.NOT_ALLOWED, "AMQP10-SESS-01")
REMOTE_CHANNEL_SET = _connection(conditions.INVALID_FIELD, "AMQP10-SESS-01")
NO_SESSION = _connection(conditions.NOT_ALLOWED, "AMQP10-SESS-02")
NO_CHANNEL_LEFT = _connection(conditions.RESOURCE_LIMIT_EXCEEDED, "AMQP10-CHMAX-01")
WINDOW_VIOLATED = _session(conditions.WINDOW_VIOLATION, "AMQP10-WIN-09")
IDS_FROM_THE_FUTURE = _session(conditions.INVALID_FIELD, "AMQP10-WIN-07")
LINK_FIELDS_WITHOUT_HANDLE = _session(conditions.INVALID_FIELD, "AMQP10-CREDIT-19")
UNATTACHED = _session(conditions.UNATTACHED_HANDLE, "AMQP10-SESS-05")
ERRANT = _session(conditions.ERRANT_LINK, "AMQP10-SESS-06")
HANDLE_USED = _connection(conditions.HANDLE_IN_USE, "AMQP10-SESS-07")
NO_HANDLE_LEFT = _session(conditions.RESOURCE_LIMIT_EXCEEDED, "AMQP10-CHMAX-04")
DELIVERY_ID_MISSING = _session(conditions.INVALID_FIELD, "AMQP10-XFER-01")
DELIVERY_ID_OUT_OF_ORDER = _session(conditions.INVALID_FIELD, "AMQP10-DISP-06")

# --- links ----------------------------------------------------------------------------------------
TOO_MANY_LINKS = _link(conditions.RESOURCE_LIMIT_EXCEEDED, "AMQP10-LINK-12")
TOO_MUCH_UNFINISHED = _link(conditions.RESOURCE_LIMIT_EXCEEDED, "AMQP10-LINK-15")
STOLEN = _link(conditions.STOLEN, "AMQP10-LINK-02")
NO_INITIAL_COUNT = _link(conditions.INVALID_FIELD, "AMQP10-LINK-13")
NO_TERMINUS = _link(conditions.INVALID_FIELD, "AMQP10-LINK-12")
NOT_FOUND = _link(conditions.NOT_FOUND, "AMQP10-LINK-12")
NOT_SUPPORTED = _link(conditions.NOT_IMPLEMENTED, "AMQP10-LINK-12")
ADDRESS_AND_DYNAMIC = _link(conditions.INVALID_FIELD, "AMQP10-TERM-01")
BAD_FILTER = _link(conditions.INVALID_FIELD, "AMQP10-TERM-06")
BAD_OUTCOMES = _link(conditions.INVALID_FIELD, "AMQP10-OUT-16")
BAD_DEFAULT_OUTCOME = _link(conditions.INVALID_FIELD, "AMQP10-OUT-17")
TRANSFER_TO_A_SENDER = _link(conditions.NOT_ALLOWED, "AMQP10-LINK-01")
BEYOND_CREDIT = _link(conditions.TRANSFER_LIMIT_EXCEEDED, "AMQP10-CREDIT-09")
COUNT_BEYOND_CREDIT = _link(conditions.TRANSFER_LIMIT_EXCEEDED, "AMQP10-CREDIT-05")
COUNT_FROM_THE_FUTURE = _link(conditions.INVALID_FIELD, "AMQP10-CREDIT-01")

# --- deliveries -----------------------------------------------------------------------------------
OTHER_DELIVERY_ID = _link(conditions.INVALID_FIELD, "AMQP10-XFER-03")
OTHER_TAG = _link(conditions.INVALID_FIELD, "AMQP10-XFER-25")
OTHER_FORMAT = _link(conditions.INVALID_FIELD, "AMQP10-XFER-26")
TAG_MISSING = _link(conditions.INVALID_FIELD, "AMQP10-XFER-04")
TAG_TOO_LONG = _link(conditions.INVALID_FIELD, "AMQP10-XFER-05")
FORMAT_MISSING = _link(conditions.INVALID_FIELD, "AMQP10-XFER-07")
FORMAT_UNKNOWN = _link(conditions.NOT_IMPLEMENTED, "AMQP10-XFER-07")
NEVER_SETTLED = _link(conditions.INVALID_FIELD, "AMQP10-XFER-10")
WRONGLY_SETTLED = _link(conditions.INVALID_FIELD, "AMQP10-XFER-11")
MODE_SECOND = _link(conditions.INVALID_FIELD, "AMQP10-XFER-16")
TOO_LARGE = _link(conditions.MESSAGE_SIZE_EXCEEDED, "AMQP10-LINK-15")
UNKNOWN_ANNOTATION = _link(conditions.NOT_IMPLEMENTED, "AMQP10-MSG-11")

# --- transactions ---------------------------------------------------------------------------------
NO_TRANSACTION = _link(conditions.UNKNOWN_ID, "AMQP10-TXN-03")
NO_TRANSACTIONAL_ACQUISITION = _link(conditions.NOT_IMPLEMENTED, "AMQP10-TXN-12")
DECLARE_SETTLED = _link(conditions.NOT_ALLOWED, "AMQP10-TXN-02")
DISCHARGE_TOO_EARLY = _link(conditions.TRANSACTION_ROLLBACK, "AMQP10-TXN-08")
IN_ANOTHER_TRANSACTION = _link(conditions.TRANSACTION_ROLLBACK, "AMQP10-TXN-11")


class Refusal(Exception):
    """A peer's mistake, which ends one of the peer's endpoints. ``detail`` is for people."""

    def __init__(self, fault: Fault, detail: str) -> None:
        super().__init__(detail)
        self.fault = fault
        self.detail = detail

    @property
    def error(self) -> Error:
        return Error(
            condition=self.fault.condition, description=f"{self.detail} ({self.fault.requirement})"
        )


def shown(value: bytes | str) -> str:
    """Return at most 40 bytes or characters of a peer's input, in printable form, for a detail."""
    text = value.decode("utf-8", "backslashreplace") if isinstance(value, bytes) else value
    return ascii(text if len(text) <= 40 else text[:40] + "…")
