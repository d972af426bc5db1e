"""Mutation operators on bytes, texts, JSON and length fields for every fuzzer.

An operator is a function of a random source and a seed (and of the corpus, to splice). Operators
here know boundary values but no formats; operators for a format are next to its reader.
"""

import json
import re
from collections.abc import Callable, Sequence
from random import Random
from typing import Any, TypeAlias

Operator: TypeAlias = Callable[[Random, bytes, Sequence[bytes]], bytes]

MOST_BYTES = 1 << 20
"""A mutant is cut to this size: larger ones only test limits, which have their own tests."""

INTEGERS = sorted(
    {
        sign * (2**power + step)
        for power in (0, 7, 8, 15, 16, 31, 32, 53, 62, 63, 64)
        for step in (-1, 0, 1)
        for sign in (1, -1)
    }
)
"""0, ±1, and values around the powers of two where widths and signs end."""
NUMBERS = (
    *map(str, INTEGERS),
    *("NaN", "Infinity", "-Infinity", "1e999", "-1e999", "1e-999", "0x10", "010", "1_000", ""),
    *("9" * 400, "9" * 4301, "0." + "3" * 5000, "1" + "0" * 400, "true", "null", "-"),
)
"""Numbers as text, and texts that some readers do not accept as numbers."""
TEXTS = (
    *("", "\0", "\ufeff", "\u2028", "\x1b[31m", "\ud7ff", "é", "😀", "../../../etc/passwd", "\n"),
    *("${HOME}", "%s%n", "a" * 5000, "<!--", "-->", '"', "'", "\\", "=", ";", "[[", "{{", "#"),
)
RAW = (
    *(b"\xff", b"\xc3", b"\xed\xa0\x80", b"\xf5\x80\x80\x80", b"\xef\xbb\xbf"),
    *(b"\0", b"\r", b"\n\n"),
)
"""Bytes that are not UTF-8, a byte order mark, and ends of lines."""
BRACKETS = (b"[", b"{", b"(", b"<a>", b'{"a":', b"[[1,", b"<!DOCTYPE x>", b"{a,", b"[{")


