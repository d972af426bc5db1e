"""Names that --target accepts, and what is known of a target before it is started.
commands/test_run.py has refused ones."""

from __future__ import annotations

import tomllib
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path

import pytest

from brokerproof.harness.catalogue import profiles
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.artemis.target import ArtemisTarget
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.process import ProcessTarget
from brokerproof.harness.targets.reference.target import VirtualTarget


@pytest.mark.parametrize(
    ("name", "kind"),
    [("reference", VirtualTarget), ("reference-real", ProcessTarget), ("artemis", ArtemisTarget)],
)
def test_shipped_targets_load_by_name(name: str, kind: type) -> None:
    target = target_file.load(name)
    assert isinstance(target, kind)
    assert target.identity.name == name
    assert {"stomp", "login"} <= target.identity.capabilities


def test_a_shipped_target_may_have_another_release() -> None:
    assert target_file.load("artemis@2.44.0").identity.name == "artemis@2.44.0"
    with pytest.raises(
        target_file.BadTarget, match=r"kind virtual has no releases to choose from; leave @1\.0 out"
    ):
        target_file.load("reference@1.0")


def test_an_address_is_judged_by_the_specification_alone() -> None:
    target = target_file.load("broker.example:61613")
    assert isinstance(target, AddressTarget)
    assert target.identity.profile.name == "stomp"
    assert "connection-ttl" not in target.identity.capabilities
    assert target.identity.deviations is None


def test_a_url_may_name_login_passcode_and_profile() -> None:
    target = target_file.load("stomp://me:s%3Aecret@broker.example:61613?profile=artemis")
    identity = target.identity
    assert (identity.login, identity.passcode) == ("me", "s:ecret")
    assert {"login", "connection-ttl"} <= identity.capabilities
    assert "amqp" not in identity.capabilities  # nobody said where
    assert identity.deviations is not None
    assert identity.deviations.name == "known_deviations.toml"
    assert identity.deviations.is_file()


def test_a_file_may_give_other_parameters_than_its_profile(tmp_path: Path) -> None:
    path = tmp_path / "mine.target.toml"
    text = (
        'kind = "address"\nprofile = "stomp"\nendpoints = {{ stomp = "h:1" }}\nparameters = {{ {} ='
        ' "/" }}\n'
    )
    path.write_text(text.format("stomp_host"))
    found = target_file.load(str(path)).identity.profile
    assert found.parameters["stomp_host"] == "/"
    assert (
        found.parameters["anycast_destination"]
        == profiles.load("stomp").parameters["anycast_destination"]
    )
    path.write_text(text.format("stomp_hots"))
    with pytest.raises(
        target_file.BadTarget,
        match="parameters names 'stomp_hots', of which the profile stomp says noth",
    ):
        target_file.load(str(path))


def test_shipped_commands_name_modules_that_exist() -> None:
    shipped = sorted(Path(str(files("brokerproof.fixtures"))).glob("brokers/*/*.target.toml"))
    commands = [tomllib.loads(path.read_text("utf-8")).get("command", []) for path in shipped]
    modules = {command[command.index("-m") + 1] for command in commands if "-m" in command}
    assert modules == {"brokerproof.reference_broker"}
    assert all(find_spec(module) is not None for module in modules)
