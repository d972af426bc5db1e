"""Faults of selectors: characters of LIKE, and text that no condition contains."""

import re

from brokerproof.reference_broker.protocols.stomp import commands
from brokerproof.reference_broker.selector import building
from brokerproof.suites.mutation.mutant import Group

selectors = Group("selectors")

SELECTS = "ARTEMIS-STOMP-selector-1"


@selectors.override(building, "pattern", breaks=SELECTS)
def like_knows_regular_expressions(original, reached, like, escape):
    """In LIKE a full stop stands for any character, and none for an end of line (ARTEMIS-356)."""
    right = original(like, escape).pattern
    return re.compile(reached.instead(right, right.replace(r"\.", ".")))


@selectors.override(commands, "parse", breaks=SELECTS)
def the_rest_is_ignored(original, reached, text):
    """Text after a complete comparison is ignored (ARTEMIS-568)."""
    red = "color = 'red'"
    return original(reached.instead(text, red if text.startswith(red) else text))
