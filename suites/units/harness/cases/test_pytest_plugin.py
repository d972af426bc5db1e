"""pytest-xdist beside our plugin: cases in virtual time may be spread, and what its processes could
not share is refused."""

from __future__ import annotations

import subprocess
from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.harness.cases import case_index, pytest_options, pytest_plugin


def configured(**chosen: Any) -> list[str]:
    """The plugins that are there after ours was configured with these options, and the defaults of
    all others."""
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


def test_cases_in_virtual_time_may_be_spread() -> None:
    assert configured() == ["brokerproof-session"]


@pytest.mark.parametrize(
    ("chosen", "why"),
    [
        (
            {"brokerproof_record": "run"},
            "--brokerproof-record: a run folder is written by one process",
        ),
        (
            {"brokerproof_cases_in_parallel": 2},
            "--brokerproof-cases-in-parallel: each of its processes would begin all cases",
        ),
        (
            {"brokerproof_target": "reference-real"},
            "--brokerproof-target reference-real: each of its processes would start one",
        ),
        (
            {"brokerproof_target": "127.0.0.1:61613"},
            r"--brokerproof-target 127\.0\.0\.1:61613: cases of different processes would fill",
        ),
    ],
)
def test_what_processes_could_not_share_is_refused(
    chosen: dict[str, Any], why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(pytest.UsageError, match=rf"pytest-xdist \(-n\) does not go with {why}"):
        configured(**chosen)
    assert not list(tmp_path.iterdir()), "nothing is begun"


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
