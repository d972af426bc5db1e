"""Hindrances of a property: a target on which none works is judged without them."""

from hypothesis import find

from brokerproof.harness.targets import target_file
from brokerproof.suites.steps import hindrances


def test_in_real_time_a_property_is_judged_without_hindrances() -> None:
    target = target_file.load("reference-real")
    assert hindrances.names(target) == []
    assert find(hindrances.pairs(target), lambda _: True) == []


def test_in_virtual_time_two_hindrances_may_meet() -> None:
    target = target_file.load("reference")
    assert len(find(hindrances.pairs(target), lambda drawn: len(drawn) == 2)) == 2
