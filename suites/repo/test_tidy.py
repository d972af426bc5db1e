"""Style rules that run as a test: clocks and sleeps only where they belong, small files, no private
paths, no loose ends."""

import re

import pytest

from brokerproof.suites.repo.sources import Module, module, modules, read, texts, within

MOST_LINES = 660

CLOCKS = {
    "harness/clients/drivers/python/driver_lines.py": "a client's own clock is part of a report",
    "harness/commands/progress.py": "ends a process that judges for too long",
    "harness/counterexamples/player.py": (
        "becomes a script of its own, over sockets, that needs nothing of ours"
    ),
    "harness/cases/execution.py": "how long a case took, for the result",
    "harness/proxy/relay.py": "notes when bytes came",
    "harness/results/run_folder.py": "when a run began, for its header",
    "harness/targets/certificates.py": "certificates are valid from a day to a day",
    "harness/targets/external/dialogue.py": "waits for the answer to a first CONNECT",
    "harness/targets/process.py": "waits for a process to be ready or to end",
    "harness/worlds/host_clock.py": "real time, and faster clocks, are its subject",
    "harness/worlds/wake_up_lateness.py": "measures how late the host is",
    "reference_broker/runtime/asyncio_server.py": "the only place of the broker that knows sockets",
    "reference_broker/runtime/turns.py": "connections share the time of a turn",
    "suites/fuzz/protocols.py": "the fuzzer ends after a time",
    "suites/fuzz/scene.py": "the processor time of an input is an invariant",
    "suites/fuzz/sockets.py": "how long the bystander waits is an invariant",
    "suites/interop/accelerated/__main__.py": "compares the clock of a process with the host's",
    "suites/mutation/matrix.py": "how long a mutant took, for the reader",
    "suites/mutation/wire/matrix.py": "how long a mutant took, for the reader",
    "suites/soak/brokers.py": "waits for real brokers to be ready or to end",
    "suites/soak/damaged_restarts.py": "says how long it all took",
    "suites/soak/deaths.py": "kills at an instant, and says how long it all took",
    "reports/exports/ctrf.py": "turns the times of a run's header into the format's milliseconds",
    "reports/spark/gateway.py": "waits for the JVM to be ready",
}
"""The modules that import ``time`` or ``datetime``, and why. No conformance suite or oracle may."""

SLEEPS = {
    "harness/worlds/wake_up_lateness.py": "the canary wakes on purpose, to see how late",
    "reference_broker/runtime/asyncio_server.py": "lets writers flush before a close",
}
PRINTS = {
    "harness/targets/process_guard.py": (
        "its standard output is a protocol with the process that started it"
    )
}

NO_CLOCK_RULE = ("benchmarks/",)
"""These modules measure time."""


def _joined(*parts: str) -> str:
    return "".join(parts)


PRIVATE = (
    _joined("../", "shared"),
    _joined("/work/", "shared"),
    _joined("/work/", "main"),
    _joined("/work/.", "mirror"),
    _joined("/work/.", "library"),
    _joined("/tmp/", "BRIEF"),
    _joined("repo1.", "maven.org"),
    _joined("repo.maven", ".apache.org"),
    _joined("central.", "sonatype.com"),
    _joined("py", "pi.org"),
    _joined("files.python", "hosted.org"),
    _joined("registry.", "npmjs.org"),
    _joined("proxy.", "golang.org"),
    _joined("crates", ".io"),
    _joined("deb.", "debian.org"),
)
"""Folders of the developers' machine, and hosts of package registries, which only registry clients
should name."""

LOOSE_ENDS = re.compile(
    r"\b(" + "|".join((_joined("TO", "DO"), _joined("FIX", "ME"), _joined("X", "XX"))) + r")\b"
)


def _calls(source: Module, name: str) -> list[int]:
    """Return the lines on which ``name(…)`` or ``anything.name(…)`` is called."""
    return [call.line for call in source.calls if call.name == name]


def _clock_lines(path: str) -> list[int]:
    return [
        imported.line
        for imported in module(path).imports
        if within(imported.name, ("time", "datetime"))
    ]


