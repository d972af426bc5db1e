"""Who may import whom: the lines of ARCHITECTURE, read from the syntax trees."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest

from brokerproof.suites.repo.sources import Import, Module, module, modules, read, within

OURS = ("brokerproof", "benchmarks")
CLOCKS = ("time", "datetime", "asyncio", "sched", "selectors", "threading", "signal")
INPUT_OUTPUT = (
    *(
        "asyncio",
        "socket",
        "socketserver",
        "ssl",
        "select",
        "selectors",
        "threading",
        "multiprocessing",
        "subprocess",
    ),
    *(
        "time",
        "datetime",
        "sched",
        "random",
        "secrets",
        "uuid",
        "os",
        "pathlib",
        "shutil",
        "tempfile",
        "logging",
    ),
)


def _fits(path: str, pattern: str) -> bool:
    """``**`` stands for any path, ``*`` for any name without a slash."""
    parts = (
        ".*" if each == "**" else "[^/]*" if each == "*" else re.escape(each)
        for each in re.split(r"(\*\*?)", pattern)
    )
    return re.fullmatch("".join(parts), path) is not None


@dataclass(frozen=True)
class Line:
    """Files that match ``files`` but not ``except_files`` import nothing within ``never``, save
    ``but``."""

    name: str
    files: tuple[str, ...]
    never: tuple[str, ...]
    why: str
    but: tuple[str, ...] = ()
    except_files: tuple[str, ...] = ()

    def covers(self, path: str) -> bool:
        return any(_fits(path, each) for each in self.files) and not any(
            _fits(path, each) for each in self.except_files
        )

    def crossed(self, found: Module) -> list[Import]:
        return [
            each
            for each in found.imports
            if within(each.name, self.never) and not within(each.name, self.but)
        ]


READERS = ("stomp", "amqp10", "amqp091", "core")
"""Protocols with a fact reader, which reads a trace and nothing else: oracles may build on it."""

CONFORMANCE = (
    *(
        "suites/stomp/**",
        "suites/amqp/**",
        "suites/amqp091/**",
        "suites/delivery/**",
        "suites/flow/**",
        "suites/crossing/**",
    ),
    *("suites/recorded/**", "suites/*.py"),
)

LINES = (
    Line(
        "the model is a leaf",
        ("harness/model/**",),
        OURS,
        "everything else may build on it",
        but=("brokerproof.harness.model",),
    ),
    Line(
        "trace is a leaf",
        ("harness/trace/**",),
        OURS,
        "recordings outlive the code that made them; move what you need into"
        " brokerproof.harness.model or brokerproof.harness.trace",
        but=("brokerproof.harness.model", "brokerproof.harness.trace"),
    ),
    Line(
        "results see the model",
        ("harness/results/**",),
        OURS,
        "results are data: hand them what they need as an argument",
        but=(
            "brokerproof.harness.model",
            "brokerproof.harness.results",
            "brokerproof.harness.trace",
            "brokerproof.harness.targets.target",
        ),
    ),
    Line(
        "the catalogue sees the model",
        ("harness/catalogue/**",),
        OURS,
        "it is data and what is computed from data; hand it what it needs as an argument",
        but=("brokerproof.harness.model", "brokerproof.harness.catalogue"),
    ),
    Line(
        "oracles see traces and the catalogue",
        ("harness/oracles/**",),
        OURS,
        "an oracle is a pure function of a trace; it knows no target and no clock",
        but=(
            "brokerproof.harness.model",
            "brokerproof.harness.trace",
            "brokerproof.harness.catalogue",
            "brokerproof.harness.oracles",
            *(f"brokerproof.harness.protocols.{name}.fact_reader" for name in READERS),
        ),
    ),
    Line(
        "oracles know no clock",
        ("harness/oracles/**",),
        INPUT_OUTPUT,
        "an oracle judges instants that were recorded",
    ),
    Line(
        "the harness imports no other part",
        ("harness/**",),
        ("brokerproof.reference_broker", "brokerproof.reports", "brokerproof.suites", "benchmarks"),
        "it finds them by a dotted name in a target file or as an entry point",
    ),
    Line(
        "the broker sees the model and trace",
        ("reference_broker/**",),
        OURS,
        "of the harness it may import brokerproof.harness.model and brokerproof.harness.trace only",
        but=(
            "brokerproof.harness.model",
            "brokerproof.harness.trace",
            "brokerproof.reference_broker",
        ),
    ),
    Line(
        "the broker's core does no input or output",
        (
            "reference_broker/kernel/**",
            "reference_broker/families/**",
            "reference_broker/protocols/**",
        ),
        INPUT_OUTPUT,
        "inputs, effects and the instant are arguments and results",
    ),
    Line(
        "the store does no input or output",
        ("reference_broker/persistence/**",),
        INPUT_OUTPUT,
        "what is to be done with files is an effect; disk.py does it, threads.py has it done,"
        " making.py says where",
        except_files=(
            "reference_broker/persistence/disk.py",
            "reference_broker/persistence/threads.py",
            "reference_broker/persistence/factory.py",
            "reference_broker/persistence/memory.py",
        ),
    ),
    Line(
        "a disk in memory has dice and nothing else",
        ("reference_broker/persistence/memory.py",),
        INPUT_OUTPUT,
        "it stands for a disk in virtual time: what it does follows from its seed and from what it"
        " is asked",
        but=("random",),
    ),
    Line(
        "reports import no other part but the harness",
        ("reports/**",),
        ("brokerproof.reference_broker", "brokerproof.suites", "benchmarks"),
        "a report is made of recorded runs",
    ),
    Line(
        "Spark lives in reports",
        ("**",),
        ("pyspark", "py4j"),
        "whoever runs a suite should not wait for a JVM",
        except_files=("reports/**", "suites/units/**", "suites/scale/**"),
    ),
    Line(
        "asyncio lives at the sockets",
        ("harness/**", "reference_broker/**", "reports/**"),
        ("asyncio", "uvloop", "trio", "anyio"),
        "only the real world and the broker's socket adapter know a loop",
        except_files=("reference_broker/runtime/asyncio_server.py", "harness/worlds/real.py"),
    ),
    Line(
        "conformance suites take a target",
        CONFORMANCE,
        (
            "brokerproof.reference_broker",
            "brokerproof.reports",
            "benchmarks",
            "brokerproof.suites.units",
            "brokerproof.suites.repo",
            "brokerproof.suites.mutation",
        ),
        "a case runs on any broker",
    ),
    Line(
        "conformance suites read no clock",
        CONFORMANCE,
        (*CLOCKS, "socket", "subprocess", "random"),
        "time is the target's: expect(within=), expect_nothing(for_=), advance, settle",
    ),
    Line(
        "mutants are made of the broker",
        ("suites/mutation/**",),
        OURS,
        "they swap parts of the reference broker and are judged by the harness; cases they find as"
        " any run does",
        but=("brokerproof.harness", "brokerproof.reference_broker", "brokerproof.suites.mutation"),
    ),
    Line(
        "nobody is made of mutants",
        ("harness/**", "reference_broker/**", "reports/**", "suites/**"),
        ("brokerproof.suites.mutation",),
        "they are found as an entry point: a command, and targets by the name mutant:NAME",
        except_files=("suites/mutation/**",),
    ),
    Line(
        "the harness's codecs are its own",
        ("harness/protocols/**",),
        ("brokerproof.reference_broker", "stomp", "proton", "pamqp", "pika", "wsproto", "h11"),
        "a codec that judges others must not share their mistakes",
    ),
    Line(
        "the broker's codecs are its own",
        ("reference_broker/**",),
        ("stomp", "proton", "pika"),
        "a differential test makes the codecs agree; shared code would make that empty",
    ),
)

HOMES = {"stomp": 1, "proton": 2, "pika": 1, "testcontainers": 1}
"""Client libraries, and behind how many modules of the harness each is. Proton has two clients: its
engine, and what it does with sockets."""


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.name)
def test_nobody_crosses(line: Line) -> None:
    crossed = [
        f"{path}:{each.line} imports {each.name}"
        for path in modules()
        if line.covers(path)
        for each in line.crossed(module(path))
    ]
    assert not crossed, f"{line.name}: {'; '.join(crossed)}. Why not: {line.why}."


@pytest.mark.parametrize("library", HOMES)
def test_a_client_library_has_one_home(library: str) -> None:
    homes = [
        path
        for path in modules()
        if path.startswith("harness/")
        and any(within(each.name, (library,)) for each in module(path).imports)
    ]
    assert len(homes) <= HOMES[library], (
        f"{library} is imported by {' and '.join(homes)}; use the modules that had it"
    )


def test_fixtures_are_data() -> None:
    code = [
        path
        for path in modules()
        if path.startswith("fixtures/") and path != "fixtures/__init__.py"
    ]
    assert not code, f"{', '.join(code)}: fixtures hold data only; put code where it is used"


def test_every_line_watches_files_that_exist() -> None:
    blind = [line.name for line in LINES if not any(line.covers(path) for path in modules())]
    assert not blind, f"these lines cover no file: {', '.join(blind)}; correct their patterns"


@pytest.mark.parametrize(
    ("name", "path", "source"),
    [
        (
            "the model is a leaf",
            "harness/model/x.py",
            "from brokerproof.harness.trace import events",
        ),
        ("trace is a leaf", "harness/trace/x.py", "import brokerproof.harness.cases.case"),
        ("trace is a leaf", "harness/trace/x.py", "from .. import case"),
        ("oracles know no clock", "harness/oracles/x.py", "def f():\n    import time"),
        (
            "the harness imports no other part",
            "harness/commands/cli.py",
            "from brokerproof.reference_broker.runtime.command import broker",
        ),
        (
            "the broker sees the model and trace",
            "reference_broker/core/x.py",
            "from brokerproof.harness import targets",
        ),
        (
            "conformance suites take a target",
            "suites/flow/test_x.py",
            "import brokerproof.reference_broker as broker",
        ),
        (
            "conformance suites read no clock",
            "suites/stomp/test_x.py",
            "from time import monotonic",
        ),
        ("Spark lives in reports", "suites/stomp/test_x.py", "import pyspark.sql"),
        (
            "mutants are made of the broker",
            "suites/mutation/x.py",
            "from brokerproof.suites.stomp import octets",
        ),
        (
            "nobody is made of mutants",
            "suites/units/test_x.py",
            "from brokerproof.suites.mutation import groups",
        ),
    ],
)
def test_a_crossing_is_seen(name: str, path: str, source: str) -> None:
    (line,) = [each for each in LINES if each.name == name]
    assert line.covers(path)
    assert line.crossed(read(path, source))


@pytest.mark.parametrize(
    ("name", "path", "source"),
    [
        (
            "trace is a leaf",
            "harness/trace/x.py",
            "from brokerproof.harness.model import ms\nfrom . import events",
        ),
        (
            "the broker sees the model and trace",
            "reference_broker/core/x.py",
            "from brokerproof.harness import model",
        ),
        (
            "the harness's codecs are its own",
            "harness/protocols/x.py",
            "from brokerproof.harness.protocols import stomp",
        ),
    ],
)
def test_what_is_allowed_is_no_crossing(name: str, path: str, source: str) -> None:
    (line,) = [each for each in LINES if each.name == name]
    assert line.covers(path)
    assert not line.crossed(read(path, source))
