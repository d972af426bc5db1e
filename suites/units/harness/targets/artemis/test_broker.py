"""Artemis as a process, without Artemis: a script replaces java."""

import json
import os
import sys
import zipfile
from pathlib import Path

import pytest

from brokerproof.harness.targets import cache, local_process, standing_brokers
from brokerproof.harness.targets.artemis import broker
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.java_releases import JavaReleases
from brokerproof.suites.units.drivers import toml_tables
from brokerproof.suites.units.drivers.executables import fake_java
from brokerproof.suites.units.harness.targets.artemis.test_config import config

TABLES = toml_tables.beside(__file__)


@pytest.mark.parametrize(
    ("version", "minimum"),
    [("1.5.0", 8), ("2.19.1", 8), ("2.20.0", 11), ("2.38.0", 11), ("2.39.0", 17), ("3.0.0", 17)],
)
def test_which_java_a_release_needs(version: str, minimum: int) -> None:
    assert broker.RELEASES.java_minimum(version) == minimum


BROKER = """
import re, select, socket, sys
from pathlib import Path

instance = Path(next(argument for argument in sys.argv if argument.startswith("-Dartemis.instance=")).split("=", 1)[1])
text = (instance / "etc" / "broker.xml").read_text()
log = (instance / "log" / "artemis.log").open("a", buffering=1)
if "fail" in text:
    log.write("java.lang.IllegalStateException: AMQ229230: Failed to bind acceptor fail to 127.0.0.1:1\\n")
    sys.exit(1)
held = []
for port in re.findall(r"127.0.0.1:(\\d+)", text):
    held.append(socket.create_server(("127.0.0.1", int(port))))
log.write("INFO AMQ221007: Server is now active\\n")
while True:
    for ready in select.select(held, [], [])[0]:
        ready.accept()[0].close()
"""  # noqa: E501


