"""Faults of the watch over silent connections."""

from __future__ import annotations

from dataclasses import replace

from brokerproof.harness.model.time import NS_PER_MS, Duration, Instant, ms
from brokerproof.reference_broker.assembly import Parts
from brokerproof.reference_broker.families.artemis.ttl_liveness import LivenessMonitor
from brokerproof.reference_broker.protocols.stomp.connection import StompConnection
from brokerproof.reference_broker.protocols.stomp.frame import Version
from brokerproof.reference_broker.protocols.stomp.heartbeat import Agreement, HeartBeatNegotiator
from brokerproof.suites.mutation.flow.ttl import ANY_DATA, NEVER, WATCH
from brokerproof.suites.mutation.mutant import Group, Reached

ttl_watch = Group("ttl")


@ttl_watch.mutant(WATCH)
def exact_to_the_millisecond(parts: Parts, reached: Reached) -> Parts:
    """The check interval is ignored: each connection is closed exactly at the end of its TTL."""

    class Faulty(LivenessMonitor):
        def deadline(self) -> Instant:
            return reached.instead(super().deadline(), self.last_heard + max(1, self.ttl))

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(WATCH)
def rounded_down(parts: Parts, reached: Reached) -> Parts:
    """The TTL is rounded down to whole check intervals: connections die before it has passed."""

    class Faulty(LivenessMonitor):
        def deadline(self) -> Instant:
            right = super().deadline()
            return reached.instead(
                right, right if self.ttl % self.interval == 0 else right - self.interval
            )

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(WATCH)
def one_pass_late(parts: Parts, reached: Reached) -> Parts:
    """A dead connection is closed one check interval after it should be."""

    class Faulty(LivenessMonitor):
        def deadline(self) -> Instant:
            right = super().deadline()
            return reached.instead(right, right + self.interval)

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(WATCH, recreates="AMQ-2511")
def never_closed(parts: Parts, reached: Reached) -> Parts:
    """Silent connections are never closed."""

    class Faulty(LivenessMonitor):
        def deadline(self) -> Instant:
            return reached.instead(super().deadline(), NEVER)

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(WATCH, recreates="ARTEMIS-640")
def check_interval_fixed(parts: Parts, reached: Reached) -> Parts:
    """The check interval is 2 s, whatever is configured."""

    class Faulty(LivenessMonitor):
        def __init__(self, start: Instant, interval: Duration, ttl: Duration, now: Instant) -> None:
            super().__init__(start, reached.instead(interval, ms(2000)), ttl, now)

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(f"{ANY_DATA} STOMP11-HB-06 STOMP12-HB-06")
def counted_from_connect(parts: Parts, reached: Reached) -> Parts:
    """The TTL is counted from the opening of the connection and not from the last data."""

    class Faulty(LivenessMonitor):
        def heard(self, now: Instant, data: bytes) -> None:
            reached.instead(now, self.last_heard)

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(ANY_DATA)
def parts_of_frames_are_silence(parts: Parts, reached: Reached) -> Parts:
    """Octets of a frame that is not complete are no sign of life."""

    class Faulty(LivenessMonitor):
        def heard(self, now: Instant, data: bytes) -> None:
            if b"\0" in data or not data.strip(b"\r\n"):
                super().heard(now, data)
            else:
                reached()

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(f"{ANY_DATA} STOMP11-HB-06 STOMP12-HB-06")
def frames_are_silence(parts: Parts, reached: Reached) -> Parts:
    """Only heart-beats are signs of life: frames do not count."""

    class Faulty(LivenessMonitor):
        def heard(self, now: Instant, data: bytes) -> None:
            if not data.strip(b"\r\n"):
                super().heard(now, data)
            else:
                reached()

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(f"{ANY_DATA} STOMP11-HB-06 STOMP12-HB-06")
def ends_of_line_are_silence(parts: Parts, reached: Reached) -> Parts:
    """Only frames are signs of life: heart-beats do not count."""

    class Faulty(LivenessMonitor):
        def heard(self, now: Instant, data: bytes) -> None:
            if data.strip(b"\r\n"):
                super().heard(now, data)
            else:
                reached()

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant("STOMP11-HB-12 STOMP12-HB-12 ARTEMIS-STOMP-ttl-3", recreates="AMQ-4674")
def no_grace(parts: Parts, reached: Reached) -> Parts:
    """A client is dead as soon as its own interval has passed: nothing is allowed for being a
    little late."""

    class Monitor(LivenessMonitor):
        cut: Duration | None = None

        def deadline(self) -> Instant:
            right = super().deadline()
            return right if self.cut is None else reached.instead(right, self.last_heard + self.cut)

    class Faulty(StompConnection):
        def receive(self, now: Instant, data: bytes) -> None:
            super().receive(now, data)
            monitor = self._liveness
            if isinstance(monitor, Monitor) and self._beats_promised() and monitor.cut is None:
                monitor.cut = ms(self._ttl_ms) // 2
                self._silence_check.move(monitor.deadline())

        def _beats_promised(self) -> bool:
            return self.is_open and self._silence.v12 == "ARTEMIS-STOMP-ttl-3"

    return replace(parts, liveness=Monitor, stomp=Faulty)


@ttl_watch.mutant("ARTEMIS-STOMP-ttl-3")
def one_lives_all_live(parts: Parts, reached: Reached) -> Parts:
    """Data on any connection keeps every connection alive."""
    latest = [0]

    class Faulty(LivenessMonitor):
        def heard(self, now: Instant, data: bytes) -> None:
            super().heard(now, data)
            latest[0] = now

        def deadline(self) -> Instant:
            right = super().deadline()
            mine, self.last_heard = self.last_heard, max(self.last_heard, latest[0])
            wrong = super().deadline()
            self.last_heard = mine
            return reached.instead(right, wrong)

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant(WATCH)
def counted_in_seconds(parts: Parts, reached: Reached) -> Parts:
    """The TTL is kept in whole seconds, rounded down, at least one."""

    class Faulty(LivenessMonitor):
        def deadline(self) -> Instant:
            right, exact = super().deadline(), self.ttl
            self.ttl = max(1, exact // (1000 * NS_PER_MS)) * 1000 * NS_PER_MS
            wrong = super().deadline()
            self.ttl = exact
            return reached.instead(right, wrong)

    return replace(parts, liveness=Faulty)


@ttl_watch.mutant("STOMP11-HB-01 STOMP12-HB-01 ARTEMIS-STOMP-ttl-2 ARTEMIS-STOMP-ttl-3")
def answer_with_a_blank(parts: Parts, reached: Reached) -> Parts:
    """The answer has a blank behind its comma."""

    class Faulty(HeartBeatNegotiator):
        def negotiate(self, header: str | None, version: Version) -> Agreement:
            right = super().negotiate(header, version)
            if right.header is None:
                return right
            return reached.instead(right, replace(right, header=right.header.replace(",", ", ")))

    return replace(parts, negotiator=Faulty)
