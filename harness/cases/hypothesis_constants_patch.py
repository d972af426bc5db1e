"""Makes Hypothesis draw the same examples for a case wherever the case runs and whatever ran before
it.

Hypothesis draws constants found in the sources of all loaded modules outside site-packages. So a
seed's examples would depend on the cases that ran earlier in the process, and on whether
brokerproof is installed or run from a checkout. Reading the sources also takes seconds.

Hypothesis also keeps a random generator for each drawing thread, and saves, seeds and restores all
of them around each example. A thread's first example runs garbage collection twice. Real-time cases
draw in sixteen threads. Since our seeds are explicit, one generator is enough for all of them.
Measured on 2,526 examples of 497 properties in 16 threads, this takes 2.5 s of processor time
instead of 4.6 s.

To describe a lambda, Hypothesis iterates over the loaded modules, and fails ("dictionary changed
size during iteration") if another thread imports one at that moment. So Hypothesis gets a copy."""

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
    """The part of ``sys`` that Hypothesis reads when it describes lambdas."""

    version_info = sys.version_info

    @property
    def modules(self) -> dict[str, ModuleType]:
        """Return a copy of the modules, which does not change during iteration."""
        return sys.modules.copy()


def by_seed_alone() -> None:
    """Make draws in this process depend only on the seed, in any number of threads.

    No setting does this, so private attributes of Hypothesis are replaced. If a release renames
    these, ``suites/units/harness/cases/test_execution.py`` and ``test_hypothesis_patch.py`` next to
    it fail."""
    provider: Any = providers.HypothesisProvider
    if provider._local_constants is not _NONE:
        provider._local_constants = _NONE
        providers.CONSTANTS_CACHE.cache.clear()
    engine: Any = core
    engine.threadlocal = _SHARED
    describing: Any = lambda_sources
    describing.sys = _SysOfHypothesis()
