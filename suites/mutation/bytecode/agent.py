"""The Java side: PIT's mutants of a release of Artemis, and the agent that switches a running JVM
to a mutant and back (the sources are in ``java/``)."""

import hashlib
import os
import shutil
import socket
import subprocess
import zipfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from brokerproof.harness.targets import java_runtime, maven
from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed

PIT = "1.17.4"
JAVA_MINIMUM = 17
ANSWER_WITHIN_S = 30.0
_SOURCES = Path(__file__).with_name("java")
_POM = f"""<project>
  <modelVersion>4.0.0</modelVersion>
  <groupId>brokerproof</groupId><artifactId>mutation-agent</artifactId><version>1</version>
  <dependencies><dependency>
    <groupId>org.pitest</groupId><artifactId>pitest-entry</artifactId><version>{PIT}</version>
  </dependency></dependencies>
</project>
"""
_MANIFEST = "Premain-Class: MutationAgent\nCan-Retransform-Classes: true\nClass-Path: {jars}\n"

_PACKAGE = "org.apache.activemq.artemis."
AREAS = {
    "STOMP": (f"{_PACKAGE}core.protocol.stomp.",),
    "AMQP": (f"{_PACKAGE}protocol.amqp.proton.", f"{_PACKAGE}protocol.amqp.broker."),
    "paging": (f"{_PACKAGE}core.paging.",),
    "flow control": (
        f"{_PACKAGE}core.server.impl.ServerConsumerImpl",
        f"{_PACKAGE}core.server.impl.ServerSessionImpl",
        f"{_PACKAGE}core.remoting.server.impl.RemotingServiceImpl$FailureCheckAndFlushThread",
    ),
}
"""The prefixes of the mutated classes' names, by area."""


@dataclass(frozen=True, slots=True)
class BytecodeMutant:
    """One of PIT's mutants: the instruction at ``index`` in a method of the class, changed by a
    mutator."""

    class_name: str
    method: str
    descriptor: str
    index: int
    mutator: str
    line: int
    description: str

    @classmethod
    def parsed(cls, text: str) -> Self:
        name, method, descriptor, index, mutator, line, description = text.split("\t")
        return cls(name, method, descriptor, int(index), mutator, int(line), description)

    @property
    def key(self) -> str:
        """The mutant's fields, in the form that the agent expects."""
        fields = (self.class_name, self.method, self.descriptor, str(self.index), self.mutator)
        return "\t".join(fields)

    @property
    def name(self) -> str:
        """The mutant's name for people, unique within a release."""
        short = self.class_name.removeprefix(_PACKAGE)
        mutator = self.mutator.rpartition(".")[2].removesuffix("Mutator")
        return f"{short}.{self.method}:{self.line}#{self.index} {mutator}"

    @property
    def source_line(self) -> str:
        return f"{self.class_name}:{self.line}"

    @property
    def area(self) -> str:
        return next(
            area for area, prefixes in AREAS.items() if self.class_name.startswith(prefixes)
        )


def agent_jar() -> Path:
    """The agent, compiled once for these sources. This needs Maven and a JDK.

    Raises :class:`SetUpFailed`.
    """
    sources = sorted(_SOURCES.glob("*.java"))
    digest = hashlib.sha256(b"".join(path.read_bytes() for path in sources)).hexdigest()[:12]
    return once(cache_folder() / "mutation-agent" / f"agent-{digest}.jar", _compile)


def pit_jars() -> list[Path]:
    """Return the jars of PIT and of the libraries that it needs. Raises :class:`SetUpFailed`."""
    folder = maven.collect(_POM, f"PIT {PIT}", cache_folder() / "mutation-agent" / f"pit-{PIT}")
    return sorted(folder.glob("*.jar"))