def release(version: str, namespace: str, *attributes: str) -> None:
    """Write into the cache the parts of a release that brokerproof reads: two schemas with their
    attributes."""
    library = broker.RELEASES.home_of(version) / "lib"
    library.mkdir(parents=True)
    named = "".join(f'<attribute name="{attribute}"/>' for attribute in attributes)
    schema = (
        '<schema xmlns="http://www.w3.org/2001/XMLSchema"'
        f' targetNamespace="{namespace}">{named}</schema>'
    )
    with zipfile.ZipFile(library / f"artemis-dto-{version}.jar", "w") as jar:
        jar.writestr("org.apache.activemq/dto/activemq.xsd", schema)


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Prepare a cache with an "Artemis", and a "java" that runs our script instead; return a
    configuration for it."""
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    (tmp_path / "broker.py").write_text(BROKER)
    fake_java(
        tmp_path / "jdk" / "bin" / "java",
        "17.0.1",
        f'exec {sys.executable} {tmp_path / "broker.py"} "$@"',
    )
    release(
        broker.RELEASES.default_version,
        "http://activemq.apache.org/schema",
        "domain",
        "certificate-domain",
    )
    return config(
        tmp_path / "conf" / "broker.xml",
        '<acceptor name="stomp">tcp://127.0.0.1:61613?protocols=STOMP</acceptor>',
        '<acceptor name="other">tcp://127.0.0.1:61614?protocols=STOMP</acceptor>',
    )


def test_a_broker_runs_in_a_folder_of_its_own(installed: Path, tmp_path: Path) -> None:
    folder = tmp_path / "a folder with blanks"
    with broker.ArtemisProcess(installed, None, folder) as running:
        assert running.version == broker.RELEASES.default_version
        assert running.host == "127.0.0.1"
        assert running.folder == folder
        assert (running.login, running.passcode) == ("brokerproof", "brokerproof")
        assert "passcode" not in repr(running)
        assert set(running.ports) == {"stomp", "other"}
        assert all(local_process.listens("127.0.0.1", port) for port in running.ports.values())
        assert "AMQ221007" in running.log.read_text()
        assert {path.name for path in (folder / "etc").iterdir()} >= {
            "broker.xml",
            "bootstrap.xml",
            "login.config",
        }
    assert local_process.wait_for_end(running.pid, 0)
    assert not local_process.taken(running.ports.values())


def test_an_old_release_gets_what_it_knows_and_what_newer_javas_lack(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    release("2.5.0", "http://activemq.org/schema", "domain", "configuration")
    monkeypatch.setattr(
        broker.maven, "download", lambda wanted, folder: folder / wanted[0].file_name
    )
    with broker.ArtemisProcess(installed, "2.5.0", tmp_path / "run") as running:
        assert running.version == "2.5.0"
        etc = tmp_path / "run" / "etc"
        assert 'xmlns="http://activemq.org/schema"' in (etc / "bootstrap.xml").read_text()
        assert '<jaas-security domain="activemq"/>' in (etc / "bootstrap.xml").read_text()
        assert 'xmlns="http://activemq.org/schema"' in (etc / "management.xml").read_text()
        assert (etc / "logging.properties").is_file()
        command = Path(f"/proc/{running.pid}/cmdline").read_text().split("\0")
        names = [Path(part).name for part in command[command.index("-classpath") + 1].split(":")]
        assert names[0] == "artemis-boot.jar"
        assert "jaxb-impl-2.3.9.jar" in names
    assert broker.absent_jars("2.10.0") == []


def test_files_beside_the_configuration_come_before_ours(installed: Path, tmp_path: Path) -> None:
    installed.with_name("artemis-users.properties").write_text(
        "# people\n\nann = secret\nbob = x\n"
    )
    with broker.ArtemisProcess(installed, None, tmp_path / "run") as running:
        assert (running.login, running.passcode) == ("ann", "secret")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("ann\n", r"properties, line 1: should be LOGIN"),
        ("# none\n", "no user; add one"),
        ("a = ENC(x)\n", "plain-text passcode"),
    ],
)
def test_a_users_file_that_cannot_be_used_is_refused(
    installed: Path, tmp_path: Path, text: str, sentence: str
) -> None:
    installed.with_name("artemis-users.properties").write_text(text)
    with pytest.raises(SetUpFailed, match=sentence):
        broker.ArtemisProcess(installed, None, tmp_path / "run").start()


def test_a_broker_that_ends_at_once_says_why(installed: Path, tmp_path: Path) -> None:
    bad = config(installed, '<acceptor name="fail">tcp://127.0.0.1:61613</acceptor>')
    starting = broker.ArtemisProcess(bad, None, tmp_path / "run")
    with pytest.raises(
        SetUpFailed, match=r"Artemis .*: AMQ229230: Failed to bind acceptor fail .*\(logs: .*log\)"
    ):
        starting.start()
    assert starting.ended()


def test_the_ports_of_the_file_are_used_or_their_owner_is_blamed(
    installed: Path, tmp_path: Path
) -> None:
    port, other = local_process.free_ports(2)
    fixed = config(
        installed,
        f'<acceptor name="stomp">tcp://127.0.0.1:{port}</acceptor>',
        f'<acceptor name="other">tcp://127.0.0.1:{other}</acceptor>',
    )
    with broker.ArtemisProcess(fixed, None, tmp_path / "run", ports="file") as running:
        assert running.ports == {"stomp": port, "other": other}
        with pytest.raises(
            SetUpFailed, match=rf"listens on the ports of stomp \({port}\), other \({other}\)"
        ):
            broker.ArtemisProcess(fixed, None, tmp_path / "again", ports="file").start()


def test_a_java_that_is_too_old_is_one_sentence(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(JavaReleases, "java_minimum", lambda self, version: 999)
    with pytest.raises(SetUpFailed, match=r"Artemis .*: Java 999 or newer is needed"):
        broker.ArtemisProcess(installed, None, tmp_path / "run").start()


@pytest.mark.parametrize("version", ["latest", "2.56", "../../etc", "2.56.0-SNAPSHOT"])
def test_what_is_no_release_number_is_refused(version: str) -> None:
    with pytest.raises(SetUpFailed, match="is not a release; name one like"):
        broker.install(version)


@pytest.mark.parametrize(("log", "console", "why"), TABLES["logs"])
def test_the_reason_is_found_in_the_logs(tmp_path: Path, log: str, console: str, why: str) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "artemis.log").write_text(log)
    (tmp_path / "log" / "console.log").write_text(console)
    said = broker.ArtemisProcess(Path("broker.xml"), None, tmp_path).why()
    assert said.endswith(why)
    assert bool(said) == bool(why)


def listed() -> list[standing_brokers.Listed]:
    """Return the listed Artemis brokers; the machine may have other brokers."""
    return [listing for listing in standing_brokers.listing() if listing.name == "artemis"]


def test_a_broker_stays_until_it_is_stopped(installed: Path) -> None:
    version = broker.RELEASES.default_version
    assert [(broker.version, broker.running) for broker in listed()] == [(version, None)]
    running = standing_brokers.start("artemis", config=installed)
    try:
        assert [broker.running for broker in listed()] == [running]
        with pytest.raises(
            SetUpFailed, match=rf"artemis {version}: already runs as process {running.pid}; stop it"
        ):
            standing_brokers.start("artemis", config=installed)
    finally:
        assert standing_brokers.stop("artemis") == [running]
    assert local_process.wait_for_end(running.pid, 0)
    assert [broker.running for broker in listed()] == [None]
    assert standing_brokers.stop("artemis", version) == []


def test_another_process_of_the_same_number_is_not_taken_for_the_broker(installed: Path) -> None:
    running = standing_brokers.start("artemis", config=installed)
    state = next((cache.cache_folder() / "running").glob("*.json"))
    values = json.loads(state.read_text())
    standing_brokers.stop("artemis")
    state.write_text(json.dumps(values | {"pid": os.getpid()}))
    assert [broker.running for broker in listed()] == [None]
    assert standing_brokers.stop("artemis") == []
    assert running.pid != os.getpid()


def test_a_state_file_that_is_none_is_one_sentence(installed: Path) -> None:
    state = cache.cache_folder() / "running" / f"artemis-{broker.RELEASES.default_version}.json"
    state.parent.mkdir()
    state.write_text("[1]")
    with pytest.raises(SetUpFailed, match=r"\.json: was not written by `brokers start` .*delete"):
        standing_brokers.listing()


def test_an_unknown_broker_is_one_sentence() -> None:
    for call in (standing_brokers.install, standing_brokers.start, standing_brokers.stop):
        with pytest.raises(
            SetUpFailed, match="kafka: cannot be installed here; these can be: artemis"
        ):
            call("kafka")
