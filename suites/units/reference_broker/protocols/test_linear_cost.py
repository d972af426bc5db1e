"""A byte from a peer costs the broker the same, however many preceded it.

Each scenario of ``drivers/smallest_frames`` is fed here with a few frames and with eight times as
many. The broker's executed bytecodes are counted, so no clock is needed. If the cost is linear in
the bytes, the ratio of the two counts per byte is about 1; a list that is scanned for each frame
makes it several times larger.
"""

import sys
from types import FrameType
from typing import Any

import pytest

from brokerproof.harness.model.broker_io import BytesReceived
from brokerproof.suites.units.drivers.smallest_frames import SCENARIOS

FRAMES, FACTOR = 40, 8
MOST = 1.5
"""The largest allowed ratio. Scans that cost ten bytecodes per kept item give 2 and more."""


def bytecodes_a_byte(feed: Any) -> float:
    count = 0

    def trace(frame: FrameType, event: str, argument: object) -> Any:
        nonlocal count
        if event == "call":
            frame.f_trace_opcodes = True
            frame.f_trace_lines = False
        else:
            count += 1
        return trace

    before = sys.gettrace()
    sys._getframe().f_trace_opcodes = True  # Since 3.12 settrace() asks for opcodes only then.
    sys.settrace(trace)
    try:
        for piece in feed.measured:
            feed.broker.handle(0, BytesReceived(feed.conn, piece))
    finally:
        sys.settrace(before)
    return count / sum(map(len, feed.measured))


@pytest.mark.parametrize("name", SCENARIOS)
def test_costs_are_linear_in_the_bytes(name: str) -> None:
    few, many = (bytecodes_a_byte(SCENARIOS[name](count)) for count in (FRAMES, FRAMES * FACTOR))
    assert many <= MOST * few, f"{few:.0f} bytecodes a byte, then {many:.0f}"
