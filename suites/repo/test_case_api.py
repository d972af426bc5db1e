"""The API for cases is documented, and cases import the API's names from nowhere else."""

import importlib
import re

import pytest

from brokerproof.suites.repo.sources import ROOT, module, modules, read, within

API = "brokerproof.suites.api"
HOMES = {
    imported.name: path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    for path in modules()
    if path.startswith("suites/api/")
    for imported in module(path).imports
}
"""The API's module, by the dotted name of each harness object in it."""
CONFORMANCE = tuple(
    f"suites/{name}/"
    for name in (
        "stomp",
        "amqp10",
        "amqp091",
        "openwire",
        "flow",
        "delivery",
        "conversion",
        "clients",
        "steps",
    )
)
TEMPLATE = ROOT / "fixtures/suite_template/acme_cases/test_orders.py.txt"


def documented() -> dict[str, set[str]]:
    """Return the names in the lists on the API's page, by module."""
    page = (ROOT / "docs/reference/case-api.md").read_text("utf-8")
    return {
        section.partition("`")[0]: set(
            re.findall(r"`(\w+)`", " ".join(re.findall(r"^\* ([^:]*):", section, re.MULTILINE)))
        )
        for section in page.split("\n## `")[1:]
    }


@pytest.mark.parametrize("name", sorted(set(HOMES.values())))
def test_every_name_is_documented(name: str) -> None:
    offered = set(importlib.import_module(f"brokerproof.{name}").__all__)
    assert documented()[f"brokerproof.{name}"] == offered


def test_no_other_module_is_documented() -> None:
    assert set(documented()) == {f"brokerproof.{name}" for name in HOMES.values()}


def test_cases_import_what_the_api_holds_from_there() -> None:
    wrong = [
        f"{path}:{imported.line} imports {imported.name}; brokerproof.{HOMES[imported.name]} has it"
        for path in modules()
        if path.startswith(CONFORMANCE)
        for imported in module(path).imports
        if imported.name in HOMES
    ]
    assert not wrong, "\n".join(wrong)


def test_a_new_suite_needs_nothing_but_the_api() -> None:
    imports = read(TEMPLATE.name, TEMPLATE.read_text("utf-8")).imports
    assert imports
    assert all(within(imported.name, (API, "hypothesis")) for imported in imports)
