"""Curves of an example's state over time, computed from its frames: the credit of AMQP links, the
room in session windows, the messages that STOMP and AMQP 0-9-1 consumers hold against their
windows, and how full the broker says addresses are.

Each follower reads the frames of one example in order, and keeps :class:`Curve` objects with the
bounds to draw."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from brokerproof.harness.model.wire_numbers import whole_number
from brokerproof.harness.protocols.amqp10.fact_reader import (
    WRAP,
    Placed,
    Places,
    Session,
    Side,
    WireFrame,
    ahead,
)
from brokerproof.harness.targets.parameters import merged
from brokerproof.reports.model.tables.addresses import ATTRIBUTES

MOST_POINTS = 240
"""The maximum number of points of a curve. If there are more, each stretch keeps its lowest and
highest value."""
MOST_CURVES = 6
MOST_FRAMES = 200_000
"""The maximum number of frames of an example that are drawn."""
SEEN = 50
"""A curve that moves by less than its highest value divided by this number is not drawn."""
MOST_WINDOW = 10_000
"""The largest session window, in transfers, that is drawn. A larger one hardly limits anything."""

_WINDOWS = ("consumer-window-size", "prefetch-count", "activemq.prefetchSize")
"""The headers with which a subscription requests its window; only the first is in bytes."""
_ASKED, _OF = "_AMQ_Attribute", "_AMQ_ResourceName"
_UNITS = {"size": "octets", "messages": "messages", "pages": "pages"}
_READINGS = {
    attribute: (what, _UNITS[what]) for attribute, what in ATTRIBUTES.items() if what in _UNITS
}

Settings = Sequence[Mapping[str, Any]]
"""A broker's address-settings, as in the header of a run."""


@dataclass
class Curve:
    """A quantity over time. ``points`` are instants, each with the value from then on; ``bounds``
    are named limits."""

    title: str
    unit: str
    points: list[tuple[int, int]] = field(default_factory=list)
    bounds: list[tuple[int, str]] = field(default_factory=list)

    def at(self, instant: int, value: int) -> None:
        self.points.append((instant, value))


def curves(rows: Iterator[Mapping[str, Any]], settings: Settings = ()) -> list[Curve]:
    """Return the curves of one example, first those with bounds and the most steps, omitting curves
    that hardly change.

    The rows are frames from :mod:`brokerproof.reports.model.excerpts`. ``settings`` are the
    broker's address-settings, which limit addresses."""
    links, held, unsettled, deliveries = _Links(), _Held(), _Unsettled(), _Told(settings)
    for count, row in enumerate(rows):
        if count >= MOST_FRAMES:
            break
        fields = dict(reversed(row["headers"]))
        if row["protocol"] == "AMQP":
            links.see(row, fields)
        elif row["protocol"] == "STOMP":
            held.see(row, fields)
            deliveries.see(row, fields)
        else:
            unsettled.see(row, fields)
    every = (deliveries.curves, held.curves, links.curves, unsettled.curves)
    moving = [curve for some in every for curve in some.values() if _moves(curve)]
    moving.sort(key=lambda curve: (not curve.bounds, -len(curve.points)))
    return [
        Curve(curve.title, curve.unit, _thinned(curve.points), curve.bounds)
        for curve in moving[:MOST_CURVES]
    ]


def _moves(curve: Curve) -> bool:
    """True if the curve changes visibly. Using three of a thousand credits would look like a
    straight line."""
    values = [value for _, value in curve.points]
    return max(values) - min(values) > max(values) // SEEN


