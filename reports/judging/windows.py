"""Windows: did any delivery begin while the window of its subscription was full? The amount held
before a delivery is a running sum: deliveries add their size, settlements subtract it.

Only the largest sum in a piece matters, relative to the amount at its beginning. So the task that
reads a piece can summarise it. That task does not know the size of a delivery in an earlier piece,
so the settlement of such a delivery divides the piece into *slices*. The ledger that merges the
pieces then looks up that size among the deliveries carried over. In ``client`` mode, settlements
are cumulative. Both interpretations are kept until the SUBSCRIBE that states the mode has been
read, in this piece or an earlier one.

The broker family decides whether a window counts bytes or messages
(:class:`brokerproof.harness.oracles.expectations.Expectations`)."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from brokerproof.harness.oracles.expectations import Expectations
from brokerproof.harness.protocols.stomp.fact_reader import window_asked
from brokerproof.reports.judging.columns import ABANDONED, CLOSED, OCTETS, UNSEEN, Columns, Names
from brokerproof.reports.judging.dense_ids import Bools, Cells, Ints, Pairs, in_groups, starts
from brokerproof.reports.judging.summary import Summary

NONE = -1
MOST_SLICES = 50_000
"""If a connection has more slices than this in one piece, a recheck reads the whole connection."""
MOST_CLOSED = 64
"""If the window of a connection was overrun in at most this many pieces, only those pieces are read
again. Otherwise the whole connection is read."""
_WIDE = np.int64(1) << 42


@dataclass(frozen=True)
class WindowRequest:
    mode: str
    window: int | None
    unit: str
    queue: str


Held: TypeAlias = Mapping[str, Mapping[str, int]]
"""For each subscription, the tokens and sizes of the deliveries that it holds, in order."""


@dataclass(frozen=True)
class WindowClosed:
    """A piece in which a delivery began while its window was closed, with the requests and the held
    deliveries at the beginning of the piece."""

    place: int
    requests: Mapping[str, WindowRequest]
    held: Held


@dataclass(frozen=True)
class WindowSlice:
    """The largest sum held before a delivery; NONE if there was none."""

    individual: int = NONE
    """The sum if each settlement settles one delivery: relative to the beginning of the piece."""
    before_ack: int = NONE
    """The sum if each settles all earlier deliveries: up to the first settlement of a delivery in
    this piece, relative to the beginning of the piece."""
    after_ack: int = NONE
    """The sum if each settles all earlier deliveries: after that settlement, absolute."""


@dataclass
class WindowSummary:
    """One connection in the piece at ``place``. Subscriptions are named."""

    place: int = 0
    slices: dict[tuple[int, str], WindowSlice] = field(default_factory=dict)
    """The slices by number and subscription."""
    unmatched: list[str] = field(default_factory=list)
    """Tokens that settle deliveries in an earlier piece. The n-th token precedes slice n + 1."""
    requests: dict[str, WindowRequest] = field(default_factory=dict)
    held: dict[str, list[tuple[str, int, bool]]] = field(default_factory=dict)
    """The deliveries that were not settled individually: token, size, and whether a cumulative
    settlement covers them."""
    covered: set[str] = field(default_factory=set)
    """Subscriptions in which a delivery of this piece was settled. In ``client`` mode, that also
    settled all earlier deliveries."""
    unsubscribed: bool = False
    """True if a subscription ended."""
    ambiguous: bool = False
    """True if only a recheck can judge, because a subscription was made again or a token was used
    twice."""


@dataclass(frozen=True)
class WindowLedger(Summary[WindowSummary]):
    """One connection, with the requests and the held deliveries after the merged pieces."""

    requests: Mapping[str, WindowRequest] = field(default_factory=dict)
    held: Held = field(default_factory=dict)
    closed: tuple[WindowClosed, ...] = ()
    ambiguous: bool = False
    """True if only the whole connection shows whether its window was overrun."""
    unsubscribed: bool = False
    """True if a subscription ended. Deliveries that arrive after that are ignored, but a single
    piece does not show this."""
    cumulative: frozenset[str] = frozenset()
    """Subscriptions on which one answer also settles all earlier deliveries."""

    always_kept = True

    def merge(self, later: WindowSummary) -> "WindowLedger":
        unsubscribed = self.unsubscribed or later.unsubscribed
        cumulative = self.cumulative | {
            name for name, request in later.requests.items() if request.mode == "client"
        }
        renewed = self.requests.keys() & later.requests.keys()
        if self.ambiguous or later.ambiguous or renewed or len(self.closed) >= MOST_CLOSED:
            return WindowLedger(self.requests, {}, self.closed, True, unsubscribed, cumulative)
        requests = {**self.requests, **later.requests}
        held = defaultdict(dict, {name: dict(sizes) for name, sizes in self.held.items()})
        closed = self.closed
        if _overruns(later, requests, held):
            closed = (*closed, WindowClosed(later.place, self.requests, self.held))
        for name in {*held, *later.held, *later.covered}:
            client = name in requests and requests[name].mode == "client"
            if client and name in later.covered:
                held[name].clear()
            for token, size, covered in later.held.get(name, ()):
                if not (client and covered):
                    held[name][token] = size
        return WindowLedger(requests, dict(held), closed, False, unsubscribed, cumulative)

    @property
    def needs_recheck(self) -> bool:
        """True if a delivery began while its window was closed, or only a recheck can decide."""
        return self.ambiguous or bool(self.closed)


def _overruns(
    piece: WindowSummary, requests: Mapping[str, WindowRequest], held: dict[str, dict[str, int]]
) -> bool:
    """True if a delivery of the piece began while its window was closed. Removes the deliveries
    that the piece settles from ``held``."""
    overrun = False
    for number, names in _by_slice(piece):
        if number:
            tokens = piece.unmatched
            _settle(tokens[number - 1] if number <= len(tokens) else "", requests, held)
        for name in names:
            request = requests.get(name)
            if request is None or request.mode == "auto":
                continue
            if request.window is None or request.window < 0:
                continue
            most = _most_held(piece.slices[number, name], request.mode, sum(held[name].values()))
            overrun |= most >= max(request.window, 1)
    return overrun


def _most_held(part: WindowSlice, mode: str, carried: int) -> int:
    """Return the largest amount held before a delivery, including ``carried`` bytes from earlier
    pieces."""
    relative = part.before_ack if mode == "client" else part.individual
    most = NONE if relative == NONE else relative + carried
    return max(most, part.after_ack) if mode == "client" else most


def _by_slice(piece: WindowSummary) -> Iterator[tuple[int, list[str]]]:
    names: dict[int, list[str]] = defaultdict(list)
    for number, name in piece.slices:
        names[number].append(name)
    for number in range(max(len(piece.unmatched), max(names, default=0)) + 1):
        yield number, names.get(number, [])


def _settle(
    token: str, requests: Mapping[str, WindowRequest], held: dict[str, dict[str, int]]
) -> None:
    for name, sizes in held.items():
        if token not in sizes:
            continue
        if name in requests and requests[name].mode == "client":
            for earlier in list(sizes):
                del sizes[earlier]
                if earlier == token:
                    break
        else:
            del sizes[token]
        return


class WindowSummaries:
    def __init__(self, names: Names, ground: Expectations) -> None:
        self._names = names
        self._ground = ground
        self._counts_messages = "messages" in ground.windows.values()
        self._of_sub = Pairs()
        self._of_slice = Pairs()
        self._subs = Cells(sum=0, total=0, acked=0, auto=False, client=False, known=False)
        self._slices = Cells(individual=NONE, before_ack=NONE, after_ack=NONE)
        self._unmatched: dict[int, list[str]] = defaultdict(list)
        self._requests: dict[int, WindowRequest] = {}
        self._ambiguous: set[int] = set()
        self._unsubscribed: set[int] = set()
        self._held_connection: Ints = np.empty(0, np.int64)
        self._held_sub: Ints = np.empty(0, np.int64)
        self._held_size: Ints = np.empty(0, np.int64)
        self._held_end: Ints = np.empty(0, np.int64)
        self._held_tokens: pa.Array = pa.array([], pa.string())

    def update(self, batch: Columns) -> None:
        self._add_requests(batch)
        rows, connection = batch.got.rows, batch.connection[batch.got.rows]
        sub = self._of_sub.of(connection, batch.subscription)
        self._subs.grow(len(self._of_sub))
        size = np.ones(len(rows), np.int64) if self._counts_messages else batch.size[rows]
        kept = ~self._subs["auto"][sub]
        rows, connection, sub, size = rows[kept], connection[kept], sub[kept], size[kept]
        tokens = batch.tokens.filter(pa.array(kept))
        end = self._ends(sub, size)
        before = len(self._held_connection)
        all_connection = np.concatenate([self._held_connection, connection])
        all_sub = np.concatenate([self._held_sub, sub])
        all_size = np.concatenate([self._held_size, size])
        all_end = np.concatenate([self._held_end, end])
        all_row = np.concatenate([np.full(before, -1), rows])
        all_tokens = pa.concat_arrays([self._held_tokens, tokens])
        match, repeated = self._matched(all_connection, all_row, all_tokens, batch)
        slices = self._slice_numbers(batch, connection, rows, np.flatnonzero(match < 0))
        matched = (match >= 0) & ~repeated
        self._weigh(
            batch,
            (rows, sub, size, end, slices),
            (batch.answers[matched], match[matched]),
            (all_sub, all_size, all_end),
        )
        settled = np.zeros(len(all_connection), np.bool_)
        settled[match[matched]] = True
        ended = batch.connection[(batch.what == CLOSED) | (batch.what == ABANDONED)]
        if len(ended):
            settled |= np.isin(all_connection, ended)
        covered = self._subs["client"][all_sub] & (all_end <= self._subs["acked"][all_sub])
        stay = ~(settled | covered | self._subs["auto"][all_sub])
        self._held_connection, self._held_sub = all_connection[stay], all_sub[stay]
        self._held_size, self._held_end = all_size[stay], all_end[stay]
        self._held_tokens = all_tokens.filter(pa.array(stay))

    def _add_requests(self, batch: Columns) -> None:
        for row in np.flatnonzero((batch.what == OCTETS) | (batch.what == UNSEEN)).tolist():
            self._ambiguous.add(int(batch.connection[row]))
        for row, command, headers in batch.rare:
            connection, name = int(batch.connection[row]), headers.get("id", "")
            if command == "UNSUBSCRIBE":
                self._unsubscribed.add(connection)
            if command != "SUBSCRIBE":
                continue
            seen = len(self._of_sub)
            sub = self._of_sub.one(connection, self._names.subscriptions.one(name))
            self._subs.grow(len(self._of_sub))
            if sub < seen or name == "":
                self._ambiguous.add(connection)
            mode = headers.get("ack", "auto")
            window, unit = window_asked(headers, self._ground.windows)
            if window is None:
                window = self._ground.window
            self._requests[sub] = WindowRequest(mode, window, unit, headers.get("destination", ""))
            self._subs["known"][sub] = True
            self._subs["auto"][sub], self._subs["client"][sub] = mode == "auto", mode == "client"

    def _ends(self, sub: Ints, size: Ints) -> Ints:
        """For each delivery, return its subscription's running sum in this piece, including the
        delivery."""
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
        self, connection: Ints, row: Ints, tokens: pa.Array, batch: Columns
    ) -> tuple[Ints, Bools]:
        """For each answer, return the place of the delivery that it names (-1: in an earlier
        piece), and whether an earlier answer named that delivery too."""
        count, answers = len(connection), batch.answers
        every = pa.concat_arrays([tokens, batch.answer_tokens]).dictionary_encode()
        of_name = every.indices.to_numpy().astype(np.int64)
        packed = (np.concatenate([connection, batch.connection[answers]]) << 32) | of_name
        codes = pa.array(packed).dictionary_encode()
        number = codes.indices.to_numpy()
        place = np.full(len(codes.dictionary), -1, np.int64)
        place[number[:count]] = np.arange(count)
        often = np.bincount(number[:count], minlength=len(place))
        if count and often.max() > 1:
            self._ambiguous.update(connection[often[number[:count]] > 1].tolist())
        match = place[number[count:]]
        match[(match >= 0) & (np.append(row, -1)[match] > answers)] = -1
        first = np.full(count + 1, -1, np.int64)
        first[match[::-1]] = np.arange(len(match))[::-1]  # the first of several answers is kept
        return match, (match >= 0) & (first[match] != np.arange(len(match)))

    def _slice_numbers(self, batch: Columns, connection: Ints, rows: Ints, unmatched: Ints) -> Ints:
        """Return the slice of each delivery. Adds the answers that divide slices."""
        slices = np.zeros(len(connection), np.int64)
        if self._unmatched and len(connection):
            counts = np.zeros(max(int(connection.max()), *self._unmatched) + 1, np.int64)
            for earlier, earlier_tokens in self._unmatched.items():
                counts[earlier] = len(earlier_tokens)
            slices = counts[connection]
        if not len(unmatched):
            return slices
        answers = batch.answers[unmatched]
        answering = batch.connection[answers]
        for number in np.unique(answering).tolist():
            own_answers = answers[answering == number]
            deliveries = np.flatnonzero(connection == number)
            slices[deliveries] += np.searchsorted(own_answers, rows[deliveries])
        tokens = batch.answer_tokens.take(pa.array(unmatched)).to_pylist()
        for number, token in zip(answering.tolist(), tokens, strict=True):
            if len(self._unmatched[number]) < MOST_SLICES:
                self._unmatched[number].append(token)
            else:
                self._ambiguous.add(number)
        return np.minimum(slices, MOST_SLICES)

    def _weigh(
        self,
        batch: Columns,
        deliveries: tuple[Ints, Ints, Ints, Ints, Ints],
        answers: tuple[Ints, Ints],
        known: tuple[Ints, Ints, Ints],
    ) -> None:
        """Continue each subscription's sums through the batch, row by row."""
        rows, sub, size, end, slices = deliveries
        answer_rows, match = answers
        all_sub, all_size, all_end = known
        at_sub = np.full(len(batch), -1, np.int64)
        change, reach = np.zeros(len(batch), np.int64), np.zeros(len(batch), np.int64)
        in_slice = np.full(len(batch), -1, np.int64)
        at_sub[rows], change[rows], reach[rows] = sub, size, end
        at_sub[answer_rows], change[answer_rows] = all_sub[match], -all_size[match]
        in_slice[rows] = self._of_slice.of(sub, slices)
        self._slices.grow(len(self._of_slice))
        own = np.flatnonzero(at_sub >= 0)
        if not len(own):
            return
        own = own[in_groups(at_sub[own], len(self._of_sub))]
        groups, changes, delivered = at_sub[own], change[own], in_slice[own] >= 0
        begin = np.flatnonzero(starts(groups))
        lengths = np.diff([*begin.tolist(), len(groups)])
        last = np.concatenate([begin[1:], [len(groups)]]) - 1
        seen = groups[begin]
        running = np.cumsum(changes)
        running += np.repeat(self._subs["sum"][seen] - (running[begin] - changes[begin]), lengths)
        self._subs["sum"][seen] = running[last]
        before = (running - changes)[delivered]
        own_slices = in_slice[own][delivered]
        np.maximum.at(self._slices["individual"], own_slices, before)
        acked = np.zeros(len(batch), np.int64)
        acked[answer_rows] = all_end[match]
        acks = acked[own]
        acks[begin] = np.maximum(acks[begin], self._subs["acked"][seen])
        lift = np.repeat(np.arange(len(begin)) * _WIDE, lengths)
        upto = np.maximum.accumulate(acks + lift) - lift
        self._subs["acked"][seen] = upto[last]
        upto = upto[delivered]
        held = reach[own][delivered] - changes[delivered] - upto
        unacked = upto == 0
        np.maximum.at(self._slices["before_ack"], own_slices[unacked], held[unacked])
        np.maximum.at(self._slices["after_ack"], own_slices[~unacked], held[~unacked])

    def summaries(self, place: int) -> Iterator[tuple[int, WindowSummary]]:
        """Yield each connection's number and summary; ``place`` is that of the piece."""
        summaries: dict[int, WindowSummary] = defaultdict(lambda: WindowSummary(place))
        for code in range(len(self._of_slice)):
            sub, number = self._of_slice.parts(code)
            connection, name = self._parts(sub)
            summaries[connection].slices[number, name] = WindowSlice(
                int(self._slices["individual"][code]),
                int(self._slices["before_ack"][code]),
                int(self._slices["after_ack"][code]),
            )
        for sub in range(len(self._of_sub)):
            connection, name = self._parts(sub)
            if self._subs["acked"][sub] > 0:
                summaries[connection].covered.add(name)
            if sub in self._requests:
                summaries[connection].requests[name] = self._requests[sub]
        for connection, tokens in self._unmatched.items():
            summaries[connection].unmatched = tokens
        acked = self._subs["acked"][self._held_sub]
        for sub, token, size, covered in zip(
            self._held_sub.tolist(),
            self._held_tokens.to_pylist(),
            self._held_size.tolist(),
            (self._held_end <= acked).tolist(),
            strict=True,
        ):
            connection, name = self._parts(sub)
            summaries[connection].held.setdefault(name, []).append((token, size, covered))
        for connection in self._ambiguous:
            summaries[connection].ambiguous = True
        for connection in self._unsubscribed:
            summaries[connection].unsubscribed = True
        yield from summaries.items()

    def _parts(self, sub: int) -> tuple[int, str]:
        connection, name = self._of_sub.parts(sub)
        return connection, self._names.subscriptions.values[name]
