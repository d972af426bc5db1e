"""Third-party test suites, run on the reference broker's RabbitMQ profile and on a real RabbitMQ:
``python -m brokerproof.suites.interop.foreign_suites --sources FOLDER``.

FOLDER contains checkouts called ``pika``, ``stomp.py`` and ``stompjs``, because these packages do
not contain their tests; amqplib's package does. No suite is changed: each reaches the broker
through forwarders at RabbitMQ's usual ports on this machine, which must be free. A test that ends
differently on the two brokers must be listed in :data:`DIFFERENCES`, and every test listed there
must differ.
"""

import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import click
from lxml import etree

from brokerproof.harness.targets import npm, target_file
from brokerproof.harness.targets.sockets import SocketTarget

Outcomes = dict[str, str]
"""Passed, failed or skipped, by test."""

PORTS = {"stomp": 61613, "amqp": 5672, "management": 15672, "web_stomp": 15674}
"""RabbitMQ's usual ports."""
PACKAGES = ("amqplib@1.0.3", "claire@0.4.1", "@stomp/stompjs@7.1.1", "jasmine@5", "ws@8")
CONFIGURATION = """default_user = guest
default_pass = guest
web_stomp.ws_frame = binary
"""
TARGETS = {
    "reference": (
        'kind = "process"\ncommand = ["{python}", "-m", "brokerproof.reference_broker",'
        ' "--profile", "rabbitmq", "--config", "{config}", "--any-port", "--parent-pid", "{pid}"]\n'
    ),
    "rabbitmq": 'kind = "rabbitmq"\nversion = "4.0"\n',
}
COMMON = 'profile = "rabbitmq"\nconfig = "rabbitmq.conf"\nlogin = "guest"\npasscode = "guest"\n'
REPORTER = """
module.exports = class {
  constructor() { this.outcomes = {}; }
  specDone(result) { this.outcomes[result.fullName] = result.status; }
  jasmineDone() {
    require('fs').writeFileSync(process.env.OUTCOMES, JSON.stringify(this.outcomes));
  }
};
"""
STOMPPY_TESTS = (
    *("basic", "cli", "context", "misc", "nonascii", "override_threading"),
    *("rabbitmq", "rabbitmq_ws", "s10", "s11", "s12", "threading"),
)
"""Modules of stomp.py that need no other broker, no certificates and no proxy."""
STOMPPY_BROKER = {
    "RABBITMQ_HOST": "localhost",
    "RABBITMQ_WS_HOST": "localhost",
    "STD_HOST": "localhost",
    "STD_PORT": "61613",
    "STD_USER": "guest",
    "STD_PASSWORD": "guest",
    "STD_VHOST": "/",
}
DIFFERENCES = {
    "amqplib Connect > Connect API > serverProperties": (
        "The test asks for the product RabbitMQ in connection.start; the reference gives its name."
    )
}
"""Tests that end differently on the reference, and why that is right."""


@dataclass(frozen=True)
class Suite:
    """A suite. ``command`` writes the outcomes to the path in ``OUTCOMES``. If fewer than ``least``
    tests pass on RabbitMQ, the suite did not really run."""

    name: str
    folder: Path
    command: tuple[str, ...]
    read: Callable[[Path], Outcomes]
    least: int
    environment: Mapping[str, str] = field(default_factory=dict)

    def run(self, out: Path) -> Outcomes:
        """Run the suite; keep its output next to the outcomes."""
        outcomes = out / f"{self.name}.outcomes"
        command = [word.replace("{outcomes}", str(outcomes)) for word in self.command]
        environment = {**os.environ, **self.environment, "OUTCOMES": str(outcomes)}
        with (out / f"{self.name}.log").open("wb") as log:
            subprocess.run(
                command,
                cwd=self.folder,
                env=environment,
                stdout=log,
                stderr=subprocess.STDOUT,
                check=False,
            )
        return self.read(outcomes) if outcomes.exists() else {}


def from_junit(path: Path) -> Outcomes:
    """Return the outcomes in a JUnit file by the names of suite, class and test."""
    outcomes = {}
    for test in etree.parse(path).getroot().iter("testcase"):
        names = [
            suite.get("name", "")
            for suite in reversed(list(test.iterancestors("testsuite")))
            if suite.get("name") != "pytest"
        ]
        class_name = test.get("classname", "")
        if class_name != "test":  # node's name for each class
            names.append(class_name)
        kinds = {etree.QName(child).localname for child in test if isinstance(child.tag, str)}
        failed, skipped = kinds & {"failure", "error"}, "skipped" in kinds
        outcome = "failed" if failed else "skipped" if skipped else "passed"
        outcomes[" > ".join([*names, test.get("name", "")])] = outcome
    return outcomes


def from_json(path: Path) -> Outcomes:
    """Return the outcomes that our reporter for jasmine wrote."""
    outcomes: Outcomes = json.loads(path.read_text("utf-8"))
    return outcomes


def pytest_command(*words: str) -> tuple[str, ...]:
    """Return a pytest command: hanging tests fail, exceptions in threads do not fail a test."""
    options = ("-q", "-p", "no:cacheprovider", "-p", "no:threadexception", "--timeout", "60")
    return (sys.executable, "-m", "pytest", *options, "--junitxml", "{outcomes}", *words)


