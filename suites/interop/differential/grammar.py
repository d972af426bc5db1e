"""Grammars, which draw conversations of a protocol, and players, which play them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from brokerproof.harness.targets.sockets import SocketTarget


@dataclass(frozen=True)
class Step:
    """One frame of a conversation; ``label`` names the kind of frame and the mistake."""

    label: str


@dataclass(frozen=True)
class Conversation:
    version: str
    steps: tuple[Step, ...]


class Player(Protocol):
    """Plays conversations on one broker, several at a time."""

    def play(self, conversation: Conversation, name: str, patient: bool) -> list[str]:
        """Return the answers to each step, up to the one that ended the conversation. ``name``
        names a fresh place; a ``patient`` player waits through longer silences."""


@dataclass(frozen=True)
class Grammar:
    """Conversations of one protocol that contain mistakes."""

    versions: tuple[str, ...]
    conversation: Callable[[random.Random], Conversation]
    player: Callable[[SocketTarget], Player]
    explanations: Path
    """A TOML file that explains for each cluster why the answers differ."""
    kind: Callable[[str], str] = str
    """The part of an answer that is reported if two answers are of different kinds."""
