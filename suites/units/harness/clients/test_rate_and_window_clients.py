"""Clients with rates and windows: the arithmetic, the oracle that judges the clients from frames
alone, and the faults that the oracle detects."""

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from brokerproof.harness.clients.flow_uri_options import FlowOptions, read
from brokerproof.harness.clients.rate_and_window import ConsumerFlow, ProducerFlow, TokenBucket
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Instant
from brokerproof.harness.oracles import rates
from brokerproof.harness.oracles.rates import Step
from brokerproof.harness.targets.endpoint import BadEndpoint

GAPS = st.lists(
    st.one_of(st.just(0), st.integers(0, 10), st.integers(0, 2 * NS_PER_S)), min_size=1, max_size=40
)
RATES = st.one_of(st.integers(1, 20), st.sampled_from([999, 1000, 1001, 10**6]))
BURSTS = st.integers(1, 5)


def crowds(instants: Sequence[Instant], rate: int, burst: int) -> bool:
    """Check the definition interval by interval; :func:`rates.crowd` does so in one pass."""
    return any(
        (last - first + 1 - burst) * NS_PER_S > rate * (instants[last] - instants[first])
        for first in range(len(instants))
        for last in range(first, len(instants))
    )


def through(bucket: TokenBucket, gaps: Sequence[int], late: Sequence[int] = ()) -> list[Instant]:
    """Request tokens after these gaps and use each ``late``; return the instants at which they are
    available."""
    now, passed = 5 * NS_PER_S, []
    for number, gap in enumerate(gaps):
        now = bucket.ready_at(now + gap)
        passed.append(now)
        now += late[number % len(late)] if late else 0
        bucket.spend(now)
    return passed


# --- rates ----------------------------------------------------------------------------------------


@given(
    gaps=GAPS, rate=RATES, burst=BURSTS, late=st.lists(st.integers(0, 3 * NS_PER_MS), max_size=3)
)
def test_over_any_interval_no_more_gets_through_than_rate_and_burst_allow(
    gaps: list[int], rate: int, burst: int, late: list[int]
) -> None:
    passed = through(TokenBucket(rate, burst), gaps, late)
    assert not crowds(passed, rate, burst)
    assert rates.crowd(passed, rate, burst) is None


