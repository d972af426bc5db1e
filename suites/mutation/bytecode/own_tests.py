"""Artemis's own tests on the same mutants.

``python -m brokerproof.suites.mutation.bytecode.own_tests --sources CHECKOUT --out DIR`` compiles
the tests of a checkout of the release against the release's own jars and runs each test once on the
unchanged classes. Then, on every mutant in DIR, it runs the tests that execute the mutant's line
until one fails. All this happens in one JVM with the mutation agent, in which each test starts its
own broker.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import click

from brokerproof.harness.commands import errors
from brokerproof.harness.targets import java_runtime, maven
from brokerproof.harness.targets.artemis.broker import RELEASES, install
from brokerproof.harness.targets.cache import cache_folder
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.mutation.bytecode import agent, records
from brokerproof.suites.mutation.bytecode.agent import Agent, BytecodeMutant
from brokerproof.suites.mutation.bytecode.broker import sample
from brokerproof.suites.mutation.bytecode.records import Fate, FateRecord

CONTROLS = "own-controls.tsv"
FATES = "own-fates.tsv"
TURN_S = 60.0
"""Seconds of tests on one mutant, by their duration on the unchanged classes."""
LONGEST_TEST_S = 30.0
LATE_S = 90
"""A test that takes longer on a mutant counts as a kill, as in PIT."""

_JUNIT = "5.14.0"
_TEST_LIBRARIES = (
    f"org.junit.jupiter:junit-jupiter:{_JUNIT}",
    "org.junit.platform:junit-platform-launcher:1.14.0",
    "org.mockito:mockito-core:5.20.0",
    "org.mockito:mockito-junit-jupiter:5.20.0",
    "org.hamcrest:hamcrest:3.0",
    "org.jgroups:jgroups:5.3.8.Final",
    "org.fusesource.mqtt-client:mqtt-client:1.16",
    "org.apache.qpid:protonj2-test-driver:1.0.0",
    "org.apache.derby:derby:10.15.2.0",
    "org.apache.derby:derbytools:10.15.2.0",
)
_SOURCE_PATHS = (
    "tests/integration-tests/src/test/java",
    "tests/unit-tests/src/test/java",
    "tests/artemis-test-support/src/main/java",
    "artemis-unit-test-support/src/main/java",
    "artemis-server/src/test/java",
    "artemis-protocols/artemis-stomp-protocol/src/test/java",
    "artemis-protocols/artemis-amqp-protocol/src/test/java",
)
_ROOT = "org/apache/activemq/artemis"
_TESTED = (
    f"artemis-protocols/artemis-stomp-protocol/src/test/java/{_ROOT}/core/protocol/stomp",
    f"artemis-protocols/artemis-amqp-protocol/src/test/java/{_ROOT}/protocol/amqp/proton",
    f"artemis-protocols/artemis-amqp-protocol/src/test/java/{_ROOT}/protocol/amqp/broker",
    f"artemis-server/src/test/java/{_ROOT}/core/paging",
    f"tests/unit-tests/src/test/java/{_ROOT}/tests/unit/core/paging",
    f"tests/integration-tests/src/test/java/{_ROOT}/tests/integration/stomp",
    f"tests/integration-tests/src/test/java/{_ROOT}/tests/integration/amqp",
    f"tests/integration-tests/src/test/java/{_ROOT}/tests/integration/paging",
)
"""Folders of tests, with unit tests before those that start brokers."""
_WITHOUT = ("JMSSaslGssapiTest", "/connect/", "/interop/", "/sasl/", "/journal/")
"""Kerberos needs its own server; the other tests cover no mutants."""
_OPTIONS = (
    "-Xmx2048M",
    "-XX:+UseSerialGC",
    *("--add-modules", "java.sql,jdk.security.auth"),
    *("--add-opens", "java.base/jdk.internal.misc=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.lang=ALL-UNNAMED"),
    *("--add-opens", "java.base/java.util=ALL-UNNAMED"),
    "-Djava.net.preferIPv4Stack=true",
)


@dataclass(frozen=True, slots=True)
class OwnControl:
    """One of Artemis's tests on the unchanged classes."""

    test: str
    passed: bool
    duration_s: float
    lines: frozenset[str]


def fates(path: Path) -> dict[str, Fate]:
    """Return the fates of mutants in Artemis's own tests, by mutant."""
    return {record.mutant: record.fate for record in records.fates(path).values()}


