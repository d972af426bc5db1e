"""``@case`` and ``@over``, which turn a plain function into a conformance case.

A case cites the requirements it judges and names the capabilities it needs::

    @case("ARTEMIS-STOMP-window-2", needs={"consumer-window"})
    def test_a_window_of_zero_gives_one_message_per_ack(target): ...

    ANSWERED = {"1.1": "STOMP11-HDR-13", "1.2": "STOMP12-HDR-17"}
    RECEIPT_ID = {"1.1": "STOMP11-RCPT-02", "1.2": "STOMP12-RCPT-02"}

    @case(ANSWERED, RECEIPT_ID)
    def test_every_receipt_is_answered(target, version): ...

The second case runs once per version and cites that version's ids. ``@over`` turns a case into a
property: each strategy draws one argument. A strategy may be a function of the target. An argument
that is a :class:`Where`, or has one as its ``where``, configures the broker of its example. A
property may declare the ``situations`` that its examples should reach; the function calls
``target.reached(situation)`` when one occurs."""

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from brokerproof.harness.catalogue import extensions
from brokerproof.harness.targets.target import Overrides, Target

Function = TypeVar("Function", bound=Callable[..., Any])

_ATTRIBUTE = "__brokerproof_case__"
_OVER = "__brokerproof_over__"
_STOMP = ("stomp.", "clients.stomppy.")
"""Prefixes of the names of cases that need only STOMP."""
SHIPPED = "brokerproof.suites."
"""Prefix of the modules of brokerproof's own suites."""


@dataclass(frozen=True)
class Where:
    """The set-up of an example: an acceptor, and the settings to change if the target is
    reconfigurable."""

    acceptor: str
    overrides: Overrides | None = None


Situations = tuple[str, ...] | Callable[[Target], tuple[str, ...]]
"""The names of situations, or a function that returns them for a target."""


@dataclass(frozen=True)
class Over:
    """The strategies of a property, and its number of examples before the effort scales it."""

    strategies: Mapping[str, Any]
    examples: int
    least: int = 0
    """The minimum number of examples in virtual time, except at smoke effort."""
    always: Callable[[Target], Iterable[Mapping[str, Any]]] | None = None
    """Examples that always run: corner cases that make the property a stronger test."""
    situations: Situations = ()
    """The situations that the drawn examples should reach."""

    def situations_on(self, target: Target) -> tuple[str, ...]:
        return self.situations(target) if callable(self.situations) else self.situations


@dataclass(frozen=True)
class Case:
    """One case in one version (None if it does not depend on the version)."""

    name: str
    """``stomp.receipts.every_receipt_is_answered``, without the version."""
    suite: str
    function: Callable[..., Any]
    by_version: Mapping[str | None, tuple[str, ...]]
    needs: frozenset[str]
    doc: str
    source: str
    over: Over | None = None
    arguments: tuple[str, ...] = field(default=())
    harm: str = ""
    """The lasting damage to a broker that fails the case; usually empty. In real time such a case
    runs last and alone, on a broker that the harness started or with ``--allow-harm``."""

    def id(self, version: str | None, parameters: str = "") -> str:
        inside = "-".join(part for part in (version, parameters) if part)
        return f"{self.name}[{inside}]" if inside else self.name

    @property
    def drawn(self) -> dict[str, str]:
        """Descriptions of the drawn arguments: the docstrings of their dataclasses."""
        if self.over is None:
            return {}
        annotations = inspect.get_annotations(self.function)
        known = getattr(self.function, "__globals__", {})
        kinds = {name: known.get(annotations.get(name)) for name in self.over.strategies}
        return {
            name: " ".join(kind.__doc__.split())
            for name, kind in kinds.items()
            # Python sets the docstring of a dataclass that has none to its signature.
            if isinstance(kind, type)
            and dataclasses.is_dataclass(kind)
            and kind.__doc__
            and not kind.__doc__.startswith(f"{kind.__name__}(")
        }

    @property
    def cited(self) -> frozenset[str]:
        """Every requirement the case cites, in any version."""
        return frozenset(requirement for ids in self.by_version.values() for requirement in ids)


_REGISTRY: dict[str, Case] = {}


def registry() -> Mapping[str, Case]:
    """Every case of the suites imported so far, by name."""
    return _REGISTRY


