"""Makes Hypothesis draw the same examples wherever, and after whichever other cases, a case is run.

Hypothesis draws constants that it reads in the sources of all loaded modules outside site-packages.
The examples of one seed would then depend on the cases that ran before in the same process, and on
whether brokerproof runs from a checkout or is installed. Reading the sources also takes seconds.

Hypothesis also keeps a random generator for each thread that draws, and saves, seeds and restores
those of all threads around each example. The first example of a thread collects garbage twice over.
Cases in real time draw in sixteen threads; our seeds are given, so one generator serves them all.
Measured: 2,526 examples of 497 properties in 16 threads took 4.6 s of processor time and take 2.5.

To describe a lambda it walks through the modules that are loaded, and fails ("dictionary changed
size during iteration") if another thread imports one meanwhile. It gets a copy.
"""

from __future__ import annotations

import random
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

from hypothesis import core
from hypothesis.internal import lambda_sources
from hypothesis.internal.conjecture import providers

_NONE = type(providers.GLOBAL_CONSTANTS)()
_SHARED = SimpleNamespace(_hypothesis_global_random=random.Random())


class _SysOfHypothesis:
    """What Hypothesis reads of ``sys`` where it describes lambdas."""

    version_info = sys.version_info

    @property
    def modules(self) -> dict[str, ModuleType]:
        """A copy: nothing is added to it while it is read."""
        return sys.modules.copy()


def by_seed_alone() -> None:
    """From now on this process draws by the seed alone, in any number of threads.

    There is no setting for it, so attributes of Hypothesis's own are replaced. Should a release of
    it call them otherwise, ``suites/units/harness/cases/test_execution.py`` and
    ``test_hypothesis_patch.py`` beside it fail.
    """
    provider: Any = providers.HypothesisProvider
    if provider._local_constants is not _NONE:
        provider._local_constants = _NONE
        providers.CONSTANTS_CACHE.cache.clear()
    engine: Any = core
    engine.threadlocal = _SHARED
    describing: Any = lambda_sources
    describing.sys = _SysOfHypothesis()
