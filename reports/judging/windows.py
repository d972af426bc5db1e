"""Windows: was any delivery begun while what its subscription held left no room?

What is held before a delivery is a running sum: deliveries add their size, settlements take it
away. Of a part only the greatest sum matters, relative to what was held when the part began; so a
part is summarised where it lies. A settlement of something that was delivered in an earlier part
cannot be weighed there: it divides the part into *pieces*, and when parts are put together the
delivery is looked up in what was carried over. In mode ``client`` a settlement covers everything
before; both readings are kept until the SUBSCRIBE that says which it is has been seen, in this part
or an earlier one.

A window counts octets or messages, which the family of brokers decides
(:class:`brokerproof.harness.oracles.expectations.Expectations`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.protocols.stomp.fact_reader import window_asked
from brokerproof.reports.judging.columns import ABANDONED, CLOSED, OCTETS, UNSEEN, Columns, Names
from brokerproof.reports.judging.dense_ids import Bools, Cells, Ints, Pairs, in_groups, starts

NONE = -1
PIECES = 50_000
"""More pieces of one connection than this in one part, and it is left to the second look."""
_WIDE = np.int64(1) << 42


MOST_SHUT = 64
"""So many parts of one connection in which its window was overrun are read again by themselves; of
more, all of it is."""


@dataclass(frozen=True)
class Asked:
    """What a SUBSCRIBE asked for."""

    mode: str
    window: int | None
    unit: str
    queue: str


Held: TypeAlias = Mapping[str, Mapping[str, int]]
"""By subscription: the names of what it holds, with their sizes, in order."""


@dataclass(frozen=True)
class Shut:
    """A part in which a delivery began while its window was shut: which, and how things stood when
    it began."""

    place: int
    asked: Mapping[str, Asked]
    held: Held


@dataclass(frozen=True)
class Piece:
    """The greatest sum held before a delivery; NONE without any. ``one``: each settlement settles
    one delivery, relative to the part's beginning. ``fresh`` and ``behind``: it settles all before;
    relative while nothing of this part was settled, absolute behind the first such settlement."""

    one: int = NONE
    fresh: int = NONE
    behind: int = NONE


@dataclass
class Part:
    """One connection in one part of a recording; subscriptions by name."""

    pieces: dict[tuple[int, str], Piece] = field(default_factory=dict)
    """By piece and subscription."""
    unknown: list[str] = field(default_factory=list)
    """The names in settlements of what came in an earlier part; the n-th stands before piece n +
    1."""
    asked: dict[str, Asked] = field(default_factory=dict)
    held: dict[str, list[tuple[str, int, bool]]] = field(default_factory=dict)
    """What is not settled one by one at the end: name, size, and whether it was settled with all
    before."""
    covered: set[str] = field(default_factory=set)
    """Subscriptions in which something of this part was settled: with ``client`` everything before
    is settled too."""
    gone: bool = False
    """Whether a subscription ended."""
    doubtful: bool = False
    """Something that only a second look can judge: a subscription that began anew, a name used
    twice."""


class Windows:
    """All subscriptions of a stretch."""

    def __init__(self, names: Names, ground: Expectations) -> None:
        self._names, self._ground = names, ground
        self._counts_messages = "messages" in ground.windows.values()
        self._of_sub = Pairs()
        self._of_piece = Pairs()
        self._subs = Cells(sum=0, total=0, acked=0, auto=False, client=False, known=False)
        self._pieces = Cells(one=NONE, fresh=NONE, behind=NONE)
        self._unknown: dict[int, list[str]] = defaultdict(list)
        self._asked: dict[int, Asked] = {}
        self._doubtful: set[int] = set()
        self._gone: set[int] = set()
        self._held_line = self._held_sub = self._held_size = self._held_end = np.empty(0, np.int64)
        self._held_names: pa.Array = pa.array([], pa.string())

    def note(self, batch: Columns) -> None:
        """Enters a batch."""
        self._subscribed(batch)
        rows, line = batch.got.rows, batch.line[batch.got.rows]
        sub = self._of_sub.of(line, batch.subscription)
        self._subs.grow(len(self._of_sub))
        size = np.ones(len(rows), np.int64) if self._counts_messages else batch.size[rows]
        kept = ~self._subs["auto"][sub]
        rows, line, sub, size, tokens = (
            rows[kept],
            line[kept],
            sub[kept],
            size[kept],
            _chosen(batch.tokens, kept),
        )
        end = self._ends(sub, size)
        before = len(self._held_line)
        all_line = np.concatenate([self._held_line, line])
        all_sub = np.concatenate([self._held_sub, sub])
        all_size = np.concatenate([self._held_size, size])
        all_end = np.concatenate([self._held_end, end])
        all_row = np.concatenate([np.full(before, -1), rows])
        all_tokens = pa.concat_arrays([self._held_names, tokens])
        match, again = self._matched(all_line, all_row, all_tokens, batch)
        unknown = np.flatnonzero(match < 0)
        piece = self._numbered(
            batch, line, rows, batch.answers[unknown], batch.answer_tokens, unknown
        )
        fine = (match >= 0) & ~again
        self._weigh(
            batch,
            (rows, sub, size, end, piece),
            (batch.answers[fine], match[fine]),
            (all_sub, all_size, all_end),
        )
        settled = np.zeros(len(all_line), np.bool_)
        settled[match[fine]] = True
        ended = batch.line[(batch.what == CLOSED) | (batch.what == ABANDONED)]
        gone = np.isin(all_line, ended) if len(ended) else np.zeros(len(all_line), np.bool_)
        all_ = self._subs["client"][all_sub] & (all_end <= self._subs["acked"][all_sub])
        stay = ~(settled | gone | all_ | self._subs["auto"][all_sub])
        self._held_line, self._held_sub = all_line[stay], all_sub[stay]
        self._held_size, self._held_end = all_size[stay], all_end[stay]
        self._held_names = _chosen(all_tokens, stay)

    def _subscribed(self, batch: Columns) -> None:
        for row in np.flatnonzero((batch.what == OCTETS) | (batch.what == UNSEEN)).tolist():
            self._doubtful.add(int(batch.line[row]))
        for row, command, headers in batch.rare:
            line, name = int(batch.line[row]), headers.get("id", "")
            if command == "UNSUBSCRIBE":
                self._gone.add(line)
            if command != "SUBSCRIBE":
                continue
            seen = len(self._of_sub)
            sub = self._of_sub.one(line, self._names.subscriptions.one(name))
            self._subs.grow(len(self._of_sub))
            if sub < seen or name == "":
                self._doubtful.add(line)
            mode = headers.get("ack", "auto")
            window, unit = window_asked(headers, self._ground.windows)
            window = window if window is not None else self._ground.window
            self._asked[sub] = Asked(mode, window, unit, headers.get("destination", ""))
            self._subs["known"][sub] = True
            self._subs["auto"][sub], self._subs["client"][sub] = mode == "auto", mode == "client"

    def _ends(self, sub: Ints, size: Ints) -> Ints:
        """For each delivery, how much its subscription has got with it, in this stretch."""
        order = in_groups(sub, len(self._of_sub))
        groups, sizes = sub[order], size[order]
        if not len(groups):
            return sizes
        running = np.cumsum(sizes)
        begin = np.flatnonzero(starts(groups))
        lengths = np.diff([*begin.tolist(), len(groups)])
        running += np.repeat(
            self._subs["total"][groups[begin]] - (running[begin] - sizes[begin]), lengths
        )
        self._subs["total"][groups[begin]] = running[np.concatenate([begin[1:], [len(groups)]]) - 1]
        ends = np.empty_like(running)
        ends[order] = running
        return ends

    def _matched(
        self, line: Ints, row: Ints, tokens: pa.Array, batch: Columns
    ) -> tuple[Ints, Bools]:
        """For each answer the place of the delivery it names (-1: of an earlier part), and whether
        it is a second one."""
        count, answers = len(line), batch.answers
        every = pa.concat_arrays([tokens, batch.answer_tokens]).dictionary_encode()
        of_name = every.indices.to_numpy().astype(np.int64)
        packed = (np.concatenate([line, batch.line[answers]]) << 32) | of_name
        codes = pa.array(packed).dictionary_encode()
        number = codes.indices.to_numpy()
        place = np.full(len(codes.dictionary), -1, np.int64)
        place[number[:count]] = np.arange(count)
        often = np.bincount(number[:count], minlength=len(place))
        if count and often.max() > 1:
            self._doubtful.update(line[often[number[:count]] > 1].tolist())
        match = place[number[count:]]
        match[(match >= 0) & (np.append(row, -1)[match] > answers)] = -1
        first = np.full(count + 1, -1, np.int64)
        first[match[::-1]] = np.arange(len(match))[::-1]  # of several answers the first one stays
        return match, (match >= 0) & (first[match] != np.arange(len(match)))

    def _numbered(
        self, batch: Columns, line: Ints, rows: Ints, unknown: Ints, tokens: pa.Array, which: Ints
    ) -> Ints:
        """The piece that each delivery lies in; enters the unknown settlements that divide
        pieces."""
        piece = np.zeros(len(line), np.int64)
        if self._unknown and len(line):
            have = np.zeros(max(int(line.max()), *self._unknown) + 1, np.int64)
            for each, tokens_ in self._unknown.items():
                have[each] = len(tokens_)
            piece = have[line]
        if not len(unknown):
            return piece
        of_line = batch.line[unknown]
        for each in np.unique(of_line).tolist():
            mine = unknown[of_line == each]
            deliveries = np.flatnonzero(line == each)
            piece[deliveries] += np.searchsorted(mine, rows[deliveries])
        for each, token in zip(
            of_line.tolist(), tokens.take(pa.array(which)).to_pylist(), strict=True
        ):
            if len(self._unknown[each]) < PIECES:
                self._unknown[each].append(token)
            else:
                self._doubtful.add(each)
        return np.minimum(piece, PIECES)

    def _weigh(
        self,
        batch: Columns,
        deliveries: tuple[Ints, Ints, Ints, Ints, Ints],
        answers: tuple[Ints, Ints],
        known: tuple[Ints, Ints, Ints],
    ) -> None:
        """Runs the sums through the batch in the order of its rows, each subscription by itself."""
        rows, sub, size, end, piece = deliveries
        answer_rows, match = answers
        all_sub, all_size, all_end = known
        at_sub = np.full(len(batch), -1, np.int64)
        change, reach = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int64)
        in_piece = np.full(len(batch), -1, np.int64)
        at_sub[rows], change[rows], reach[rows] = sub, size, end
        at_sub[answer_rows], change[answer_rows] = all_sub[match], -all_size[match]
        in_piece[rows] = self._of_piece.of(sub, piece)
        self._pieces.grow(len(self._of_piece))
        own = np.flatnonzero(at_sub >= 0)
        if not len(own):
            return
        own = own[in_groups(at_sub[own], len(self._of_sub))]
        groups, changes, delivered = at_sub[own], change[own], in_piece[own] >= 0
        begin = np.flatnonzero(starts(groups))
        lengths = np.diff([*begin.tolist(), len(groups)])
        last = np.concatenate([begin[1:], [len(groups)]]) - 1
        seen = groups[begin]
        running = np.cumsum(changes)
        running += np.repeat(self._subs["sum"][seen] - (running[begin] - changes[begin]), lengths)
        self._subs["sum"][seen] = running[last]
        before = (running - changes)[delivered]
        pieces = in_piece[own][delivered]
        np.maximum.at(self._pieces["one"], pieces, before)
        acked = np.zeros(len(batch), np.int64)
        acked[answer_rows] = all_end[match]
        acks = acked[own]
        acks[begin] = np.maximum(acks[begin], self._subs["acked"][seen])
        lift = np.repeat(np.arange(len(begin)) * _WIDE, lengths)
        upto = np.maximum.accumulate(acks + lift) - lift
        self._subs["acked"][seen] = upto[last]
        upto = upto[delivered]
        held = reach[own][delivered] - changes[delivered] - upto
        fresh = upto == 0
        np.maximum.at(self._pieces["fresh"], pieces[fresh], held[fresh])
        np.maximum.at(self._pieces["behind"], pieces[~fresh], held[~fresh])

    def summaries(self) -> Iterator[tuple[int, Part]]:
        """Each connection's line and its part."""
        parts: dict[int, Part] = defaultdict(Part)
        for number in range(len(self._of_piece)):
            sub, piece = self._of_piece.parts(number)
            line, name = self._sub(sub)
            cells = self._pieces
            parts[line].pieces[piece, name] = Piece(
                *(int(cells[each][number]) for each in ("one", "fresh", "behind"))
            )
        for sub in range(len(self._of_sub)):
            line, name = self._sub(sub)
            if self._subs["acked"][sub] > 0:
                parts[line].covered.add(name)
            if sub in self._asked:
                parts[line].asked[name] = self._asked[sub]
        for line, tokens in self._unknown.items():
            parts[line].unknown = tokens
        covered = (
            self._held_end <= self._subs["acked"][self._held_sub]
            if len(self._held_sub)
            else np.empty(0, np.bool_)
        )
        for line_, sub, token, size, all_ in zip(
            self._held_line.tolist(),
            self._held_sub.tolist(),
            self._held_names.to_pylist(),
            self._held_size.tolist(),
            covered.tolist(),
            strict=True,
        ):
            parts[line_].held.setdefault(self._sub(sub)[1], []).append((token, size, all_))
        for line in self._doubtful:
            parts[line].doubtful = True
        for line in self._gone:
            parts[line].gone = True
        yield from parts.items()

    def _sub(self, sub: int) -> tuple[int, str]:
        line, name = self._of_sub.parts(sub)
        return line, self._names.subscriptions.values[name]


