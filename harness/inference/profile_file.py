"""Writes an inferred profile: the family's profile with those parameters changed that differ."""

from collections.abc import Mapping, Sequence
from fractions import Fraction

from brokerproof.harness.catalogue.profiles import Profile, Value
from brokerproof.harness.inference.estimate import Estimate, Range


def compose(
    profile: Profile, estimates: Sequence[Estimate], documented: Mapping[str, object], target: str
) -> str:
    """Return TOML for :func:`brokerproof.harness.catalogue.profiles.load`.

    A documented value is kept if it is possible; otherwise the middle of the inferred range
    replaces it. Parameters that were not inferred are unchanged. The TTL without client heartbeats
    is written as ``connection_ttl_ms``, whichever setting determines it in the broker."""
    parameters: dict[str, Value] = dict(profile.parameters)
    measured = {}
    for estimate in estimates:
        name = estimate.parameter
        if (
            estimate.range is None
            or not estimate.known
            or (name not in parameters and name != "connection_ttl_ms")
        ):
            continue
        stated = documented.get(name)
        value = stated if estimate.agrees(stated) else _middle(estimate.range)
        assert isinstance(value, (int, float))
        parameters[name] = value
        measured[name] = str(estimate.range)
    lines = [
        (
            "description ="
            f" {_text(f'As measured on {target}, on the ground of the profile {profile.name}')}"
        ),
        f"family = {_text(profile.vendor)}",
        "",
        "capabilities = [",
        *(f"  {_text(capability)}," for capability in sorted(profile.capabilities)),
        "]",
        "",
        "[parameters]",
        *(
            f"{name} = {_value(value)}"
            + (f"  # measured: {measured[name]}" if name in measured else "")
            for name, value in parameters.items()
        ),
    ]
    return "\n".join(lines) + "\n"


def _middle(interval: Range) -> int | float:
    if interval.high is None:
        middle = interval.low or Fraction(0)
    else:
        middle = ((interval.low or Fraction(0)) + interval.high) / 2
        # Limits are usually round numbers, so a round number in the range is as good as its middle.
        if interval.low is not None and round(middle) in interval:
            middle = Fraction(round(middle))
    return int(middle) if middle.denominator == 1 else float(middle)


def _value(value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else repr(value)


def _text(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'
