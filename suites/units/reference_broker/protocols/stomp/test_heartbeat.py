"""The heartbeat arithmetic: worked examples, boundaries, and malformed headers."""

import pytest

from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import LONG_MAX, Acceptor
from brokerproof.reference_broker.settings.settings import Settings

PLAIN = Acceptor("a")


@pytest.mark.parametrize(
    "header",
    ["", ",", "1000", "1000,", ",1000", "0,0,", "1,2,3", "1000, 1000", " 1,1", "1,1 ", "-1,0", "0,-5", "+1,1", "1.5,0",  # noqa: E501
     "1e3,0", "a,b", "٣,0", f"{LONG_MAX + 1},0", "9" * 5000 + ",0"],
)  # fmt: skip
def test_malformed_headers_are_refused(header: str) -> None:
    negotiator = HeartBeatNegotiator(PLAIN, Settings())
    for version, requirement in [(Version.V1_1, "STOMP11-HB-01"), (Version.V1_2, "STOMP12-HB-01")]:
        with pytest.raises(Refusal) as refused:
            negotiator.negotiate(header, version)
        assert refused.value.requirement == requirement
