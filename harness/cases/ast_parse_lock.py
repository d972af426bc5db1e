"""Python sources are parsed by one thread at a time.

CPython counts, for all threads of a process together, how deep it is in a syntax tree while it
makes objects of it (seen with 3.11.7: "AST constructor recursion depth mismatch"). Cases of real
targets run side by side in threads, and Hypothesis, pytest and our own counterexamples parse
sources while they do: without this a case could fail for no fault of its own.
"""

from __future__ import annotations

import ast
import threading
from typing import Any

_TURN = threading.RLock()
_parse: Any = ast.parse


def in_turn(*arguments: Any, **named: Any) -> ast.AST:
    """``ast.parse`` under the lock; :func:`one_at_a_time` puts it in place of the original."""
    with _TURN:
        tree: ast.AST = _parse(*arguments, **named)
    return tree


def one_at_a_time() -> None:
    """From now on threads of this process wait for one another in ``ast.parse``."""
    ast.parse = in_turn  # type: ignore[assignment]