def suites(sources: Path, folder: Path) -> list[Suite]:
    """Return the suites, with their npm packages below ``folder``."""
    npm.call(["install", "--no-save", *PACKAGES], folder, "the suites in JavaScript")
    modules = folder / "node_modules"
    stompjs = folder / "stompjs"
    shutil.copytree(sources / "stompjs" / "spec", stompjs / "spec")
    shutil.copytree(modules / "@stomp" / "stompjs" / "bundles", stompjs / "bundles")
    (folder / "reporter.js").write_text(REPORTER)
    amqplib = modules / "amqplib"
    tests = tuple(str(path) for path in sorted(amqplib.glob("test/*.test.js")))
    junit = ("--test-reporter=junit", "--test-reporter-destination={outcomes}")
    reporter = f"--reporter={folder / 'reporter.js'}"
    pika_files = ("-o", "python_files=*_test.py *_tests.py", "tests/acceptance")
    stomppy_files = tuple(f"tests/test_{name}.py" for name in STOMPPY_TESTS)
    jasmine = str(modules / ".bin" / "jasmine")
    stomppy = pytest_command(*stomppy_files)
    return [
        Suite("amqplib", amqplib, ("node", "--test", *junit, *tests), from_junit, 200),
        Suite("stompjs", stompjs, (jasmine, "--random=false", reporter), from_json, 100),
        Suite("stomp.py", sources / "stomp.py", stomppy, from_junit, 40, STOMPPY_BROKER),
        Suite("pika", sources / "pika", pytest_command(*pika_files), from_junit, 400),
    ]


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
        writer.write_eof()
    except OSError:
        writer.transport.abort()


async def _forward(
    endpoints: Mapping[str, tuple[str, int]], ready: threading.Event, stopping: threading.Event
) -> None:
    def forwarder(
        endpoint: tuple[str, int],
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def accepted(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            answers, broker = await asyncio.open_connection(*endpoint)
            await asyncio.gather(_copy(reader, broker), _copy(answers, writer))
            broker.close()
            writer.close()

        return accepted

    async with AsyncExitStack() as servers:
        for name, port in PORTS.items():
            forward = forwarder(endpoints[name])
            server = await asyncio.start_server(forward, ["127.0.0.1", "::1"], port)
            servers.callback(server.close)
        ready.set()
        await asyncio.to_thread(stopping.wait)


@contextmanager
def started(name: str, folder: Path) -> Iterator[None]:
    """Start the broker called ``name`` at RabbitMQ's usual ports."""
    (folder / "rabbitmq.conf").write_text(CONFIGURATION)
    file = folder / f"{name}.target.toml"
    file.write_text(TARGETS[name] + COMMON)
    broker = target_file.load(str(file))
    assert isinstance(broker, SocketTarget)
    broker.start(folder)
    ready, stopping = threading.Event(), threading.Event()
    with ThreadPoolExecutor(1) as pool:
        forwarding = pool.submit(asyncio.run, _forward(broker.endpoints, ready, stopping))
        forwarding.add_done_callback(lambda future: ready.set())
        try:
            ready.wait()
            if not forwarding.done():
                yield
        finally:
            stopping.set()
            broker.stop()
            forwarding.result()  # raises: a port is in use


def problems_of(suite: Suite, reference: Outcomes, rabbitmq: Outcomes) -> list[str]:
    """Return each problem of a suite's outcomes as a sentence."""
    problems = []
    if (passed := Counter(rabbitmq.values())["passed"]) < suite.least:
        problems.append(f"{suite.name}: {passed} tests pass on RabbitMQ, not {suite.least}")
    for test in sorted(reference.keys() | rabbitmq.keys()):
        ours, theirs = reference.get(test, "absent"), rabbitmq.get(test, "absent")
        listed = f"{suite.name} {test}" in DIFFERENCES
        if (ours != theirs) is not listed:
            listing = "listed, but the same" if listed else "not listed"
            problems.append(f"{suite.name} {test}: {ours}, on RabbitMQ {theirs} ({listing})")
    return problems


@click.command()
@click.option(
    "--sources",
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    envvar="BROKERPROOF_FOREIGN_SOURCES",
    required=True,
    help="Folder with checkouts called pika, stomp.py and stompjs.",
)
@click.option("--out", type=click.Path(path_type=Path, resolve_path=True), required=True)
def main(sources: Path, out: Path) -> None:
    """Run every suite on both brokers and report unexplained differences."""
    outcomes: dict[str, dict[str, Outcomes]] = {}
    with tempfile.TemporaryDirectory(prefix="brokerproof-foreign-") as name:
        folder = Path(name)
        available = suites(sources, folder)
        for target in TARGETS:
            (out / target).mkdir(parents=True, exist_ok=True)
            with started(target, folder):
                outcomes[target] = {suite.name: suite.run(out / target) for suite in available}
    problems = []
    for suite in available:
        reference, rabbitmq = (outcomes[target][suite.name] for target in TARGETS)
        counts = Counter(rabbitmq.values())
        click.echo(
            f"{suite.name}: on RabbitMQ {dict(counts)}, here {dict(Counter(reference.values()))}"
        )
        problems += problems_of(suite, reference, rabbitmq)
    click.echo("\n".join(problems) or "every difference is explained")
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
