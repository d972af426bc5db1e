"""AMQP 0-9-1 connections: delivery-tags, prefetch, signs of life, and being blocked.

Tags count the deliveries of a channel from 1, so the part of a recording need not say what came
before it: so many deliveries wait at most as lie above the highest tag that was acknowledged with
all before it, and at most as many as were delivered less those that were acknowledged one by one. A
bound that stays within the least prefetch that was asked for is enough; where it does not, or where
tags or answers do not rise by themselves, all of the connection is read by
:mod:`brokerproof.harness.oracles.amqp091_recording`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.oracles.amqp091_recording import ANNOUNCED, allowed
from brokerproof.harness.trace.facts import is_true, number
from brokerproof.reports.judging.columns import ABANDONED, CLOSED, IN, OCTETS, UNSEEN, Columns
from brokerproof.reports.judging.connection_lifetimes import NEVER, Gap, gaps, members
from brokerproof.reports.judging.dense_ids import Cells, Codes, Ints, Pairs, in_groups, starts
from brokerproof.reports.judging.protocol_columns import OF_AMQP091, SILENT, Tagged

NONE = -(2**62)
_LIFT = np.int64(1) << 41
_UNSURE = ("basic.recover", "basic.recover-async", "tx.select")
"""Methods behind which tags settle otherwise."""
_OF_CHANNELS = frozenset({"channel.open", "basic.qos", "basic.consume", "basic.get", *_UNSURE})


@dataclass(frozen=True)
class Tags:
    """One channel in one part. ``first`` and ``last`` delivered, ``answered`` from and to; 0 for
    none. ``one_by_one``: how many answers of that kind; ``up_to``: the highest tag that was settled
    with all before it."""

    opened: bool = False
    first: int = 0
    last: int = 0
    answered: tuple[int, int] = (0, 0)
    one_by_one: int = 0
    up_to: int = 0
    fresh: int = NONE
    """The highest tag that was delivered while :attr:`up_to` was 0."""
    behind: int = NONE
    """The most that lay above it later."""
    apart: int = NONE
    """The most that was delivered less :attr:`one_by_one`."""
    ahead: int = 0
    """The highest tag that was answered before this part had delivered anything."""
    most: int = 0
    """A bound of what waited, of the parts that were put together."""
    limit: int = 0
    """The least prefetch that was asked for; 0 for none."""
    unacknowledged: bool = False
    """Whether a consumer need not acknowledge."""
    odd: bool = False
    """Something that only all of the connection can tell."""

    def then(self, later: Tags) -> Tags:
        """This part and the one behind it."""
        odd = self.odd or later.odd or (later.opened and self.last > 0)
        odd |= later.first != 0 and later.first != self.last + 1
        odd |= later.answered[0] != 0 and later.answered[0] <= self.answered[1]
        odd |= later.ahead > self.last
        above = max(later.fresh - self.up_to, later.behind)
        limits = [each for each in (self.limit, later.limit) if each]
        return Tags(
            self.opened or later.opened,
            self.first or later.first,
            later.last or self.last,
            (self.answered[0] or later.answered[0], later.answered[1] or self.answered[1]),
            self.one_by_one + later.one_by_one,
            max(self.up_to, later.up_to),
            most=max(self.most, min(above, later.apart - self.one_by_one)),
            limit=min(limits, default=0),
            unacknowledged=self.unacknowledged or later.unacknowledged,
            odd=odd,
        )

    @property
    def fine(self) -> bool:
        """Of parts that were put together: whether nothing can be wrong."""
        deaf = self.unacknowledged and self.answered[1] > 0
        return not (self.odd or deaf) and (not self.limit or self.most <= self.limit)


@dataclass(frozen=True)
class Told:
    """One connection in one part of a recording."""

    channels: Mapping[int, Tags] = field(default_factory=dict)
    beats: int = 0
    """The interval of heart-beats that was agreed on, in seconds; 0 for none."""
    heard: Gap = field(default_factory=Gap)
    ended: int = NEVER
    blocked: str = ""
    """``b`` for each connection.blocked, ``u`` for each connection.unblocked, without repetitions
    of the pair."""
    announced: bool | None = None
    """Whether the client said that it understands them; None where nobody knows."""
    odd: bool = False
    """Whether something was said that is no frame, or not in the recording."""

    def then(self, later: Told) -> Told:
        """This part and the one behind it."""
        names = self.channels.keys() | later.channels.keys()
        none = Tags()
        channels = {
            each: self.channels.get(each, none).then(later.channels.get(each, none))
            for each in names
        }
        return Told(
            channels,
            self.beats or later.beats,
            self.heard.then(later.heard),
            self.ended if self.ended != NEVER else later.ended,
            _short(self.blocked + later.blocked),
            self.announced if self.announced is not None else later.announced,
            self.odd or later.odd,
        )

    @property
    def fine(self) -> bool:
        """Of parts that were put together: whether all of the connection need not be read."""
        longest = self.heard.longest
        if self.ended != NEVER and self.heard.last != NEVER:
            longest = max(longest, self.ended - self.heard.last)
        silent = self.beats > 0 and longest > allowed(self.beats * NS_PER_S)
        told = self.blocked in ("", "b", "bu") and not (self.blocked and self.announced is False)
        return (
            told and not (silent or self.odd) and all(each.fine for each in self.channels.values())
        )


def _short(blocked: str) -> str:
    while "bub" in blocked:
        blocked = blocked.replace("bub", "b")
    return blocked


class Channels:
    """All AMQP 0-9-1 connections of a stretch."""

    def __init__(self) -> None:
        self._lines: Codes[int] = Codes()
        self._channels = Pairs()
        """Of (place of the line) and channel."""
        tags = {
            "first": 0,
            "last": 0,
            "from_": 0,
            "to": 0,
            "single": 0,
            "up_to": 0,
            "ahead": 0,
            "limit": 0,
        }
        most = {"fresh": NONE, "behind": NONE, "apart": NONE}
        self._cells = Cells(**tags, **most, opened=False, deaf=False, odd=False)
        self._gaps = Cells(first=NEVER, last=NEVER, longest=0, until=NEVER)
        self._about = Cells(beats=0, ended=NEVER, odd=False)
        self._blocked: dict[int, str] = {}
        self._announced: dict[int, bool] = {}
        self._spoke = np.zeros(64, np.bool_)
        """Of each line whether it is known what it speaks."""
        self._unheard: dict[int, int] = {}

    def note(self, batch: Columns) -> None:
        """Enters a batch."""
        if batch.tagged is not None:
            self._know(batch)
            self._agreed(batch, batch.tagged)
            self._count(batch, batch.tagged)
        if len(self._lines):
            self._live(batch)
        self._end_unheard(batch)

    def _know(self, batch: Columns) -> None:
        of = batch.line[batch.spoken == OF_AMQP091]
        for line in np.flatnonzero(np.bincount(of)).tolist():
            self._lines.one(line)
        for cells in (self._gaps, self._about):
            cells.grow(len(self._lines))

    def _agreed(self, batch: Columns, tagged: Tagged) -> None:
        """Enters the few frames that say how it is to be."""
        for row, command, headers in batch.rare:
            if batch.spoken[row] != OF_AMQP091:
                continue
            place = self._lines.one(int(batch.line[row]))
            match command:
                case "connection.tune-ok":
                    self._about["beats"][place] = number(headers, "heartbeat")
                case "connection.start-ok":
                    self._announced[place] = ANNOUNCED in headers.get("client-properties", "")
                case "connection.blocked" | "connection.unblocked":
                    letter = "b" if command.endswith(".blocked") else "u"
                    self._blocked[place] = _short(self._blocked.get(place, "") + letter)
            if command in _OF_CHANNELS:
                self._set(batch, tagged, row, command, headers)

    def _set(
        self, batch: Columns, tagged: Tagged, row: int, command: str, headers: Mapping[str, str]
    ) -> None:
        """Enters what changes how a channel is to be judged."""
        channel = number(headers, "channel")
        code = self._channels.one(self._lines.one(int(batch.line[row])), channel)
        self._cells.grow(len(self._channels))
        cells = self._cells
        if command == "channel.open":
            of_line = batch.line[tagged.rows] == batch.line[row]
            before = of_line & (tagged.channel == channel) & (tagged.rows < row)
            cells["odd"][code] |= bool(cells["opened"][code] or cells["last"][code] or before.any())
            cells["opened"][code] = True
        elif command == "basic.qos":
            limits = [
                each
                for each in (number(headers, "prefetch-count"), int(cells["limit"][code]))
                if each
            ]
            cells["limit"][code] = min(limits, default=0)
        elif command in ("basic.consume", "basic.get"):
            cells["deaf"][code] |= is_true(headers, "no-ack")
        else:
            cells["odd"][code] = True

    def _count(self, batch: Columns, tagged: Tagged) -> None:
        """Enters deliveries and answers, each channel's by themselves, in order."""
        if not len(tagged.rows):
            return
        places = self._lines.of(pa.array(batch.line[tagged.rows]))
        of = self._channels.of(places, tagged.channel)
        self._cells.grow(len(self._channels))
        cells = self._cells
        order = in_groups(of, len(self._channels))
        groups, tag, answer = of[order], tagged.tag[order], tagged.answer[order]
        multiple = tagged.multiple[order] & answer
        begin = np.flatnonzero(starts(groups))
        seen = groups[begin]
        lengths = np.diff([*begin.tolist(), len(groups)])
        lift = np.repeat(np.arange(len(begin)) * _LIFT, lengths)
        last = np.concatenate([begin[1:], [len(groups)]]) - 1

        def highest(values: Ints, before: Ints) -> tuple[Ints, Ints]:
            """The running greatest of each channel with each row, and without it."""
            own = values.copy()
            own[begin] = np.maximum(own[begin], before)
            with_ = np.maximum.accumulate(own + lift) - lift
            without = np.empty_like(with_)
            without[1:], without[begin] = with_[:-1], before
            return with_, without

        delivered, before = highest(np.where(answer, 0, tag), cells["last"][seen])
        settled, earlier = highest(np.where(answer, tag, 0), cells["to"][seen])
        up_to, _ = highest(np.where(multiple, tag, 0), cells["up_to"][seen])
        single = np.cumsum(answer & ~multiple)
        single += np.repeat(
            cells["single"][seen] - (single[begin] - (answer & ~multiple)[begin]), lengths
        )
        first = np.minimum.reduceat(np.where(answer, _LIFT, tag), begin)
        jumps = ~answer & (tag != before + 1) & ((before > 0) | (tag == 0))
        falls = answer & ((tag <= earlier) | (tag == 0))
        unknown = answer & (delivered > 0) & (tag > delivered)
        np.logical_or.at(cells["odd"], groups[jumps | falls | unknown], True)
        early = answer & (delivered == 0)
        np.maximum.at(cells["ahead"], groups[early], tag[early])
        new = ~answer
        np.maximum.at(cells["fresh"], groups[new & (up_to == 0)], tag[new & (up_to == 0)])
        lies = new & (up_to > 0)
        np.maximum.at(cells["behind"], groups[lies], (tag - up_to)[lies])
        np.maximum.at(cells["apart"], groups[new], (tag - single)[new])
        none = (cells["first"][seen] == 0) & (first < _LIFT)
        cells["first"][seen[none]] = first[none]
        begun = np.minimum.reduceat(np.where(answer, tag, _LIFT), begin)
        none = (cells["from_"][seen] == 0) & (begun < _LIFT)
        cells["from_"][seen[none]] = begun[none]
        cells["last"][seen], cells["to"][seen] = delivered[last], settled[last]
        cells["up_to"][seen], cells["single"][seen] = up_to[last], single[last]

    def _live(self, batch: Columns) -> None:
        mine = np.isin(batch.line, self._lines.values)
        rows = np.flatnonzero(
            mine & members(set(IN) | {CLOSED, ABANDONED, OCTETS, UNSEEN})[batch.what]
        )
        if not len(rows):
            return
        line = self._lines.of(pa.array(batch.line[rows]))
        order = in_groups(line, len(self._lines))
        rows, line = rows[order], line[order]
        what, at = batch.what[rows], batch.at[rows]
        gaps(self._gaps, line, at, members(IN)[what])
        ended = np.flatnonzero((what == CLOSED) | (what == ABANDONED))[::-1]
        fresh = ended[
            self._about["ended"][line[ended]] == NEVER
        ]  # backwards, so that the first of several stays
        self._about["ended"][line[fresh]] = at[fresh]
        self._about["odd"][line[(what == OCTETS) | (what == UNSEEN)]] = True

    def _end_unheard(self, batch: Columns) -> None:
        """Enters the ends of connections that said nothing in this stretch: nobody knows what they
        speak."""
        spoke = np.flatnonzero(np.bincount(batch.line[batch.spoken != SILENT]))
        if len(spoke) and spoke[-1] >= len(self._spoke):
            self._spoke = np.concatenate([self._spoke, np.zeros(int(spoke[-1]) + 1, np.bool_)])
        self._spoke[spoke] = True
        for row in np.flatnonzero((batch.what == CLOSED) | (batch.what == ABANDONED)).tolist():
            line = int(batch.line[row])
            if line >= len(self._spoke) or not self._spoke[line]:
                self._unheard.setdefault(line, int(batch.at[row]))

    def summaries(self) -> Iterator[tuple[int, Told]]:
        """Each connection's line and what there is to tell of it; and those of which only the end
        is known."""
        yield from ((line, Told(ended=at)) for line, at in self._unheard.items())
        channels: dict[int, dict[int, Tags]] = {}
        for code in range(len(self._channels)):
            place, channel = self._channels.parts(code)
            channels.setdefault(place, {})[channel] = self._tags(code)
        for place, line in enumerate(self._lines.values):
            gap = Gap(
                *(int(self._gaps[key][place]) for key in ("first", "last", "longest", "until"))
            )
            yield (
                line,
                Told(
                    channels.get(place, {}),
                    int(self._about["beats"][place]),
                    gap,
                    int(self._about["ended"][place]),
                    self._blocked.get(place, ""),
                    self._announced.get(place),
                    bool(self._about["odd"][place]),
                ),
            )

    def _tags(self, code: int) -> Tags:
        cells = {name: self._cells[name][code].item() for name in self._cells.names}
        return Tags(
            cells["opened"],
            cells["first"],
            cells["last"],
            (cells["from_"], cells["to"]),
            cells["single"],
            cells["up_to"],
            cells["fresh"],
            cells["behind"],
            cells["apart"],
            cells["ahead"],
            limit=cells["limit"],
            unacknowledged=cells["deaf"],
            odd=cells["odd"],
        )
