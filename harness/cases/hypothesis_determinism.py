"""Hypothesis, told to draw the same examples wherever and in whatever company a case is run.

Hypothesis likes to draw constants that it reads in the sources of whatever modules are loaded,
unless they lie in site-packages. What is drawn from one seed would then depend on which cases ran
before in the same process, and on whether brokerproof runs from a checkout or is installed; and
reading the sources takes seconds.
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
