"""A channel's publisher confirms: messages are numbered from 1 as they arrive, and answered with
basic.ack or basic.nack.

Answers are collected and sent at the end of an input. Equal answers up to the first unanswered
message are merged with ``multiple``; the rest are sent one by one.
"""

from collections.abc import Iterator

from pamqp import commands


class Confirms:
    """The confirms of one channel. ``published`` is the number of the last message."""

    def __init__(self) -> None:
        self.published = 0
        self._answered = 0  # all up to this one have been answered
        self._due: dict[int, bool] = {}

    def next(self) -> int:
        """Return the number for a newly arrived message."""
        self.published += 1
        return self.published

    def answer(self, number: int, taken: bool) -> None:
        self._due[number] = taken

    def take_answers(self) -> Iterator[commands.Basic.Ack | commands.Basic.Nack]:
        """Yield the collected answers, in as few frames as possible."""
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
