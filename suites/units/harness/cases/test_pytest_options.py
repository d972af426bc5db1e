"""The pytest plugin in projects that do not use brokerproof, and in projects that do."""

import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.harness.catalogue import requirements

CONFTEST = """
import pytest

def pytest_addoption(parser):
    parser.addoption("--target", default="production")

@pytest.fixture
def target(request):
    return request.config.getoption("--target")
"""
FOREIGN = """
import sys

import harness
import reports.monthly

def test_the_project_keeps_its_packages_option_and_fixture(target):
    assert harness.OURS and reports.monthly.OURS
    assert target == "staging"
    assert not [name for name in sys.modules if name.startswith("brokerproof.harness.targets")]
"""
MUST = "STOMP12-HDR-17"
CASE = """
from brokerproof.harness.cases.case import case

CONNECTED = "STOMP12-CONNECT-02"

@case(CONNECTED)
def test_connected(target):
    target.record_finding(CONNECTED, True, "it is connected")
"""


def pytest_in(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture
def foreign(tmp_path: Path) -> Path:
    """Return a project whose packages, option and fixture have names that brokerproof uses too."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    for package, module in (("harness", "__init__"), ("reports", "monthly")):
        (tmp_path / package).mkdir()
        (tmp_path / package / "__init__.py").write_text("")
        (tmp_path / package / f"{module}.py").write_text("OURS = True\n")
    (tmp_path / "test_foreign.py").write_text(FOREIGN)
    return tmp_path


def test_a_foreign_project_runs_its_own_tests(foreign: Path) -> None:
    ran = pytest_in(foreign, "--target", "staging")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "1 passed" in ran.stdout


def test_a_project_opts_in_by_its_configuration(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nbrokerproof = true\n")
    (tmp_path / "test_mine.py").write_text(CASE)
    ran = pytest_in(tmp_path)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_a_project_opts_in_by_an_option(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(CASE)
    ran = pytest_in(tmp_path, "--brokerproof-target", "reference")
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_without_opting_in_a_case_is_no_test(tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(CASE)
    ran = pytest_in(tmp_path)
    assert ran.returncode == 1
    assert "fixture 'target' not found" in ran.stdout


def test_a_failure_prints_the_sentence_and_the_address_of_its_requirement(tmp_path: Path) -> None:
    (tmp_path / "pytest.ini").write_text("[pytest]\nbrokerproof = true\n")
    (tmp_path / "test_failing.py").write_text(
        CASE.replace("STOMP12-CONNECT-02", MUST).replace(
            'True, "it is connected"', 'False, "nothing arrived"'
        )
    )
    failed = pytest_in(tmp_path, "--brokerproof-target", "reference")
    requirement = requirements.load().find(MUST)
    assert failed.returncode == 1
    assert f"FAIL: {MUST}: nothing arrived" in failed.stdout
    assert requirement.title in failed.stdout
    assert requirement.link in failed.stdout
