"""Raises alarms on a RabbitMQ broker that somebody else started, with its rabbitmqctl."""

import subprocess
from collections.abc import Sequence

from brokerproof.harness.model.broker_io import LimitsSet
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.rabbitmq.alarms import CLEAR_ALARM, RAISE_ALARM, limit_commands

TIMEOUT_S = 60
"""Seconds that a call may take; 0.5 s is usual."""


class Rabbitmqctl:
    """``command`` and its first arguments: ``rabbitmqctl``, or ``docker exec NAME rabbitmqctl``."""

    def __init__(self, command: Sequence[str]) -> None:
        self._command = list(command)

    def raise_alarm(self, resource: str) -> None:
        """Cause a memory or disk alarm. Raises :class:`SetUpFailed`."""
        self._call(*RAISE_ALARM[resource])

    def clear_alarm(self, resource: str) -> None:
        """End the alarm. Raises :class:`SetUpFailed`."""
        self._call(*CLEAR_ALARM[resource])

    def set_limits(self, limits: LimitsSet) -> None:
        for arguments in limit_commands(limits):
            self._call(*arguments)

    def _call(self, *arguments: str) -> None:
        words = [*self._command, *arguments]
        shown = " ".join(words)
        if not self._command:
            raise SetUpFailed("this broker's limits cannot be set; name rabbitmqctl in its file")
        try:
            done = subprocess.run(
                words, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise SetUpFailed(f"{shown}: cannot be run ({problem})") from None
        if done.returncode:
            reason = (done.stderr or done.stdout).strip()[-300:]
            raise SetUpFailed(f"{shown}: ended with {done.returncode}: {reason}")
