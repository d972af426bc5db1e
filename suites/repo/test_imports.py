"""Allowed imports: the contracts in ``.importlinter``, and no cycle between modules anywhere.

``lint-imports`` by itself prints each broken contract with the lines that break it.
"""

import configparser
import subprocess
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import grimp
import pytest

from brokerproof.suites.repo.sources import ROOT, module, modules, within

HOMES = {"stomp": 2, "proton": 2, "pika": 1, "testcontainers": 1}
"""Client libraries, and how many modules of the harness may import each. Proton has two: its
engine, and its sockets. stomp.py's second one is copied into the scripts of counterexamples, which
contain no other code of ours."""


def contracts() -> list[str]:
    parser = configparser.ConfigParser()
    parser.read(ROOT / ".importlinter")
    prefix = "importlinter:contract:"
    return [name.removeprefix(prefix) for name in parser.sections() if name.startswith(prefix)]


def lint(*ids: str) -> subprocess.CompletedProcess[str]:
    command = [Path(sys.executable).with_name("lint-imports"), "--no-cache", "--no-logo"]
    chosen = [argument for contract in ids for argument in ("--contract", contract)]
    return subprocess.run(
        [*command, *chosen], cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_the_contracts_hold() -> None:
    ran = lint(*contracts())
    assert ran.returncode == 0, ran.stdout + ran.stderr


def cycle_in(imports: dict[str, set[str]]) -> list[str]:
    """Return modules that import each other in a cycle (the first one twice); empty if none do."""
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_modules_import_each_other() -> None:
    graph = grimp.build_graph("brokerproof", exclude_type_checking_imports=False, cache_dir=None)
    imports = {name: graph.find_modules_directly_imported_by(name) for name in graph.modules}
    circle = cycle_in(imports)
    assert not circle, f"{' <- '.join(circle)}: move what they share below both, or name a port"


def test_a_cycle_is_seen() -> None:
    assert cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}})
    assert not cycle_in({"a": {"b", "c"}, "b": {"c"}})


@pytest.mark.parametrize("library", HOMES)
def test_a_client_library_has_one_home(library: str) -> None:
    homes = [
        path
        for path in modules()
        if path.startswith("harness/")
        and not path.startswith("harness/clients/drivers/")  # programs of their own
        and any(within(imported.name, (library,)) for imported in module(path).imports)
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
