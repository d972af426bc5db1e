"""Suites, requirement files and known deviations of another installed package."""

import json
import os
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from brokerproof.harness.cases import case_index
from brokerproof.harness.catalogue import deviations, extensions, requirement_texts, requirements
from brokerproof.harness.catalogue.tables import BadData
from brokerproof.harness.commands.cli import cli
from brokerproof.harness.results import records
from brokerproof.suites.units.drivers.commands import command

DEVIATION = """
[[deviation]]
requirement = "SHOP-ORDERS-1"
expected = "(.*) were sent, received (.*)"
example = "2 were sent, received []"
reason = "It is known."
link = "https://shop.example/1"
"""


def installed(folder: Path, package: Path) -> None:
    """Write the entry points of ``package`` into ``folder`` as pip would."""
    groups = tomllib.loads((package / "pyproject.toml").read_text())["project"]["entry-points"]
    metadata = folder / "shop_cases-0.1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: shop-cases\nVersion: 0.1.0\n", "utf-8"
    )
    lines = [
        line
        for group, points in groups.items()
        for line in (f"[{group}]", *(f"{name} = {value}" for name, value in points.items()))
    ]
    (metadata / "entry_points.txt").write_text("\n".join(lines) + "\n", "utf-8")


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    folder = tmp_path / "shop-cases"
    done = CliRunner().invoke(cli, ["init-suite", "shop", "--out", str(folder)])
    assert done.exit_code == 0, done.output
    installed(folder, folder)
    monkeypatch.syspath_prepend(folder)
    extensions.suites.cache_clear()
    yield folder
    extensions.suites.cache_clear()


def test_the_template_has_the_name_that_was_asked_for(shop: Path) -> None:
    texts = {path: path.read_text() for path in shop.rglob("*") if path.is_file()}
    assert shop / "shop_cases" / "test_orders.py" in texts
    assert not [path for path, text in texts.items() if "acme" in f"{path}{text}".lower()]


def test_the_files_of_a_package_are_read_beside_those_that_come_along(shop: Path) -> None:
    known = len(requirements.load(requirements.folder_of_package()))
    assert len(requirements.load()) == known + 2
    explained = requirement_texts.explanation(requirements.load(), {}, "shop-orders-1")
    assert explained["source"] == "SHOP messaging rules"
    assert explained["catalogue_file"] == str(shop / "shop_cases" / "requirements" / "shop.toml")
    assert case_index.suite_folders()["shop"] == shop / "shop_cases"
    assert extensions.suite_of("shop_cases.test_orders") == ("shop", "test_orders")
    (shop / "shop_cases" / "deviations" / "artemis.toml").write_text(DEVIATION)
    listed = [row.requirement for row in deviations.of_target(None, "artemis", "mine")]
    assert listed == ["SHOP-ORDERS-1"]
    assert deviations.of_target(None, "rabbitmq", "mine") == []


def test_a_run_collects_the_cases_of_a_package(shop: Path, tmp_path: Path) -> None:
    out = tmp_path / "run"
    broken = shop / "shop_cases" / "test_orders.py"
    broken.write_text(broken.read_text().replace("received == sent", "received != sent"))
    (shop / "shop_cases" / "deviations" / "artemis.toml").write_text(DEVIATION)
    path = os.pathsep.join([str(shop), *filter(None, [os.environ.get("PYTHONPATH")])])
    options = "--target reference --seed 1 --json --no-report"
    ran = subprocess.run(
        command(f"run --suite shop {options} --out {out}"),
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["run"] == str(out)
    assert {result.case: str(result.verdict) for result in records.read(out)} == {
        "shop.orders.a_queue_keeps_the_order_of_one_producer": "KNOWN",
        "shop.orders.a_trace_id_arrives_with_its_message": "PASS",
    }


def test_an_entry_point_without_a_package_is_named(shop: Path) -> None:
    entry_points = shop / "shop_cases-0.1.0.dist-info" / "entry_points.txt"
    entry_points.write_text("[brokerproof.requirements]\nshop = shop_rules\n")
    with pytest.raises(BadData, match=r"shop-cases: its entry point shop .* names 'shop_rules'"):
        requirements.load()


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("Shop",), "use a short lower-case word"),
        (("stomp",), "suite stomp already exists"),
        (("shop", "--out", "."), "exists; remove it"),
    ],
)
def test_a_package_that_cannot_be_written_is_refused(
    arguments: tuple[str, ...], problem: str
) -> None:
    done = CliRunner().invoke(cli, ["init-suite", *arguments])
    assert done.exit_code == 4
    assert problem in done.output
