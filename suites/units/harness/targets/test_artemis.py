"""Artemis as a target, without Artemis: its configuration, a process on its leash, a broker that
keeps running.

No JVM and no network: where a broker is needed, a small Python script stands in for ``java``.
"""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import zipfile
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from brokerproof.harness.targets import brokers, cache, local_process
from brokerproof.harness.targets.artemis import broker
from brokerproof.harness.targets.artemis import config as artemis_config
from brokerproof.harness.targets.failure import SetUpFailed


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_java(path: Path, version: str, after: str = "exit 1") -> Path:
    """Something that says a version as java does, and otherwise does ``after``."""
    return script(
        path,
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" x\' >&2; exit 0;'
        f" fi\n{after}",
    )


# --- broker.xml -----------------------------------------------------------------------------------


def config(path: Path, *acceptors: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    lines = "\n".join(acceptors)
    path.write_text(
        '<configuration xmlns="urn:activemq">\n<core xmlns="urn:activemq:core">\n<acceptors>\n'
        f"{lines}\n</acceptors>\n</core>\n</configuration>\n"
    )
    return path


def test_acceptors_are_read_and_their_ports_rewritten(tmp_path: Path) -> None:
    path = config(
        tmp_path / "broker.xml",
        '<acceptor name="a">tcp://127.0.0.1:61613?protocols=STOMP;connectionTtl=5</acceptor>',
        '<acceptor name="b">tcp://localhost:5672?connectionTtl=5;protocols=AMQP,STOMP</acceptor>',
        '<acceptor name="c">tcp://127.0.0.1:0</acceptor>',
    )
    found = artemis_config.acceptors(path)
    assert [(each.name, each.host, each.port, each.protocols) for each in found.values()] == [
        ("a", "127.0.0.1", 61613, ("STOMP",)),
        ("b", "localhost", 5672, ("AMQP", "STOMP")),
        ("c", "127.0.0.1", 0, ()),
    ]
    again = tmp_path / "again.xml"
    again.write_bytes(artemis_config.with_ports(path, {"a": 1, "c": 3}))
    assert [acceptor.port for acceptor in artemis_config.acceptors(again).values()] == [1, 5672, 3]
    assert "127.0.0.1:1?protocols=STOMP;connectionTtl=5" in again.read_text()


@pytest.mark.parametrize(
    ("acceptor", "sentence"),
    [
        (
            "<acceptor>tcp://127.0.0.1:1</acceptor>",
            r"broker\.xml, line 4: the acceptor has no name",
        ),
        (
            '<acceptor name="a">vm://0</acceptor>',
            r"line 4: acceptor a is 'vm://0', not tcp://HOST:PORT",
        ),
        ('<acceptor name="a">tcp://127.0.0.1</acceptor>', r"not tcp://HOST:PORT"),
        (
            '<acceptor name="a">tcp://0.0.0.0:1</acceptor>',
            r"listens on 0\.0\.0\.0; only 127\.0\.0\.1",
        ),
        (
            '<acceptor name="a">tcp://127.0.0.1:70000</acceptor>',
            r"port 70000, which is not in 0 to 65535",
        ),
        (
            '<acceptor name="a">tcp://127.0.0.1:1</acceptor>' * 2,
            r"line 4: a second acceptor is called a",
        ),
        ("", r"has no <acceptor>"),
        ("<oops>", r"broker\.xml, line \d+: is no XML"),
    ],
)
def test_acceptors_that_cannot_be_used_are_refused(
    tmp_path: Path, acceptor: str, sentence: str
) -> None:
    with pytest.raises(SetUpFailed, match=sentence):
        artemis_config.acceptors(config(tmp_path / "broker.xml", acceptor))


def test_a_missing_configuration_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetUpFailed, match=r"none\.xml: cannot be read; name a broker\.xml"):
        artemis_config.acceptors(tmp_path / "none.xml")


@pytest.mark.parametrize(
    "name", ["broker.xml", "override.xml", "history-1.xml", "history-2.xml", "history-2.21.xml"]
)
def test_our_own_files_name_loopback_acceptors_with_ports_of_their_own(name: str) -> None:
    found = artemis_config.acceptors(broker.our_files() / name)
    assert "stomp" in found
    assert len({each.port for each in found.values()}) == len(found)
    spoken = {"amqp": "AMQP", "core": "CORE"}
    assert all(
        each.protocols == (spoken.get(each.name.split("-")[0], "STOMP"),) for each in found.values()
    )


