"""File names for case pages: readable, safe on every file system, and never the same for two cases."""

from __future__ import annotations

import hashlib
import re


def slug(run: str, target: str, case: str) -> str:
    """A name of at most 90 ASCII characters; a digest of all three parts keeps apart what reads alike."""
    digest = hashlib.sha256("\0".join((run, target, case)).encode()).hexdigest()[:10]
    readable = re.sub(r"[^A-Za-z0-9]+", "-", f"{target}-{case}").strip("-")[:78].strip("-").lower()
    return f"{readable}-{digest}"
