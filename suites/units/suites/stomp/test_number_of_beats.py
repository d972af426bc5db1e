"""The number of heartbeats when a busy host reads several at once."""

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

from brokerproof.harness.model.enums import Vantage
from brokerproof.harness.trace.events import HeartBeatReceived
from brokerproof.suites.stomp.test_heart_beats import judge_number_of_beats


def test_beats_that_were_read_at_once_are_several() -> None:
    target = Mock(now=lambda: 20)
    target.events = [
        HeartBeatReceived(at_ns=at, conn=1, vantage=Vantage.PEER, protocol="STOMP", size=size)
        for at, size in ((0, 9), (5, 1), (9, 3))
    ]
    peer: Any = SimpleNamespace(conn=1)
    for period, enough in ((2, False), (5, True)):
        judge_number_of_beats(target, "X", "", peer, 0, period)
        assert target.record_finding.call_args.args[1] is enough
