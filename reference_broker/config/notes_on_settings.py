"""Notes for users on settings that were read and checked but have no effect."""

from dataclasses import dataclass
from typing import Any

from brokerproof.reference_broker.config.ignored_settings import Entry, NoEffect, Only, Refused
from brokerproof.reference_broker.config.values import Where, nearest


@dataclass(frozen=True, slots=True)
class Note:
    """An accepted setting that has no effect; ``reason`` says why."""

    where: Where
    reason: str

    def __str__(self) -> str:
        return (
            f"{self.where.file}, line {self.where.line}: {self.where.name} has no effect here:"
            f" {self.reason}"
        )


def settle(text: str, where: Where, entry: Entry) -> list[Note]:
    """Check a setting that this broker does not use, and return the notes on it. Raises
    ``BadSetting`` if it cannot be accepted."""
    match entry:
        case NoEffect(read=read, reason=reason):
            if read is not None:
                read(text, where)
            return [Note(where, reason)]
        case Only(read=read, values=values):
            if read(text, where) not in values:
                allowed = " or ".join(_spelled(value) for value in values)
                raise where.bad(
                    f"{text} is not supported by this broker",
                    f"only {allowed} is: write that or leave it out",
                )
            return []
        case Refused(instead=instead):
            raise where.bad("is not supported by this broker", instead)


def unknown(what: str, where: Where, known: set[str], of: str = "Artemis 2.56") -> Exception:
    """Return the refusal of an unknown name; it mentions the most similar known name."""
    return where.bad(
        f"unknown {what}", nearest(where.name, known) or f"remove it, or see the {what}s of {of}"
    )


def _spelled(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