@pytest.mark.parametrize(
    ("version", "minimum"),
    [("1.5.0", 8), ("2.19.1", 8), ("2.20.0", 11), ("2.38.0", 11), ("2.39.0", 17), ("3.0.0", 17)],
)
def test_which_java_a_release_needs(version: str, minimum: int) -> None:
    assert broker.java_minimum(version) == minimum


# --- a process on its leash -----------------------------------------------------------------------

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True);"
    " time.sleep(60)"
)


def wait_for(path: Path, text: str) -> None:
    with subprocess.Popen(
        ["tail", "-n", "+1", "-F", path], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as tail:
        assert tail.stdout is not None
        for line in tail.stdout:
            if text in line.decode():
                break
        tail.kill()


def process(
    tmp_path: Path, *command: str, grace_s: float = 5, free: bool = False
) -> local_process.NativeProcess:
    return local_process.NativeProcess(
        command, folder=tmp_path, console=tmp_path / "console", grace_s=grace_s, free=free
    )


def test_a_process_is_started_and_ended(tmp_path: Path) -> None:
    sleeper = process(tmp_path, "sleep", "60")
    pid = sleeper.start()
    assert local_process.started_at(pid) is not None
    assert not sleeper.ended()
    sleeper.stop()
    assert local_process.wait_for_end(pid, 0)
    assert sleeper.ended()
    sleeper.stop()


def test_what_ignores_sigterm_is_killed(tmp_path: Path) -> None:
    sleeper = process(tmp_path, sys.executable, "-c", STUBBORN, grace_s=0.1)
    pid = sleeper.start()
    wait_for(tmp_path / "console", "up")
    sleeper.stop()
    assert local_process.wait_for_end(pid, 0)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_does_not_outlive_a_harness_that_is_killed(
    tmp_path: Path, number: signal.Signals
) -> None:
    text = (
        "import sys; from pathlib import Path; from brokerproof.harness.targets.local_process"
        f" import NativeProcess\np = NativeProcess(['sleep', '60'], folder=Path({str(tmp_path)!r}),"
        f" console=Path({str(tmp_path / 'c')!r}))\nprint(p.start(), flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", text], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as harness:
        assert harness.stdout is not None
        pid = int(harness.stdout.readline())
        assert local_process.started_at(pid) is not None
        harness.send_signal(number)
        assert local_process.wait_for_end(pid, 10)


def test_a_process_dies_with_its_leash(tmp_path: Path) -> None:
    sleeper = process(tmp_path, "sleep", "60")
    pid = sleeper.start()
    parent = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    assert local_process.wait_for_end(pid, 10)
    assert sleeper.ended(5)
    sleeper.stop()


def test_a_free_process_goes_on_until_it_is_ended(tmp_path: Path) -> None:
    sleeper = process(tmp_path, "sleep", "60", free=True)
    pid = sleeper.start()
    assert not sleeper.ended()
    del sleeper
    assert not local_process.wait_for_end(pid, 0)
    local_process.end(pid, 5)
    assert local_process.wait_for_end(pid, 0)
    local_process.end(pid, 5)


def test_a_command_that_cannot_be_run_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(SetUpFailed, match=r"missing: cannot be run \(.*No such file"):
        process(tmp_path, str(tmp_path / "missing")).start()


def test_waiting_ends_with_the_process_or_the_time(tmp_path: Path) -> None:
    short = process(tmp_path, "true")
    short.start()
    with pytest.raises(SetUpFailed, match="true ended before it was ready: because"):
        short.wait_until_ready(lambda: False, within_s=10, reason=lambda: "because")
    long = process(tmp_path, "sleep", "60")
    pid = long.start()
    with pytest.raises(SetUpFailed, match=r"sleep was not ready after 0\.1 s: see .*console"):
        long.wait_until_ready(lambda: False, within_s=0.1, reason=lambda: "")
    assert local_process.wait_for_end(pid, 0)


def test_free_ports_differ_and_taken_ones_are_seen() -> None:
    ports = local_process.free_ports(5)
    assert len(set(ports)) == 5
    with HTTPServer(("127.0.0.1", ports[0]), BaseHTTPRequestHandler) as server:
        assert local_process.taken(ports) == [server.server_port]
        assert local_process.listens("127.0.0.1", server.server_port)


# --- the broker, with a script in place of java ---------------------------------------------------

BROKER = """
import re, select, socket, sys
from pathlib import Path

instance = Path(next(each for each in sys.argv if each.startswith("-Dartemis.instance=")).split("=", 1)[1])
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
    for each in select.select(held, [], [])[0]:
        each.accept()[0].close()
"""  # noqa: E501


def release(version: str, namespace: str, *attributes: str) -> None:
    """What brokerproof looks at in a release, in the cache: the schema of two files and the
    attributes it names."""
    library = broker.home_of(version) / "lib"
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
    """A cache with an "Artemis", and a "java" that runs our script instead; returns a configuration
    for it."""
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "jdk"))
    (tmp_path / "broker.py").write_text(BROKER)
    fake_java(
        tmp_path / "jdk" / "bin" / "java",
        "17.0.1",
        f'exec {sys.executable} {tmp_path / "broker.py"} "$@"',
    )
    release(
        broker.default_version(),
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
        assert (running.version, running.host, running.folder) == (
            broker.default_version(),
            "127.0.0.1",
            folder,
        )
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
        ("ann\n", r"properties, line 1: is not LOGIN"),
        ("# none\n", "names no user"),
        ("a = ENC(x)\n", "plain passcode"),
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
    monkeypatch.setattr(broker, "java_minimum", lambda version: 999)
    with pytest.raises(SetUpFailed, match=r"Artemis .*: Java 999 or newer is needed"):
        broker.ArtemisProcess(installed, None, tmp_path / "run").start()


@pytest.mark.parametrize("version", ["latest", "2.56", "../../etc", "2.56.0-SNAPSHOT"])
def test_what_is_no_release_number_is_refused(version: str) -> None:
    with pytest.raises(SetUpFailed, match="is no release number; name one like"):
        broker.install(version)


@pytest.mark.parametrize(
    ("log", "console", "why"),
    [
        (
            "WARN x\nERROR AMQ224000: Failure\njava.lang.X: AMQ229230: Failed to bind a\n",
            "",
            "AMQ229230: Failed to bind a",
        ),
        (
            "",
            (
                "[Fatal Error] :9:1: no\norg.xml.sax.SAXParseException; lineNumber: 9;"
                " columnNumber: 1; no"
            ),
            "line 9: no",
        ),
        ("org.xml.sax.SAXParseException; cvc-1: bad element", "", "cvc-1: bad element"),
        (
            "",
            "a.b.ConfigurationException: Invalid configuration\n\tat a.b",
            "Invalid configuration",
        ),
        ("INFO fine", "banner", ""),
    ],
)
def test_the_reason_is_found_in_the_logs(tmp_path: Path, log: str, console: str, why: str) -> None:
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "artemis.log").write_text(log)
    (tmp_path / "log" / "console.log").write_text(console)
    said = broker.ArtemisProcess(Path("broker.xml"), None, tmp_path).why()
    assert said.endswith(why)
    assert bool(said) == bool(why)


