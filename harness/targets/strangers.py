"""Brokers without a target file: a release is fetched from its registry, started here, and judged
by its address alone. Such a target is called ``stranger:NAME@RELEASE``."""

import os
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.targets import maven
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.client import packages
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.java_runtime import find_java
from brokerproof.harness.targets.local_process import free_ports, listens

WORD = "stranger:"
JARS = {
    "vertx": ("VertxStomp", ["io.vertx:vertx-stomp"]),
    "hornetq": (
        "HornetqStomp",
        ["org.hornetq:hornetq-server", "org.hornetq:hornetq-stomp-protocol"],
    ),
}
COILMQ = "from coilmq.start import main; main()"
GO_STOMP = "github.com/go-stomp/stomp/v3"
NAMES = ("coilmq", "go-stomp", *JARS)


@contextmanager
def options_for(target: str, log: Path) -> Iterator[list[str]]:
    """Yield the options of ``brokerproof run`` for a target. A stranger runs during the block, and
    is restarted if it dies. Raises :class:`SetUpFailed`."""
    if not target.startswith(WORD):
        yield ["--target", target]
        return
    (port,) = free_ports(1)
    name, _, version = target.removeprefix(WORD).partition("@")
    if name not in NAMES:
        raise SetUpFailed(f"{target}: there is no such broker; choose {', '.join(NAMES)}")
    command = _command_of(name, version, port)
    pids = log.with_suffix(".pids")
    pids.write_text("", "utf-8")
    again = f"{shlex.join(command)} & echo $! >> {shlex.quote(str(pids.absolute()))}; wait"
    try:
        with _running(command, port, log):
            yield ["--target", f"127.0.0.1:{port}", "--restart", again]
    finally:
        for pid in pids.read_text("utf-8").split():
            with suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)


@contextmanager
def _running(command: list[str], port: int, log: Path) -> Iterator[None]:
    """Run a broker as a process during the block, once its port accepts connections."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        while process.poll() is None and not listens("127.0.0.1", port):
            with suppress(subprocess.TimeoutExpired):
                process.wait(0.2)
        if process.poll() is not None:
            said = [*filter(str.strip, log.read_text("utf-8", "replace").splitlines()), "nothing"]
            raise SetUpFailed(f"it ended with code {process.returncode} and printed {said[-2:][0]}")
        yield
    finally:
        process.terminate()
        process.wait(30)


def _command_of(name: str, version: str, port: int) -> list[str]:
    if name == "coilmq":
        home, _ = packages.fetch("pip:coilmq", version, Path())
        coilmq = [sys.executable, "-c", COILMQ, "-b", "127.0.0.1", "-p", str(port)]
        return ["env", f"PYTHONPATH={home}", *coilmq]
    folder = cache_folder() / "strangers" / f"{name}-{version}"
    if name == "go-stomp":
        return [str(once(folder, lambda made: _built(made, version))), "-addr", f"127.0.0.1:{port}"]
    program, artifacts = JARS[name]
    pom = maven.project(f"{artifact}:{version}" for artifact in artifacts)
    home = maven.collect(pom, f"{name} {version}", folder)
    source = Path(str(files("brokerproof.fixtures"))) / "strangers" / f"{program}.java"
    return [str(find_java(17)), "-cp", f"{home}/*", str(source), str(port)]


def _built(folder: Path, version: str) -> Path:
    (folder / "go.mod").write_text(
        f"module brokerproof/strangers\n\ngo 1.21\n\nrequire {GO_STOMP} v{version}\n"
    )
    build = ["go", "build", "-mod=mod", "-o", "stompd", f"{GO_STOMP}/stompd"]
    try:
        subprocess.run(build, cwd=folder, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as problem:
        said = getattr(problem, "stderr", b"").decode("utf-8", "replace").strip().splitlines()
        raise SetUpFailed(
            f"go-stomp {version}: cannot be built ({(said or [problem])[-1]})"
        ) from None
    return folder / "stompd"
