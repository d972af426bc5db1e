"""Replacements in the broker's code are active while a mutated broker works, and are removed
afterwards."""

from collections.abc import MutableMapping
from typing import Any

import pytest

from brokerproof.suites.mutation import all_mutants, mutant
from brokerproof.suites.mutation.mutant import Group, Mutant, Owner, Patch, Reached
from brokerproof.suites.mutation.target import MutantTarget


class Base:
    limit = 1

    def size(self) -> int:
        return 1

    @property
    def full(self) -> bool:
        return False

    @staticmethod
    def twice(number: int) -> int:
        return 2 * number


class Derived(Base):
    __slots__ = ()


def entries(owner: Owner) -> list[tuple[Any, Any]]:
    """Return the names and identities of ``owner``'s own entries, in order."""
    own = owner if isinstance(owner, MutableMapping) else vars(owner)
    return [(name, id(value)) for name, value in own.items()]


def test_a_replacement_gets_the_original_and_the_arguments() -> None:
    patch = Patch()
    patch.override(Base, "size")(lambda original, self: original(self) + 1)
    patch.override(Base, "full")(lambda original, self: not original(self))
    patch.override(Base, "twice")(lambda original, number: original(number) + 1)
    patch.set(Base, "limit", 5)
    made_before = Base()
    with patch:
        assert (made_before.size(), made_before.full, Base.twice(2), Base.limit) == (2, True, 5, 5)
    assert (made_before.size(), made_before.full, Base.twice(2), Base.limit) == (1, False, 4, 1)


def test_an_inherited_method_is_inherited_again_afterwards() -> None:
    patch = Patch()
    patch.override(Derived, "size")(lambda original, self: original(self) + 1)
    before = entries(Derived)
    with patch:
        assert (Derived().size(), Base().size()) == (2, 1)
    assert entries(Derived) == before


def test_the_last_of_two_replacements_calls_the_first() -> None:
    patch = Patch()
    patch.override(Base, "size")(lambda original, self: original(self) + 1)
    patch.override(Base, "size")(lambda original, self: original(self) * 10)
    with patch:
        assert Base().size() == 20
    assert Base().size() == 1


def test_tables_are_restored_with_their_order() -> None:
    table = {"A": int, "B": str}
    patch = Patch()
    patch.override(table, "A")(lambda original, text: original(text) + 1)
    patch.set(table, "C", float)
    before = entries(table)
    with patch:
        assert table["A"]("1") == 2
        assert table["C"] is float
    assert entries(table) == before


def test_an_exception_restores_too() -> None:
    patch = Patch()
    patch.set(Base, "limit", 5)
    with pytest.raises(KeyboardInterrupt), patch:
        raise KeyboardInterrupt
    assert Base.limit == 1


def test_an_interrupted_exit_can_be_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    patch = Patch()
    patch.set(Base, "limit", 5)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Patch, "restore", lambda self: pytest.fail("cut short"))
        with pytest.raises(pytest.fail.Exception), patch:
            pass
    assert Base.limit == 5
    mutant.restore()
    assert Base.limit == 1


def test_a_value_is_set_and_not_overridden() -> None:
    with pytest.raises(TypeError, match="1 is not a method"):
        Patch().override(Base, "limit")(lambda original: original)


def test_each_broker_has_the_state_of_its_own_declaration() -> None:
    group = Group("g")

    @group.mutant("STOMP12-HDR-17")
    def counting(patch: Patch, reached: Reached) -> None:
        """Sizes grow."""
        sizes: list[int] = []

        @patch.override(Base)
        def size(original: Any, self: Base) -> int:
            sizes.append(original(self))
            return len(sizes)

    (made,) = group.mutants
    first, second = made.patch(Reached()), made.patch(Reached())
    with first:
        assert [Base().size(), Base().size()] == [1, 2]
    with second:
        assert Base().size() == 1


def test_the_short_form_counts_what_it_reached() -> None:
    group = Group("g")

    @group.override(Base, "size", breaks="STOMP12-HDR-17")
    def one_too_many(original: Any, reached: Reached, self: Base) -> int:
        """A size is too large by one."""
        return reached.instead(original(self), 2)

    (made,) = group.mutants
    assert (made.name, made.fault) == ("g.one-too-many", "A size is too large by one.")
    reached = Reached()
    with made.patch(reached):
        assert Base().size() == 2
    assert reached.count == 1


@pytest.mark.parametrize("mutant", all_mutants.MUTANTS.values(), ids=lambda mutant: mutant.name)
def test_nothing_of_a_mutant_remains(mutant: Mutant) -> None:
    target = MutantTarget(mutant)
    patch = mutant.patch(target.reached)
    before = [entries(owner) for owner in patch.owners]
    with patch:
        pass
    assert [entries(owner) for owner in patch.owners] == before