def _chosen(values: pa.Array, mask: Bools) -> pa.Array:
    return values.filter(pa.array(mask))


@dataclass
class Account:
    """One connection, its parts entered in their order. ``whole``: only reading all of it again can
    say; ``gone``: a subscription ended, and what still came to it counts nothing, which a part by
    itself does not show."""

    asked: dict[str, Asked] = field(default_factory=dict)
    carried: dict[str, dict[str, int]] = field(default_factory=lambda: defaultdict(dict))
    shut: list[Shut] = field(default_factory=list)
    whole: bool = False
    gone: bool = False
    cumulative: set[str] = field(default_factory=set)
    """Subscriptions that settle all before at once."""

    def add(self, place: int, part: Part) -> None:
        """Enters the next part."""
        self.gone |= part.gone
        self.cumulative |= {name for name, about in part.asked.items() if about.mode == "client"}
        if part.doubtful or (self.asked.keys() & part.asked.keys()) or len(self.shut) >= MOST_SHUT:
            self.whole = True
        if self.whole:
            self.carried.clear()
            return
        before = {name: dict(held) for name, held in self.carried.items()}
        known = dict(self.asked)
        self.asked |= part.asked
        if _shut(part, self.asked, self.carried):
            self.shut.append(Shut(place, known, before))
        for name in {*self.carried, *part.held, *part.covered}:
            client = name in self.asked and self.asked[name].mode == "client"
            if client and name in part.covered:
                self.carried[name].clear()
            for token, size, covered in part.held.get(name, ()):
                if not (client and covered):
                    self.carried[name][token] = size

    @property
    def overrun(self) -> bool:
        """Whether a delivery began while its window was shut, or a second look is needed to say."""
        return self.whole or bool(self.shut)


