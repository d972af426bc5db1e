"""Lets only one thread at a time parse Python sources.

While CPython converts a syntax tree to objects, all threads of a process share its depth counter
(seen with 3.11.7: "AST constructor recursion depth mismatch"). Cases on real targets run
concurrently in threads, and Hypothesis, pytest and our counterexamples parse sources at the same
time. Without this lock, a case could fail although nothing is wrong."""

import ast
import threading
from typing import Any

_TURN = threading.RLock()
_parse: Any = ast.parse


def in_turn(*arguments: Any, **named: Any) -> ast.AST:
    """Call ``ast.parse`` while holding the lock. :func:`one_at_a_time` installs this function."""
    with _TURN:
        tree: ast.AST = _parse(*arguments, **named)
    return tree


def one_at_a_time() -> None:
    """Make threads of this process take turns in ``ast.parse``."""
    ast.parse = in_turn  # type: ignore[assignment]
