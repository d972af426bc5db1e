"""The queue model: returned messages, unexpected messages, and faults of order."""

import pytest

from brokerproof.suites.steps.queue_model import QueueModel


def model(*, published: int, taken: tuple[int, ...] = ()) -> QueueModel:
    queue = QueueModel()
    for _ in range(published):
        queue.publish()
    queue.take(taken)
    return queue


def test_what_comes_back_takes_its_old_place() -> None:
    queue = model(published=5, taken=(1, 2, 4))
    queue.give_back([4, 1])
    assert queue.waiting == [1, 3, 4, 5]
    assert queue.delivered == {1, 2, 4}


def test_strangers_do_not_wait_or_arrive_twice() -> None:
    queue = model(published=3, taken=(1,))
    assert queue.strangers([2, 3]) == []
    assert queue.strangers([1, 2, 2, 9]) == [1, 2, 9]


def given(arrivals: list[list[int]], *, published: int) -> QueueModel:
    """A queue whose messages were delivered to consumers, each with its arrivals."""
    queue = model(published=published)
    for consumer, arrived in enumerate(arrivals):
        queue.arrive(consumer, arrived)
    return queue


@pytest.mark.parametrize("arrivals", [[], [[1, 2]], [[2], [1]], [[1, 3], [2]]])
def test_the_oldest_may_go_to_any_consumer(arrivals: list[list[int]]) -> None:
    queue = given(arrivals, published=4)
    assert queue.has_arrivals is bool(arrivals)
    assert queue.disorder() == ""
    assert not queue.has_arrivals


@pytest.mark.parametrize(
    ("arrivals", "words"), [([[2]], "the oldest"), ([[1], [3]], "the oldest"), ([[2, 1]], "order")]
)
def test_what_is_passed_over_or_turned_round_is_a_fault(
    arrivals: list[list[int]], words: str
) -> None:
    assert words in given(arrivals, published=4).disorder()


def test_what_is_read_late_from_another_connection_is_in_order() -> None:
    queue = given([[1, 3]], published=4)
    queue.arrive(1, [2, 4])
    assert queue.disorder() == ""
