"""Refusals: each kind of mistake, the words of the ERROR, and the requirement that covers it in
each version.

A fault is a short message for the ``message`` header (no colons, no backslashes, no line ends, so
that every version carries it unescaped) and the requirement that covers it in 1.0, 1.1 and 1.2.
STOMP 1.0 has no rule for most faults; for these, its general permission to send an ERROR when
something goes wrong is cited (STOMP10-ERROR-01).
"""

from typing import NamedTuple

from brokerproof.reference_broker.protocols.stomp.frame import Headers, Version

_ANY = "STOMP10-ERROR-01"


class Fault(NamedTuple):
    """One kind of mistake. ``v10``, ``v11`` and ``v12`` are requirement ids."""

    message: str
    v10: str
    v11: str
    v12: str

    def requirement(self, version: Version) -> str:
        return (self.v10, self.v11, self.v12)[version]


def _everywhere(message: str, requirement: str) -> Fault:
    return Fault(message, requirement, requirement, requirement)


# --- frames ---------------------------------------------------------------------------------------
UNKNOWN_COMMAND = Fault(
    "unknown command", "STOMP10-FRAME-06", "STOMP11-ONCE-02", "STOMP12-CLIENT-02"
)
NOT_CONNECTED = Fault(
    "not connected", "STOMP10-CONNECT-01", "STOMP11-CONNECT-03", "STOMP12-CONNECT-03"
)
MALFORMED_HEADER = Fault(
    "malformed header line", "STOMP10-FRAME-02", "STOMP11-FRAME-03", "STOMP12-FRAME-04"
)
MALFORMED_VALUE = Fault(
    "malformed header value", "STOMP10-FRAME-03", "STOMP11-FRAME-03", "STOMP12-FRAME-05"
)
UNDEFINED_ESCAPE = Fault("undefined escape sequence", _ANY, "STOMP11-ENC-07", "STOMP12-ENC-08")
NOT_UTF8 = Fault("headers are not UTF-8", "STOMP10-FRAME-05", "STOMP11-ENC-01", "STOMP12-ENC-01")
BODY_NOT_ALLOWED = Fault(
    "body not allowed", "STOMP10-CONNECT-04", "STOMP11-BODY-02", "STOMP12-BODY-02"
)
BAD_CONTENT_LENGTH = Fault(
    "malformed content-length", "STOMP10-SEND-05", "STOMP11-HDR-03", "STOMP12-HDR-02"
)
NO_NUL = Fault("body not followed by NUL", "STOMP10-SEND-06", "STOMP11-HDR-04", "STOMP12-HDR-04")
TOO_LARGE = Fault("frame too large", _ANY, "STOMP11-LIMIT-02", "STOMP12-LIMIT-02")

# --- connecting -----------------------------------------------------------------------------------
NO_COMMON_VERSION = Fault("no common protocol version", _ANY, "STOMP11-NEGO-05", "STOMP12-NEGO-05")
NO_HOST = Fault("host header missing", _ANY, "STOMP11-CONNECT-09", "STOMP12-CONNECT-07")
UNKNOWN_HOST = Fault("Bad CONNECT", _ANY, "STOMP11-CONNECT-11", "STOMP12-CONNECT-09")
BAD_LOGIN = Fault(
    "login or passcode refused", "STOMP10-CONNECT-01", "STOMP11-CONNECT-03", "STOMP12-CONNECT-03"
)
BAD_HEART_BEAT = Fault("malformed heart-beat header", _ANY, "STOMP11-HB-01", "STOMP12-HB-01")
TOO_SLOW = Fault(
    "no CONNECT in time", "STOMP10-CONNECT-01", "STOMP11-CONNECT-03", "STOMP12-CONNECT-03"
)
SILENT = _everywhere("connection TTL expired", "ARTEMIS-STOMP-ttl-2")
SILENT_WITH_BEATS = _everywhere("connection TTL expired", "ARTEMIS-STOMP-ttl-3")

# --- sending --------------------------------------------------------------------------------------
SEND_NO_DESTINATION = Fault(
    "destination header missing", "STOMP10-SEND-01", "STOMP11-SEND-01", "STOMP12-SEND-01"
)
SEND_FAILED = Fault("SEND refused", _ANY, "STOMP11-SEND-07", "STOMP12-SEND-07")
NOT_STORED = Fault("cannot be stored", _ANY, "STOMP11-SEND-07", "STOMP12-SEND-07")
NO_BEATS = Fault("no sign of life", _ANY, "STOMP11-HB-11", "STOMP12-HB-11")
NO_SPACE = _everywhere("no space", "ACTIVEMQ-PFC-9")
ADDRESS_FULL = _everywhere("address is full", "ARTEMIS-PAGING-8")
BAD_ROUTING_TYPE = _everywhere("unknown routing type", "ARTEMIS-STOMP-routing-1")