def _exempt(path: str) -> bool:
    return path.startswith(NO_CLOCK_RULE)


def test_clocks_are_read_where_they_belong() -> None:
    wrong = [
        f"{path}:{line}"
        for path in modules()
        if path not in CLOCKS and not _exempt(path)
        for line in _clock_lines(path)
    ]
    assert not wrong, (
        f"{', '.join(wrong)}: imports a clock. Take the instant as an argument; if this file really"
        " has to read one, add it to CLOCKS in suites/repo/test_tidy.py with the reason"
    )


def test_nobody_sleeps() -> None:
    wrong = [
        f"{path}:{line}"
        for path in modules()
        if path not in SLEEPS
        for line in _calls(module(path), "sleep")
    ]
    assert not wrong, (
        f"{', '.join(wrong)}: sleeps. Wait for something that happens: expect, settle, advance, a"
        " process"
    )


def test_print_is_left_to_commands() -> None:
    wrong = [
        f"{path}:{call.line}"
        for path in modules()
        if path not in PRINTS and not path.startswith("benchmarks/")
        for call in module(path).calls
        if call.bare and call.name == "print"
    ]
    assert not wrong, f"{', '.join(wrong)}: prints. Return the text, or use click.echo in a command"


@pytest.mark.parametrize(
    ("listed", "name"), [(CLOCKS, "CLOCKS"), (SLEEPS, "SLEEPS"), (PRINTS, "PRINTS")]
)
def test_exceptions_are_still_needed(listed: dict[str, str], name: str) -> None:
    used = {
        "CLOCKS": lambda path: bool(_clock_lines(path)),
        "SLEEPS": lambda path: any(_calls(module(path), "sleep")),
        "PRINTS": lambda path: any(_calls(module(path), "print")),
    }[name]
    idle = [path for path in listed if path not in modules() or not used(path)]
    assert not idle, (
        f"{', '.join(idle)}: no longer needs its place in {name}; remove it from"
        " suites/repo/test_tidy.py"
    )


def test_files_are_small() -> None:
    large = {
        path: count
        for path, file in modules().items()
        if (count := len(file.read_text().splitlines())) > MOST_LINES
    }
    assert not large, (
        f"{large}: longer than {MOST_LINES} lines; find the second noun and give it a file"
    )


def test_nothing_private_is_named() -> None:
    wrong = [
        f"{path}:{number} names {needle}"
        for path, text in texts().items()
        for needle in PRIVATE
        if needle in text
        for number, line in enumerate(text.splitlines(), 1)
        if needle in line
    ]
    assert not wrong, f"{'; '.join(wrong)}: take it out; the repository stands on its own"


def test_no_loose_ends() -> None:
    wrong = [
        f"{path}:{number}"
        for path, text in texts().items()
        if path.endswith((".py", ".md", ".toml", ".ini", ".xml"))
        for number, line in enumerate(text.splitlines(), 1)
        if LOOSE_ENDS.search(line)
    ]
    assert not wrong, f"{', '.join(wrong)}: finish it, or open an issue and take the mark out"


def test_every_module_says_what_it_is() -> None:
    silent = [
        path for path in modules() if not module(path).is_empty and module(path).docstring is None
    ]
    assert not silent, (
        f"{', '.join(silent)}: begins without a docstring; one sentence on what it holds is enough"
    )


def test_every_part_says_what_it_is() -> None:
    missing = [
        path
        for path in modules()
        if path.endswith("/__init__.py") and not path.startswith("suites/units/")
    ]
    silent = [path for path in missing if not module(path).docstring]
    assert not silent, (
        f"{', '.join(silent)}: a package begins with a docstring that says what belongs in it"
    )


def test_the_needles_find_something() -> None:
    assert LOOSE_ENDS.search("# " + _joined("TO", "DO") + ": later")
    assert _calls(read("x.py", "import time\ntime.sleep(1)\nsleep(2)"), "sleep") == [2, 3]
    assert not _calls(read("x.py", "'time.sleep(1)'"), "sleep")
