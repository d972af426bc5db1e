"""A mutant is the reference broker with one fault. It declares the requirements that the fault
violates.

Most mutants replace one method by a function, which gets the original method as its first argument.
Its docstring states the fault in one sentence, and the decorator names the requirements that the
fault breaks::

    @acks.override(Subscription, "take", breaks="STOMP12-SUB-11")
    def client_is_individual(original, reached, self, delivery):
        \"\"\"In mode client an ACK settles only the message that it names.\"\"\"

For common kinds of faults there are other decorators: ``result`` replaces what a method returned
and ``amends`` changes it in place, ``skips`` omits calls, ``before`` and ``after`` run in addition
to the call, ``through`` passes the function to a helper that several mutants share, and a
``variant`` is such a helper with other arguments. Requirements that need a separate line follow in
``@breaks(…)``::

    @acks.skips(Subscription, "pay", breaks="ARTEMIS-STOMP-window-3")
    def small_charges_are_not_paid(self, size):
        \"\"\"A charge below ten bytes is not taken from the window.\"\"\"
        return size < 10

The owner may also be a table (``@acks.override(COMMANDS, "ACK", breaks=…)``) or a module. A fault
in several places, or with a state, is a function that declares its replacements. The function is
called once per broker, so its local variables are the state of one broker::

    @acks.mutant("STOMP12-ACK-01")
    def acknowledged_comes_back(patch, reached):
        \"\"\"An acknowledged message returns to its queue when its connection is lost.\"\"\"

        @patch.override(Subscription)
        def take(original, self, delivery): ...

Wherever the mutated code deviates from the original, it calls ``reached``: a mutant that no case
reaches proves nothing.

The replacements are in the broker's classes only while a mutated broker handles an input, and are
removed before ``handle`` returns. Other brokers in the same process never see them.
"""

import functools
import inspect
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, Protocol, Self, TypeAlias, TypeVar

from brokerproof.reference_broker.protocols.stomp.frame import Frame, Head, Headers

Value = TypeVar("Value")
Function = TypeVar("Function", bound=Callable[..., Any])


class Reached:
    """Counts how often one instance of a mutant deviated from the original."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self, differs: object = True) -> bool:
        """Return ``differs``; if it is true, count that the mutant deviates from the original."""
        self.count += bool(differs)
        return bool(differs)

    def instead(self, right: Any, wrong: Value) -> Value:
        """Return ``wrong``; count it if it differs from the original's result."""
        if right != wrong:
            self.count += 1
        return wrong


Owner: TypeAlias = type | ModuleType | MutableMapping[Any, Any]
"""A class, a module, or a table such as STOMP's COMMANDS."""

_ABSENT = object()


@dataclass(frozen=True, slots=True)
class _Replacement:
    """One entry of an owner. ``before`` is the owner's own value without the mutant, or ``_ABSENT``
    if it has none or inherits one."""

    owner: Owner
    name: Any
    value: Any
    before: Any

    def install(self) -> None:
        _set(self.owner, self.name, self.value)

    def restore(self) -> None:
        _set(self.owner, self.name, self.before)


_in_force: "list[Patch]" = []


def restore() -> None:
    """Remove all active replacements, because an aborted case may have skipped an exit."""
    while _in_force:
        _in_force.pop().restore()


