"""pytest-xdist with our plugin: cases in virtual time or against an address may be distributed; a
target that the processes cannot share is rejected."""

import os
import subprocess
from argparse import Namespace
from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from xml.etree import ElementTree

import pytest

from brokerproof.harness.cases import case_index, pytest_options
from brokerproof.harness.cases.example_runs import Run
from brokerproof.harness.session import case_runs, pytest_plugin
from brokerproof.harness.targets import local_process, target_file
from brokerproof.harness.targets.sockets import SocketTarget


def configured(**chosen: Any) -> list[str]:
    """Configure our plugin with these options, all others at their defaults; return the registered
    plugins."""
    registered: list[str] = []
    parser = pytest.Parser(_ispytest=True)
    pytest_options.pytest_addoption(parser)
    option = parser.parse([], Namespace(dist="worksteal", **chosen))
    manager = SimpleNamespace(register=lambda plugin, name: registered.append(name))
    config: Any = SimpleNamespace(
        option=option, pluginmanager=manager, addinivalue_line=lambda name, line: None
    )
    pytest_plugin.pytest_configure(config)
    return registered


@pytest.mark.parametrize("target", ["reference", "127.0.0.1:61613"])
def test_cases_in_virtual_time_and_against_an_address_may_be_spread(target: str) -> None:
    assert configured(brokerproof_target=target) == ["brokerproof-session"]


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (
            {"brokerproof_record": "run"},
            "--brokerproof-record: only one process can write a run folder",
        ),
        (
            {"brokerproof_cases_in_parallel": 2},
            "--brokerproof-cases-in-parallel: each process would run all cases",
        ),
        (
            {"brokerproof_target": "reference-real"},
            "--brokerproof-target reference-real: each process would start a broker",
        ),
        (
            {"brokerproof_target": "alarms.target.toml"},
            r"--brokerproof-target alarms\.target\.toml: an alarm blocks the cases of other",
        ),
        (
            {"brokerproof_allow_harm": True},
            "--brokerproof-allow-harm: a broker harmed in one process fails cases in others",
        ),
    ],
)
def test_what_processes_could_not_share_is_refused(
    chosen: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("alarms.target.toml").write_text(
        'kind = "address"\nlike = "rabbitmq-alarms"\nrabbitmqctl = ["true"]\n'
        'endpoints = { amqp = "127.0.0.1:5672", management = "http://127.0.0.1:15672" }\n'
    )
    with pytest.raises(pytest.UsageError, match=rf"pytest-xdist \(-n\) cannot be used with {why}"):
        configured(**chosen)
    assert [path.name for path in tmp_path.iterdir()] == ["alarms.target.toml"], "nothing is begun"


def test_cases_against_an_address_are_spread_over_processes(tmp_path: Path) -> None:
    broker = target_file.load("reference-real")
    broker.start(tmp_path)
    assert isinstance(broker, SocketTarget)
    host, port = broker.endpoints["stomp"]
    login = f"{broker.identity.login}:{broker.identity.passcode}"
    module = case_index.suites_folder() / "stomp" / "test_receipts.py"
    try:
        ran = subprocess.run(
            [
                *case_index.pytest_command(),
                *("-n", "2", f"--junitxml={tmp_path / 'junit.xml'}", str(module)),
                *("--brokerproof-target", f"stomp://{login}@{host}:{port}?like=artemis"),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        broker.stop()
    assert ran.returncode == 0, ran.stdout + ran.stderr
    cases = list(ElementTree.parse(tmp_path / "junit.xml").iter("testcase"))
    verdicts = Counter(
        entry.get("value")
        for case in cases
        for entry in case.iter("property")
        if entry.get("name") == "verdict"
    )
    assert verdicts["PASS"] >= 15
    assert {case.get("classname", "").rpartition(".")[2] for case in cases} == {"test_receipts"}


@pytest.mark.parametrize(
    ("given", "seed"), [(None, 7), ("3", 3), ("-1", -1), ("random", None), ("x", pytest.UsageError)]
)
def test_the_seed_of_hypothesis_decides_where_it_is_given(given: str | None, seed: Any) -> None:
    option = Namespace(brokerproof_seed=7, hypothesis_seed=given)
    if seed is pytest.UsageError:
        with pytest.raises(pytest.UsageError, match="should be a number or random"):
            pytest_plugin._seed(option)
    elif seed is None:
        assert pytest_plugin._seed(option) != pytest_plugin._seed(option)
    else:
        assert pytest_plugin._seed(option) == seed
    assert pytest_plugin._seed(Namespace(brokerproof_seed=7)) == 7


@pytest.mark.parametrize(
    ("options", "selected"),
    [
        (("-k", "stomp.receipts.every_kind"), "stomp/test_receipts.py"),
        (("-m", "brokerproof_heartbeat"), "stomp/test_heart_beats.py"),
        (("--brokerproof-case=stomp.receipts",), "stomp/test_receipts.py"),
        (("--brokerproof-area=heartbeat",), "stomp/test_heart_beats.py"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else None,
)
def test_cases_are_selected_by_their_ids_and_areas(options: tuple[str, ...], selected: str) -> None:
    home = case_index.suites_folder()
    command = [*case_index.pytest_command(), "--collect-only", *options]
    modules = [str(home / "stomp" / f"test_{name}.py") for name in ("receipts", "heart_beats")]
    ran = subprocess.run([*command, *modules], capture_output=True, text=True, check=False)
    collected = {line.partition("::")[0] for line in ran.stdout.splitlines() if "::" in line}
    assert {name.removeprefix("suites/") for name in collected} == {selected}, ran.stdout


@pytest.mark.parametrize(
    ("name", "together", "more"),
    [("reference-real", None, True), ("reference-real", 8, False), ("127.0.0.1:1", None, False)],
)
def test_only_a_broker_on_this_host_gets_more_cases_than_there_are_places(
    name: str, together: int | None, more: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[bool] = []

    class Observed:
        def __init__(self, *arguments: Any, more: bool, deaths: object) -> None:
            begun.append(more)

    monkeypatch.setattr(case_runs, "RealTimeWorkers", Observed)
    monkeypatch.setattr(case_runs, "BrokerDeaths", lambda *arguments: None)
    monkeypatch.setattr(case_runs, "processes_for", lambda cases, together: 2)
    runs = object.__new__(case_runs.CaseRuns)
    runs.folder, runs._started, runs._logs = None, {}, Path()
    runs._options = SimpleNamespace(brokerproof_restart=None)  # type: ignore[assignment]
    run = SimpleNamespace(target=target_file.load(name))
    runs._begin_in_real_time(cast(Run, run), [], together)
    assert begun == [more]
    run.target._watched = 1
    runs._begin_in_real_time(cast(Run, run), [], together)
    assert begun[1:] == [together is None]


BREAKS_OFF = """
import os, pathlib, threading
logs = pathlib.Path(os.environ["RUN"], "logs")
starts = any(thread.name.startswith("start") for thread in threading.enumerate())
begun = starts or (logs / "reference-real.log").exists()
pathlib.Path(os.environ["RUN"], "begun").write_text(str(begun))
raise RuntimeError("the module cannot be imported")
"""


def test_a_broker_starts_while_cases_are_collected_and_ends_if_there_are_none(
    tmp_path: Path,
) -> None:
    run, left, module = (tmp_path / name for name in ("run", "left", "test_breaks_off.py"))
    left.mkdir()
    module.write_text(BREAKS_OFF)
    options = ["--brokerproof-target", "reference-real", "--brokerproof-record", str(run)]
    ran = subprocess.run(
        [*case_index.pytest_command(), *options, str(module)],
        env=os.environ | {"RUN": str(run), "TMPDIR": str(left)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.INTERRUPTED, ran.stdout + ran.stderr
    assert (run / "begun").read_text() == "True"
    assert list(left.iterdir()) == [], "it was stopped, and left no folder behind"


NEVER_READY = '''
description = "A process that interrupts its parent, and is never ready."
kind = "process"
profile = "artemis"
command = ["{python}", "-c", """import os, signal, sys
print(os.getpid(), file=sys.stderr, flush=True)
os.kill(os.getppid(), signal.SIGTERM)
signal.pause()"""]
'''


def test_an_interrupted_run_does_not_wait_until_its_broker_has_started(tmp_path: Path) -> None:
    target, run = tmp_path / "never.target.toml", tmp_path / "run"
    target.write_text(NEVER_READY)
    module = case_index.suites_folder() / "stomp" / "test_receipts.py"
    options = ["--brokerproof-target", str(target), "--brokerproof-record", str(run)]
    ran = subprocess.run(
        [*case_index.pytest_command(), *options, str(module)],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=20,  # it would wait 30 s for the broker's ready line
    )
    assert ran.returncode == pytest.ExitCode.INTERRUPTED, ran.stdout + ran.stderr
    broker = int((run / "logs" / "never.log").read_text())
    assert local_process.wait_for_end(broker, 10), "it goes on alone"


def test_an_interrupt_between_two_lines_ends_a_run_in_order(tmp_path: Path) -> None:
    (tmp_path / "conftest.py").write_text(
        "def interrupted():\n    raise KeyboardInterrupt\n"
        "interrupted.__code__ = interrupted.__code__.replace(co_linetable=b'')\n"
        "def pytest_collection_finish():\n    interrupted()\n"
    )
    (tmp_path / "test_none.py").touch()
    options = ["--brokerproof-record", str(tmp_path / "run"), "--confcutdir", str(tmp_path)]
    ran = subprocess.run(
        [*case_index.pytest_command(), *options, str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == pytest.ExitCode.INTERRUPTED, ran.stdout + ran.stderr
    assert "Traceback" not in ran.stdout + ran.stderr
