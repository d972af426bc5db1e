"""The heartbeat arithmetic: worked examples, boundaries, and what is malformed."""

import pytest

from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import HeartBeatNegotiator
from brokerproof.reference_broker.protocols.stomp.refusal import Refusal
from brokerproof.reference_broker.settings.acceptor import LONG_MAX, Acceptor
from brokerproof.reference_broker.settings.parameters import with_parameters
from brokerproof.reference_broker.settings.settings import Settings

PLAIN = Acceptor("a")
NARROW = with_parameters(
    Acceptor("a"), connection_ttl_ms=1000, connection_ttl_min_ms=5000, connection_ttl_max_ms=10000
)
CAPPED = with_parameters(Acceptor("a"), connection_ttl_max_ms=30000)
ONE = with_parameters(Acceptor("a"), heart_beat_to_connection_ttl_modifier=1.0)
ONE_AND_A_HALF = with_parameters(Acceptor("a"), heart_beat_to_connection_ttl_modifier=1.5)
CROSSED = with_parameters(Acceptor("a"), connection_ttl_min_ms=5000, connection_ttl_max_ms=2000)
ODD = with_parameters(Acceptor("a"), connection_ttl_min_ms=1001)


@pytest.mark.parametrize(
    ("acceptor", "asked", "answer", "ttl"),
    [
        (PLAIN, "1,0", "0,500", 1000),
        (PLAIN, "1,1", "500,500", 1000),
        (PLAIN, "400,100", "500,500", 1000),
        (PLAIN, "500,501", "501,500", 1000),
        (PLAIN, "499,499", "500,500", 1000),
        (PLAIN, "501,500", "500,501", 1002),
        (PLAIN, "500,1000", "1000,500", 1000),
        (PLAIN, "0,1000", "1000,30000", 60000),
        (PLAIN, "0,0", "0,30000", 60000),
        (PLAIN, "1000,2000", "2000,1000", 2000),
        (PLAIN, "20000,0", "0,20000", 40000),
        (PLAIN, "007,000", "0,500", 1000),
        (PLAIN, f"{LONG_MAX},0", f"0,{LONG_MAX}", LONG_MAX),
        (NARROW, "0,0", "0,500", 1000),
        (NARROW, "1,0", "0,2500", 5000),
        (NARROW, "20000,0", "0,5000", 10000),
        (CAPPED, "20000,0", "0,15000", 30000),
        (CAPPED, "15000,0", "0,15000", 30000),
        (ONE, "5000,0", "0,5000", 5000),
        (ONE_AND_A_HALF, "5000,0", "0,5000", 7500),
        (ONE_AND_A_HALF, "667,0", "0,667", 1000),
        (CROSSED, "1500,0", "0,2500", 5000),
        (CROSSED, "9000,0", "0,1000", 2000),
        (ODD, "1,0", "0,500", 1001),
    ],
)
def test_worked_examples(acceptor: Acceptor, asked: str, answer: str, ttl: int) -> None:
    agreement = HeartBeatNegotiator(acceptor, Settings()).negotiate(asked, Version.V1_2)
    assert (agreement.header, agreement.ttl_ms) == (answer, ttl)
    assert agreement.beat_ms == int(answer.split(",")[0])


@pytest.mark.parametrize(
    ("own", "override", "ttl"),
    [(None, -1, 60000), (None, 5000, 5000), (None, 0, 0), (7000, 5000, 7000), (7000, -1, 7000)],
)
def test_the_first_ttl_is_the_acceptors_then_the_override_then_a_minute(
    own: int | None, override: int, ttl: int
) -> None:
    acceptor = with_parameters(PLAIN, connection_ttl_ms=own)
    negotiator = HeartBeatNegotiator(acceptor, Settings(connection_ttl_override_ms=override))
    for header, version in [
        (None, Version.V1_2),
        ("1,1", Version.V1_0),
        ("nonsense", Version.V1_0),
    ]:
        agreement = negotiator.negotiate(header, version)
        assert (agreement.header, agreement.beat_ms, agreement.ttl_ms) == (None, 0, ttl)


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
