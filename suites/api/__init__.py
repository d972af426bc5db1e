"""The stable interface for authors of conformance cases: ``docs/reference/case-api.md``.

Each protocol has a module: ``stomp``, ``amqp10``, ``amqp091``, ``openwire`` and ``core``.
"""

from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Where, case, over
from brokerproof.harness.model.enums import Clock, CloseHow, RoutingType
from brokerproof.harness.model.finding import listed, shown
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant, ms, seconds
from brokerproof.harness.protocols.conversation import (
    PATIENCE,
    ControlFailed,
    Match,
    Requirements,
    either,
)
from brokerproof.harness.targets.target import RECONFIGURABLE, Target
from brokerproof.harness.trace.events import Event, FrameReceived, HeartBeatReceived
from brokerproof.harness.worlds.tls import CERTIFIED, NOBODY, STRANGER, Certificate

__all__ = [
    "CERTIFIED",
    "NOBODY",
    "NS_PER_MS",
    "NS_PER_S",
    "PATIENCE",
    "RECONFIGURABLE",
    "STRANGER",
    "Bench",
    "Certificate",
    "Clock",
    "CloseHow",
    "ControlFailed",
    "Duration",
    "Event",
    "FrameReceived",
    "HeartBeatReceived",
    "Instant",
    "Match",
    "Requirements",
    "RoutingType",
    "Target",
    "Where",
    "case",
    "either",
    "listed",
    "ms",
    "over",
    "seconds",
    "shown",
]
