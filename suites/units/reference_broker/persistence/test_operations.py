"""Operations of a journal as bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.harness.model.enums import RoutingType
from brokerproof.reference_broker.persistence import operations, page
from brokerproof.suites.units.drivers.broker import patient

texts = st.text(max_size=12)


binaries = st.binary(max_size=60)


numbers = st.integers(0, 2**63)


_ids = st.integers(0, 2**32 - 1)


_small = st.integers(0, 2**16 - 1)


_operations = st.one_of(
    st.builds(operations.Snapshot, numbers, numbers, _ids),
    st.builds(
        operations.QueueMade,
        *(
            _ids,
            texts,
            texts,
            st.sampled_from(RoutingType),
            st.booleans(),
            st.booleans(),
            st.none() | texts,
        ),
    ),
    st.builds(operations.QueueGone, _ids),
    st.builds(operations.Consumed, _ids, st.booleans()),
    st.builds(
        operations.Added, numbers, st.lists(_ids, max_size=3).map(tuple), _small, binaries, binaries
    ),
    st.builds(operations.Gone, _ids, st.lists(st.tuples(numbers, _ids), max_size=3).map(tuple)),
    st.builds(operations.Failed, _ids, numbers, _small),
    st.builds(
        operations.PageGone, _ids, _ids, st.lists(st.tuples(_ids, _ids), max_size=3).map(tuple)
    ),
    st.builds(operations.PageFailed, _ids, _ids, _ids, _small),
    st.builds(operations.UnitDone, numbers),
    st.builds(operations.Length, _ids, numbers),
    st.builds(operations.PageWritten, _ids, _ids, _ids, texts),
    st.builds(operations.PageOver, _ids, texts),
)


@given(st.lists(_operations, max_size=6))
@patient
def test_operations_come_back(some: list[operations.Operation]) -> None:
    payload = b"".join(operation.encode() for operation in some)
    assert list(operations.decode(payload)) == some
    if payload:
        with pytest.raises(operations.BadOperation):
            list(operations.decode(payload[:-1] if len(payload) > 1 else b"?"))


@given(st.sets(st.integers(0, 70)))
@patient
def test_runs_say_what_is_marked(marked: set[int]) -> None:
    kept = page.Page("f", 1, "a")
    for number in marked:
        kept.mark(3, number)
    said = {
        number
        for first, end in page.runs(bytes(kept.acked.get(3, b"")))
        for number in range(first, end)
    }
    assert said == marked
    assert {number for number in range(80) if kept.is_marked(3, number)} == marked
