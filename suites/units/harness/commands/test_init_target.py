"""``brokerproof init-target``: detection of a broker, the written file, and the text to paste into
a broker's configuration."""

import tomllib
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner

from brokerproof.harness.commands.cli import cli
from brokerproof.harness.targets import configuration_snippets, target_file
from brokerproof.harness.targets.external import dialogue
from brokerproof.harness.targets.external.target import AddressTarget
from brokerproof.harness.targets.full_addresses import SHIPPED
from brokerproof.harness.targets.process import ProcessTarget


@pytest.fixture(autouse=True)
def short_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait only three seconds, not ten, for protocols that the broker does not answer."""
    monkeypatch.setattr(dialogue, "PROBE_TIMEOUT_S", 3.0)


@pytest.fixture(scope="module")
def ports(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    broker = target_file.load("reference-real")
    assert isinstance(broker, ProcessTarget)
    broker.start(tmp_path_factory.mktemp("broker"))
    yield {name: f"{host}:{port}" for name, (host, port) in broker.endpoints.items()}
    broker.stop()


def init(folder: Path, *arguments: str) -> tuple[int, str, Path]:
    out = folder / "mine.target.toml"
    done = CliRunner().invoke(
        cli, ["init-target", "--out", str(out), *arguments], standalone_mode=False
    )
    return int(done.return_value or 0), done.output + str(done.exception or ""), out


def test_protocols_of_ports_are_detected_and_the_file_loads(
    ports: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SECRET_OF_MINE", "brokerproof")
    found = ("--detect", ports["stomp"], "--detect", ports["amqp"])
    login = ("--login", "brokerproof", "--passcode-env", "SECRET_OF_MINE")
    _, output, out = init(tmp_path, *found, *login, "--like", "reference-real")
    text = out.read_text()
    values = tomllib.loads(text)
    assert values["endpoints"] == {
        "stomp": f"stomp://{ports['stomp']}",
        "amqp": f"amqp://{ports['amqp']}",
    }, output
    assert values["description"].startswith("brokerproof")
    assert values["passcode_env"] == "SECRET_OF_MINE"
    assert "passcode =" not in text
    target = target_file.load(str(out))
    assert isinstance(target, AddressTarget)
    assert {"stomp", "amqp", "login"} <= target.identity.capabilities
    target.start(tmp_path)
    target.stop()
    again = CliRunner().invoke(cli, ["init-target", "--out", str(out), *found])
    assert "exists; remove it" in again.output + str(again.exception)


def test_without_ports_it_asks(ports: dict[str, str], tmp_path: Path) -> None:
    out = tmp_path / "asked.target.toml"
    done = CliRunner().invoke(
        cli,
        ["init-target", "--out", str(out)],
        input=f"{ports['amqp-credits-10']}\nbrokerproof\nHOME\n",
    )
    assert "Ports of the broker" in done.output
    # $HOME is a wrong passcode: the broker refuses the login, and the command reports that.
    assert not out.exists()
    assert "login" in done.output + str(done.exception)


@pytest.mark.parametrize("protocol", ["stomp", "amqp"])
def test_a_port_that_refuses_is_not_taken_for_another_protocol(
    ports: dict[str, str], tmp_path: Path, protocol: str
) -> None:
    _, output, out = init(tmp_path, "--detect", ports[protocol])
    assert "refused" in output
    assert "the broker needs a login: name it with --login and --passcode-env" in output
    assert not out.exists()


def test_a_port_that_nobody_listens_on_is_one_sentence(tmp_path: Path) -> None:
    done = CliRunner().invoke(
        cli, ["init-target", "--out", str(tmp_path / "x"), "--detect", "127.0.0.1:1"]
    )
    assert "127.0.0.1:1 does not accept connections" in done.output + str(done.exception)


def test_the_printed_artemis_configuration_is_that_of_the_fixture() -> None:
    text = configuration_snippets.snippet("artemis")
    tree = ElementTree.fromstring(f"<core>{text}</core>")
    matches = {setting.get("match") for setting in tree.iter("address-setting")}
    for prefix in (SHIPPED.prefix(kind) for kind in ("block", "fail", "page", "drop", "reject")):
        assert f"{prefix}#" in matches
    named = {acceptor.get("name") for acceptor in tree.iter("acceptor")}
    assert {"amqp-credits-10", "ttl-2000", "prefixes", "core"} <= named
    assert not {"stomp", "amqp", "stomp-tls"} & named
    assert configuration_snippets.snippet_ports("artemis").keys() == named


def test_the_printed_activemq_configuration_has_its_destinations() -> None:
    text = configuration_snippets.snippet("activemq")
    tree = ElementTree.fromstring(f"<broker>{text}</broker>")
    queues = {entry.get("queue"): entry.get("memoryLimit") for entry in tree.iter("policyEntry")}
    for kind in ("vm", "file", "off"):
        assert queues[f"{SHIPPED.prefix(kind)}>"] == str(SHIPPED.memory_limit)
    assert tree.find("statisticsBrokerPlugin") is not None


@pytest.mark.parametrize("family", configuration_snippets.FAMILIES)
def test_the_command_prints_it_and_writes_nothing(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(cli, ["init-target", "--show-broker-config", family])
    assert done.output == configuration_snippets.snippet(family)
    assert list(tmp_path.iterdir()) == []
