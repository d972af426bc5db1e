"""Messages for people, printed on the broker's standard error."""

import sys
from typing import Protocol

COMPLAIN_EVERY_S = 10.0
"""The minimum number of seconds between two reports of one problem in the loop."""


def complain(sentence: str) -> None:
    """Print one line for people on standard error."""
    sys.stderr.write(f"brokerproof broker: {' '.join(sentence.split())}\n")
    sys.stderr.flush()


class Clock(Protocol):
    def time(self) -> float: ...


class LoopComplaints:
    """The loop's exception handler: prints one line per problem, and a repeat after
    :data:`COMPLAIN_EVERY_S` with the number of occurrences.

    Without free file descriptors, asyncio reports every failed accept, many times a second."""

    def __init__(self) -> None:
        self._last: dict[str, float] = {}
        self._unreported: dict[str, int] = {}

    def __call__(self, loop: Clock, context: dict[str, object]) -> None:
        problem = context.get("exception")
        sentence = str(context.get("message"))
        if problem is not None:
            sentence += f": {type(problem).__name__}: {problem}"
        now = loop.time()
        if now - self._last.get(sentence, -COMPLAIN_EVERY_S) < COMPLAIN_EVERY_S:
            self._unreported[sentence] = self._unreported.get(sentence, 0) + 1
            return
        self._last[sentence] = now
        again = self._unreported.pop(sentence, 0)
        complain(f"{sentence} ({again} more times since)" if again else sentence)
