"""Events of one case, as the report's tasks read them, without a file."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from brokerproof.harness.trace.columns import batch
from brokerproof.harness.trace.events import Event
from brokerproof.reports.sources.recorded_cases import Columns, RecordedCase


def recorded_case(events: Sequence[Event]) -> RecordedCase:
    size = len(events)
    words = {"run": "r", "target": "t", "case": "c", "clock": "VIRTUAL"}
    envelope = {name: pa.array([word] * size) for name, word in words.items()}
    envelope["seq"] = pa.array(range(size))
    table = pa.Table.from_batches([batch(events, envelope)])
    return RecordedCase(Columns(table), np.arange(size), size)
