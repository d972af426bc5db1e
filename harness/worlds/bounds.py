"""Ends a case that exceeds a limit, and all cases of a run if the run cannot continue."""

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from brokerproof.harness.model.cost_limits import Limits
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant
from brokerproof.harness.worlds.host_clock import HOST_CLOCK, HostClock

CHECK_EVERY: Duration = NS_PER_S // 4
"""The longest time until a waiting case notices that its run has ended."""
_KEPT_ACTIONS = 4096
_SHARE_CHECKED_EVERY = 64
"""The number of frames between two checks of a case's share."""
_UNLIMITED = 2**63 - 1
BEHIND_A_FRAME = 4
"""Ends of line that may follow each STOMP frame beyond the limit on heartbeats."""


class LimitReached(Exception):
    """A case exceeded ``limit`` (a field of :class:`Limits`). The message is one sentence."""

    def __init__(self, limit: str, detail: str) -> None:
        super().__init__(f"{detail} (limit {limit})")
        self.limit = limit
        self.detail = detail

    @property
    def may_be_the_hosts(self) -> bool:
        """True if the reason may be a slow host or concurrent cases rather than the target."""
        return self.limit.startswith("parallel_") or self.limit == "case_seconds"


class RunStopped(BaseException):
    """The run cannot continue. Not an ``Exception``, so that no case handles it."""


class BrokerDied(RunStopped):
    """The broker's process ended, or the broker refuses or closes every connection."""


@dataclass(frozen=True, slots=True)
class Action:
    at: Instant
    case: str
    command: str

    def __str__(self) -> str:
        return f"{self.command} in case {self.case}"


class RunBounds:
    """The bounds of a run on one target, shared by all its worlds, each of which has its own
    thread."""

    def __init__(self, limits: Limits, host_clock: HostClock = HOST_CLOCK) -> None:
        self.limits = limits
        self.host_clock = host_clock
        self.received_at: Instant = 0
        """The instant at which any connection last received bytes."""
        self.bytes_received: dict[CaseBounds, int] = {}
        """The bytes received by each running case."""
        self.frames_received: dict[CaseBounds, int] = {}
        self._actions: deque[Action] = deque(maxlen=_KEPT_ACTIONS)
        self._stopping = threading.Lock()
        self._stopped = threading.Event()
        self._stop = RunStopped("")
        self.note_sent: Callable[[str, Instant], None] = lambda case, at: None
        """Receives the case and the instant of each frame that a case sends."""

    def now(self) -> Instant:
        """The current instant, which is the same in every world of the run."""
        return self.host_clock.now()

    def case_deadline(self, limits: Limits) -> Instant:
        """Return the instant at which a case that begins now will have used its ``case_seconds`` of
        host time."""
        return self.now() + self.host_clock.of_host(limits.case_seconds * NS_PER_S)

    def stop(self, reason: str | RunStopped) -> None:
        """Make every case of the run end soon. Only the first reason counts."""
        with self._stopping:
            if not self._stopped.is_set():
                self._stop = reason if isinstance(reason, RunStopped) else RunStopped(reason)
            self._stopped.set()

    def check(self) -> None:
        """Raise :class:`RunStopped` once the run was stopped."""
        if self._stopped.is_set():
            raise type(self._stop)(*self._stop.args)

    def pause(self, duration: Duration) -> bool:
        """Wait for ``duration``; return True immediately once the run is stopped."""
        return self._stopped.wait(duration / NS_PER_S)

    def on_sent(self, at: Instant, case: str, command: str) -> None:
        """Remember the last action of ``case``. Probes are not cases."""
        if case:
            self._actions.append(Action(at, case, command))
            self.note_sent(case, at)

    def last_action(self, case: str = "") -> Action | None:
        """Return the last frame sent by ``case``, or by any case."""
        latest = reversed(self._actions.copy())
        return next((action for action in latest if case in ("", action.case)), None)

    def unanswered(self) -> list[Action]:
        """Return the frames that were sent after the target's last byte or, if there are none, the
        last frame sent."""
        actions = self._actions.copy()
        return [act for act in actions if act.at > self.received_at] or list(actions)[-1:]


