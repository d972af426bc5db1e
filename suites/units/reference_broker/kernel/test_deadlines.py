"""The heap of deadlines gives the same answers as a plain dictionary, whatever deadlines are set,
replaced and cancelled."""

from hypothesis import given
from hypothesis import strategies as st

from brokerproof.reference_broker.kernel.deadlines import Deadline, Deadlines
from brokerproof.suites.units.drivers.broker import patient

keys = st.tuples(st.integers(0, 3), st.sampled_from(["a", "b"]))
steps = st.one_of(
    st.tuples(st.just("set"), keys, st.integers(0, 20)),
    st.tuples(st.just("cancel"), keys, st.just(0)),
    st.tuples(st.just("pop"), st.just((0, "")), st.integers(0, 20)),
)


@patient
@given(st.lists(steps, max_size=200))
def test_like_a_dictionary(script: list[tuple[str, tuple[int, str], int]]) -> None:
    deadlines, model = Deadlines(), {}
    timers: dict[tuple[int, str], Deadline] = {}
    for turn, (verb, key, at) in enumerate(script):
        if verb == "set":
            timers.setdefault(key, deadlines.timer(lambda now: None)).move(at)
            model[key] = (at, turn)
        elif verb == "cancel":
            if key in timers:
                timers[key].cancel()
            model.pop(key, None)
        else:
            due = [key for key in model if model[key][0] <= at]
            expected = min(due, key=lambda each: model[each], default=None)
            deadline = deadlines.pop_due(at)
            if expected is None:
                assert deadline is None
            else:
                assert deadline is timers[expected]
                assert deadline.at is None
                del model[expected]
        assert deadlines.next() == min((key for key, _ in model.values()), default=None)


def test_replacing_often_does_not_grow() -> None:
    deadlines = Deadlines()
    timer = deadlines.timer(lambda now: None)
    for at in range(10_000, 0, -1):
        timer.move(at)
    assert len(deadlines._heap) < 100
    assert deadlines.next() == 1