def controls(path: Path) -> list[OwnControl]:
    if not path.exists():
        return []
    rows = [line.split("\t") for line in path.read_text("utf-8").splitlines()]
    by_test = {
        test: OwnControl(test, status == "SUCCESSFUL", int(millis) / 1000, frozenset(lines.split()))
        for test, status, millis, lines in rows
    }
    return list(by_test.values())


def covering(mutant: BytecodeMutant, tests: Iterable[OwnControl]) -> list[OwnControl]:
    """Return the passing tests that execute the mutant's line, the shortest first, as many as fit
    into the time limit."""
    able = [
        test
        for test in tests
        if test.passed and mutant.source_line in test.lines and test.duration_s <= LONGEST_TEST_S
    ]
    chosen, left = [], TURN_S
    for test in sorted(able, key=lambda test: (test.duration_s, test.test)):
        left -= test.duration_s
        if left < 0 and chosen:
            break
        chosen.append(test)
    return chosen


class OwnTests:
    """The compiled tests of one release, and the JVMs that run them."""

    def __init__(self, sources: Path, out: Path) -> None:
        self._sources = sources
        self._out = out
        self._classes = out / "own-classes"
        self._home = install(RELEASES.default_version)
        self._java = java_runtime.find_java(agent.JAVA_MINIMUM)
        self._libraries = _test_libraries()

    def class_path(self, *before: Path) -> str:
        """Return the class path, on which PIT's libraries precede Artemis's own copies of them."""
        resources = [self._sources / path.replace("/java", "/resources") for path in _SOURCE_PATHS]
        paths = [*before, agent.agent_jar(), *agent.pit_jars(), self._classes, *resources]
        return os.pathsep.join(
            [*map(str, paths), f"{self._libraries}/*", f"{self._home / 'lib'}/*"]
        )

    def compile(self) -> list[str]:
        """Compile the tests; return the names of their classes. Raises :class:`SetUpFailed`."""
        files = [
            path
            for folder in _TESTED
            for path in sorted((self._sources / folder).rglob("*.java"))
            if not any(word in path.as_posix() for word in _WITHOUT)
        ]
        driver = Path(agent.__file__).with_name("java") / "tests" / "OwnTests.java"
        if not (self._classes / "OwnTests.class").exists():
            self._classes.mkdir(parents=True, exist_ok=True)
            compiler = shutil.which("javac") or "javac"
            source_path = os.pathsep.join(str(self._sources / path) for path in _SOURCE_PATHS)
            command = [compiler, "-nowarn", "-proc:none", "-d", self._classes]
            command += ["-cp", self.class_path(), "-sourcepath", source_path, *files, driver]
            ran = subprocess.run(command, capture_output=True, check=False, text=True)
            if ran.returncode:
                problem = next((x for x in ran.stderr.splitlines() if " error: " in x), "")
                raise SetUpFailed(f"javac refused the tests: {problem[:300]}")
        names = []
        for path in files:
            text = path.as_posix()
            name = text.partition("/src/test/java/")[2].removesuffix(".java").replace("/", ".")
            if name.endswith(("Test", "Tests")) or name.endswith("TestMultiThreaded"):
                names.append(name)
        return names

    def run_controls(self, names: Sequence[str], scope: Iterable[str]) -> None:
        """Run the tests of these classes on the unchanged code; append the results to the file.
        Finished classes are not run again. The last class in the file may be unfinished.
        """
        known = controls(self._out / CONTROLS)
        done = list(dict.fromkeys(_class_of(control.test) for control in known))[:-1]
        if left := [name for name in names if name not in done]:
            self._run(["control", str(self._out / CONTROLS), *left], scope)

    def run_mutants(self, plan: Mapping[BytecodeMutant, Sequence[OwnControl]]) -> None:
        """Run these mutants' tests until one fails; append the results to the file. A JVM with a
        hanging test is ended, and a new one continues with the rest."""
        left = dict(plan)
        path = self._out / FATES
        while left:
            lines = [
                "\t".join([mutant.key.replace("\t", " "), *(test.test for test in tests)])
                for mutant, tests in left.items()
            ]
            (self._out / "own-plan.tsv").write_text("\n".join(lines) + "\n", "utf-8")
            self._run(["mutants", str(path), str(self._out / "own-plan.tsv"), str(LATE_S)], ())
            decided = {line.split("\t")[0] for line in path.read_text("utf-8").splitlines()}
            remaining = {m: t for m, t in left.items() if m.key.replace("\t", " ") not in decided}
            if len(remaining) == len(left):
                raise SetUpFailed(f"a JVM of tests decided nothing; see {self._log}")
            left = remaining

    @property
    def _log(self) -> Path:
        return self._out / "own-tests.log"

    def _run(self, words: Sequence[str], scope: Iterable[str]) -> None:
        option = Agent(self._out / "own-agent").prepare(scope)
        command = [self._java, *_OPTIONS, option, "-cp", self.class_path(), "OwnTests", *words]
        work = self._out / "own-work"
        work.mkdir(exist_ok=True)
        with self._log.open("ab") as log:
            subprocess.run(command, cwd=work, stdout=log, stderr=log, check=False)


