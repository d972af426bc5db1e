"""Serial numbers and link credit: the arithmetic, at its edges and against a model."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel import serial_numbers
from brokerproof.reference_broker.kernel.credit import ReceiverCredit

TOP = 2**32
NUMBER = st.integers(0, TOP - 1) | st.sampled_from(
    [0, 1, TOP - 1, TOP - 2, TOP // 2, TOP // 2 - 1, TOP // 2 + 1]
)


@pytest.mark.parametrize(
    ("one", "other", "steps", "before"),
    [
        (0, 0, 0, False),
        (0, 1, 1, True),
        (1, 0, -1, False),
        (TOP - 1, 0, 1, True),
        (0, TOP - 1, -1, False),
        (0, 2**31 - 1, 2**31 - 1, True),
        (0, 2**31, -(2**31), False),
        (2**31, 0, -(2**31), False),
        (0, 2**31 + 1, -(2**31) + 1, False),
        (TOP - 5, 5, 10, True),
    ],
)
def test_order(one: int, other: int, steps: int, before: bool) -> None:
    assert serial_numbers.ahead(one, other) == steps
    assert serial_numbers.before(one, other) is before


@given(NUMBER, st.integers(0, 100), st.integers(-3, 103))
def test_ranges_run_over_the_end(first: int, length: int, place: int) -> None:
    inside = serial_numbers.between(
        first, serial_numbers.add(first, place), serial_numbers.add(first, length)
    )
    assert inside is (0 <= place <= length)


def test_what_a_receiver_does_not_believe() -> None:
    credit = ReceiverCredit(TOP - 1)
    assert not credit.spend()
    credit.grant(3)
    assert credit.spend()
    assert (credit.count, credit.credit) == (0, 2)
    assert not credit.flow(3)
    assert credit.flow(TOP - 1), "old news"
    assert (credit.count, credit.credit) == (0, 2)
    assert credit.flow(2)
    assert (credit.count, credit.credit) == (2, 0)