# --- subscriptions --------------------------------------------------------------------------------
SUB_NO_DESTINATION = Fault(
    "destination header missing", "STOMP10-SUBSCRIBE-01", "STOMP11-SUB-01", "STOMP12-SUB-01"
)
SUB_NO_ID = Fault("id header missing", "STOMP10-SUBSCRIBE-08", "STOMP11-SUB-05", "STOMP12-SUB-05")
SUB_ID_IN_USE = Fault(
    "subscription id in use", "STOMP10-SUBSCRIBE-08", "STOMP11-SUB-05", "STOMP12-SUB-06"
)
SUB_FAILED = Fault("SUBSCRIBE refused", _ANY, "STOMP11-SUB-03", "STOMP12-SUB-03")
TOO_MANY_SUBSCRIPTIONS = Fault("too many subscriptions", _ANY, "STOMP11-SUB-03", "STOMP12-SUB-03")
BAD_ACK_MODE = Fault("unknown ack mode", "STOMP10-SUBSCRIBE-04", "STOMP11-SUB-06", "STOMP12-SUB-07")
BAD_DURABLE_NAME = _everywhere("name of a durable subscription missing", "ARTEMIS-STOMP-durable-1")
NO_CLIENT_ID = _everywhere("client-id missing", "ARTEMIS-STOMP-durable-1")
BAD_SELECTOR = _everywhere("malformed selector", "ARTEMIS-STOMP-selector-1")
BAD_WINDOW = _everywhere("malformed window size", "ARTEMIS-STOMP-window-1")
UNSUB_NO_ID = Fault(
    "id header missing", "STOMP10-UNSUBSCRIBE-01", "STOMP11-UNSUB-01", "STOMP12-UNSUB-01"
)
UNSUB_FAILED = _everywhere("UNSUBSCRIBE refused", "ARTEMIS-STOMP-durable-2")
UNSUB_UNKNOWN = Fault(
    "no such subscription", "STOMP10-UNSUBSCRIBE-01", "STOMP11-UNSUB-01", "STOMP12-UNSUB-02"
)

# --- settlement -----------------------------------------------------------------------------------
ACK_UNKNOWN = Fault("nothing to acknowledge", "STOMP10-ACK-01", "STOMP11-ACK-01", "STOMP12-ACK-01")
ACK_WRONG_SUB = Fault(
    "nothing to acknowledge", "STOMP10-ACK-01", "STOMP11-ACK-02", "STOMP12-ACK-01"
)
NACK_UNKNOWN = Fault("nothing to acknowledge", _ANY, "STOMP11-NACK-01", "STOMP12-NACK-01")

# --- transactions ---------------------------------------------------------------------------------
BEGIN_BAD = Fault(
    "transaction header missing", "STOMP10-BEGIN-01", "STOMP11-BEGIN-01", "STOMP12-BEGIN-01"
)
BEGIN_AGAIN = Fault(
    "transaction already begun", "STOMP10-BEGIN-01", "STOMP11-BEGIN-01", "STOMP12-BEGIN-02"
)
TOO_MANY_TRANSACTIONS = Fault("too many transactions", _ANY, "STOMP11-ERR-01", "STOMP12-ERR-01")
COMMIT_BAD = Fault(
    "no such transaction", "STOMP10-COMMIT-01", "STOMP11-COMMIT-01", "STOMP12-COMMIT-01"
)
ROLLED_BACK = Fault(
    "transaction rolled back", "STOMP10-COMMIT-01", "STOMP11-COMMIT-01", "STOMP12-COMMIT-01"
)
ABORT_BAD = Fault("no such transaction", "STOMP10-ABORT-01", "STOMP11-ABORT-01", "STOMP12-ABORT-01")
SEND_NO_TRANSACTION = Fault(
    "no such transaction", "STOMP10-SEND-03", "STOMP11-SEND-07", "STOMP12-SEND-07"
)
ACK_NO_TRANSACTION = Fault(
    "no such transaction", "STOMP10-ACK-02", "STOMP11-ACK-04", "STOMP12-ACK-03"
)
NACK_NO_TRANSACTION = Fault("no such transaction", _ANY, "STOMP11-NACK-02", "STOMP12-NACK-02")


class Refusal(Exception):
    """A peer's mistake, answered with an ERROR and a close.

    ``detail`` tells people what was wrong and where. ``receipt`` is the receipt header of the
    frame, if it could be read. ``headers`` are added to the ERROR.
    """

    def __init__(
        self,
        fault: Fault,
        version: Version,
        detail: str,
        *,
        receipt: str | None = None,
        headers: Headers = (),
    ) -> None:
        super().__init__(detail)
        self.message = fault.message
        self.requirement = fault.requirement(version)
        self.detail = detail
        self.receipt = receipt
        self.headers = headers


def shown(data: bytes | str) -> str:
    """Return at most 40 bytes or characters of a peer's input, in printable form, for a detail."""
    text = data.decode("utf-8", "backslashreplace") if isinstance(data, bytes) else data
    return ascii(text if len(text) <= 40 else text[:40] + "…")