class CaseBounds:
    """Counts what one world receives. Without ``run``, there is no limit."""

    def __init__(self, run: RunBounds | None) -> None:
        self._run = run
        self._limits = Limits() if run is None else run.limits
        self.bytes = 0
        """The number of bytes received on all connections of the case."""
        self.frames = 0
        """The number of frames, heartbeats and unreadable pieces received on these connections."""
        self._frames_on: Counter[int | None] = Counter()
        self._heartbeats_on: Counter[int | None] = Counter()
        self._flooding: int | None = None
        """The first connection that received more heartbeats than its limit."""
        self.deadline: Instant = _UNLIMITED
        if run is not None:
            self.deadline = run.case_deadline(self._limits)

    def tighten(self, limits: Limits) -> None:
        """Replace the limits of this case and restart its time."""
        if self._run is not None:
            self._limits = limits
            self.deadline = self._run.case_deadline(limits)

    def check(self, now: Instant) -> None:
        """Raise :class:`RunStopped` or :class:`LimitReached` if waiting must end. Too many
        heartbeats raise an exception only once, so that a case that then closes the connection can
        continue."""
        if self._run is not None:
            self._run.check()
            if self._flooding is not None:
                most = f"{self._limits.connection_heartbeats:,} heartbeats on connection"
                words = f"the target sent more than {most} {self._flooding}"
                del self._heartbeats_on[self._flooding]
                self._flooding = None
                raise LimitReached("connection_heartbeats", words)
        if now >= self.deadline:
            seconds = self._limits.case_seconds
            raise LimitReached("case_seconds", f"the case took longer than {seconds} s")

    def on_bytes_received(self, at: Instant, count: int, connection_total: int) -> None:
        """Count bytes. Raises :class:`LimitReached`."""
        if self._run is None:
            return
        self._run.received_at = max(self._run.received_at, at)
        self.bytes += count
        if connection_total > self._limits.connection_bytes:
            most = f"{self._limits.connection_bytes:,} bytes on one connection"
            raise LimitReached("connection_bytes", f"the target sent more than {most}")
        if self.bytes > self._limits.case_bytes:
            most = f"{self._limits.case_bytes:,} bytes in one case"
            raise LimitReached("case_bytes", f"the target sent more than {most}")
        self._run.bytes_received[self] = self.bytes
        if self._exceeds_share(self._run.bytes_received, self._limits.parallel_bytes):
            most = f"{self._limits.parallel_bytes:,} bytes to the cases under way"
            raise LimitReached("parallel_bytes", f"the target sent more than {most}")

    def close(self) -> None:
        if self._run is not None:
            self._run.bytes_received.pop(self, None)
            self._run.frames_received.pop(self, None)

    def _exceeds_share(self, received: dict[Self, int], most: int) -> bool:
        """True if the running cases together received more than ``most``, and this case at least
        the average."""
        counts = received.copy().values()
        return sum(counts) > most and received[self] * len(counts) >= sum(counts)

    def on_frame_received(self, at: Instant, conn: int | None) -> None:
        """Count a frame. Raises :class:`LimitReached`."""
        if self._run is None:
            return
        self._run.received_at = max(self._run.received_at, at)
        self.frames += 1
        self._frames_on[conn] += 1
        if self._frames_on[conn] > self._limits.connection_frames:
            most = f"{self._limits.connection_frames:,} frames on connection {conn}"
            raise LimitReached("connection_frames", f"the target sent more than {most}")
        if self.frames > self._limits.case_frames:
            most = f"{self._limits.case_frames:,} frames in one case"
            raise LimitReached("case_frames", f"the target sent more than {most}")
        if self.frames % _SHARE_CHECKED_EVERY:
            return
        self._run.frames_received[self] = self.frames
        if self._exceeds_share(self._run.frames_received, self._limits.parallel_frames):
            most = f"{self._limits.parallel_frames:,} frames to the cases under way"
            raise LimitReached("parallel_frames", f"the target sent more than {most}")

    def on_heartbeat_received(self, at: Instant, conn: int | None) -> None:
        """Count a heartbeat, which is also a frame. Raises :class:`LimitReached`.

        One read may contain thousands. So a case that received too many is ended only by
        :meth:`check`, if the case continues to wait: it may already have all that it needs for a
        verdict."""
        frames = self._frames_on[conn] - self._heartbeats_on[conn]
        self._heartbeats_on[conn] += 1
        allowed = self._limits.connection_heartbeats + BEHIND_A_FRAME * frames
        exceeded = self._heartbeats_on[conn] > allowed
        if exceeded and self._flooding is None:
            self._flooding = conn
        self.on_frame_received(at, conn)

    def on_sent(self, at: Instant, case: str, command: str) -> None:
        """Remember the case's last action."""
        if self._run is not None:
            self._run.on_sent(at, case, command)

    @property
    def most_events(self) -> int:
        """The most queued events of a client's own threads."""
        return _UNLIMITED if self._run is None else self._limits.connection_frames
