"""Faults in reading frames with commands that no version lists, and effects on later frames."""

from collections.abc import Callable

from brokerproof.reference_broker.protocols.stomp import refusal
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.grammar import GRAMMARS
from brokerproof.reference_broker.protocols.stomp.parser import FrameParser
from brokerproof.suites.mutation.mutant import Group, Patch, without

unlisted_frames = Group("unlisted-frames")

ANSWERED = "STOMP11-SEND-07 STOMP12-SEND-07"
KNOWN = frozenset().union(*(grammar.commands for grammar in GRAMMARS.values()))
SERVER_COMMANDS = frozenset({"CONNECTED", "MESSAGE", "RECEIPT", "ERROR"})


def _silent(patch: Patch, reached: Callable[[], None], when: Callable[[str], bool]) -> None:
    """Stop reading after an unlisted command for which ``when`` is true."""
    deaf: set[FrameParser] = set()
    words: dict[FrameParser, str] = {}

    @patch.before(FrameParser)
    def _head(self, block):
        words[self] = block.split(b"\n")[0].decode(errors="replace")

    @patch.override(FrameParser)
    def feed(original, self, data):
        if self not in deaf:
            original(self, data)

    @patch.override(FrameParser)
    def next(original, self):
        return None if self in deaf else original(self)

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        unknown = problem.message == refusal.UNKNOWN_COMMAND.message
        if reached(unknown and when(words[self._parser])):
            deaf.add(self._parser)
            return
        original(self, problem, frame)


def _resembled(word: str) -> str | None:
    """Return a listed command that begins with the first two letters of ``word``."""
    return next((command for command in sorted(KNOWN) if command[:2] == word[:2]), None)


@unlisted_frames.through(_silent, ANSWERED)
def nothing_is_read_behind_an_unlisted_command(word):
    """After any unlisted command nothing more is read."""
    return True


@unlisted_frames.variant(_silent, SERVER_COMMANDS.__contains__, breaks=ANSWERED)
def a_servers_command_never_ends():
    """The parser of a server's command waits for more bytes, however many have arrived."""


@unlisted_frames.through(_silent, ANSWERED)
def the_rest_of_a_short_command_is_waited_for(word):
    """A command is recognised by two letters, and the parser waits for its remaining length."""
    return len(word) < len(_resembled(word) or "")


@unlisted_frames.through(_silent, ANSWERED)
def another_end_of_a_command_stops_the_reader(word):
    """A command that has the beginning and the length of a listed one, but ends differently, stops
    the parser."""
    return len(word) == len(_resembled(word) or "")


@unlisted_frames.mutant(ANSWERED)
def the_next_frame_is_passed_over_too(patch, reached):
    """A frame with an unlisted command is skipped, and the one after it too."""
    passing: set[StompConnection] = set()

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        if reached(problem.message == refusal.UNKNOWN_COMMAND.message):
            passing.add(self)
            self._parser._data, self._parser._at = b"", 0
            return
        original(self, problem, frame)

    @patch.override(StompConnection)
    def _command(original, self, frame):
        if self in passing:
            passing.remove(self)
            return
        original(self, frame)


@unlisted_frames.mutant(ANSWERED)
def nothing_is_confirmed_behind_an_unlisted_command(patch, reached):
    """A frame with an unlisted command is skipped, and no later one is confirmed."""
    silent: set[StompConnection] = set()

    @patch.override(StompConnection)
    def _refuse(original, self, problem, frame=None):
        if reached(problem.message == refusal.UNKNOWN_COMMAND.message):
            silent.add(self)
            self._parser._data, self._parser._at = b"", 0
            return
        original(self, problem, frame)

    @patch.override(StompConnection)
    def _command(original, self, frame):
        original(self, without(frame, "receipt") if self in silent else frame)
