"""The documentation's notebook, executed as in Jupyter, on a fresh run with its report: ``tox -e
notebook``."""

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import duckdb
import nbformat
import pytest
from nbclient import NotebookClient

DOCUMENTS = Path(__file__).resolve().parents[2] / "docs"
NOTEBOOK, TABLES = (
    DOCUMENTS / "how-to" / "query-tables.ipynb",
    DOCUMENTS / "reference" / "tables.md",
)
CELLS_WITHIN_S = 600


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run cases about full addresses and windows on the reference broker in virtual time, and write
    the report on them."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    asked = [
        "--target",
        "reference",
        "--suite",
        "flow",
        "--effort",
        "smoke",
        "--seed",
        "1",
        "--inconclusive-ok",
    ]
    subprocess.run(
        [
            sys.executable,
            "-c",
            "from brokerproof.harness.commands.cli import main; main()",
            "run",
            *asked,
            "--out",
            str(folder),
        ],
        check=True,
    )
    return folder


@pytest.fixture(scope="module")
def executed(run: Path) -> Any:
    """Return the notebook with its outputs. A cell that raises fails all tests."""
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    nbformat.validate(notebook)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("BROKERPROOF_RUN", str(run))
        NotebookClient(notebook, timeout=CELLS_WITHIN_S, kernel_name="python3").execute(
            cwd=str(run)
        )
    return notebook


def shown(notebook: Any, words: str) -> str:
    """Return the output, as text, of the cell whose source contains these words."""
    (cell,) = [cell for cell in notebook.cells if cell.cell_type == "code" and words in cell.source]
    return "".join(output.get("data", {}).get("text/plain", "") for output in cell.outputs)


def test_every_question_has_an_answer(executed: Any) -> None:
    asking = [
        cell for cell in executed.cells if cell.cell_type == "code" and "def ask" not in cell.source
    ]
    assert len(asking) > 10
    for cell in asking:
        assert cell.outputs, cell.source


def test_the_answers_are_about_this_run(executed: Any, run: Path) -> None:
    results = [
        json.loads(line) for line in (run / "results.ndjson").read_text("utf-8").splitlines()
    ]
    counted = shown(executed, "PIVOT cases")
    assert str(sum(result["verdict"] == "PASS" for result in results)) in counted
    assert "full." in shown(executed, "most_pages")
    assert "MESSAGE" in shown(executed, "median_octets")


def test_the_questions_of_the_documents_have_answers(run: Path) -> None:
    for query in re.findall(r"```sql\n(.*?)```", TABLES.read_text("utf-8"), re.DOTALL):
        answer = duckdb.sql(query.replace("RUN/", f"{run}/"))
        assert answer is not None, query
        assert answer.fetchall(), query