def _thinned(points: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return at most :data:`MOST_POINTS`: the lowest, the highest and the last of each stretch."""
    if len(points) <= MOST_POINTS:
        return list(points)
    stretch = -(-len(points) * 3 // MOST_POINTS)
    kept: dict[int, None] = {}
    for start in range(0, len(points), stretch):
        places = range(start, min(start + stretch, len(points)))
        kept |= dict.fromkeys(
            sorted(
                (
                    min(places, key=lambda at: points[at][1]),
                    max(places, key=lambda at: points[at][1]),
                    places[-1],
                )
            )
        )
    return [points[at] for at in kept]


class _Links:
    """The remaining credit of AMQP senders, and the number of transfers that session windows still
    allow."""

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self._places: dict[int, Places] = {}
        self._limit: dict[object, int] = {}
        self._count: dict[object, int] = {}
        self._going_on: dict[object, bool] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        side = Side.OURS if row["kind"] == "FrameSent" else Side.BROKER
        frame = WireFrame(row["at_ns"], side, row["command"], dict(fields), row["size"] or 0)
        for step in self._places.setdefault(row["conn"], Places()).place([frame]):
            self._credit(step, row["conn"])
            if step.session is not None:
                self._window(step, step.session, row["conn"])

    def _credit(self, step: Placed, conn: int) -> None:
        link, frame = step.link, step.frame
        if link is None:
            return
        count = self._count.get(link, link.initial_delivery_count)
        if (
            frame.name == "flow"
            and frame.number("link-credit") is not None
            and frame.side is not link.sender
        ):
            base = frame.number("delivery-count")
            start = link.initial_delivery_count if base is None else base
            self._limit[link] = (start + (frame.number("link-credit") or 0)) % WRAP
        elif frame.name == "flow" and frame.side is link.sender:
            self._count[link] = (
                count if (stated := frame.number("delivery-count")) is None else stated
            )
        elif frame.name == "transfer":
            if not self._going_on.get(link, False):
                self._count[link] = (count + 1) % WRAP
            self._going_on[link] = frame.flag("more") and not frame.flag("aborted")
        else:
            return
        if link in self._limit:
            title = (
                f"credit left on link {link.name[:40]} (connection {conn}, {_sends(link.sender)})"
            )
            left = ahead(self._limit[link], self._count.get(link, link.initial_delivery_count))
            self.curves.setdefault(link, Curve(title, "messages", bounds=[(0, "no credit")])).at(
                frame.at, left
            )

    def _window(self, step: Placed, session: Session, conn: int) -> None:
        frame = step.frame
        sender = frame.side if frame.name == "transfer" else frame.side.other
        key, begun = (session, sender), session.begun.get(sender)
        if begun is None:
            return
        first = begun.number("next-outgoing-id") or 0
        window = frame.number("incoming-window")
        if frame.name == "flow" and window is not None:
            base = frame.number("next-incoming-id")
            self._limit[key] = ((first if base is None else base) + window) % WRAP
        elif frame.name == "transfer":
            other = session.begun.get(sender.other)
            window = other.number("incoming-window") if other is not None else None
            if key not in self._limit and window is not None:
                self._limit[key] = (first + window) % WRAP
            self._count[key] = (self._count.get(key, first) + 1) % WRAP
        else:
            return
        left = (
            ahead(self._limit[key], self._count.get(key, first))
            if key in self._limit
            else MOST_WINDOW
        )
        if left < MOST_WINDOW:
            title = f"transfers left in the session's window (connection {conn}, {_sends(sender)})"
            self.curves.setdefault(key, Curve(title, "transfers", bounds=[(0, "window shut")])).at(
                frame.at, left
            )


def _sends(sender: Side) -> str:
    return "harness sends" if sender is Side.OURS else "broker sends"


class _Held:
    """The unsettled deliveries of STOMP subscriptions."""

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self._modes: dict[tuple[int, str], str] = {}
        self._sizes: dict[tuple[int, str], dict[str, int]] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        conn, command, at = row["conn"], row["command"], row["at_ns"]
        if command == "SUBSCRIBE":
            key = (conn, fields.get("id", ""))
            self._modes[key] = fields.get("ack", "auto")
            asked = next(
                (name for name in _WINDOWS if fields.get(name, "").lstrip("-").isdigit()), None
            )
            in_bytes = asked is None or asked == _WINDOWS[0]
            window = int(fields[asked]) if asked is not None else 0
            self._sizes[key] = {}
            self.curves[key] = Curve(
                f"held by subscription {key[1] or '(no id)'} of connection {conn}",
                "octets" if in_bytes else "messages",
                [(at, 0)],
                [(window, asked or "")] if window > 0 else [],
            )
        elif command == "MESSAGE":
            key = (conn, fields.get("subscription", ""))
            if self._modes.get(key, "auto") != "auto":
                name = fields.get("ack") or fields.get("message-id", "")
                self._sizes[key][name] = row["size"] or 0
                self._now(key, at)
        elif command in ("ACK", "NACK"):
            name = fields.get("id") or fields.get("message-id", "")
            for key, sizes in self._sizes.items():
                if key[0] == conn and name in sizes:
                    covered = (
                        list(sizes)[: list(sizes).index(name) + 1]
                        if self._modes[key] == "client"
                        else [name]
                    )
                    for tag in covered:
                        del sizes[tag]
                    self._now(key, at)
                    break

    def _now(self, key: tuple[int, str], at: int) -> None:
        curve, sizes = self.curves[key], self._sizes[key]
        curve.at(at, sum(sizes.values()) if curve.unit == "octets" else len(sizes))


class _Unsettled:
    """The unsettled deliveries of AMQP 0-9-1 consumers, against the prefetch in force when the
    consumers began."""

    def __init__(self) -> None:
        self.curves: dict[object, Curve] = {}
        self._prefetch: dict[tuple[int, str], int] = {}
        self._asked: dict[tuple[int, str], list[tuple[bool, int]]] = {}
        self._tags: dict[tuple[int, str, str], dict[int, None]] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        command, channel = row["command"], (row["conn"], fields.get("channel", "0"))
        if command == "basic.qos":
            # With "global", the prefetch limits a channel in RabbitMQ and a connection in the
            # standard, but no single consumer.
            alone = fields.get("global") != "true"
            self._prefetch[channel] = int(fields.get("prefetch-count") or 0) if alone else 0
        elif command == "basic.consume":
            asked = (fields.get("no-ack") == "true", self._prefetch.get(channel, 0))
            if fields.get("no-wait") == "true":
                self._begin(channel, fields.get("consumer-tag", ""), *asked, row["at_ns"])
            else:
                self._asked.setdefault(channel, []).append(asked)
        elif command == "basic.consume-ok" and self._asked.get(channel):
            self._begin(
                channel, fields.get("consumer-tag", ""), *self._asked[channel].pop(0), row["at_ns"]
            )
        elif (
            command == "basic.deliver"
            and (key := (*channel, fields.get("consumer-tag", ""))) in self.curves
        ):
            self._tags[key][int(fields.get("delivery-tag") or 0)] = None
            self.curves[key].at(row["at_ns"], len(self._tags[key]))
        elif command in ("basic.ack", "basic.nack", "basic.reject") and row["kind"] == "FrameSent":
            self._settle(
                channel,
                int(fields.get("delivery-tag") or 0),
                fields.get("multiple") == "true",
                row["at_ns"],
            )

    def _begin(
        self, channel: tuple[int, str], tag: str, silent: bool, prefetch: int, at: int
    ) -> None:
        if not silent:
            title = (
                f"not settled by consumer {tag[:30]} (connection {channel[0]}, channel"
                f" {channel[1]})"
            )
            bounds = [(prefetch, "prefetch-count")] if prefetch else []
            self.curves[*channel, tag] = Curve(title, "messages", [(at, 0)], bounds)
            self._tags[*channel, tag] = {}

    def _settle(self, channel: tuple[int, str], tag: int, several: bool, at: int) -> None:
        for key, tags in self._tags.items():
            settled = [
                held for held in tags if held == tag or (several and (tag == 0 or held <= tag))
            ]
            if key[:2] == channel and settled:
                for held in settled:
                    del tags[held]
                self.curves[key].at(at, len(tags))


class _Told:
    """How full addresses are, according to the broker's answers (management over messages)."""

    def __init__(self, settings: Settings) -> None:
        self.curves: dict[object, Curve] = {}
        self._settings = settings
        self._asked: dict[tuple[str, str], tuple[str, str]] = {}

    def see(self, row: Mapping[str, Any], fields: Mapping[str, str]) -> None:
        answers = (
            fields.get("reply-to") or fields.get("destination", ""),
            fields.get("correlation-id", ""),
        )
        if row["command"] == "SEND" and fields.get(_ASKED) in _READINGS:
            self._asked[answers] = (fields.get(_OF, ""), fields[_ASKED])
        elif row["command"] == "MESSAGE" and answers in self._asked:
            key = self._asked.pop(answers)
            text = (row["body"] or "").strip().removeprefix("[").removesuffix("]").strip()
            if whole_number(text) is not None:
                what, unit = _READINGS[key[1]]
                if key not in self.curves:
                    name = key[0].removeprefix("address.")
                    bounds = (
                        list(limits(what, merged(self._settings, name))) if name != key[0] else []
                    )
                    self.curves[key] = Curve(
                        f"{what} of {name}, as reported by the broker", unit, bounds=bounds
                    )
                self.curves[key].at(row["at_ns"], int(text))


def limits(what: str, settings: Mapping[str, Any]) -> Iterator[tuple[int, str]]:
    """Return an address's limits in bytes, messages or pages; -1 for no limit."""
    policy = f", {settings['address_full_policy']}" if "address_full_policy" in settings else ""
    paged = f", {settings['page_full_policy']}" if "page_full_policy" in settings else ""
    page, pages = settings.get("page_size_bytes", 0), settings.get("page_limit_bytes", -1)
    named = {
        "size": (
            ("max_size_bytes", f"max-size-bytes{policy}"),
            ("max_size_bytes_reject_threshold", "max-size-bytes-reject-threshold"),
        ),
        "messages": (
            ("max_size_messages", f"max-size-messages{policy}"),
            ("page_limit_messages", f"page-limit-messages{paged}"),
        ),
    }
    for name, words in named.get(what, ()):
        if settings.get(name, -1) > 0:
            yield settings[name], words
    if what == "pages" and page > 0 and pages > 0:
        yield -(-pages // page), f"page-limit-bytes{paged}"
