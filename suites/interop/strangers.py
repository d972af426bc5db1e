"""Brokers without a fixture, judged from HOST:PORT alone: coilmq, Vert.x STOMP, go-stomp's server.

Not collected with the rest, since it needs the package coilmq, Maven, a JDK and Go: name the file,
or ``tox -e strangers``.
"""

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records
from brokerproof.harness.targets import maven
from brokerproof.harness.targets.java_runtime import find_java

VERTX = "4.5.10"
POM = f"""<project xmlns="http://maven.apache.org/POM/4.0.0">
<modelVersion>4.0.0</modelVersion>
<groupId>brokerproof</groupId><artifactId>strangers</artifactId><version>1</version>
<dependencies><dependency>
<groupId>io.vertx</groupId><artifactId>vertx-stomp</artifactId><version>{VERTX}</version>
</dependency></dependencies></project>"""
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
    jars = maven.collect(POM, "Vert.x STOMP", folder / "vertx")
    source = Path(__file__).with_name("VertxStomp.java")
    return [str(find_java(17)), "-cp", f"{jars}/*", str(source), str(port)]


SPOKEN = "speaks STOMP 1.0, 1.1, 1.2"
QUEUE = (
    "/queue/{name} is a queue: it keeps a message until somebody subscribes, and gives it to one of"
    " two subscribers"
)
ONE_BY_ONE = "lets out 1 of 4 messages to a subscriber that acknowledges none, without any header"
TOPIC = "/topic/{name} is a topic: two subscribers get a message each"
DIALECTS = {
    "coilmq": (
        SPOKEN,
        QUEUE,
        TOPIC,
        "agrees on heartbeats: 10000,10000 is answered 10000,10000",
        ONE_BY_ONE,
    ),
    # By its source: at most a beat a minute (server.go), and 1.0 is refused (client/conn.go).
    "go-stomp": (
        "speaks STOMP 1.1, 1.2",
        "does not agree on STOMP 1.0",
        QUEUE,
        TOPIC,
        "agrees on heartbeats: 10000,10000 is answered 60000,60000",
        ONE_BY_ONE,
    ),
    # Destinations are topics unless the application brings a factory of its own.
    "vertx": (
        SPOKEN,
        "none of /queue/{name}, {name}, queue/{name}, queue://{name}, {name} with"
        " destination-type:ANYCAST keeps a message for a later subscriber",
        TOPIC,
        "agrees on heartbeats: 10000,10000 is answered 1000,1000",
    ),
}
ALL = ("--suite", "stomp")
CHOSEN = {
    "coilmq": ALL,
    # A SEND without a destination ends its process: "panic: missing destination".
    "go-stomp": ("--case", "every_kind_of_frame or any_value_comes_back"),
    "vertx": ALL,
}
BROKEN = {"coilmq": "STOMP12-MSG-05", "go-stomp": "STOMP12-RCPT-02", "vertx": "STOMP11-ACK-01"}
"""A requirement that each breaks, by its source: no header ``ack`` in a MESSAGE of 1.2; no RECEIPT
for a SUBSCRIBE; an ``id`` asked for in an ACK of 1.1."""


@pytest.mark.parametrize("name", DIALECTS)
def test_a_broker_is_judged_by_its_address_alone(name: str, tmp_path: Path) -> None:
    port, out = free_port(), tmp_path / "run"
    command = command_of(name, port, tmp_path)
    with running(command, port, tmp_path / "broker.log") as address:
        words = ("--target", address, *CHOSEN[name], "--seed", "1", "--no-report")
        cli = [sys.executable, "-m", "brokerproof.harness.commands.cli", "run", *words]
        ran = subprocess.run([*cli, "--out", str(out)], check=False)
    assert ran.returncode == 1
    header = json.loads((out / "run.json").read_text("utf-8"))
    assert tuple(header["targets"][0]["dialect"]) == DIALECTS[name]
    results = list(records.read(out))
    assert not [result.case for result in results if result.verdict is Verdict.ERROR]
    assert BROKEN[name] in {
        finding.requirement
        for result in results
        for finding in result.findings
        if finding.verdict is Verdict.FAIL
    }
