"""Commands to a running RabbitMQ-like broker on its standard input (``--control``).

Each line is a JSON object with any of ``memory``, ``disk`` and ``paging``: the limits of
:class:`brokerproof.harness.model.broker_io.LimitsSet`, as a fraction with a decimal point or an
integer number of bytes. They replace rabbitmqctl's commands. Invalid lines are reported and
ignored."""

from collections.abc import Callable

from brokerproof.harness.model import strict_json
from brokerproof.harness.model.broker_io import LimitsSet

NAMES = ("memory", "disk", "paging")


class Control:
    """Reads lines; ``tell`` receives valid ones, ``complain`` a sentence about each invalid one."""

    def __init__(self, tell: Callable[[LimitsSet], None], complain: Callable[[str], None]) -> None:
        self._tell, self._complain = tell, complain
        self._begun = b""

    def read(self, data: bytes) -> None:
        *lines, self._begun = (self._begun + data).split(b"\n")
        for line in lines:
            limits = _limits(line)
            if limits is None:
                shown = line[:100].decode("utf-8", "replace")
                self._complain(
                    f"--control: {shown!r} sets no limit; write a JSON object with"
                    f" {', '.join(NAMES)}"
                )
            else:
                self._tell(limits)


def _limits(line: bytes) -> LimitsSet | None:
    try:
        limits = strict_json.loads(line.decode())
    except ValueError:
        return None
    if not isinstance(limits, dict) or not limits or not set(limits) <= set(NAMES):
        return None
    if any(
        isinstance(limit, bool) or not isinstance(limit, int | float) or limit < 0
        for limit in limits.values()
    ):
        return None
    return LimitsSet(**limits)
