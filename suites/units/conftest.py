"""Shared fixtures. They import inside their functions: most tests need no Spark and should not wait
for it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from brokerproof.harness.targets.target import Target
    from brokerproof.suites.units.drivers.light_python import Light

# On a busy machine an example's duration says little about our code.
settings.register_profile("patient", settings.default, deadline=None)
settings.load_profile("patient")


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """One Spark session for all tests of the reports."""
    from brokerproof.reports.spark.session import session

    with session(cores=2, brief=True) as found:
        yield found


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[Target]":
    """The reference broker in virtual time."""
    from brokerproof.suites.units.drivers.targets import started

    with started("reference", tmp_path_factory.mktemp("logs")) as target:
        yield target


@pytest.fixture
def light(tmp_path_factory: pytest.TempPathFactory) -> "Light":
    """A light installation of brokerproof, in separate processes."""
    from brokerproof.suites.units.drivers.light_python import light_python

    return light_python(tmp_path_factory.mktemp("light"))


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that need Spark first. If tests are distributed over processes, the first process
    gets all of these, so one session is enough: xdist moves only tests from the end of the list."""
    items.sort(key=lambda item: "spark" not in getattr(item, "fixturenames", ()))