def _compile(scratch: Path) -> Path:
    compiler = shutil.which("javac")
    if compiler is None:
        raise SetUpFailed("the mutation agent cannot be compiled without a JDK: install javac")
    jars, classes = pit_jars(), scratch / "classes"
    sources = sorted(_SOURCES.glob("*.java"))
    command = [compiler, "-nowarn", "-d", classes, "-cp", os.pathsep.join(map(str, jars)), *sources]
    compiled = subprocess.run(command, capture_output=True, check=False, text=True)
    if compiled.returncode:
        raise SetUpFailed(f"javac refused the mutation agent: {compiled.stderr.strip()[:400]}")
    jar = scratch / "agent.jar"
    with zipfile.ZipFile(jar, "w") as archive:
        manifest = _MANIFEST.format(jars="\n  ".join(path.as_uri() + " " for path in jars))
        archive.writestr("META-INF/MANIFEST.MF", _folded(manifest))
        for path in sorted(classes.rglob("*.class")):
            archive.write(path, path.relative_to(classes).as_posix())
    return jar


def _folded(manifest: str) -> str:
    """Return the manifest with lines of at most 72 bytes, as jar files require."""
    lines = []
    for line in manifest.replace("\n  ", "").splitlines():
        lines.append(line[:70])
        lines += [f" {line[at : at + 69]}" for at in range(70, len(line), 69)]
    return "\n".join(lines) + "\n"


def population(lib: Path, prefixes: Iterable[str]) -> list[BytecodeMutant]:
    """Return all mutants that PIT makes of the classes in the jars in ``lib`` whose names begin
    with one of the prefixes. Raises :class:`SetUpFailed`."""
    path = os.pathsep.join([*map(str, [agent_jar(), *pit_jars()]), f"{lib}/*"])
    java = java_runtime.find_java(JAVA_MINIMUM)
    listed = subprocess.run(
        [java, "-cp", path, "Mutants", lib, *prefixes], capture_output=True, check=False, text=True
    )
    if listed.returncode:
        raise SetUpFailed(f"PIT could not list its mutants: {listed.stderr.strip()[:400]}")
    return [BytecodeMutant.parsed(line) for line in listed.stdout.splitlines()]


class Agent:
    """The agent of one JVM, which receives the agent's folder as an argument when it starts."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._socket: socket.socket | None = None

    def prepare(self, scope: Iterable[str] = (), mutant: BytecodeMutant | None = None) -> str:
        """Write the JVM's initial input; return the option for its command line."""
        self.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        self._folder.mkdir(parents=True)
        (self._folder / "scope").write_text("\n".join(scope), "utf-8")
        if mutant is not None:
            (self._folder / "mutant").write_text(mutant.key, "utf-8")
        return f"-javaagent:{agent_jar()}={self._folder}"

    def lines(self) -> list[str]:
        """Return the lines of the classes in scope that have run since the last call, as
        ``class:line``."""
        return self._answer("lines").split()

    def mutate(self, mutant: BytecodeMutant) -> None:
        """Switch the class of ``mutant`` to the mutant. Raises ``ValueError`` if the JVM
        refuses."""
        self._expect_ok(f"mutate {mutant.key}")

    def restore(self) -> None:
        self._expect_ok("restore")

    def busy_threads(self) -> int:
        """Return the number of constantly busy threads, which are in endless loops of a mutant."""
        return int(self._answer("busy"))

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def _expect_ok(self, command: str) -> None:
        answer = self._answer(command)
        if answer != "ok":
            raise ValueError(f"the mutation agent answers {answer}")

    def _answer(self, command: str) -> str:
        if self._socket is None:
            port = int((self._folder / "port").read_text("utf-8"))
            self._socket = socket.create_connection(("127.0.0.1", port), ANSWER_WITHIN_S)
        self._socket.sendall(f"{command}\n".encode())
        received = b""
        while not received.endswith(b"\n"):
            piece = self._socket.recv(1 << 20)
            if not piece:
                raise ConnectionError("the JVM of the mutation agent has ended")
            received += piece
        return received.decode().strip()


def sampled(mutants: Sequence[BytecodeMutant], seed: int) -> list[BytecodeMutant]:
    """Return the mutants in an order determined by ``seed`` alone: the first N are a sample of size
    N."""
    salted = {
        mutant: hashlib.sha256(f"{seed}\t{mutant.key}".encode()).digest() for mutant in mutants
    }
    return sorted(mutants, key=lambda mutant: salted[mutant])