class Patch:
    """The replacements of one mutated broker, active only inside ``with patch:``.

    All are declared while none is active, so they replace the originals.
    """

    def __init__(self) -> None:
        self._replacements: list[_Replacement] = []

    def override(self, owner: Owner, name: Any = None) -> Callable[[Function], Function]:
        """Replace a method, a property's getter, or a function in a module or table.

        The replacement gets the original as its first argument. Without ``name`` it replaces the
        entry that has its own name.
        """
        return self._shaped(owner, name, _replacing)

    def before(self, owner: Owner, name: Any = None) -> Callable[[Function], Function]:
        """Call the function before each call of a method, with the same arguments."""
        return self._shaped(owner, name, _preceding)

    def after(self, owner: Owner, name: Any = None) -> Callable[[Function], Function]:
        """Call the function after each call of a method, with the same arguments."""
        return self._shaped(owner, name, _following)

    def result(self, owner: Owner, name: Any = None) -> Callable[[Function], Function]:
        """Return the function's result instead of the method's; the function gets the method's
        result and arguments."""
        return self._shaped(owner, name, _answering)

    def _shaped(
        self, owner: Owner, name: Any, shape: Callable[..., Any]
    ) -> Callable[[Function], Function]:
        def declare(function: Function) -> Function:
            entry = function.__name__ if name is None else name
            shaped = functools.partial(shape, function)
            self.set(owner, entry, _overriding(self._current(owner, entry), shaped))
            return function

        return declare

    def set(self, owner: Owner, name: Any, value: Any) -> None:
        """Replace an attribute or entry by ``value``; a class may get one that it lacks."""
        before = _own(owner).get(name, _ABSENT)
        self._replacements.append(_Replacement(owner, name, value, before))

    def during(self, owner: Owner, name: Any) -> list[tuple[Any, ...]]:
        """Return the arguments of the running calls of this method, innermost last."""
        running: list[tuple[Any, ...]] = []

        @self.override(owner, name)
        def noted(original: Any, /, *arguments: Any, **options: Any) -> Any:
            running.append(arguments)
            try:
                return original(*arguments, **options)
            finally:
                running.pop()

        return running

    def restore(self) -> None:
        """Remove every replacement. May be called repeatedly and after an interrupted exit."""
        for replacement in reversed(self._replacements):
            replacement.restore()

    @property
    def owners(self) -> list[Owner]:
        return [replacement.owner for replacement in self._replacements]

    def __enter__(self) -> Self:
        _in_force.append(self)
        try:
            for replacement in self._replacements:
                replacement.install()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *problem: object) -> None:
        self.restore()
        _in_force.remove(self)

    def _current(self, owner: Owner, name: Any) -> Any:
        """Return the value that is active once the replacements declared earlier are."""
        for replacement in reversed(self._replacements):
            if replacement.owner is owner and replacement.name == name:
                return replacement.value
        return inspect.getattr_static(owner, name) if isinstance(owner, type) else _own(owner)[name]


def _replacing(function, original, /, *arguments, **options):
    return function(original, *arguments, **options)


def _preceding(function, original, /, *arguments, **options):
    function(*arguments, **options)
    return original(*arguments, **options)


def _following(function, original, /, *arguments, **options):
    answer = original(*arguments, **options)
    function(*arguments, **options)
    return answer


def _answering(function, original, /, *arguments, **options):
    return function(original(*arguments, **options), *arguments, **options)


def _own(owner: Owner) -> Any:
    return owner if isinstance(owner, MutableMapping) else vars(owner)


def _set(owner: Owner, name: Any, value: Any) -> None:
    if isinstance(owner, MutableMapping):
        if value is _ABSENT:
            owner.pop(name, None)
        else:
            owner[name] = value
    elif value is not _ABSENT:
        setattr(owner, name, value)
    elif name in vars(owner):
        delattr(owner, name)


def _overriding(original: Any, function: Callable[..., Any]) -> Any:
    """Return ``function`` in the shape of ``original``, which becomes its first argument."""
    if isinstance(original, property):
        return property(functools.partial(function, original.fget), original.fset)
    if isinstance(original, staticmethod | classmethod):
        return type(original)(_overriding(original.__func__, function))
    if not inspect.isroutine(original) and not callable(original):
        raise TypeError(f"{original!r} is not a method; replace it with set()")

    @functools.wraps(original)
    def replacement(*arguments: Any, **options: Any) -> Any:
        return function(original, *arguments, **options)

    return replacement


class Fault(Protocol):
    """Anything that violates requirements and names them."""

    @property
    def breaks(self) -> tuple[str, ...]: ...


REFERENCE = "reference"

Declare: TypeAlias = Callable[[Patch, Reached], None]


@dataclass(frozen=True)
class Mutant:
    """One seeded fault. ``recreates`` names the issue of a real broker that has the same symptom on
    the wire; it may be empty."""

    name: str
    group: str
    fault: str
    breaks: tuple[str, ...]
    recreates: str
    declare: Declare
    original: str = REFERENCE
    """The shipped target, in virtual time, whose broker is mutated."""

    def patch(self, reached: Reached) -> Patch:
        """Return the replacements for one more broker."""
        patch = Patch()
        self.declare(patch, reached)
        return patch