def overrun(parts: Iterable[Part]) -> bool:
    """Whether a connection's parts, in their order, have a delivery that began while its window was
    shut, or need a second look to say."""
    account = Account()
    for place, part in enumerate(parts):
        account.add(place, part)
    return account.overrun


def _shut(part: Part, asked: Mapping[str, Asked], carried: dict[str, dict[str, int]]) -> bool:
    shut = False
    for place, names in _by_piece(part):
        if place:
            _settle(part.unknown[place - 1] if place <= len(part.unknown) else "", asked, carried)
        for name in names:
            about = asked.get(name)
            if about is None or about.window is None or about.window < 0 or about.mode == "auto":
                continue
            piece, over = part.pieces[place, name], sum(carried[name].values())
            if about.mode == "client":
                most = max(piece.fresh + over if piece.fresh != NONE else NONE, piece.behind)
            else:
                most = piece.one + over if piece.one != NONE else NONE
            shut |= most >= max(about.window, 1)
    return shut


def _by_piece(part: Part) -> Iterator[tuple[int, list[str]]]:
    names: dict[int, list[str]] = defaultdict(list)
    for place, name in part.pieces:
        names[place].append(name)
    for place in range(max(len(part.unknown), max(names, default=0)) + 1):
        yield place, names.get(place, [])


def _settle(token: str, asked: Mapping[str, Asked], carried: dict[str, dict[str, int]]) -> None:
    for name, held in carried.items():
        if token not in held:
            continue
        if name in asked and asked[name].mode == "client":
            for each in list(held):
                del held[each]
                if each == token:
                    break
        else:
            del held[token]
        return
