"""Lists every conformance case, in each version and with all parameters, without pytest.

The ids are those under which pytest records results, so the cases of a matrix can be found and run.
"""

from collections.abc import Iterator
from functools import cache
from itertools import product
from typing import Any

import pytest

from brokerproof.harness.cases.case import Case, registry
from brokerproof.harness.cases.execution import Call
from brokerproof.harness.catalogue.cases import import_suites


@cache
def all_calls() -> tuple[Call, ...]:
    import_suites()
    return tuple(
        sorted(
            (call for case in registry().values() for call in _calls(case)),
            key=lambda call: call.id,
        )
    )


def _calls(case: Case) -> Iterator[Call]:
    marks = [
        mark for mark in getattr(case.function, "pytestmark", []) if mark.name == "parametrize"
    ]
    choices = [list(_choices(*mark.args[:2])) for mark in marks]
    for version in case.by_version:
        for chosen in product(*choices):
            arguments = {name: value for mapping in chosen for name, value in mapping.items()}
            shown = "-".join(
                str(value) if isinstance(value, (str, int)) else type(value).__name__
                for value in arguments.values()
            )
            yield Call(case, version, arguments, case.id(version, shown))


def _choices(names: str | list[str] | tuple[str, ...], values: Any) -> Iterator[dict[str, Any]]:
    listed = [part.strip() for part in names.split(",")] if isinstance(names, str) else list(names)
    for value in values:
        if isinstance(value, type(pytest.param())):
            value = value.values if len(listed) > 1 else value.values[0]
        yield dict(zip(listed, value if len(listed) > 1 else [value], strict=True))