@dataclass
class Group:
    """The mutants of one subject, which register here when their module is imported."""

    name: str
    original: str = REFERENCE
    """The shipped target whose broker is mutated. The controls run only on the default one."""
    mutants: list[Mutant] = field(default_factory=list)

    def override(
        self, owner: Owner, name: Any, *, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a function that replaces one method, or one entry of a table or module.

        The function gets the original, ``reached``, and the arguments of the call. ``breaks``
        contains requirement ids separated by blanks.
        """

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            @patch.override(owner, name)
            def replacement(original: Any, /, *arguments: Any, **options: Any) -> Any:
                return function(original, reached, *arguments, **options)

        return self._declared(declare, breaks, recreates)

    def result(
        self, owner: Owner, name: Any, *, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a function that gets a method's result and arguments and returns another
        result. The mutant is reached where the results differ."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            @patch.result(owner, name)
            def instead(right: Any, /, *arguments: Any, **options: Any) -> Any:
                return reached.instead(right, function(right, *arguments, **options))

        return self._declared(declare, breaks, recreates)

    def amends(
        self, owner: Owner, name: Any, *, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a function that gets ``reached``, a method's result and its arguments,
        and changes the result in place."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            @patch.result(owner, name)
            def amended(right: Any, /, *arguments: Any, **options: Any) -> Any:
                function(reached, right, *arguments, **options)
                return right

        return self._declared(declare, breaks, recreates)

    def skips(
        self, owner: Owner, name: Any, *, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant that omits the calls for which the function returns true."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            @patch.override(owner, name)
            def called(original: Any, /, *arguments: Any, **options: Any) -> Any:
                skipped = reached(function(*arguments, **options))
                return None if skipped else original(*arguments, **options)

        return self._declared(declare, breaks, recreates)

    def before(
        self, owner: Owner, name: Any, *, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a function that gets ``reached`` and runs before each call."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            patch.before(owner, name)(functools.partial(function, reached))

        return self._declared(declare, breaks, recreates)

    def after(
        self, owner: Owner, name: Any, *, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a function that gets ``reached`` and runs after each call."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            patch.after(owner, name)(functools.partial(function, reached))

        return self._declared(declare, breaks, recreates)

    def mutant(self, breaks: str = "", recreates: str = "") -> Callable[[Function], Function]:
        """Make a mutant of a function that declares several replacements or keeps a state."""

        def register(function: Function) -> Function:
            self._add(function, function, breaks, recreates)
            return function

        return register

    def variant(
        self, helper: Callable[..., None], *arguments: Any, breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a helper, which gets the patch, ``reached`` and these arguments; the
        function provides the name and the fault."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            helper(patch, reached, *arguments)

        return self._declared(declare, breaks, recreates)

    def through(
        self, helper: Callable[..., None], breaks: str = "", recreates: str = ""
    ) -> Callable[[Function], Function]:
        """Make a mutant of a function that changes one value: ``helper`` gets the patch,
        ``reached`` and the function, and installs a replacement that calls the function."""

        def declare(function: Function, patch: Patch, reached: Reached) -> None:
            helper(patch, reached, function)

        return self._declared(declare, breaks, recreates)

    def _declared(
        self, declare: Callable[[Any, Patch, Reached], None], breaks: str, recreates: str
    ) -> Callable[[Function], Function]:
        def register(function: Function) -> Function:
            self._add(function, functools.partial(declare, function), breaks, recreates)
            return function

        return register

    def _add(
        self, function: Callable[..., Any], declare: Declare, breaks: str, recreates: str
    ) -> None:
        fault = " ".join((inspect.getdoc(function) or "").split())
        name = f"{self.name}.{function.__name__.replace('_', '-')}"
        ids = tuple((breaks or getattr(function, "breaks", "")).split())
        self.mutants.append(Mutant(name, self.name, fault, ids, recreates, declare, self.original))


def breaks(*requirements: str) -> Callable[[Function], Function]:
    """Name the violated requirements below a decorator that has no room for them."""

    def note(function: Function) -> Function:
        vars(function)["breaks"] = " ".join(requirements)
        return function

    return note


def rewritten(frame: Frame, headers: Headers) -> Frame:
    """Return ``frame`` with other headers and without the broker's cached values."""
    return Frame(Head(frame.head.command, headers, frame.head.content_length), frame.body)


def without(frame: Frame, *names: str) -> Frame:
    """Return ``frame`` without the headers of these names."""
    return rewritten(
        frame, tuple(header for header in frame.head.headers if header[0] not in names)
    )
