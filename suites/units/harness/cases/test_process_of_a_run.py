"""The processes of a run work without pandas."""

import subprocess
import sys

import pytest

from brokerproof.harness.cases import case_index

PROGRAM = """
import sys
import pytest

class Last:
    def pytest_unconfigure(self):
        import pyarrow
        pyarrow.array(["text"])
        print("pandas" in sys.modules)

pytest.main([*sys.argv[1:], "--collect-only"], plugins=[Last()])
"""
OPTIONS = case_index.pytest_command()[4:]


@pytest.mark.parametrize(
    ("options", "imported"), [(OPTIONS, "False"), (OPTIONS[:-2], "True")], ids=["a-run", "others"]
)
def test_a_run_does_without_pandas(options: list[str], imported: str) -> None:
    """Without the patch, pyarrow would import pandas for its first array."""
    suite = case_index.suites_folder() / "delivery"
    done = subprocess.run(
        [sys.executable, "-P", "-c", PROGRAM, *options, str(suite)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines()[-1] == imported, done.stdout
