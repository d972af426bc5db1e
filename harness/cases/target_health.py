"""Distinguishes a target that no longer serves from one that violates a requirement.

A failed control or a violation says something about the target only if the target still serves
others. So plain messages are sent over fresh connections:

* None of :data:`TRIES` messages passes: the target is down, silent, flooding or closing
  connections. The run stops, and the case has no result, because the target was not serving.
* Some pass: more are sent. After :data:`FAILURES` failures among the last :data:`WINDOW` the target
  is unstable and the run stops. A working broker fails no probe, and the host rarely causes a
  failure. In a simulation with one probe in ten failing, the run stops by the fifth failed case
  with 92 % probability; with one in five, by the second.
* All pass: the case's own traffic caused the failure, and its verdict stands. A broker that floods,
  stalls or closes connections only for one stimulus is judged to the end.

A probe that fails while this host is late says nothing about the target and is repeated.

A target that refuses plain messages from the start (no permission, say) is judged normally. If it
begins to refuse later (a full disk, or a limit set from outside), violations are uncertain and a
failed control stops the run."""

import copy
import textwrap
import threading
from collections import deque
from contextlib import suppress
from typing import Self

from brokerproof.harness.cases.plain_message_probe import (
    PROTOCOLS,
    Fault,
    PlainMessageProbe,
    ProbeFailure,
)
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant, seconds
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import Target
from brokerproof.harness.worlds.bounds import BrokerDied, RunBounds, RunStopped
from brokerproof.harness.worlds.resident_memory import give_back, resident_bytes

TRIES = 3
"""After this many consecutive failed probes, the target counts as unusable."""
PATIENCE_WITH_HOST = 10
"""The maximum number of consecutive failed probes that are excused because this host was late.
Beyond that, the target itself may be keeping the host busy."""
RETRY_AFTER: Duration = seconds(1)
"""The pause after a refused or closed connection, because the broker may be restarting."""
FEW = 4
MANY = 20
"""How many probes follow one that passed: first if none failed recently, then if one did."""
FAILURES = 3
WINDOW = 100
MOST_OF_PROBLEM = 200
"""The maximum number of characters of a case's problem in the final sentence of a run. Some
problems list everything received, which may be dozens of frames."""
DEATHS = frozenset({Fault.GONE, Fault.CLOSES, Fault.SILENT})
LOOK_EVERY: Duration = NS_PER_S // 10
SILENCE: Duration = seconds(12)
"""After this long without receiving anything, brokerproof tries to log in to the target."""


