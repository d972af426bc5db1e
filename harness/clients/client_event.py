"""The events that clients with callbacks report: each is a named step with details."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.protocols.conversation import Match


@dataclass(frozen=True)
class ClientEvent:
    step: str
    detail: Mapping[str, Any] = field(default_factory=dict)

    def brief(self) -> str:
        detail = f" {json.dumps(self.detail, ensure_ascii=False)}" if self.detail else ""
        return f"{self.step}{detail}"[:400]


def event_named(step: str, **detail: Any) -> Match[ClientEvent]:
    words = " ".join([step, *(f"{name}={value!r}" for name, value in detail.items())])[:200]
    return Match(
        words,
        lambda event: (
            event.step == step
            and all(event.detail.get(name) == value for name, value in detail.items())
        ),
    )
