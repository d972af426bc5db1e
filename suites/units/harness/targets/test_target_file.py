"""Names that --target accepts, and facts about a target that has not been started.
commands/test_run.py tests refused names."""

import json
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
        target_file.BadTarget, match=r"kind virtual has no releases to choose from; omit @1\.0"
    ):
        target_file.load("reference@1.0")


def test_an_older_release_has_only_what_its_manual_describes() -> None:
    old, new = (target_file.load(f"artemis-history@{v}").identity for v in ("2.10.1", "2.17.0"))
    assert new.capabilities - old.capabilities == {"consumer-window"}
    reason = "the manual of 2.10.1 does not describe it; those of >=2.16 do"
    assert old.lack_of({"consumer-window"}) == f"the target has no consumer-window ({reason})"
    assert new.of_release("unknown") == new.of_release("") == new
    assert new.bound_release("ActiveMQ-Artemis", "2.17") > new.bound_release("mini", "1.0") == ""


def test_addresses_are_those_that_the_configuration_names() -> None:
    assert target_file.load("artemis").identity.addresses.prefix("limited.fail")
    old = target_file.load("artemis-history").identity.addresses
    assert set(old.prefixes) == {"block", "fail", "page", "drop"}


@pytest.mark.parametrize("name", ["artemis", "activemq", "rabbitmq"])
def test_an_accelerated_target_has_no_clients_with_clocks_of_their_own(name: str) -> None:
    accelerated = target_file.load(f"{name}-accelerated").identity
    plain = target_file.load(name).identity
    assert accelerated.clock_rate == 10
    assert plain.clock_rate == 1
    assert target_file.CLIENT_CLOCKS in plain.capabilities - accelerated.capabilities


def test_a_clock_that_stands_still_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "still.target.toml"
    path.write_text('kind = "artemis"\nprofile = "artemis"\nconfig = "b.xml"\nclock_rate = 0\n')
    with pytest.raises(target_file.BadTarget, match="clock_rate is 0; it should be 1 or more"):
        target_file.load(str(path))


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
    assert "amqp" not in identity.capabilities  # no address was given
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
    got = found.parameters["anycast_destination"]
    assert got == profiles.load("stomp").parameters["anycast_destination"]
    path.write_text(text.format("stomp_hots"))
    with pytest.raises(
        target_file.BadTarget,
        match="parameters names 'stomp_hots', which the profile stomp does not know",
    ):
        target_file.load(str(path))


def test_shipped_commands_name_modules_that_exist() -> None:
    shipped = sorted(Path(str(files("brokerproof.fixtures"))).glob("brokers/*/*.target.toml"))
    commands = [tomllib.loads(path.read_text("utf-8")).get("command", []) for path in shipped]
    modules = {command[command.index("-m") + 1] for command in commands if "-m" in command}
    assert modules == {"brokerproof.reference_broker"}
    assert all(find_spec(module) is not None for module in modules)


@pytest.mark.parametrize(
    ("stated", "broker"), [({"broker": "Acme MQ"}, "Acme MQ"), ({}, "unknown broker")]
)
def test_a_process_is_called_what_it_calls_itself(
    tmp_path: Path, stated: dict[str, str], broker: str
) -> None:
    ready = json.dumps({"acceptors": {"stomp": 61613}, "version": "7.1", **stated})
    path = tmp_path / "acme.target.toml"
    path.write_text(
        'description = "Acme"\nkind = "process"\nprofile = "artemis"\n'
        f"command = ['sh', '-c', 'echo \"$1\"; exec sleep 60', 'sh', '{ready}']\n".replace(
            "{", "{{"
        ).replace("}", "}}")
    )
    target = target_file.load(str(path))
    facts = target.start(tmp_path / "log")
    target.stop()
    assert (facts.broker, facts.version) == (broker, "7.1")
