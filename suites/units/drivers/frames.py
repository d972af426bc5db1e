"""Frames of traces, written by hand, for tests of trace readers."""

from collections.abc import Mapping
from typing import Any

from brokerproof.harness.trace.events import FrameReceived, FrameSent

Headers = Mapping[str, str] | tuple[tuple[str, str], ...]


def dashed(fields: Mapping[str, object]) -> tuple[tuple[str, str], ...]:
    """Return keyword arguments as headers, with hyphens in names and booleans in lower case."""
    return tuple(
        (name.replace("_", "-"), str(value).lower() if isinstance(value, bool) else str(value))
        for name, value in fields.items()
    )


def sent(command: str, headers: Headers = (), **fields: Any) -> FrameSent:
    return FrameSent(command=command, **_fields(headers, fields))


def received(command: str, headers: Headers = (), **fields: Any) -> FrameReceived:
    return FrameReceived(command=command, **_fields(headers, fields))


def _fields(headers: Headers, fields: dict[str, Any]) -> dict[str, Any]:
    listed = headers if isinstance(headers, tuple) else tuple(headers.items())
    return {"at_ns": 0, "conn": 1, "protocol": "STOMP", "headers": listed} | fields
