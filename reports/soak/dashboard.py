"""Shows the progress of a soak: as a table redrawn on a terminal, in plain lines elsewhere."""

from collections import deque
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.live import Live
from rich.table import Table

from brokerproof.harness.load.conductor import Progress
from brokerproof.harness.model.time import NS_PER_MS, NS_PER_S, Duration, Instant
from brokerproof.reports.soak.stream import Seen

PLAIN_EVERY: Duration = 5 * NS_PER_S
SPAN = 8
"""The number of calls of :meth:`Dashboard.show` over which rates are averaged."""


class Dashboard:
    """A context manager. :meth:`show` is called a few times a second."""

    def __init__(self, console: Console, title: str) -> None:
        self._console = console
        self._title = title
        self._live = (
            Live(console=console, auto_refresh=False, transient=True)
            if console.is_terminal
            else None
        )
        self._last: Instant = 0
        self._history: deque[tuple[Instant, int, int]] = deque(maxlen=SPAN)

    def __enter__(self) -> Self:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: Progress, seen: Seen) -> None:
        """Show the progress if there has been any since the last call."""
        numbers = progress.numbers
        if not self._history or self._history[-1][0] != progress.at:
            self._history.append((progress.at, numbers["sent"], numbers["received"]))
        if self._live is not None:
            self._live.update(self.table(progress, seen), refresh=True)
        elif progress.at - self._last >= PLAIN_EVERY:
            self._last = progress.at
            self._console.print(
                self.line(progress, seen), highlight=False, markup=False, soft_wrap=True
            )

    def rates(self) -> tuple[float, float]:
        """Return the recent rates of messages sent and received per second."""
        first, last = self._history[0], self._history[-1]
        span = max(1, last[0] - first[0]) / NS_PER_S
        return (last[1] - first[1]) / span, (last[2] - first[2]) / span

    def line(self, progress: Progress, seen: Seen) -> str:
        numbers, (sent, received) = progress.numbers, self.rates()
        return (
            f"{_lasts(progress)}: {sent:,.0f} sent/s, {received:,.0f} received/s,"
            f" {_latency(progress)}, {numbers['waiting']} unconfirmed, {numbers['held']} unsettled,"
            f" {numbers['credit']} credit; {seen.segments} segments judged, the last in"
            f" {seen.took / NS_PER_S:.1f} s, {seen.looks} full judgements, {_violations(seen)}"
        )

    def table(self, progress: Progress, seen: Seen) -> Table:
        numbers, (sent, received) = progress.numbers, self.rates()
        table = Table(title=self._title, title_justify="left", show_header=False)
        rows = [
            ("time", _lasts(progress) + ("" if progress.producing else ", draining")),
            ("sent", f"{numbers['sent']:,}  {sent:,.0f}/s"),
            ("received", f"{numbers['received']:,}  {received:,.0f}/s"),
            ("from SEND to MESSAGE", _latency(progress)),
            ("unconfirmed", f"{numbers['waiting']:,}"),
            ("received but not settled", f"{numbers['held']:,}"),
            ("credit of producers", f"{numbers['credit']:,}"),
            ("connections", f"{numbers['up']} up, {numbers['left']} ended by the broker"),
            (
                "faults",
                ", ".join(f"{count} {kind}" for kind, count in sorted(progress.faults.items()))
                or "none",
            ),
            ("judged", _judged(seen)),
            ("suspicion", seen.suspicion or "none"),
            ("violations", _violations(seen)),
        ]
        for row in rows:
            table.add_row(*row)
        return table


def _latency(progress: Progress) -> str:
    quantiles = [
        (name, progress.delivery.quantile(share)) for name, share in (("p50", 0.5), ("p99", 0.99))
    ]
    return (
        ", ".join(
            f"{name} {value / NS_PER_MS:,.1f} ms" for name, value in quantiles if value is not None
        )
        or "no latency yet"
    )


def _judged(seen: Seen) -> str:
    return (
        f"{seen.segments} segments in {seen.batches} batches, the last in"
        f" {seen.took / NS_PER_S:.1f} s, {seen.looks} full judgements"
    )


def _violations(seen: Seen) -> str:
    if seen.conclusion is None:
        return "0 violations"
    return f"{sum(wrong.count for wrong in seen.conclusion.wrong)} violations"


def _lasts(progress: Progress) -> str:
    """Return how long the load has been sending; drivers begin shortly after the first call."""
    return f"{max(0, progress.at - progress.since) / NS_PER_S:.0f} s"
