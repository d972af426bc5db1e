"""Behaviours: named choices that the specifications leave to the broker.

``fixtures/behaviours.toml`` lists them. A behaviour is not a promise and gets no verdict; it is
recorded so that releases and brokers can be compared."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from brokerproof.harness.catalogue.tables import BadData, Key, read, table
from brokerproof.harness.model.verdicts import Impact

_KEYS = {
    "question": Key(str),
    "values": Key(list, required=False),
    "unit": Key(str, required=False),
    "impact": Key(str),
    "source": Key(str),
}


@dataclass(frozen=True, slots=True)
class Behaviour:
    """A choice that a specification leaves to the broker."""

    name: str
    question: str
    values: tuple[str, ...]
    """All values that a broker may show; empty for a number of ``unit``."""
    unit: str
    """The unit of a number; ``text`` if the value consists of the broker's own words."""
    impact: Impact
    """The effect on an application that was written for another value."""
    source: str
    """The text that leaves the choice open or does not mention it."""

    def value(self, observed: str | int | None) -> str:
        """Return ``observed`` in the recorded form: None and empty text become ``none``. Raises
        ``ValueError`` for an unlisted value or a number without a unit."""
        if self.unit == "text" and observed in (None, ""):
            return "none"
        if self.unit == "text" or (self.unit and isinstance(observed, int)):
            return str(observed)
        if observed not in self.values:
            listed = ", ".join(self.values) or f"a number of {self.unit}"
            raise ValueError(f"behaviour {self.name} has no value {observed!r}; it has {listed}")
        return str(observed)


@functools.cache
def listed() -> Mapping[str, Behaviour]:
    """Return every behaviour by name. Raises :class:`BadData` for an invalid list."""
    path = Path(str(files("brokerproof.fixtures"))) / "behaviours.toml"
    values, _ = read(path)
    return {name: _behaviour(path, name, row) for name, row in values.items()}


def _behaviour(path: Path, name: str, row: Mapping[str, object]) -> Behaviour:
    entry = table(f"{path}: {name}", _KEYS, row, "behaviour")
    values, unit = entry.values.get("values", []), entry.text("unit")
    if bool(values) == bool(unit):
        raise BadData(f"{path}: {name}: needs either values or a unit")
    return Behaviour(
        name,
        entry.text("question"),
        tuple(values),
        unit,
        Impact(entry.text("impact")),
        entry.text("source"),
    )