def _class_of(test: str) -> str:
    """Return the class in a test's unique id, ``[engine:…]/[class:NAME]/[method:…]``."""
    return test.partition("[class:")[2].partition("]")[0]


def _test_libraries() -> Path:
    entries = "".join(
        "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version>"
        "</dependency>".format(*text.split(":"))
        for text in _TEST_LIBRARIES
    )
    pom = (
        "<project><modelVersion>4.0.0</modelVersion><groupId>brokerproof</groupId>"
        "<artifactId>own-tests</artifactId><version>1</version>"
        f"<dependencies>{entries}</dependencies></project>"
    )
    folder = cache_folder() / "mutation-agent" / f"test-libraries-{_JUNIT}"
    return maven.collect(pom, "the libraries of Artemis' tests", folder)


def as_records(path: Path, mutants: Iterable[BytecodeMutant]) -> list[FateRecord]:
    """Return the fates that the tests' JVMs wrote, as records."""
    by_key = {mutant.key.replace("\t", " "): mutant for mutant in mutants}
    decided = []
    for line in path.read_text("utf-8").splitlines() if path.exists() else ():
        key, status, test, count = line.split("\t")
        if key in by_key:
            mutant = by_key[key]
            fate = Fate.SURVIVED if status == "SURVIVED" else Fate.KILLED
            decided.append(
                FateRecord(
                    mutant.name,
                    mutant.area,
                    mutant.description,
                    fate,
                    test,
                    "" if status != "TIMED_OUT" else f"took longer than {LATE_S} s",
                    int(count),
                )
            )
    return decided


@click.command()
@click.option(
    "--sources",
    type=click.Path(path_type=Path, exists=True),
    envvar="BROKERPROOF_ARTEMIS_SOURCES",
    help="A checkout of the release; without it, nothing is run.",
)
@click.option("--out", type=click.Path(path_type=Path), required=True)
@click.option("--most", type=int, default=300, show_default=True)
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--target", default="artemis", show_default=True)
def main(sources: Path | None, out: Path, most: int, seed: int, target: str) -> None:
    """Exit 3 if the tests cannot be compiled or run."""
    if sources is None:
        click.echo(
            "Artemis's own tests are not run without --sources, a checkout of Artemis", err=True
        )
        return
    out = out.absolute()
    out.mkdir(parents=True, exist_ok=True)
    try:
        tests = OwnTests(sources.absolute(), out)
        names = tests.compile()
        mutants = sample(target, seed)[:most]
        tests.run_controls(names, sorted({mutant.class_name for mutant in mutants}))
        known = controls(out / CONTROLS)
        passed = sum(test.passed for test in known)
        click.echo(f"{len(known)} tests ran, {passed} passed", err=True)
        decided = {record.mutant for record in as_records(out / FATES, mutants)}
        plan = {mutant: covering(mutant, known) for mutant in mutants}
        covered = {m: tests for m, tests in plan.items() if tests and m.name not in decided}
        tests.run_mutants(covered)
    except SetUpFailed as problem:
        raise errors.SetUp(str(problem)) from None
    (out / records.OWN_TESTS).unlink(missing_ok=True)
    for record in as_records(out / FATES, mutants):
        records.append(out / records.OWN_TESTS, record)
    for mutant in mutants:
        if not plan[mutant]:
            fate = FateRecord(mutant.name, mutant.area, mutant.description, Fate.NOT_EXECUTED)
            records.append(out / records.OWN_TESTS, fate)


if __name__ == "__main__":
    main()
    sys.exit(0)
