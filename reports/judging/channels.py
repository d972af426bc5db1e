"""AMQP 0-9-1 connections: delivery-tags, prefetch, heartbeats, and being blocked.

Tags count the deliveries of a channel from 1, so a piece of a recording does not depend on earlier
pieces. A piece yields two upper bounds for the number of unacknowledged deliveries: the tags above
the highest cumulatively acknowledged one, and the number of deliveries minus those acknowledged one
by one. If one of them is within the smallest requested prefetch, the prefetch was respected. If
both exceed it, or if tags or answers do not ascend, the whole connection is judged by
:mod:`brokerproof.harness.oracles.amqp091_rules`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from brokerproof.harness.model.time import NS_PER_S
from brokerproof.harness.oracles.amqp091_rules import ANNOUNCED, allowed
from brokerproof.harness.trace.facts import is_true, number
from brokerproof.reports.judging.columns import ABANDONED, CLOSED, IN, OCTETS, UNSEEN, Columns
from brokerproof.reports.judging.connection_lifetimes import NEVER, SilenceStats, add_signs, members
from brokerproof.reports.judging.dense_ids import Cells, Codes, Ints, Pairs, in_groups, starts
from brokerproof.reports.judging.protocol_columns import OF_AMQP091, SILENT, Tagged
from brokerproof.reports.judging.summary import Summary

NONE = -(2**62)
_LIFT = np.int64(1) << 41
_UNSURE = ("basic.recover", "basic.recover-async", "tx.select")
"""Methods that change what later tags settle."""
_OF_CHANNELS = frozenset({"channel.open", "basic.qos", "basic.consume", "basic.get", *_UNSURE})


@dataclass(frozen=True)
class ChannelTags:
    """The delivery-tags of one channel; 0 means none."""

    opened: bool = False
    first: int = 0
    """The first tag delivered."""
    last: int = 0
    answered: tuple[int, int] = (0, 0)
    """The first and the last tag that were answered."""
    individual_answers: int = 0
    up_to: int = 0
    """The highest tag that was settled together with all earlier tags."""
    before_ack: int = NONE
    """The highest tag that was delivered while :attr:`up_to` was 0."""
    above_ack: int = NONE
    """The largest number of unsettled tags above :attr:`up_to` since :attr:`up_to` is no longer
    0."""
    above_individual: int = NONE
    """The highest number of deliveries minus :attr:`individual_answers`."""
    answered_early: int = 0
    """The highest tag answered before the first delivery in this piece."""
    most_waiting: int = 0
    """An upper bound for the waiting deliveries in merged pieces."""
    prefetch: int = 0
    """The smallest prefetch that was requested; 0 for none."""
    no_ack: bool = False
    """True if a consumer need not acknowledge."""
    ambiguous: bool = False
    """True if the question can be decided only by reading the whole connection."""

    def merge(self, later: ChannelTags) -> ChannelTags:
        ambiguous = self.ambiguous or later.ambiguous or (later.opened and self.last > 0)
        ambiguous |= later.first not in (0, self.last + 1)
        ambiguous |= later.answered[0] != 0 and later.answered[0] <= self.answered[1]
        ambiguous |= later.answered_early > self.last
        waiting = min(
            max(later.before_ack - self.up_to, later.above_ack),
            later.above_individual - self.individual_answers,
        )
        limits = [limit for limit in (self.prefetch, later.prefetch) if limit]
        return ChannelTags(
            self.opened or later.opened,
            self.first or later.first,
            later.last or self.last,
            (self.answered[0] or later.answered[0], later.answered[1] or self.answered[1]),
            self.individual_answers + later.individual_answers,
            max(self.up_to, later.up_to),
            most_waiting=max(self.most_waiting, waiting),
            prefetch=min(limits, default=0),
            no_ack=self.no_ack or later.no_ack,
            ambiguous=ambiguous,
        )

    @property
    def needs_recheck(self) -> bool:
        """True unless the merged pieces show that nothing was violated."""
        answered_no_ack = self.no_ack and self.answered[1] > 0
        over = self.prefetch > 0 and self.most_waiting > self.prefetch
        return self.ambiguous or answered_no_ack or over


@dataclass(frozen=True)
class ChannelSummary(Summary["ChannelSummary"]):
    channels: Mapping[int, ChannelTags] = field(default_factory=dict)
    heartbeat_s: int = 0
    """The agreed heartbeat interval in seconds; 0 for none."""
    received: SilenceStats = field(default_factory=SilenceStats)
    closed: int = NEVER
    blocked: str = ""
    """``b`` for each connection.blocked, ``u`` for each connection.unblocked, without repeated
    pairs."""
    understands_blocked: bool | None = None
    """True if the client announced the capability; None if the announcement was not seen."""
    ambiguous: bool = False
    """True if something that was sent is not a frame or is not in the recording."""

    def merge(self, later: ChannelSummary) -> ChannelSummary:
        none = ChannelTags()
        channels = {
            channel: self.channels.get(channel, none).merge(later.channels.get(channel, none))
            for channel in self.channels.keys() | later.channels.keys()
        }
        understands = self.understands_blocked
        return ChannelSummary(
            channels,
            self.heartbeat_s or later.heartbeat_s,
            self.received.merge(later.received),
            self.closed if self.closed != NEVER else later.closed,
            _short(self.blocked + later.blocked),
            understands if understands is not None else later.understands_blocked,
            self.ambiguous or later.ambiguous,
        )

    @property
    def needs_recheck(self) -> bool:
        """True unless the merged pieces show that nothing was violated."""
        if self.ambiguous or self.blocked not in ("", "b", "bu"):
            return True
        if self.blocked and self.understands_blocked is False:
            return True
        return self._silent or any(tags.needs_recheck for tags in self.channels.values())

    @property
    def _silent(self) -> bool:
        longest = self.received.longest
        if self.closed != NEVER and self.received.last != NEVER:
            longest = max(longest, self.closed - self.received.last)
        return self.heartbeat_s > 0 and longest > allowed(self.heartbeat_s * NS_PER_S)


def _short(blocked: str) -> str:
    while "bub" in blocked:
        blocked = blocked.replace("bub", "b")
    return blocked


class ChannelSummaries:
    """The AMQP 0-9-1 connections of one piece."""

    def __init__(self) -> None:
        self._connections: Codes[int] = Codes()
        self._channels = Pairs()
        """Places by connection (its place) and channel."""
        self._cells = Cells(
            opened=False,
            first=0,
            last=0,
            first_answered=0,
            last_answered=0,
            individual_answers=0,
            up_to=0,
            before_ack=NONE,
            above_ack=NONE,
            above_individual=NONE,
            answered_early=0,
            prefetch=0,
            no_ack=False,
            ambiguous=False,
        )
        self._received = Cells(first=NEVER, last=NEVER, longest=0, until=NEVER)
        self._states = Cells(heartbeat_s=0, closed=NEVER, ambiguous=False)
        self._blocked: dict[int, str] = {}
        self._understands_blocked: dict[int, bool] = {}
        self._known = np.zeros(64, np.bool_)
        """For each connection: True if the protocol is known."""
        self._closed_unknown: dict[int, int] = {}
        """The instants at which connections of unknown protocol were closed."""

    def update(self, batch: Columns) -> None:
        if batch.tagged is not None:
            self._add_connections(batch)
            self._add_agreements(batch, batch.tagged)
            self._add_tags(batch, batch.tagged)
        if len(self._connections):
            self._add_signs_of_life(batch)
        self._add_unknown_closes(batch)

    def _add_connections(self, batch: Columns) -> None:
        of = batch.connection[batch.spoken == OF_AMQP091]
        for connection in np.flatnonzero(np.bincount(of)).tolist():
            self._connections.one(connection)
        for cells in (self._received, self._states):
            cells.grow(len(self._connections))

    def _add_agreements(self, batch: Columns, tagged: Tagged) -> None:
        """Add the few frames that negotiate heartbeats and blocking or concern channels."""
        for row, command, headers in batch.rare:
            if batch.spoken[row] != OF_AMQP091:
                continue
            place = self._connections.one(int(batch.connection[row]))
            match command:
                case "connection.tune-ok":
                    self._states["heartbeat_s"][place] = number(headers, "heartbeat")
                case "connection.start-ok":
                    self._understands_blocked[place] = ANNOUNCED in headers.get(
                        "client-properties", ""
                    )
                case "connection.blocked" | "connection.unblocked":
                    letter = "b" if command.endswith(".blocked") else "u"
                    self._blocked[place] = _short(self._blocked.get(place, "") + letter)
            if command in _OF_CHANNELS:
                self._add_channel_frame(batch, tagged, row, command, headers)

    def _add_channel_frame(
        self, batch: Columns, tagged: Tagged, row: int, command: str, headers: Mapping[str, str]
    ) -> None:
        channel = number(headers, "channel")
        code = self._channels.one(self._connections.one(int(batch.connection[row])), channel)
        self._cells.grow(len(self._channels))
        cells = self._cells
        if command == "channel.open":
            of_connection = batch.connection[tagged.rows] == batch.connection[row]
            before = of_connection & (tagged.channel == channel) & (tagged.rows < row)
            cells["ambiguous"][code] |= bool(
                cells["opened"][code] or cells["last"][code] or before.any()
            )
            cells["opened"][code] = True
        elif command == "basic.qos":
            requested, earlier = number(headers, "prefetch-count"), int(cells["prefetch"][code])
            cells["prefetch"][code] = min(requested, earlier) or max(requested, earlier)
        elif command in ("basic.consume", "basic.get"):
            cells["no_ack"][code] |= is_true(headers, "no-ack")
        else:
            cells["ambiguous"][code] = True

    def _add_tags(self, batch: Columns, tagged: Tagged) -> None:
        """Add deliveries and answers in order, by channel."""
        if not len(tagged.rows):
            return
        places = self._connections.of(pa.array(batch.connection[tagged.rows]))
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
            """Return the running maximum of each channel, both including and excluding each row."""
            own = values.copy()
            own[begin] = np.maximum(own[begin], before)
            with_ = np.maximum.accumulate(own + lift) - lift
            without = np.empty_like(with_)
            without[1:], without[begin] = with_[:-1], before
            return with_, without

        delivered, before = highest(np.where(answer, 0, tag), cells["last"][seen])
        settled, earlier = highest(np.where(answer, tag, 0), cells["last_answered"][seen])
        up_to, _ = highest(np.where(multiple, tag, 0), cells["up_to"][seen])
        single = np.cumsum(answer & ~multiple)
        single += np.repeat(
            cells["individual_answers"][seen] - (single[begin] - (answer & ~multiple)[begin]),
            lengths,
        )
        first = np.minimum.reduceat(np.where(answer, _LIFT, tag), begin)
        jumps = ~answer & (tag != before + 1) & ((before > 0) | (tag == 0))
        falls = answer & ((tag <= earlier) | (tag == 0))
        unknown = answer & (delivered > 0) & (tag > delivered)
        np.logical_or.at(cells["ambiguous"], groups[jumps | falls | unknown], True)
        early = answer & (delivered == 0)
        np.maximum.at(cells["answered_early"], groups[early], tag[early])
        new = ~answer
        np.maximum.at(cells["before_ack"], groups[new & (up_to == 0)], tag[new & (up_to == 0)])
        acked = new & (up_to > 0)
        np.maximum.at(cells["above_ack"], groups[acked], (tag - up_to)[acked])
        np.maximum.at(cells["above_individual"], groups[new], (tag - single)[new])
        none = (cells["first"][seen] == 0) & (first < _LIFT)
        cells["first"][seen[none]] = first[none]
        begun = np.minimum.reduceat(np.where(answer, tag, _LIFT), begin)
        none = (cells["first_answered"][seen] == 0) & (begun < _LIFT)
        cells["first_answered"][seen[none]] = begun[none]
        cells["last"][seen], cells["last_answered"][seen] = delivered[last], settled[last]
        cells["up_to"][seen], cells["individual_answers"][seen] = up_to[last], single[last]

    def _add_signs_of_life(self, batch: Columns) -> None:
        mine = np.isin(batch.connection, self._connections.values)
        rows = np.flatnonzero(
            mine & members(set(IN) | {CLOSED, ABANDONED, OCTETS, UNSEEN})[batch.what]
        )
        if not len(rows):
            return
        connection = self._connections.of(pa.array(batch.connection[rows]))
        order = in_groups(connection, len(self._connections))
        rows, connection = rows[order], connection[order]
        what, at = batch.what[rows], batch.at[rows]
        add_signs(self._received, connection, at, members(IN)[what])
        ended = np.flatnonzero((what == CLOSED) | (what == ABANDONED))[::-1]
        fresh = ended[
            self._states["closed"][connection[ended]] == NEVER
        ]  # in reverse order, so that the first of several is kept
        self._states["closed"][connection[fresh]] = at[fresh]
        self._states["ambiguous"][connection[(what == OCTETS) | (what == UNSEEN)]] = True

    def _add_unknown_closes(self, batch: Columns) -> None:
        """Add the close of each connection that sent nothing in this piece, so that its protocol is
        unknown here."""
        spoken = np.flatnonzero(np.bincount(batch.connection[batch.spoken != SILENT]))
        if len(spoken) and spoken[-1] >= len(self._known):
            self._known = np.concatenate([self._known, np.zeros(int(spoken[-1]) + 1, np.bool_)])
        self._known[spoken] = True
        for row in np.flatnonzero((batch.what == CLOSED) | (batch.what == ABANDONED)).tolist():
            connection = int(batch.connection[row])
            if connection >= len(self._known) or not self._known[connection]:
                self._closed_unknown.setdefault(connection, int(batch.at[row]))

    def summaries(self) -> Iterator[tuple[int, ChannelSummary]]:
        """Yield each connection's number and summary, even if only the close is known."""
        for connection, at in self._closed_unknown.items():
            yield connection, ChannelSummary(closed=at)
        channels: dict[int, dict[int, ChannelTags]] = {}
        for code in range(len(self._channels)):
            place, channel = self._channels.parts(code)
            channels.setdefault(place, {})[channel] = self._tags(code)
        for place, connection in enumerate(self._connections.values):
            summary = ChannelSummary(
                channels.get(place, {}),
                int(self._states["heartbeat_s"][place]),
                SilenceStats.of(self._received, place),
                int(self._states["closed"][place]),
                self._blocked.get(place, ""),
                self._understands_blocked.get(place),
                bool(self._states["ambiguous"][place]),
            )
            yield connection, summary

    def _tags(self, code: int) -> ChannelTags:
        cells = {name: self._cells[name][code].item() for name in self._cells.names}
        answered = cells.pop("first_answered"), cells.pop("last_answered")
        return ChannelTags(answered=answered, **cells)
