"""The part of a family's profile that is needed to judge a recording without a target."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from brokerproof.harness.catalogue.profiles import Value


@dataclass(frozen=True)
class Expectations:
    """Times in milliseconds, windows in bytes.

    ``windows``: the SUBSCRIBE headers that request a window, with the unit of each (``octets``,
    ``messages``). ``window`` is the default window, ``modifier`` the number of requested heartbeats
    in a TTL, ``check_interval_ms`` the broker's check interval (None: the family makes no such
    promise). ``queues``: the family promises that queues do not lose, duplicate or reorder
    messages."""

    name: str = ""
    windows: Mapping[str, str] = field(default_factory=dict)
    window: int | None = None
    modifier: float | None = None
    check_interval_ms: int | None = None
    queues: bool = False


NOTHING = Expectations()
"""Expectations of an unknown family: only what the frames themselves promise is judged."""


def expectations_of(
    profile: str, parameters: Mapping[str, Value], *, defaults: bool = True
) -> Expectations:
    """Return the expectations of a profile. Without ``defaults``, the expectations hold for every
    configuration of the family: they contain only windows that frames request, and no TTL, because
    an acceptor may set the TTL's factor."""
    windows: dict[str, str] = {}
    if "stomp_consumer_window_size" in parameters:
        windows = {"consumer-window-size": "octets", "activemq.prefetchSize": "octets"}
    elif "prefetch_header" in parameters:
        windows = {
            str(parameters["prefetch_header"]): str(parameters.get("prefetch_unit", "messages"))
        }
    if not defaults:
        return Expectations(profile, windows, queues=bool(windows))
    modifier, check = (
        parameters.get("heart_beat_to_connection_ttl_modifier"),
        parameters.get("connection_ttl_check_interval_ms"),
    )
    window = parameters.get("stomp_consumer_window_size")
    return Expectations(
        profile,
        windows,
        int(window) if window is not None else None,
        float(modifier) if modifier is not None else None,
        int(check) if check is not None else None,
        queues=bool(windows),
    )
