"""``like = "artemis"``: a target file or URL inherits the facts about a shipped target's family.

The target inherits the profile, parameters, known deviations, capabilities (with reasons for absent
ones), limits, the manual's release and the type of queues, but not the login or the way to start
the broker. The file's own statements take precedence.
"""

import difflib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from brokerproof.harness.catalogue import tables
from brokerproof.harness.model.input_file import OneSentence

_INHERITED = ("profile", "manual", "queue_type")
_MERGED = ("parameters", "limits")
_ABSENT = ("not_offered", "judged_on")
NONE = "none"
"""The likeness of a target judged only by the specifications, whatever name it gives itself."""


class BadLikeness(OneSentence):
    """``like`` names no shipped target. The message suggests the nearest name."""


def inherited(values: Mapping[str, Any], shipped: Mapping[str, Path]) -> dict[str, Any]:
    """Return ``values``, completed from the target that ``like`` names.

    A running broker (kind "address") that names a family's profile is like that family's shipped
    target: it has the same deviations, and the same cases would harm it. Raises
    :class:`BadLikeness`.
    """
    like = values.get("like")
    if like is None and values.get("kind") == "address" and values.get("profile") in shipped:
        like = values["profile"]
    if like in (None, NONE):
        return {key: value for key, value in values.items() if key != "like"}
    if like not in shipped:
        near = difflib.get_close_matches(str(like), shipped, n=1)
        meant = f"did you mean {near[0]!r}? " if near else ""
        raise BadLikeness(
            f"like is {like!r:.60}; {meant}`brokerproof targets` lists the allowed values"
        )
    path = shipped[like]
    family, _ = tables.read(path)
    result = {key: family[key] for key in _INHERITED if key in family} | dict(values)
    for key in _MERGED:
        if key in family or key in values:
            result[key] = {**family.get(key, {}), **values.get(key, {})}
    if "deviations" in family and "deviations" not in values:
        result["deviations"] = str(path.parent / family["deviations"])
    added = set(values.get("add_capabilities", ()))
    absent = {name for key in _ABSENT for name in values.get(key, {})}
    result["add_capabilities"] = sorted((set(family.get("add_capabilities", ())) - absent) | added)
    for key in _ABSENT:
        inherited_reasons = {
            name: reason
            for name, reason in family.get(key, {}).items()
            if name not in added | absent
        }
        result[key] = inherited_reasons | values.get(key, {})
    result["like"] = like
    return result


def config_of(like: str, shipped: Mapping[str, Path]) -> Path | None:
    path = shipped[like]
    values, _ = tables.read(path)
    return path.parent / str(values["config"]) if "config" in values else None
