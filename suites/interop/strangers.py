"""Brokers without a fixture, judged from HOST:PORT alone: coilmq, Vert.x STOMP, go-stomp's server,
HornetQ.

``strangers.toml`` has the requirements that each of them breaks: they were examined one by one
(``docs/explanation/strangers.md``), so a difference is a fault of ours or another release. Not
collected with the rest, since it needs the package coilmq, Maven, a JDK and Go: name the file, or
``tox -e strangers``.
"""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from brokerproof.harness.catalogue import tables
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.targets import maven
from brokerproof.harness.targets.java_runtime import find_java

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>brokerproof</groupId><artifactId>strangers</artifactId><version>1</version>
<dependencies>{}</dependencies></project>"""
DEPENDENCY = (
    "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"
)
HORNETQ = "2.4.7.Final"
JARS = {
    "VertxStomp": [("io.vertx", "vertx-stomp", "4.5.10")],
    "HornetqStomp": [
        ("org.hornetq", "hornetq-server", HORNETQ),
        ("org.hornetq", "hornetq-stomp-protocol", HORNETQ),
    ],
}
PROGRAMS = {"vertx": "VertxStomp", "hornetq": "HornetqStomp"}
COILMQ = "from coilmq.start import main; main()"
GO_STOMP = "github.com/go-stomp/stomp/v3"
GO_MOD = f"module brokerproof/strangers\n\ngo 1.21\n\nrequire {GO_STOMP} v3.1.3\n"


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@contextmanager
def running(command: list[str], port: int, log: Path) -> Iterator[str]:
    """A broker as a process, until its port accepts connections; yields HOST:PORT."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        while process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=1).close()
            except OSError:
                try:
                    process.wait(0.2)
                except subprocess.TimeoutExpired:
                    continue
            break
        assert process.poll() is None, log.read_text()
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def command_of(name: str, port: int, folder: Path) -> list[str]:
    """The command that starts a broker on ``port``."""
    if name == "coilmq":
        return [sys.executable, "-c", COILMQ, "-b", "127.0.0.1", "-p", str(port)]
    if name == "go-stomp":
        (folder / "go.mod").write_text(GO_MOD)
        build = ["go", "build", "-mod=mod", "-o", "stompd", f"{GO_STOMP}/stompd"]
        subprocess.run(build, cwd=folder, check=True)
        return [str(folder / "stompd"), "-addr", f"127.0.0.1:{port}"]
    program = PROGRAMS[name]
    pom = POM.format("".join(DEPENDENCY.format(*jar) for jar in JARS[program]))
    jars = maven.collect(pom, program, folder / name)
    source = Path(__file__).with_name(f"{program}.java")
    return [str(find_java(17)), "-cp", f"{jars}/*", str(source), str(port)]


# go-stomp's server never confirms a SUBSCRIBE, so that most cases wait for nothing. This one ends
# its process ("panic: missing destination"), and the run goes on.
CHOSEN = {"go-stomp": ("--case", "a_send_without_a_destination")}
KEPT, _ = tables.read(Path(__file__).with_name("strangers.toml"))
DIALECTS, ACCUSED = KEPT["dialects"], KEPT["accused"]


@pytest.mark.parametrize("name", DIALECTS)
def test_a_broker_is_judged_by_its_address_alone(name: str, tmp_path: Path) -> None:
    port, out = free_port(), tmp_path / "run"
    command = command_of(name, port, tmp_path)
    with running(command, port, tmp_path / "broker.log") as address:
        again = ("--restart", f"{shlex.join(command)} & echo $! >> {tmp_path}/pids; wait")
        words = ("--target", address, *CHOSEN.get(name, ()), "--effort", "smoke", "--seed", "3")
        cli = [sys.executable, "-m", "brokerproof.harness.commands.cli", "run", *words, *again]
        ran = subprocess.run([*cli, "--no-report", "--out", str(out)], check=False)
        pids = tmp_path / "pids"
        for pid in pids.read_text().split() if pids.exists() else ():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
    assert ran.returncode == 1
    header = json.loads((out / "run.json").read_text("utf-8"))
    assert header["targets"][0]["dialect"] == DIALECTS[name]
    results = list(records.read(out))
    assert not [result.case for result in results if result.verdict is Verdict.ERROR]
    accused = {
        finding.requirement
        for result in results
        for finding in result.findings
        if finding.verdict is Verdict.FAIL
    }
    assert accused == set(ACCUSED[name])
