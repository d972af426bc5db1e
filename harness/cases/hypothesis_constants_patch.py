"""Makes Hypothesis draw the same examples wherever, and after whichever other cases, a case is run.

Hypothesis draws constants that it reads in the sources of all loaded modules outside site-packages.
The examples of one seed would then depend on the cases that ran before in the same process, and on
whether brokerproof runs from a checkout or is installed. Reading the sources also takes seconds.
"""

from __future__ import annotations

from typing import Any

from hypothesis.internal.conjecture import providers

_NONE = type(providers.GLOBAL_CONSTANTS)()


def by_seed_alone() -> None:
    """From now on this process draws by the seed alone.

    There is no setting for it, so an attribute of Hypothesis's own is replaced. Should a release of
    it call that otherwise, ``suites/units/harness/cases/test_execution.py`` tells.
    """
    provider: Any = providers.HypothesisProvider
    if provider._local_constants is not _NONE:
        provider._local_constants = _NONE
        providers.CONSTANTS_CACHE.cache.clear()