def truncate(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Cut off the end, often only the last few bytes."""
    most = len(seed) if random.random() < 0.7 else min(len(seed), 16)
    return seed[: len(seed) - random.randint(0, most)]


def flip(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Flip up to eight bits."""
    data = bytearray(seed or b"\0")
    for _count in range(random.randint(1, 8)):
        data[random.randrange(len(data))] ^= 1 << random.randrange(8)
    return bytes(data)


def delete(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Remove a span."""
    start, end = _span(random, seed)
    return seed[:start] + seed[end:]


def duplicate(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Repeat a span up to 50 times."""
    start, end = _span(random, seed)
    return seed[:start] + seed[start:end] * random.choice((2, 2, 3, 50)) + seed[end:]


def swap(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Exchange two spans."""
    first, second = sorted((_span(random, seed), _span(random, seed)))
    if first[1] > second[0]:
        return seed
    (a, b), (c, d) = first, second
    return seed[:a] + seed[c:d] + seed[b:c] + seed[a:b] + seed[d:]


def splice(random: Random, seed: bytes, corpus: Sequence[bytes]) -> bytes:
    """Continue with another seed, or insert a span from another seed."""
    other = random.choice(corpus)
    start, end = _span(random, other)
    place = random.randint(0, len(seed))
    rest = seed[place:] if random.random() < 0.5 else b""
    return seed[:place] + other[start:end] + rest


def binary_number(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Overwrite 1, 2, 4 or 8 bytes, usually aligned, with a boundary number."""
    width = random.choice((1, 2, 4, 4, 8))
    if len(seed) < width:
        return seed
    place = random.randint(0, len(seed) - width)
    if random.random() < 0.7:
        place -= place % width
    number = random.choice(INTEGERS) % (1 << (8 * width))
    order = random.choice(("little", "big"))
    field = number.to_bytes(width, "little" if order == "little" else "big")
    return seed[:place] + field + seed[place + width :]


def insert(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Insert bytes that are not text, random bytes, or a boundary text."""
    place = random.randint(0, len(seed)) if random.random() < 0.8 else 0
    added = random.choice(
        (
            random.choice(RAW),
            random.randbytes(random.randint(1, 64)),
            random.choice(TEXTS).encode("utf-8", "replace"),
        )
    )
    return seed[:place] + added + seed[place:]


def nest(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Insert up to 100,000 opening brackets."""
    place = random.randint(0, len(seed)) if random.random() < 0.6 else 0
    count = random.choice((30, 70, 300, 2_000, 100_000))
    return seed[:place] + (random.choice(BRACKETS) * count)[:MOST_BYTES] + seed[place:]


_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?")
_WORD = re.compile(rb"[A-Za-z][A-Za-z0-9_.-]*")


def text_number(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    return _replaced(random, seed, _NUMBER, random.choice(NUMBERS).encode())


def word(random: Random, seed: bytes, corpus: Sequence[bytes]) -> bytes:
    """Replace a word with another word of the corpus, or with a boundary text."""
    words = _WORD.findall(random.choice(corpus)[:4096]) or [b"x"]
    other = random.choice(words)
    if random.random() < 0.3:
        other = random.choice(TEXTS).encode("utf-8", "replace")
    return _replaced(random, seed, _WORD, other)


def lines(random: Random, seed: bytes, _: Sequence[bytes]) -> bytes:
    """Delete, repeat or move a line."""
    parts = seed.split(b"\n")
    place = random.randrange(len(parts))
    match random.randrange(3):
        case 0:
            del parts[place]
        case 1:
            parts.insert(place, parts[place])
        case _:
            parts.insert(random.randrange(len(parts)), parts.pop(place))
    return b"\n".join(parts)


def json_value(random: Random, seed: bytes, corpus: Sequence[bytes]) -> bytes:
    """Change one value of a JSON line: replace, delete, repeat, wrap, rename, exchange."""
    texts = seed.split(b"\n")
    chosen = [place for place, text in enumerate(texts) if text.strip()]
    if not chosen:
        return seed
    place = random.choice(chosen)
    whole = random.random() < 0.5  # a file that is one JSON text on many lines
    try:
        value = json.loads(seed if whole else texts[place])
    except (ValueError, RecursionError):
        return word(random, seed, corpus)
    nodes = list(_nodes(value))
    if not nodes:
        return b"[]"
    parent, key = random.choice(nodes)
    match random.randrange(6):
        case 0 | 1:
            parent[key] = random.choice(_VALUES)
        case 2:
            del parent[key]
        case 3:
            wrapped: Any = parent[key]
            for _level in range(random.choice((1, 3, 70, 200))):
                wrapped = [wrapped] if random.random() < 0.5 else {"a": wrapped}
            parent[key] = wrapped
        case 4 if isinstance(parent, dict):
            parent[random.choice(TEXTS)] = parent.pop(key)
        case _:
            other, at = random.choice(nodes)
            parent[key], other[at] = other[at], parent[key]
    try:
        text = json.dumps(value).encode()
    except (ValueError, RecursionError):  # exchanged with its own parent: a cycle
        return seed
    if whole:
        return text
    texts[place] = text
    return b"\n".join(texts)


_VALUES: tuple[Any, ...] = (
    *INTEGERS,
    *TEXTS,
    *(None, True, False, [], {}, [[]], {"": None}, 0.5, float("nan"), float("inf"), 1e308, 10**400),
)


def _nodes(value: Any) -> list[tuple[Any, Any]]:
    """Return each place of a JSON value, as its container and its key."""
    places: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting and len(places) < 5000:
        container = waiting.pop()
        if isinstance(container, dict | list):
            keys = list(container) if isinstance(container, dict) else range(len(container))
            places += [(container, key) for key in keys]
            waiting += [container[key] for key in keys]
    return places


def _span(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randint(0, len(data))
    longest = random.choice((4, 16, 64, 1024, len(data) or 1))
    return start, min(len(data), start + random.randint(0, longest))


def _replaced(random: Random, seed: bytes, pattern: re.Pattern[bytes], other: bytes) -> bytes:
    places = [match.span() for match in pattern.finditer(seed, 0, 1 << 16)]
    if not places:
        return seed + other
    start, end = random.choice(places)
    return seed[:start] + other + seed[end:]


BINARY: tuple[Operator, ...] = (
    *(truncate, flip, delete, duplicate, swap, splice),
    *(binary_number, binary_number, binary_number, insert),
)
TEXT: tuple[Operator, ...] = (
    *(truncate, flip, delete, duplicate, swap, splice),
    *(insert, nest, text_number, text_number, word, word, lines),
)
JSON: tuple[Operator, ...] = (*TEXT, json_value, json_value, json_value, json_value, json_value)


def mutant(
    random: Random, corpus: Sequence[bytes], operators: Sequence[Operator]
) -> tuple[bytes, str]:
    """Apply one to four operators to a seed of the corpus; return the mutant and their names."""
    data = random.choice(corpus)
    names = []
    for _count in range(random.choice((1, 1, 1, 2, 3, 4))):
        operator = random.choice(operators)
        data = operator(random, data, corpus)[:MOST_BYTES]
        names.append(operator.__name__)
    return data, ", ".join(names)
