"""Dense numbers for names (dictionary encoding), so that state fits into arrays and whole batches
are added at once."""

from collections.abc import Iterable
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T")


class Codes(Generic[T]):
    """Values and their numbers, in order of first occurrence; processes one array at a time."""

    def __init__(self) -> None:
        self.values: list[T] = []
        self._of: dict[T, int] = {}

    def __len__(self) -> int:
        return len(self.values)

    def one(self, value: T) -> int:
        number = self._of.get(value)
        if number is None:
            number = self._of[value] = len(self.values)
            self.values.append(value)
        return number

    def of(self, values: pa.Array) -> Ints:
        """Return the numbers of an array of strings or integers without nulls. This uses a hash
        table and does not sort."""
        encoded = values if pa.types.is_dictionary(values.type) else values.dictionary_encode()
        table = np.fromiter(
            (self.one(value) for value in encoded.dictionary.to_pylist()),
            np.int64,
            len(encoded.dictionary),
        )
        indices: Ints = encoded.indices.to_numpy(zero_copy_only=False)
        return table[indices] if len(table) else indices.astype(np.int64)


class Pairs:
    """Dense numbers of pairs of dense numbers."""

    def __init__(self) -> None:
        self._codes: Codes[int] = Codes()

    def __len__(self) -> int:
        return len(self._codes)

    def one(self, first: int, second: int) -> int:
        return self._codes.one((first << 32) | second)

    def of(self, first: Ints, second: Ints) -> Ints:
        """Return the numbers of the pairs of two arrays of the same length."""
        return self._codes.of(pa.array((first << 32) | second))

    def parts(self, number: int) -> tuple[int, int]:
        packed = self._codes.values[number]
        return packed >> 32, packed & 0xFFFFFFFF


def in_common(*columns: pa.Array) -> list[Ints]:
    """Return numbers for the values in several arrays of one type; equal values get equal
    numbers."""
    indices: Ints = (
        pa.concat_arrays(columns)
        .dictionary_encode()
        .indices.to_numpy(zero_copy_only=False)
        .astype(np.int64)
    )
    return np.split(indices, np.cumsum([len(column) for column in columns])[:-1])


class Cells:
    """Named arrays that grow together; each has an initial value."""

    def __init__(self, **begin: Any) -> None:
        self._begin = {name: np.asarray(value) for name, value in begin.items()}
        self._arrays = {
            name: np.full(64, value, value.dtype) for name, value in self._begin.items()
        }

    @property
    def names(self) -> Iterable[str]:
        return self._begin.keys()

    def grow(self, size: int) -> None:
        have = len(next(iter(self._arrays.values())))
        if size > have:
            more = max(size, 2 * have) - have
            for name, value in self._begin.items():
                self._arrays[name] = np.concatenate(
                    [self._arrays[name], np.full(more, value, value.dtype)]
                )

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        return self._arrays[name]


def in_groups(groups: Ints, size: int) -> Ints:
    """Return an order of the rows in which the rows of each group are together, in their original
    order. ``size`` is the number of groups."""
    narrow = np.uint16 if size <= 2**16 else np.uint32
    # numpy sorts 16-bit numbers by counting, not by comparison.
    order: Ints = np.argsort(groups.astype(narrow), kind="stable")
    return order


def starts(groups: Ints) -> Bools:
    """For rows sorted by group, return which rows begin a group."""
    first = np.ones(len(groups), np.bool_)
    first[1:] = groups[1:] != groups[:-1]
    return first
