"""Damage to a broker's files: every way to cut, change, move or copy a file.

Files are bytes, by their paths below the data folder. This module shares no code with the broker:
it treats a file as a sequence of records, each preceded by 14 bytes that contain its length.
"""

import random
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass

_HEAD = struct.Struct(">HIII")
_KINDS = (".journal", ".page", ".body", "extent")
Files = Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Damage:
    """A change of some files: the new bytes of each, or None if it is removed."""

    sentence: str
    changes: dict[str, bytes | None]

    def on(self, files: Files) -> dict[str, bytes]:
        damaged = {name: self.changes.get(name, data) for name, data in files.items()}
        damaged |= self.changes
        return {name: data for name, data in damaged.items() if data is not None}


def damageable(files: Files) -> dict[str, bytes]:
    """Return the files whose damage can lose data."""
    return {name: data for name, data in files.items() if name.endswith(_KINDS) and data}


def boundaries(data: bytes) -> list[int]:
    """Return where each record begins and where the last one ends."""
    places = [0]
    while places[-1] + _HEAD.size <= len(data):
        end = places[-1] + _HEAD.size + int(_HEAD.unpack_from(data, places[-1])[2])
        if end > len(data):
            break
        places.append(end)
    return places


def truncate(dice: random.Random, files: Files) -> Damage | None:
    """Cut off the end, either between records or within one."""
    name = _any(dice, files)
    data = files[name]
    places = boundaries(data)
    at = dice.choice((dice.choice(places), dice.randrange(len(data))))
    return Damage(f"{name} ends at byte {at} of {len(data)}", {name: data[:at]})


def flip(dice: random.Random, files: Files) -> Damage | None:
    """Change one bit."""
    name = _any(dice, files)
    data = bytearray(files[name])
    at, bit = dice.randrange(len(data)), dice.randrange(8)
    data[at] ^= 1 << bit
    return Damage(f"{name}: bit {bit} of byte {at} is flipped", {name: bytes(data)})


def overwrite(dice: random.Random, files: Files) -> Damage | None:
    """Write zeros or garbage over some bytes."""
    name = _any(dice, files)
    data = bytearray(files[name])
    begin = dice.randrange(len(data))
    end = min(len(data), begin + dice.choice((1, 14, 600)))
    data[begin:end] = dice.choice((bytes(end - begin), dice.randbytes(end - begin)))
    return Damage(f"{name}: bytes {begin} to {end} are overwritten", {name: bytes(data)})


def swap_files(dice: random.Random, files: Files) -> Damage | None:
    """Swap the names of two files of the same kind."""
    pair = _pair(dice, files)
    if pair is None:
        return None
    one, other = pair
    changes: dict[str, bytes | None] = {one: files[other], other: files[one]}
    return Damage(f"{one} and {other} are swapped", changes)


def swap_records(dice: random.Random, files: Files) -> Damage | None:
    """Swap two records of a file, or of two files of the same kind."""
    one = _any(dice, files)
    pair = _pair(dice, files) if dice.random() < 0.5 else None
    one, other = pair or (one, one)
    first, second = _record(dice, files[one]), _record(dice, files[other])
    if first is None or second is None:
        return None
    if one == other:
        (begin, end), (start, stop) = sorted((first, second))
        if begin == start:
            return None
        data = files[one]
        whole = data[:begin] + data[start:stop] + data[end:start] + data[begin:end] + data[stop:]
        return Damage(f"{one}: records at {begin} and {start} are swapped", {one: whole})
    changes: dict[str, bytes | None] = {
        one: _replaced(files[one], first, files[other][slice(*second)]),
        other: _replaced(files[other], second, files[one][slice(*first)]),
    }
    return Damage(f"records of {one} at {first[0]} and {other} at {second[0]} are swapped", changes)


def cut_out(dice: random.Random, files: Files) -> Damage | None:
    """Remove one record from a file."""
    name = _any(dice, files)
    record = _record(dice, files[name])
    if record is None:
        return None
    rest = _replaced(files[name], record, b"")
    return Damage(f"{name}: the record at {record[0]} is cut out", {name: rest})


def delete(dice: random.Random, files: Files) -> Damage | None:
    name = _any(dice, files)
    return Damage(f"{name} is deleted", {name: None})


def append(dice: random.Random, files: Files) -> Damage | None:
    """Append garbage, or a copy of a record of this file or of another one."""
    name, other = _any(dice, files), _any(dice, files)
    record = _record(dice, files[other])
    if record is None or dice.random() < 0.5:
        more = dice.randbytes(dice.choice((1, 20, 2000)))
    else:
        more = files[other][slice(*record)]
    return Damage(f"{name}: {len(more)} bytes are appended", {name: files[name] + more})


def duplicate(dice: random.Random, files: Files) -> Damage | None:
    """Replace a file with a copy of another file, or copy it under a new number."""
    name = _any(dice, files)
    pair = _pair(dice, files)
    if pair is not None and dice.random() < 0.5:
        name, copy = pair
    else:
        folder, _, last = name.rpartition("/")
        stem, dot, suffix = last.partition(".")
        if not stem.isdecimal():
            return None
        number = int(stem) + dice.choice((-1, 1, 1, 2, 900))
        copy = f"{folder}/{max(0, number):09d}{dot}{suffix}"
    return Damage(f"{copy} is a copy of {name}", {copy: files[name]})


ALL: dict[str, Callable[[random.Random, Files], Damage | None]] = {
    way.__name__: way
    for way in (
        *(truncate, flip, overwrite, swap_files, swap_records, cut_out),
        *(delete, append, duplicate),
    )
}


def _any(dice: random.Random, files: Files) -> str:
    kinds = sorted({_kind(name) for name in files})
    kind = dice.choice(kinds)
    return dice.choice(sorted(name for name in files if _kind(name) == kind))


def _kind(name: str) -> str:
    return next(kind for kind in _KINDS if name.endswith(kind))


def _pair(dice: random.Random, files: Files) -> tuple[str, str] | None:
    one = _any(dice, files)
    others = sorted(name for name in files if _kind(name) == _kind(one) and name != one)
    return (one, dice.choice(others)) if others else None


def _record(dice: random.Random, data: bytes) -> tuple[int, int] | None:
    places = boundaries(data)
    if len(places) < 2:
        return None
    at = dice.randrange(len(places) - 1)
    return places[at], places[at + 1]


def _replaced(data: bytes, record: tuple[int, int], by: bytes) -> bytes:
    return data[: record[0]] + by + data[record[1] :]