class TargetHealth:
    """Probes ``target`` at creation and whenever a case fails.

    Raises :class:`RunStopped` if no plain message passes now, unless the target refuses them."""

    def __init__(self, target: Target, seed: int) -> None:
        self._target, self._seed = target, seed
        self._name = target.identity.name
        self._bounds = (
            target.bounds if isinstance(target, SocketTarget) else RunBounds(target.identity.limits)
        )
        self._probe = PlainMessageProbe(target, seed)
        self._passing: list[str] = []
        """The protocols over which a plain message passed at the start of the run."""
        self._recent: deque[bool] = deque(maxlen=WINDOW)
        """One entry per recent probe: True if it passed."""
        self._lock = threading.Lock()
        self._examined_at: Instant = 0
        self._refusal = ""
        self._watches_process = False
        for name in self._probe.protocols:
            failures = self._try(name)
            if len(failures) < TRIES:
                self._passing.append(name)
            elif failures[-1].fault is not Fault.REFUSES:
                self._stop_for(failures[-1], "when the run began")
        self._check_stability("when the run began")

    def in_fork(self, name: str) -> Self:
        """Return a copy for the named forked process: the copy keeps the initial results, but sends
        its messages to different addresses."""
        forked = copy.copy(self)
        assert isinstance(self._target, SocketTarget)
        forked._bounds = self._target.bounds
        forked._probe = PlainMessageProbe(self._target, self._seed, f"-{name}")
        forked._passing, forked._recent = self._passing.copy(), self._recent.copy()
        forked._lock = threading.Lock()
        forked._watches_process = True
        return forked

    def death(self) -> str:
        """Return how the target died since monitoring of its process began, even if it serves
        again; empty if it did not die."""
        if self._process_has_ended():
            return "its process has ended"
        for name in self._passing:
            failures = self._try(name)
            if any(failure.fault is Fault.GONE for failure in failures) or (
                len(failures) == TRIES and failures[-1].fault in DEATHS
            ):
                return f"{failures[-1].fault}, {_text(failures[-1])}"
        return ""

    @property
    def serves(self) -> bool:
        """True if a plain message passes over every protocol over which one passed at the start."""
        return all(self._probe.failure(name) is None for name in self._passing)

    def examine(self, case: str, problem: str) -> None:
        """Raise :class:`RunStopped` if the target serves nobody after ``case`` failed with
        ``problem``."""
        refusal = self.refusal(case, problem)
        if refusal:
            self._stop(f"{self._name}: {refusal}; {self._noticed(case, problem)}")

    def refusal(self, case: str, problem: str = "it found a violation") -> str:
        """Return why the target now refuses a plain message, though one passed initially; empty if
        it does not refuse. Raises :class:`RunStopped` if the target no longer serves."""
        noticed_at = self._bounds.now()
        with self._lock:
            self._bounds.check()
            # otherwise a later examination has already answered
            if self._examined_at < noticed_at:
                self._examined_at = self._bounds.now()
                self._refusal = self._examine(self._noticed(case, problem))
            return self._refusal

    def leave_alone(self) -> None:
        """Stop checking whether the target serves, because a harmful case is about to begin."""
        self._passing.clear()

    def examine_silence(self) -> None:
        """Stop the run if nothing was received for a long time and the target rejects a login."""
        now = self._bounds.now()
        if now - max(self._bounds.received_at, self._examined_at) < SILENCE or not self._passing:
            return
        with self._lock:
            self._examined_at = now
            for name in self._passing:
                failures = self._try(name, login_only=True)
                if len(failures) == TRIES:
                    quiet = f"nothing was received for {SILENCE // NS_PER_S} s"
                    self._stop_for(failures[-1], quiet)

    def _examine(self, occasion: str) -> str:
        # The process may have ended although a quickly restarted target answers.
        if self._watches_process and self._process_has_ended():
            end = self._process_end() or "its process has ended"
            reason = f"{self._name} {Fault.GONE}: {end}; {occasion}{self._unanswered()}"
            self._stop(reason, BrokerDied)
        for name in self._passing:
            failures = self._try(name)
            if len(failures) == TRIES:
                if failures[-1].fault is Fault.REFUSES:
                    return (
                        f"a plain {PROTOCOLS[name]} message, which passed when the run began, does"
                        f" not pass now: {failures[-1].detail}"
                    )
                self._stop_for(failures[-1], occasion)
        self._check_stability(occasion)
        return ""

    def _try(self, name: str, *, login_only: bool = False) -> list[ProbeFailure]:
        """Return the failures before the first probe that passes."""
        failures: list[ProbeFailure] = []
        excused = 0
        while len(failures) < TRIES:
            failure = self._probe.failure(name, login_only=login_only)
            if failure is not None and failure.host_was_late and excused < PATIENCE_WITH_HOST:
                excused += 1
                self._bounds.pause(RETRY_AFTER)
                continue
            if failure is None:
                self._recent.extend([False] * len(failures))
                self._recent.append(True)
                break
            failures.append(failure)
            if failure.fault in (Fault.GONE, Fault.CLOSES):
                self._bounds.pause(RETRY_AFTER)
        return failures

    def _check_stability(self, occasion: str) -> None:
        last: ProbeFailure | None = None
        for _ in range(FEW if all(self._recent) else MANY):
            for name in self._passing:
                failures = self._try(name)
                if len(failures) == TRIES:
                    self._stop_for(failures[-1], occasion)
                last = failures[-1] if failures else last
            failed = self._recent.count(False)
            if failed >= FAILURES:
                share = f"{failed} of the last {len(self._recent)} plain messages failed"
                detail = "" if last is None else f", the last one over {_text(last)}"
                self._stop(f"{self._name} is unstable: {share}{detail}; {occasion}")

    def _stop_for(self, failure: ProbeFailure, occasion: str) -> None:
        if failure.fault is Fault.CLOSES and (tries := self._closed_before_one_passes(failure)):
            share = f"{tries} of {tries + 1} plain messages failed"
            self._stop(f"{self._name} is unstable: {share} over {_text(failure)}; {occasion}")
        fault = f"{self._name} {self._fault(failure)}: {TRIES} of {TRIES} plain messages failed"
        reason = f"{fault}, the last one over {_text(failure)}; {occasion}"
        if failure.fault in (Fault.GONE, Fault.SILENT):
            reason += self._unanswered()
        end = self._process_end()
        how = BrokerDied if failure.fault in DEATHS else RunStopped
        self._stop(reason + (f"; {end}" if end else ""), how)

    def _process_has_ended(self) -> bool:
        return isinstance(self._target, SocketTarget) and self._target.has_ended()

    def _process_end(self) -> str:
        return self._target.process_end() if isinstance(self._target, SocketTarget) else ""

    def _unanswered(self) -> str:
        frames = self._bounds.unanswered()
        return f"; nothing was received after {frames[0]}" if frames else ""

    def _fault(self, failure: ProbeFailure) -> str:
        """Describe a target that failed all probes of a protocol; name the protocol if messages
        still pass over another."""
        others = [
            PROTOCOLS[name]
            for name in self._passing
            if name != failure.name and self._probe.failure(name) is None
        ]
        if not others:
            return failure.fault
        protocol = PROTOCOLS[failure.name]
        if failure.fault not in (Fault.GONE, Fault.SILENT):
            return f"{failure.fault} over {protocol} and answers {' and '.join(others)}"
        if failure.name in self._passing:
            return f"stopped answering {protocol} and still answers {' and '.join(others)}"
        return f"does not answer {protocol} and answers {' and '.join(others)}"

    def _closed_before_one_passes(self, failure: ProbeFailure) -> int:
        """Return the number of probes that failed before one passed; 0 if none passes."""
        for number in range(MANY):
            further = self._probe.failure(failure.name)
            if further is None:
                return TRIES + number
            if further.fault is not Fault.CLOSES:
                break
        return 0

    def _noticed(self, case: str, problem: str) -> str:
        action = self._bounds.last_action(case)
        sent = "" if action is None else f" after {action.command}"
        brief = textwrap.shorten(problem, MOST_OF_PROBLEM, placeholder=" …")
        return f"noticed in case {case}{sent}: {brief}"

    def _stop(self, reason: str, how: type[RunStopped] = RunStopped) -> None:
        self._bounds.stop(how(" ".join(reason.split())))
        raise how(" ".join(reason.split()))


def _text(failure: ProbeFailure) -> str:
    return f"{PROTOCOLS[failure.name]}: {failure.detail}"


class RunWatch:
    """Watches this process's memory and the target's silence in a separate thread, until the run
    stops."""

    def __init__(self, target: SocketTarget, health: TargetHealth) -> None:
        self._target = target
        self._health = health
        self._thread = threading.Thread(target=self._run, name="brokerproof-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def _run(self) -> None:
        bounds = self._target.bounds
        with suppress(RunStopped):  # the cases raise the error too
            while not bounds.pause(LOOK_EVERY):
                resident = resident_bytes()
                if resident > bounds.limits.run_memory_bytes:
                    give_back()
                    resident = resident_bytes()
                if resident > bounds.limits.run_memory_bytes:
                    action = bounds.last_action()
                    during = "" if action is None else f"; the last frame sent was {action}"
                    bounds.stop(
                        f"judging {self._target.identity.name} takes {resident:,} bytes of memory"
                        f" (limit run_memory_bytes){during}"
                    )
                self._health.examine_silence()
