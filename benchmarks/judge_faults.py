"""Share of small faults of the judges that their own tests notice: mutation testing of
``reports/judging``.

``python benchmarks/judge_faults.py delivery_bitmaps recheck_plan --faults 6 --seed 1``: that many
faults for each module, drawn by the seed. Each fault is made in a copy of the packages in a folder
of its own, where the tests of the judges that need no Spark run until one fails. A fault turns a
comparison or makes it include its bound, swaps ``and`` and ``or``, turns a sign, adds one to a
number, negates a condition or leaves out a statement. One line is printed for each fault: noticed
or not, where, and the fault itself.
With ``--control`` the tests run on a copy without a fault first.

A fault that is not noticed may be none: one that only makes more be read again than is needed, say.
Look at each.
"""

from __future__ import annotations

import argparse
import ast
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from copy import deepcopy
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("brokerproof", "harness", "reference_broker", "reports", "suites", "fixtures")
TESTS = (
    "test_summaries",
    "test_recheck",
    "test_protocol_columns",
    "test_event_filter",
    "test_segment_summary",
)
LONGEST_S = 900
"""A fault that makes the tests take longer than that counts as noticed: they would hang."""

_TURNED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    **{
        ast.Lt: ast.LtE,
        ast.LtE: ast.Lt,
        ast.Gt: ast.GtE,
        ast.GtE: ast.Gt,
        ast.Eq: ast.NotEq,
        ast.NotEq: ast.Eq,
    },
    **{ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In},
}
_SIGNS: dict[type[ast.operator], type[ast.operator]] = {
    **{
        ast.Add: ast.Sub,
        ast.Sub: ast.Add,
        ast.Mult: ast.Add,
        ast.FloorDiv: ast.Mult,
        ast.Mod: ast.FloorDiv,
    },
    **{
        ast.BitAnd: ast.BitOr,
        ast.BitOr: ast.BitAnd,
        ast.LShift: ast.RShift,
        ast.RShift: ast.LShift,
    },
}


def altered(node: ast.AST) -> ast.AST | None:
    """``node`` with a fault; None where there is none to make."""
    new = deepcopy(node)
    match new:
        case ast.Compare(ops=[only]) if type(only) in _TURNED:
            new.ops = [_TURNED[type(only)]()]
        case ast.BoolOp():
            new.op = ast.Or() if isinstance(new.op, ast.And) else ast.And()
        case ast.BinOp() if type(new.op) in _SIGNS:
            new.op = _SIGNS[type(new.op)]()
        case ast.Constant() if type(new.value) is int:
            new.value += 1
        case ast.If() | ast.IfExp():
            new.test = ast.UnaryOp(ast.Not(), new.test)
        case ast.Expr() if isinstance(new.value, ast.Call):
            return ast.Pass()
        case ast.AugAssign():
            return ast.Pass()
        case _:
            return None
    return new


def faults(source: str) -> Iterator[tuple[int, str, str]]:
    """Line, what it was and became, and the whole source with the fault; only within functions."""
    tree = ast.parse(source)
    bodies = [
        stated
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        for stated in node.body
    ]
    types = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.AnnAssign)
        for part in ast.walk(node.annotation)
    }
    places = [node for stated in bodies for node in ast.walk(stated) if id(node) not in types]
    for place in dict.fromkeys(places):
        new = altered(place)
        if new is None or not hasattr(place, "lineno"):
            continue
        ast.copy_location(new, place)
        copy = _Swapped(place, new).visit(deepcopy_with(tree, place))
        was, became = ast.unparse(place), ast.unparse(new)
        yield (
            place.lineno,
            f"{was.splitlines()[0][:70]} -> {became.splitlines()[0][:70]}",
            ast.unparse(ast.fix_missing_locations(copy)),
        )


def deepcopy_with(tree: ast.Module, kept: ast.AST) -> ast.Module:
    """A copy of ``tree`` in which ``kept`` is itself."""
    return deepcopy(tree, {id(kept): kept})


class _Swapped(ast.NodeTransformer):
    def __init__(self, old: ast.AST, new: ast.AST) -> None:
        self._old, self._new = old, new

    def visit(self, node: ast.AST) -> ast.AST:
        return self._new if node is self._old else self.generic_visit(node)


def noticed(module: str, source: str) -> bool:
    """True if a test fails on a copy in which ``reports/judging/MODULE.py`` has that source."""
    with tempfile.TemporaryDirectory(prefix="brokerproof-faults-") as folder:
        for package in PACKAGES:
            shutil.copytree(
                ROOT / package,
                Path(folder, package),
                ignore=shutil.ignore_patterns("__pycache__"),
                symlinks=True,
            )
        shutil.copy(ROOT / "pyproject.toml", folder)
        Path(folder, "reports", "judging", f"{module}.py").write_text(source)
        tests = [f"brokerproof/suites/units/reports/judging/{name}.py" for name in TESTS]
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
        try:
            ran = subprocess.run(
                command,
                cwd=folder,
                env=os.environ | {"PYTHONPATH": folder},
                capture_output=True,
                timeout=LONGEST_S,
                check=False,
            )
        except subprocess.TimeoutExpired:
            return True
    return ran.returncode != 0


def main() -> None:
    asked = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    asked.add_argument("modules", nargs="+", help="of reports/judging, without .py")
    asked.add_argument("--faults", type=int, default=6)
    asked.add_argument("--seed", type=int, default=1)
    asked.add_argument("--control", action="store_true")
    chosen = asked.parse_args()
    for module in chosen.modules:
        source = (ROOT / "reports" / "judging" / f"{module}.py").read_text("utf-8")
        if chosen.control and noticed(module, source):
            raise SystemExit(
                f"the tests of the judges fail without a fault in {module}: mend that first"
            )
        possible = list(faults(source))
        drawn = random.Random(f"{chosen.seed} {module}").sample(
            possible, min(chosen.faults, len(possible))
        )
        noticed_count = 0
        for line, what, faulty in sorted(drawn, key=lambda row: row[0]):
            seen = noticed(module, faulty)
            noticed_count += seen
            print(f"{'noticed' if seen else 'NOT noticed'} {module}.py:{line}: {what}", flush=True)
        print(
            f"{module}: {noticed_count} of {len(drawn)} noticed,"
            f" of {len(possible)} that can be made",
            flush=True,
        )


if __name__ == "__main__":
    main()
