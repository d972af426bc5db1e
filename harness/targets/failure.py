"""The one way in which setting up a target fails."""

from __future__ import annotations


class SetUpFailed(Exception):
    """A target could not be found, downloaded, configured or started: one sentence with what is
    wrong, where, and what would be right. The command ends with exit code 3."""
