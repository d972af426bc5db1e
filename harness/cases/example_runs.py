"""Draws the examples of a case, and runs single examples on a target."""

import contextlib
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import hypothesis
from hypothesis import HealthCheck, Phase, given
from hypothesis.database import ExampleDatabase

from brokerproof.harness.cases import aftermath
from brokerproof.harness.cases.bench import Bench
from brokerproof.harness.cases.case import Case, Where
from brokerproof.harness.cases.client_trials import TRIALS
from brokerproof.harness.cases.example_record import ExampleRecord
from brokerproof.harness.cases.hypothesis_constants_patch import by_seed_alone
from brokerproof.harness.cases.target_health import TargetHealth
from brokerproof.harness.cases.widest_examples import widest
from brokerproof.harness.catalogue.deviations import Deviation
from brokerproof.harness.catalogue.requirements import Catalogue
from brokerproof.harness.model.enums import Clock
from brokerproof.harness.protocols.conversation import ControlFailed, Symptom, Violated
from brokerproof.harness.targets.target import Target, TargetFacts
from brokerproof.harness.trace.events import CaseStarted, Event, ExampleStarted
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.harness.worlds.bounds import LimitReached

EFFORTS: Mapping[str, tuple[float, float]] = {
    "smoke": (0.1, 0.02),
    "normal": (0.3, 0.08),
    "deep": (10.0, 0.4),
}
"""The fraction of a property's examples that run in virtual and in real time (at least 5 and 3)."""

ATTEMPTS = 3
"""The maximum number of attempts at a case in real time, while the host's lateness makes its
findings uncertain or a control fails.

A failed control shows only that the case could not test the broker. In real time the cause may be a
momentary race, so the result's detail records it."""


@dataclass(frozen=True)
class Run:
    """The state shared by all cases of a run on one target."""

    target: Target
    facts: TargetFacts
    catalogue: Catalogue
    deviations: tuple[Deviation, ...]
    recorder: Recorder
    effort: str
    seed: int
    database: ExampleDatabase | None = None
    keep_counterexample: "Callable[[Run, Call, ExampleRecord, frozenset[str]], object] | None" = (
        None
    )
    """Called with a failed call, its smallest failing example, and the requirements that this
    example violates."""
    shrink: bool = True
    """True if failing examples are shrunk in virtual time. A run that only counts failures need not
    shrink them."""
    allow_harm: bool = False
    """True if the run may also harm brokers that the harness did not start."""
    attempts: int = ATTEMPTS
    health: TargetHealth | None = None
    """Distinguishes a broker that no longer serves anyone from a broker that breaks a promise.
    Without it (None), every violation is reported."""


@dataclass(frozen=True)
class Call:
    """One case with its version and parameters."""

    case: Case
    version: str | None
    arguments: Mapping[str, Any]
    id: str

    @property
    def cited(self) -> tuple[str, ...]:
        return self.case.by_version[self.version]

    @property
    def needs(self) -> frozenset[str]:
        """The capabilities that this call needs: those of the case and its STOMP version."""
        is_stomp = self.version is not None and self.case.needs & {"stomp", "stomp-client"}
        return self.case.needs | ({f"stomp-{self.version}"} if is_stomp else set())

    @property
    def is_trial(self) -> bool:
        """True if the call puts a client on trial rather than a broker."""
        return bool(self.case.needs & TRIALS)

    @property
    def given(self) -> dict[str, Any]:
        return dict(self.arguments) | ({} if self.version is None else {"version": self.version})


def binding(run: Run, call: Call) -> tuple[str, ...]:
    """Return the requirements of ``call`` that bind the target, excluding other vendors' documents.
    An unknown id is reported when the call is judged."""
    identity = run.target.identity
    return tuple(
        cited
        for cited in call.cited
        if cited not in run.catalogue
        or identity.is_bound_by(run.catalogue[cited].profile, call.needs)
    )


class ViolationFound(Exception):
    """An example violated a requirement, so Hypothesis must shrink it."""


