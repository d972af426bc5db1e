"""The processes of a report and of a judgement work without pandas; others keep it."""

import subprocess
import sys

import pytest

ARRAY = "import pyarrow as pa; pa.array(['text'])"
ARGUMENT = """
from py4j import protocol
for converter in protocol.INPUT_CONVERTER:
    converter.can_convert(1)
"""
"""An argument that py4j offers to its converters, because it is not a simple value."""


def printed(program: str) -> str:
    """Return the output of another process, because this one may have imported pandas for another
    test."""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return done.stdout.strip()


@pytest.mark.parametrize("use", [ARRAY, ARGUMENT])
def test_what_imports_pandas_no_more_does(use: str) -> None:
    program = "import sys\nimport pyspark.sql.types\n{}\n{}\nprint('pandas' in sys.modules)"
    leave_out = "from brokerproof.reports.spark import without_pandas as w; w.leave_pandas_out()"
    assert printed(program.format(leave_out, use)) == "False"
    assert printed(program.format("", use)) == "True"


@pytest.mark.parametrize("module", ["report_writing", "recording_judgement"])
def test_commands_do_without_it(module: str) -> None:
    program = f"""
import sys
from brokerproof.reports.spark import without_pandas
without_pandas.leave_pandas_out()
from brokerproof.reports.assembly import {module}
print("pandas" in sys.modules)
"""
    assert printed(program) == "False"


def test_it_can_be_imported_all_the_same() -> None:
    program = """
from brokerproof.reports.spark import without_pandas
without_pandas.leave_pandas_out()
import pandas
print(pandas.Series([1, 2]).sum())
"""
    assert printed(program) == "3"
