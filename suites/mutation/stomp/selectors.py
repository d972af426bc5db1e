"""Faults of selectors: characters of LIKE, and text that no condition has."""

import re

from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.selector import building
from brokerproof.reference_broker.selector.selector import SelectorError
from brokerproof.suites.mutation.mutant import Group

selectors = Group("selectors")

SELECTS = "ARTEMIS-STOMP-selector-1"


@selectors.override(building, "pattern", breaks=SELECTS)
def like_knows_regular_expressions(original, reached, like, escape):
    """In LIKE a full stop stands for any character (ARTEMIS-356)."""
    right = original(like, escape)
    return re.compile(reached.instead(right.pattern, right.pattern.replace(r"\.", ".")), re.DOTALL)


@selectors.override(building, "pattern", breaks=SELECTS)
def like_ends_with_the_line(original, reached, like, escape):
    """The percent sign of LIKE does not stand for an end of line."""
    reached("%" in like)
    return re.compile(original(like, escape).pattern)


@selectors.override(commands, "parse", breaks=SELECTS)
def the_rest_is_ignored(original, reached, text):
    """What follows a whole condition is ignored (ARTEMIS-568)."""
    words = text.split(" ")
    for end in range(len(words), 2, -1):
        try:
            return original(" ".join(words[:end]).rstrip(")"))
        except SelectorError:
            reached(end < len(words))
    return original(text)