def one_example(
    run: Run,
    call: Call,
    outcome: ExampleRecord,
    plan: Mapping[str, Any],
    seed: int,
    number: int | None,
) -> None:
    """Run the function once with the drawn arguments of ``plan``. A violation is recorded and ends
    the run without an exception."""
    places = [
        place
        for argument in plan.values()
        for place in (argument, getattr(argument, "where", None))
        if isinstance(place, Where)
    ]
    outcome.plan = plan
    outcome.case = call.id
    bench = Bench(
        run.target,
        call.cited,
        label=call.case.name.rpartition(".")[2][:40],
        seed=seed,
        overrides=places[0].overrides if places else None,
        example_record=outcome,
        situations=situations(run, call),
        effort=run.effort,
        unbound=frozenset(call.cited).difference(binding(run, call)),
    )
    start: Event
    if number is None:
        start = CaseStarted(at_ns=bench.now(), detail=call.id)
    else:
        start = ExampleStarted(
            at_ns=bench.now(),
            example=number,
            detail=", ".join(f"{k}={v!r}" for k, v in plan.items()),
        )
    bench.record(start)
    try:
        call.case.function(bench, **call.given, **plan)
        aftermath.observe(bench)
    except Violated as end:
        if not outcome.wire.violations:
            outcome.unbound_end = str(end)
    except ControlFailed as problem:
        if plan and problem.symptom is Symptom.UNMET and run.target.clock is Clock.REAL:
            outcome.unmet = problem
            return
        outcome.late = bench.world.lateness(start.at_ns)
        raise
    finally:
        bench.close()


def explain(problem: Exception) -> str:
    """Describe an exception from an example as an error of ours."""
    if isinstance(problem, ControlFailed):
        return f"control failed: {problem}"
    if isinstance(problem, LimitReached):
        return f"ended at a limit: {problem}"
    where = traceback.extract_tb(problem.__traceback__)[-1]
    return (
        f"{type(problem).__name__}: {problem} ({where.filename.rpartition('/')[2]}:{where.lineno})"
    )


def situations(run: Run, call: Call) -> tuple[str, ...]:
    """Return the situations that the examples of ``call`` should reach on the run's target."""
    over = call.case.over
    return () if over is None else over.situations_on(run.target)


def unreached(run: Run, call: Call, record: ExampleRecord) -> list[str]:
    """Return the declared situations that no example of ``record`` reached."""
    return [name for name in situations(run, call) if name not in record.situations]


def strategies(run: Run, call: Call) -> dict[str, Any]:
    """Return the strategies for the arguments of a property on the run's target."""
    assert call.case.over is not None
    return {
        name: strategy(run.target) if callable(strategy) else strategy
        for name, strategy in call.case.over.strategies.items()
    }


def count(run: Run, call: Call) -> int:
    assert call.case.over is not None
    virtual, real = EFFORTS[run.effort]
    if run.target.clock is Clock.VIRTUAL:
        least = call.case.over.least if run.effort != "smoke" else 0
        return max(5, least, int(call.case.over.examples * virtual))
    return max(3, int(call.case.over.examples * real))


def fixed_examples(run: Run, call: Call) -> list[Mapping[str, Any]]:
    always = call.case.over.always if call.case.over is not None else None
    return list(always(run.target)) if always is not None else []


def draw(
    run: Run,
    call: Call,
    example: Callable[..., None],
    seed: int,
    database: ExampleDatabase | None = None,
    *,
    shrink: bool,
    fixed: bool = True,
    more: int = 0,
) -> None:
    """Have Hypothesis call ``example`` with drawn arguments, and shrink those that raise
    :class:`ViolationFound`. ``more`` is the number of examples in addition to those of the effort;
    ``fixed`` says whether the fixed examples run too."""
    assert call.case.over is not None
    by_seed_alone()
    wrapped: Any = given(**strategies(run, call))(example)
    # Hypothesis begins with the last example added.
    for plan in reversed(fixed_examples(run, call) if fixed else []):
        wrapped = hypothesis.example(**plan)(wrapped)
    phases = [Phase.explicit, Phase.reuse, Phase.generate] + ([Phase.shrink] if shrink else [])
    settings = hypothesis.settings(
        max_examples=count(run, call) + more,
        deadline=None,
        database=database,
        phases=phases,
        print_blob=False,
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=hypothesis.Verbosity.quiet,
    )
    with contextlib.suppress(ViolationFound):
        settings(hypothesis.seed(seed)(wrapped))()


DRAWN_IN_REAL_TIME = 8
"""The number of examples that are drawn for each one that runs in real time."""


def plans_in_real_time(run: Run, call: Call, seed: int, *, fixed: bool) -> list[Mapping[str, Any]]:
    """Return the examples to run. Real time runs only a few, so those that differ most are chosen
    out of many. The first one drawn is not considered, because it is the simplest."""
    drawn: list[Mapping[str, Any]] = []
    wanted = count(run, call)
    more = (DRAWN_IN_REAL_TIME - 1) * wanted
    draw(run, call, lambda **plan: drawn.append(plan), seed, shrink=False, fixed=False, more=more)
    always = fixed_examples(run, call) if fixed else []
    return [*always, *widest(drawn[1:] if len(drawn) > wanted else drawn, wanted, always)]
