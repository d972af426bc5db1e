"""File names for pages: readable, safe on every file system, unique."""

import hashlib
import re
from urllib.parse import urlencode


def slug(run: str, target: str, case: str) -> str:
    """Return a name of at most 90 ASCII characters; a digest of all three parts makes it unique."""
    return _named(f"{target}-{case}".lower(), "\0".join((run, target, case)))


def case_link(run: str, target: str, case: str, *, several: bool) -> str:
    """Return the address of a case's page, relative to the report's folder. It contains the run
    only if there are ``several`` runs; otherwise it is the same in every report."""
    named = {"case": case, "target": target} | ({"run": run} if several else {})
    return f"case.html#{urlencode(named, errors='replace')}"


def plain_slug(name: str) -> str:
    """Return ``name`` itself if it is a safe file name, as requirement ids are; otherwise add a
    digest."""
    return name if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,80}", name) else _named(name, name)


def _named(readable: str, whole: str) -> str:
    digest = hashlib.sha256(whole.encode()).hexdigest()[:10]
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', readable).strip('-')[:78].strip('-')}-{digest}"
