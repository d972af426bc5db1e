"""Publisher confirms of one channel: messages are numbered from 1 as they come, and answered with
basic.ack or basic.nack.

What is due is collected and told at the end of an input. All up to the first that has no answer yet
go in one answer with ``multiple``, as far as they have the same one; the rest goes one by one.
"""

from __future__ import annotations

from collections.abc import Iterator

from pamqp import commands


class Confirms:
    """``published`` is the number of the last message that came."""

    def __init__(self) -> None:
        self.published = 0
        self._answered = 0  # all up to this one have been told
        self._due: dict[int, bool] = {}

    def next(self) -> int:
        """The number of a message that comes now."""
        self.published += 1
        return self.published

    def answer(self, number: int, taken: bool) -> None:
        """What became of a message."""
        self._due[number] = taken

    def take_answers(self) -> Iterator[commands.Basic.Ack | commands.Basic.Nack]:
        """What is to be told now."""
        due, self._due = self._due, {}
        while due:
            first = self._answered + 1
            if first not in due:
                break
            taken, last = due[first], first
            while due.get(last) is taken:
                del due[last]
                last += 1
            self._answered = last - 1
            yield _answer(taken, last - 1, last - 1 > first)
        for number in sorted(due):
            yield _answer(due[number], number, False)


def _answer(taken: bool, number: int, multiple: bool) -> commands.Basic.Ack | commands.Basic.Nack:
    return (
        commands.Basic.Ack(number, multiple)
        if taken
        else commands.Basic.Nack(number, multiple, False)
    )
