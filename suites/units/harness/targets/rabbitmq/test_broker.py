"""RabbitMQ as a process, without RabbitMQ: a small script replaces the release's launcher and
epmd."""

import re
import sys
from pathlib import Path

import pytest

from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import listens
from brokerproof.harness.targets.rabbitmq import broker
from brokerproof.harness.targets.rabbitmq import release as rabbitmq_release
from brokerproof.harness.targets.rabbitmq.broker import RabbitmqProcess, default_plugins, our_files
from brokerproof.harness.targets.rabbitmq.release import Release
from brokerproof.suites.units.drivers import toml_tables
from brokerproof.suites.units.drivers.executables import script

TABLES = toml_tables.beside(__file__)

PYTHON = f"{sys.executable} -I"
LISTEN = "import socket; held = [socket.create_server(('127.0.0.1', int(port))) for port in ports]"


EPMD = f"""
import os, socket, sys, time
if "-names" in sys.argv:
    socket.create_connection(("127.0.0.1", int(os.environ["ERL_EPMD_PORT"]))).close()
    raise SystemExit(0)
ports = [sys.argv[sys.argv.index("-port") + 1]]
{LISTEN}
time.sleep(60)
"""


NODE = f"""
import os, re, time
from pathlib import Path
assert "brokerproof" in Path(os.environ["RABBITMQ_CONFIG_FILE"]).read_text()
text = (Path(os.environ["RABBITMQ_CONFIG_FILES"]) / "harness.conf").read_text()
ports = re.findall(r"tcp\\.(?:1 = 127\\.0\\.0\\.1:|port = )(\\d+)", text)
{LISTEN}
Path(os.environ["RABBITMQ_LOGS"]).write_text("Server startup complete; 3 plugins started.")
time.sleep(60)
"""


def release(folder: Path, node: str = NODE) -> Release:
    home = folder / "rabbitmq_server-3.99.1"
    script(home / "sbin" / "rabbitmq-server", node, PYTHON)
    for name in ("rabbit", *default_plugins("3.99.1")):
        (home / "plugins" / f"{name}-3.99.1").mkdir(parents=True)
    return Release("3.99.1", home)