# --- brokers that stay ----------------------------------------------------------------------------


def listed() -> list[brokers.Listed]:
    """What is said of Artemis; the machine may have other brokers of its own."""
    return [each for each in brokers.listing() if each.name == "artemis"]


def test_a_broker_stays_until_it_is_stopped(installed: Path) -> None:
    version = broker.default_version()
    assert [(each.version, each.running) for each in listed()] == [(version, None)]
    running = brokers.start("artemis", config=installed)
    try:
        assert [each.running for each in listed()] == [running]
        with pytest.raises(
            SetUpFailed, match=rf"artemis {version}: runs already as process {running.pid}; stop it"
        ):
            brokers.start("artemis", config=installed)
    finally:
        assert brokers.stop("artemis") == [running]
    assert local_process.wait_for_end(running.pid, 0)
    assert [each.running for each in listed()] == [None]
    assert brokers.stop("artemis", version) == []


def test_another_process_of_the_same_number_is_not_taken_for_the_broker(installed: Path) -> None:
    running = brokers.start("artemis", config=installed)
    state = next((cache.cache_folder() / "running").glob("*.json"))
    values = json.loads(state.read_text())
    brokers.stop("artemis")
    state.write_text(json.dumps(values | {"pid": os.getpid()}))
    assert [each.running for each in listed()] == [None]
    assert brokers.stop("artemis") == []
    assert running.pid != os.getpid()


def test_a_state_file_that_is_none_is_one_sentence(installed: Path) -> None:
    state = cache.cache_folder() / "running" / f"artemis-{broker.default_version()}.json"
    state.parent.mkdir()
    state.write_text("[1]")
    with pytest.raises(SetUpFailed, match=r"\.json: is not what brokers start wrote .*; delete it"):
        brokers.listing()


def test_an_unknown_broker_is_one_sentence() -> None:
    for call in (brokers.install, brokers.start, brokers.stop):
        with pytest.raises(
            SetUpFailed, match="kafka: is no broker that can be installed here; known are artemis"
        ):
            call("kafka")
