"""pytest-xdist beside our plugin: cases in virtual time may be spread, and what its processes could
not share is refused."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from brokerproof.harness.cases import pytest_options, pytest_plugin


def configured(**chosen: Any) -> list[str]:
    """The plugins that are there after ours was configured with these options, and the defaults of
    all others."""
    registered: list[str] = []
    parser = pytest.Parser(_ispytest=True)
    pytest_options.pytest_addoption(parser)
    option = parser.parse([], Namespace(dist="worksteal", **chosen))
    manager = SimpleNamespace(register=lambda plugin, name: registered.append(name))
    pytest_plugin.pytest_configure(SimpleNamespace(option=option, pluginmanager=manager))  # type: ignore[arg-type]
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
            r"--brokerproof-target 127\.0\.0\.1:61613: each of its processes would start one",
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
