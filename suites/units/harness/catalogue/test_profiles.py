"""Profiles: the shipped ones load, and a wrong one is refused with one sentence."""

from pathlib import Path

import pytest

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.oracles import liveness
from brokerproof.suites.units.drivers import toml_tables

TABLES = toml_tables.beside(__file__)

GOOD = (
    'description = "A broker"\ncapabilities = ["stomp", "stomp-1.2"]\n[parameters]\nn = 1\nf ='
    ' 2.0\nt = "x"\nb = true\n'
)


def test_a_profile_has_parameters_of_four_types(tmp_path: Path) -> None:
    (tmp_path / "mine.toml").write_text(GOOD)
    profile = profiles.load("mine", tmp_path)
    assert dict(profile.parameters) == {"n": 1, "f": 2.0, "t": "x", "b": True}
    assert profile.capabilities == {"stomp", "stomp-1.2"}
    with pytest.raises(TypeError):
        profile.parameters["n"] = 2  # type: ignore[index]


def test_an_unknown_name_is_answered_with_a_near_one_or_all() -> None:
    with pytest.raises(
        profiles.UnknownProfile, match=r"there is no profile 'artemsi'; did you mean 'artemis'\?"
    ):
        profiles.load("artemsi")
    listed = (
        "the profiles are activemq, amqp091-client, amqp10-client, any, artemis, proton, rabbit"
    )
    with pytest.raises(profiles.UnknownProfile, match=listed):
        profiles.load("qqq")
    with pytest.raises(profiles.UnknownProfile):
        profiles.load("../requirements/stomp12")


@pytest.mark.parametrize(("before", "after", "sentence"), TABLES["wrong"])
def test_a_wrong_profile_is_refused(tmp_path: Path, before: str, after: str, sentence: str) -> None:
    (tmp_path / "mine.toml").write_text(GOOD.replace(before, after))
    with pytest.raises(BadData, match=sentence):
        profiles.load("mine", tmp_path)


@pytest.mark.parametrize(
    ("given", "answer"), [((0, 0), "0,30000"), ((400, 100), "500,500"), ((1000, 2000), "2000,1000")]
)
def test_the_artemis_defaults_are_those_of_its_chapter(given: tuple[int, int], answer: str) -> None:
    assert liveness.negotiate(profiles.load("artemis").parameters, given).header == answer


def test_the_broker_wide_override_can_take_effect_in_the_artemis_profile() -> None:
    parameters = {**profiles.load("artemis").parameters, "connection_ttl_override_ms": 5000}
    assert liveness.initial_ttl_ms(parameters) == 5000


def test_the_generic_profile_promises_nothing_of_a_vendor() -> None:
    generic, artemis = profiles.load("stomp"), profiles.load("artemis")
    assert generic.capabilities < artemis.capabilities
    assert {"connection-ttl", "consumer-window"} <= artemis.capabilities - generic.capabilities