@given(rate=RATES, burst=BURSTS, count=st.integers(1, 60))
def test_who_is_in_haste_gets_all_that_the_rate_allows(rate: int, burst: int, count: int) -> None:
    passed = through(TokenBucket(rate, burst), [0] * count)
    for number, at in enumerate(passed):
        due = -(-max(0, number + 1 - burst) * NS_PER_S // rate)
        assert due <= at - passed[0] <= due + number, (
            "no later than rounding to nanoseconds makes it"
        )


@given(
    instants=st.lists(st.integers(0, 5 * NS_PER_S), max_size=25).map(sorted),
    rate=RATES,
    burst=BURSTS,
)
def test_the_oracle_sees_exactly_what_the_definition_says(
    instants: list[int], rate: int, burst: int
) -> None:
    found = rates.crowd(instants, rate, burst)
    assert (found is not None) is crowds(instants, rate, burst)
    if found is not None:
        assert (found.count - burst) * NS_PER_S > rate * (found.last - found.first)


class Hasty(TokenBucket):
    """A bucket that refills a tenth too quickly."""

    def __init__(self, rate: int, burst: int = 1) -> None:
        super().__init__(rate + max(1, rate // 10), burst)


class Windowed(TokenBucket):
    """A bucket that counts by whole seconds of the clock: twice the rate fits into an interval that
    spans two of them."""

    def ready_at(self, now: Instant) -> Instant:
        return (
            now
            if self._counted is None or now // NS_PER_S > self._counted // NS_PER_S or self._left
            else self._next(now)
        )

    _left = 0

    def _next(self, now: Instant) -> Instant:
        return (now // NS_PER_S + 1) * NS_PER_S

    def spend(self, now: Instant) -> None:
        if self._counted is None or now // NS_PER_S > self._counted // NS_PER_S:
            self._left = self._rate
        self._left -= 1
        self._counted = now


class Saving(TokenBucket):
    """A bucket that accumulates one token too many."""

    def __init__(self, rate: int, burst: int = 1) -> None:
        super().__init__(rate, burst + 1)


@pytest.mark.parametrize("faulty", [Hasty, Windowed, Saving])
def test_the_oracle_sees_a_faulty_bucket(faulty: type[TokenBucket]) -> None:
    gaps = [0] * 20 + [600 * NS_PER_MS] + [0] * 40
    assert rates.crowd(through(faulty(10), gaps), 10) is not None
    assert rates.crowd(through(TokenBucket(10), gaps), 10) is None


def test_a_rate_of_minus_one_never_waits() -> None:
    assert through(TokenBucket(-1), [0] * 1000) == [5 * NS_PER_S] * 1000


@pytest.mark.parametrize(("rate", "burst"), [(0, 1), (-2, 1), (5, 0)])
def test_other_rates_are_none(rate: int, burst: int) -> None:
    with pytest.raises(ValueError, match="a rate must be -1 or above 0"):
        TokenBucket(rate, burst)


# --- windows --------------------------------------------------------------------------------------


@given(
    window=st.sampled_from([-1, 1, 50, 1000]),
    sizes=st.lists(st.integers(1, 120), min_size=1, max_size=30),
    answers=st.lists(st.integers(0, 3), min_size=1, max_size=10),
    rate=st.sampled_from([-1, 5, 100]),
)
def test_a_producer_has_no_more_under_way_than_its_window(
    window: int, sizes: list[int], answers: list[int], rate: int
) -> None:
    flow: ProducerFlow[int] = ProducerFlow(window, rate)
    for number, size in enumerate(sizes):
        flow.offer(number, size)
    course: list[Step] = []
    open_: list[int] = []
    now = turn = 0
    while flow.waiting:
        at = flow.next_at(now)
        if at is None:  # closed: the broker answers some
            for _ in range(answers[turn % len(answers)] or 1):
                if open_:
                    course.append(Step(now, open_[0], ended=True))
                    flow.confirmed(open_.pop(0))
            turn += 1
            continue
        now = at
        size = flow.waiting[0][1]
        flow.sent(now)
        course.append(Step(now, size, ended=False))
        open_.append(size)
    assert [step.size for step in course if not step.ended] == sizes
    assert window < 0 or rates.beyond(course, window) is None
    assert rate < 0 or rates.crowd(rates.instants(course, ended=False), rate) is None


@given(
    window=st.sampled_from([50, 120, 1000]),
    sizes=st.lists(st.integers(1, 300), min_size=1, max_size=25),
    takes=st.lists(st.booleans(), min_size=1, max_size=10),
)
@settings(max_examples=60)
def test_credit_in_messages_keeps_a_window_of_bytes(
    window: int, sizes: list[int], takes: list[bool]
) -> None:
    """A sender uses all credit immediately. Sizes grow only with the first message, so no message
    is larger than an earlier one."""
    sizes = [max(sizes), *sizes]
    flow: ConsumerFlow[int] = ConsumerFlow(window, -1)
    course: list[Step] = []
    granted = largest = came = 0
    for turn in range(4 * len(sizes)):
        more = flow.credit(largest, granted)
        assert more >= 0
        granted += more
        while granted and came < len(sizes):
            course.append(Step(turn, sizes[came], ended=False))
            flow.arrived(came, sizes[came])
            largest = max(largest, sizes[came])
            came, granted = came + 1, granted - 1
        if flow.waiting and (takes[turn % len(takes)] or turn % 2):
            size = flow.waiting[0][1]
            flow.consume(turn)
            course.append(Step(turn, size, ended=True))
    assert came == len(sizes), "it never asks for nothing while nothing waits"
    assert rates.overrun(course, window) is None
    assert rates.peak(course) <= max(window, max(sizes))


def test_a_window_of_zero_asks_only_for_what_can_be_taken_at_once() -> None:
    flow: ConsumerFlow[str] = ConsumerFlow(0, 2)
    assert flow.asks_at(0) == 0
    flow.arrived("first", 10)
    assert flow.asks_at(0) is None, "one is here"
    flow.consume(0)
    assert flow.asks_at(0) == NS_PER_S // 2
    assert flow.next_at(0) is None


def test_rate_and_window_are_apart() -> None:
    flow: ConsumerFlow[int] = ConsumerFlow(100, 1)
    flow.arrived(0, 40)
    flow.consume(0)
    for number in range(1, 3):
        flow.arrived(number, 40)
    assert flow.credit(40, 0) == 0, "the window is full"
    assert flow.next_at(0) == NS_PER_S, "and the rate says when"
    flow.consume(NS_PER_S)
    assert flow.credit(40, 0) == 1


@pytest.mark.parametrize(
    ("course", "window", "words"),
    [
        ([(40, False), (40, False), (40, False)], 80, "40 bytes arrived while 80 were held"),
        ([(40, False), (40, False)], 0, "40 bytes arrived while 40 were held"),
        ([(90, False), (40, True), (40, False)], 40, "40 bytes arrived while 50 were held"),
    ],
)
def test_the_oracle_sees_an_overrun(
    course: list[tuple[int, bool]], window: int, words: str
) -> None:
    found = rates.overrun([Step(0, size, ended) for size, ended in course], window)
    assert found is not None
    assert words in found


def test_the_oracle_sees_a_producer_that_does_not_wait() -> None:
    found = rates.beyond([Step(0, 40, False), Step(1, 40, False), Step(2, 40, False)], 100)
    assert found == "40 bytes were sent while 80 were in flight; the window is 100"


# --- the URI --------------------------------------------------------------------------------------


def test_parameters_have_the_names_of_the_chapter() -> None:
    place, options = read(
        "stomp://me:secret@broker:61613?consumerWindowSize=0&consumerMaxRate=10&producerWindowSize=-1&producerMaxRate=7"
    )
    assert (place.host, place.port, place.login) == ("broker", 61613, "me")
    assert options == FlowOptions(0, 10, -1, 7)
    assert read("amqp://broker:5672")[1] == FlowOptions(1048576, -1, 65536, -1)


@pytest.mark.parametrize(
    ("query", "words"),
    [
        (
            "consumerMaxRate=0",
            "consumerMaxRate is 0; it should be -1 for no limit, or messages a second from 1",
        ),
        ("consumerMaxRate=-2", "consumerMaxRate is -2"),
        ("producerMaxRate=1.5", "producerMaxRate is '1.5'; write a whole number"),
        ("consumerWindowSize=-2", "bytes from 0"),
        ("producerWindowSize=0", "bytes from 1"),
        ("consumerWindowSize=2147483648", "consumerWindowSize is 2147483648"),
        ("consumermaxrate=1", "unknown option 'consumermaxrate'"),
    ],
)
def test_what_no_client_could_keep_to_is_refused(query: str, words: str) -> None:
    with pytest.raises(BadEndpoint, match=words.replace(".", r"\.")):
        read(f"stomp://broker:61613?{query}")