@pytest.fixture
def erlang(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(tmp_path / "bin" / "epmd", EPMD, PYTHON)
    script(tmp_path / "bin" / "erl", "")
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")


def test_a_machine_without_rabbitmq_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BROKERPROOF_RABBITMQ", raising=False)
    monkeypatch.setattr(rabbitmq_release, "PACKAGED", tmp_path)
    sentence = "not installed .* apt-get install --no-install-recommends rabbitmq-server"
    with pytest.raises(SetUpFailed, match=sentence):
        RabbitmqProcess(tmp_path / "node").start()
    assert not (tmp_path / "node").exists()


@pytest.mark.parametrize(("line", "sentence"), TABLES["refused"])
def test_settings_that_are_not_the_files_business_are_refused(
    tmp_path: Path, line: str, sentence: str
) -> None:
    path = tmp_path / "rabbitmq.conf"
    path.write_text(f"# one\n{line}\n")
    with pytest.raises(SetUpFailed, match=sentence):
        broker.settings(path)


def test_our_own_file_is_good_and_names_the_user() -> None:
    found = broker.settings(broker.our_files() / "rabbitmq.conf")
    assert (found["default_user"], found["default_pass"]) == ("brokerproof", "brokerproof")


@pytest.mark.usefixtures("erlang")
def test_a_node_gets_ports_a_folder_and_an_epmd_of_its_own_and_all_of_it_ends(
    tmp_path: Path,
) -> None:
    process = RabbitmqProcess(tmp_path / "node", release=release(tmp_path))
    with process as running:
        assert set(running.ports) == {"amqp", "stomp", "web_stomp", "management"}
        assert running.version == "3.99.1"
        assert running.login == "brokerproof"
        assert running.passcode == "brokerproof"
        assert all(listens("127.0.0.1", port) for port in running.ports.values())
        assert not process.ended()
        with pytest.raises(SetUpFailed, match="has been started already"):
            process.start()
    assert process.ended()
    assert not any(listens("127.0.0.1", port) for port in running.ports.values())
    written = (tmp_path / "node" / "etc" / "conf.d" / "harness.conf").read_text()
    hosts = re.findall(r"= (\S+):\d+$", written, re.MULTILINE)
    assert hosts == ["127.0.0.1", "127.0.0.1"]
    assert written.count("tcp.ip = 127.0.0.1") == 2
    plugins = (tmp_path / "node" / "etc" / "enabled_plugins").read_text()
    assert plugins == "[rabbitmq_stomp,rabbitmq_web_stomp,rabbitmq_management,rabbitmq_amqp1_0].\n"


@pytest.mark.usefixtures("erlang")
def test_a_classic_file_is_handed_on_as_it_is(tmp_path: Path) -> None:
    config = our_files() / "classic.config"
    with RabbitmqProcess(
        tmp_path / "node", config=config, plugins=[], release=release(tmp_path)
    ) as running:
        assert (running.login, running.passcode) == ("brokerproof", "brokerproof")
    assert (tmp_path / "node" / "etc" / "rabbitmq.config").read_text() == config.read_text()


@pytest.mark.usefixtures("erlang")
def test_only_what_is_enabled_gets_a_port(tmp_path: Path) -> None:
    with RabbitmqProcess(
        tmp_path / "node", plugins=["rabbitmq_stomp"], release=release(tmp_path)
    ) as running:
        assert set(running.ports) == {"amqp", "stomp"}


@pytest.mark.usefixtures("erlang")
def test_an_unknown_plugin_is_refused_before_anything_starts(tmp_path: Path) -> None:
    with pytest.raises(SetUpFailed, match=r"RabbitMQ 3\.99\.1: has no plugin rabbitmq_stmp"):
        RabbitmqProcess(
            tmp_path / "node", plugins=["rabbitmq_stmp"], release=release(tmp_path)
        ).start()


def test_erlang_must_be_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetUpFailed, match=r"erl is not on the PATH; install it with: apt-get"):
        RabbitmqProcess(tmp_path / "node", release=release(tmp_path)).start()


@pytest.mark.parametrize(("said", "reason"), TABLES["outputs"])
@pytest.mark.usefixtures("erlang")
def test_why_a_node_did_not_start_is_read_from_what_it_said(
    tmp_path: Path, said: str, reason: str
) -> None:
    broken = release(tmp_path, f"print({said!r}); raise SystemExit(1)")
    with pytest.raises(SetUpFailed, match=f"ended before it was ready: {reason}"):
        RabbitmqProcess(tmp_path / "node", release=broken).start()


@pytest.mark.usefixtures("erlang")
def test_a_node_whose_epmd_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "bin" / "epmd").write_text("#!/bin/sh\nexit 1\n")
    sentence = (
        r"RabbitMQ 3\.99\.1: ended before it was ready: epmd does not answer on port \d+ \(logs: "
    )
    with pytest.raises(SetUpFailed, match=sentence):
        RabbitmqProcess(tmp_path / "node", release=release(tmp_path)).start()


@pytest.mark.usefixtures("erlang")
def test_other_ports_are_tried_when_one_was_taken_meanwhile(tmp_path: Path) -> None:
    taken = (
        "import os, pathlib\ncount = pathlib.Path(os.environ['HOME']).parents[1] /"
        " 'tries'\ncount.write_text(count.read_text() + 'x' if count.exists() else 'x')\nif"
        " len(count.read_text()) < 3:\n    print('Failed to start Ranch listener"
        " {acceptor,{127,0,0,1},9} in x for reason eaddrinuse (in use)')\n    raise SystemExit(1)\n"
    )
    with RabbitmqProcess(tmp_path / "node", release=release(tmp_path, taken + NODE)):
        assert (tmp_path / "tries").read_text() == "xxx"