def case(
    *requirements: str | Mapping[str, str | tuple[str, ...]],
    needs: Iterable[str] = (),
    harm: str = "",
) -> Callable[[Function], Function]:
    """Make a case. ``harm`` is the lasting damage to a broker that fails the case.

    Raises ``TypeError`` if there is no requirement, or a version map but no ``version`` argument.
    """

    def decorate(function: Function) -> Function:
        by_version = _by_version(function, requirements)
        over: Over | None = getattr(function, _OVER, None)
        parameters = [
            name
            for name in inspect.signature(function).parameters
            if over is None or name not in over.strategies
        ]
        suite, name = _names(function)
        declared = Case(
            name=name,
            suite=suite,
            function=function,
            by_version=by_version,
            needs=frozenset(needs) | _spoken(name),
            doc=inspect.getdoc(function) or "",
            source=f"{_home(function)}:{inspect.unwrap(function).__code__.co_firstlineno}",
            harm=harm,
            over=over,
            arguments=tuple(
                parameter for parameter in parameters if parameter not in ("target", "version")
            ),
        )
        _REGISTRY[name] = declared

        @functools.wraps(function)
        def collected(*args: Any, **kwargs: Any) -> Any:
            raise TypeError(
                f"{name} is a conformance case: only brokerproof's pytest plugin can run it"
            )

        # pytest must not treat drawn arguments as fixtures
        collected.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
            [
                inspect.Parameter(parameter, inspect.Parameter.POSITIONAL_OR_KEYWORD)
                for parameter in parameters
            ]
        )
        setattr(collected, _ATTRIBUTE, declared)
        return collected  # type: ignore[return-value]

    return decorate


def over(
    *,
    examples: int = 100,
    least: int = 0,
    always: Callable[[Target], Iterable[Mapping[str, Any]]] | None = None,
    situations: Situations = (),
    **strategies: Any,
) -> Callable[[Function], Function]:
    """Turn a case into a property; written below ``@case``.

    In virtual time, normal effort draws 0.3 times ``examples`` examples, but at least ``least``.
    The examples in ``always`` run in addition. While one of ``situations`` is unreached, virtual
    time draws more examples; a case that never reaches one is INCONCLUSIVE."""

    def decorate(function: Function) -> Function:
        setattr(function, _OVER, Over(strategies, examples, least, always, situations))
        return function

    return decorate


def of(function: object) -> Case | None:
    return getattr(function, _ATTRIBUTE, None)


def _by_version(
    function: Callable[..., Any],
    requirements: tuple[str | Mapping[str, str | tuple[str, ...]], ...],
) -> dict[str | None, tuple[str, ...]]:
    name = function.__qualname__
    if not requirements:
        raise TypeError(f"{name}: a case must cite at least one requirement")
    by_version: dict[str | None, tuple[str, ...]] = {}
    if "version" not in inspect.signature(function).parameters:
        ids = tuple(requirement for requirement in requirements if isinstance(requirement, str))
        if any(isinstance(cited, tuple) for cited in requirements):
            raise TypeError(f'{name}: @case takes each id as a separate argument: ("A", *MORE)')
        if len(ids) < len(requirements):
            raise TypeError(f"{name}: requirements by version need an argument named version")
        by_version[None] = ids
        return by_version
    for requirement in requirements:
        if isinstance(requirement, str):
            raise TypeError(f"{name}: a case with a version must cite dicts of ids by version")
        for version, cited in requirement.items():
            more = (cited,) if isinstance(cited, str) else tuple(cited)
            by_version[version] = (*by_version.get(version, ()), *more)
    return by_version


def _names(function: Callable[..., Any]) -> tuple[str, str]:
    suite, rest = extensions.suite_of(function.__module__.removeprefix(SHIPPED))
    parts = [suite, *rest.split("."), function.__name__] if rest else [suite, function.__name__]
    return suite, ".".join(part.removeprefix("test_") for part in parts)


def _spoken(name: str) -> frozenset[str]:
    """Return the protocol that a case's module implies; the target must speak it."""
    return frozenset({"stomp"} if name.startswith(_STOMP) else ())


def _home(function: Callable[..., Any]) -> str:
    return function.__module__.removeprefix("brokerproof.").replace(".", "/") + ".py"
