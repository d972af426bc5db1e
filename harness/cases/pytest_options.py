"""The pytest options of brokerproof: the only part of it that is active in projects that do not opt
in.

A project opts in with ``brokerproof = true`` in its pytest configuration or with
``--brokerproof-target``. Only then is the plugin itself imported and registered
(:mod:`brokerproof.harness.session.pytest_plugin`), with its ``target`` fixture and its hooks."""

import pytest

DEFAULT_TARGET = "reference"
CASES_IN_PARALLEL = 16
"""The default number of concurrent cases per process in real time."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options, which have no effect on a project without conformance cases."""
    parser.addini("brokerproof", "run conformance cases of brokerproof", type="bool", default=False)
    group = parser.getgroup("brokerproof", "conformance cases of brokerproof")
    group.addoption(
        "--brokerproof-target",
        metavar="TARGET",
        default=None,
        help=f"target name, file, HOST:PORT or stomp:// URL; default: {DEFAULT_TARGET}",
    )
    group.addoption(
        "--brokerproof-effort",
        choices=("smoke", "normal", "deep"),
        default="smoke",
        help="how many examples each property draws",
    )
    group.addoption(
        "--brokerproof-seed", type=int, default=0, help="seed of examples and of simulated links"
    )
    group.addoption(
        "--brokerproof-record",
        metavar="RUN",
        default=None,
        help="a run folder for results and traces",
    )
    group.addoption(
        "--brokerproof-cases-in-parallel",
        metavar="N",
        type=int,
        default=None,
        help=f"concurrent cases: threads in real time (default {CASES_IN_PARALLEL}"
        f" or, for many cases on several cores, {2 * CASES_IN_PARALLEL} and more while the"
        " processor is idle), processes in virtual time (default 1)",
    )
    group.addoption(
        "--brokerproof-limit",
        metavar="NAME=NUMBER",
        action="append",
        default=[],
        help="change a limit in real time, such as case_seconds=60; repeat for several",
    )
    for field, what in (
        ("case", "only cases with this id, as printed, or whose ids match these words"),
        ("exclude", "omit cases with this id, or whose ids match these words"),
        ("requirement", "only cases that cite this requirement"),
        ("area", "only cases of this area, such as heartbeat or window"),
    ):
        group.addoption(
            f"--brokerproof-{field}",
            metavar=field.upper(),
            action="append",
            default=[],
            help=f"{what}; repeat for several",
        )
    group.addoption(
        "--brokerproof-index",
        metavar="FILE",
        default=None,
        help="write the collected cases to this file (for --collect-only)",
    )
    group.addoption(
        "--brokerproof-restart", default="", help="command that restarts a broker killed by a case"
    )
    for flag, what in (
        ("allow-harm", "run cases that may harm a broker on those that we did not start, too"),
        ("resume", "skip cases that have a result in the run folder"),
    ):
        group.addoption(f"--brokerproof-{flag}", action="store_true", help=what)


@pytest.hookimpl(trylast=True)
def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin if the project or the command line asks for it."""
    option = config.option
    if not (config.getini("brokerproof") or option.brokerproof_target or option.brokerproof_record):
        return
    config.pluginmanager.import_plugin("brokerproof.harness.session.pytest_plugin")
