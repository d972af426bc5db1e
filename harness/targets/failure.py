"""The one way in which setting up a target fails."""

from __future__ import annotations

from brokerproof.harness.model.input_file import OneSentence


class SetUpFailed(OneSentence):
    """A target could not be found, downloaded, configured or started: one sentence with what is
    wrong, where, and what would be right. The command ends with exit code 3."""
