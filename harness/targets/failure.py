"""The exception for every failure to set up a target."""

from brokerproof.harness.model.input_file import OneSentence


class SetUpFailed(OneSentence):
    """A target could not be found, downloaded, configured or started. The message says what is
    wrong, where, and what would be right. The command then exits with 3."""
