"""Faults in numbers that STOMP clients send in headers: signs, widths and zeros."""

from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.protocols.stomp.commands import COMMANDS
from brokerproof.reference_broker.protocols.stomp.frame import Frame
from brokerproof.suites.mutation.mutant import Group

stomp_numbers = Group("stomp-numbers")

NOT_DELIVERED = "STOMP12-SUB-02"


def number(frame: Frame, name: str) -> int | None:
    """Return the number in a header; None if there is no such header."""
    try:
        return int(frame.get(name) or "")
    except ValueError:
        return None


@stomp_numbers.override(commands, "_window", breaks=NOT_DELIVERED)
def windows_wrap_at_32_bits(original, reached, session, frame, mode):
    """A consumer-window-size beyond 32 bits is cut to 32 with a sign: 2^31 is a window that is
    overdrawn from the beginning."""
    asked = number(frame, "consumer-window-size")
    if asked is None or -1 <= asked < 2**31:
        return original(session, frame, mode)
    reached()
    return (asked + 2**31) % 2**32 - 2**31


def _confirmed_and_dropped(name: str, header: str, low: int, high: int) -> None:
    def drop(original, reached, session, frame):
        value = number(frame, header)
        if value is None or not low <= value <= high:
            return original(session, frame)
        reached()
        return None

    drop.__name__ = name
    drop.__doc__ = f"A SEND with {header} from {low} to {high} is confirmed and dropped."
    stomp_numbers.override(COMMANDS, "SEND", breaks=NOT_DELIVERED)(drop)


_confirmed_and_dropped("no_expiry_dropped", "expires", 0, 0)
_confirmed_and_dropped("late_expiry_dropped", "expires", 2**63 - 1, 2**65)
_confirmed_and_dropped("high_priorities_dropped", "priority", 2**31, 2**65)
_confirmed_and_dropped("late_timestamps_dropped", "timestamp", 2**53, 2**65)
_confirmed_and_dropped("ends_of_groups_dropped", "JMSXGroupSeq", -1, -1)


@stomp_numbers.override(COMMANDS, "SUBSCRIBE", breaks=NOT_DELIVERED)
def prefetch_of_one_subscribes_nobody(original, reached, session, frame):
    """A SUBSCRIBE with prefetch-count 1 is confirmed, but no subscription is created."""
    if number(frame, "prefetch-count") != 1:
        return original(session, frame)
    reached()
    return None
