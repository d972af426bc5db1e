"""Flow control options of a client as URI parameters: windows in bytes, rates in messages per
second.

The names and values are those in the Artemis manual, chapter on flow control
(ARTEMIS-FLOW-consumer-1, -consumer-rate-1, -producer-1, -producer-rate-1)::

    stomp://HOST:PORT?consumerWindowSize=0&consumerMaxRate=10&producerWindowSize=65536&producerMaxRate=-1
"""

import re
from dataclasses import dataclass
from pathlib import Path

from brokerproof.harness.targets import endpoint
from brokerproof.harness.targets.endpoint import BadEndpoint, Endpoint

NO_LIMIT = -1
MEBIBYTE = 1024 * 1024
INT_MAX = 2**31 - 1

_WHOLE = re.compile(r"-?[0-9]{1,10}")


@dataclass(frozen=True, slots=True)
class FlowOptions:
    """Flow options; -1 means unlimited. Otherwise a rate must be at least 1 and a producer's window
    at least 1 byte; a consumer's window may be 0, so that the client buffers nothing. Raises
    :class:`BadEndpoint` for other values."""

    consumer_window_size: int = MEBIBYTE
    consumer_max_rate: int = NO_LIMIT
    producer_window_size: int = 65536
    """The chapter names no default; this is the default of the vendor's client."""
    producer_max_rate: int = NO_LIMIT

    def __post_init__(self) -> None:
        for field, (name, least, unit) in _PARAMETERS.items():
            value = getattr(self, field)
            if value != NO_LIMIT and not least <= value <= INT_MAX:
                allowed = f"-1 for no limit, or {unit} from {least} to {INT_MAX}"
                raise BadEndpoint(f"{name} is {value}; it should be {allowed}")


_PARAMETERS = {
    "consumer_window_size": ("consumerWindowSize", 0, "bytes"),
    "consumer_max_rate": ("consumerMaxRate", 1, "messages a second"),
    "producer_window_size": ("producerWindowSize", 1, "bytes"),
    "producer_max_rate": ("producerMaxRate", 1, "messages a second"),
}


def read(uri: str, folder: Path = Path()) -> tuple[Endpoint, FlowOptions]:
    """Return the endpoint and the options in a URI. Raises :class:`BadEndpoint` for an invalid URI,
    an unknown parameter, or a value that is not a number or out of range. Paths in TLS options are
    relative to ``folder``."""
    names = {name: field for field, (name, _, _) in _PARAMETERS.items()}
    address = endpoint.read(uri, folder, options=tuple(names))
    values: dict[str, int] = {}
    for name, text in address.options.items():
        if not _WHOLE.fullmatch(text):
            raise BadEndpoint(f"{name} is {text!r}; write a whole number, or -1 for no limit")
        values[names[name]] = int(text)
    return address, FlowOptions(**values)
