"""A client and a broker together. A driver makes a client library follow a scenario of
``fixtures/pairs.toml``, while we relay its connections to the broker and observe them. General
rules judge the pair: signs of life in both directions, no lost or duplicated messages, no
unexpected close, and a message that still passes at the end."""

import json
import tomllib
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from enum import StrEnum
from functools import partial
from importlib.resources import files
from string import Template
from typing import Any, cast

from brokerproof.harness.capture.conversion import FollowedConnection
from brokerproof.harness.capture.reassembly import Bytes, Ended, Piece, Stream
from brokerproof.harness.clients.client_event import event_named
from brokerproof.harness.clients.driver import Driver, body_of, ready
from brokerproof.harness.model.enums import CloseHow, RoutingType
from brokerproof.harness.model.time import NS_PER_S, Duration, Instant, ms, seconds
from brokerproof.harness.oracles.pairs import BROKER, CLIENT, Pair
from brokerproof.harness.protocols.conversation import PATIENCE, ControlFailed, Judge, either
from brokerproof.harness.targets.client.target import ClientTarget
from brokerproof.harness.targets.endpoint import Endpoint
from brokerproof.harness.targets.external import queues
from brokerproof.harness.targets.external.greeting import Credentials
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.sockets import SocketTarget
from brokerproof.harness.targets.target import host_of_amqp091
from brokerproof.harness.trace.events import FrameReceived, FrameSent
from brokerproof.harness.worlds.bounds import LimitReached
from brokerproof.harness.worlds.world import Channel, Unreachable

KNOWN = tomllib.loads((files("brokerproof.fixtures") / "pairs.toml").read_text("utf-8"))
SCENARIOS: dict[str, dict[str, Any]] = KNOWN["scenario"]
SIDES = (CLIENT, BROKER)
INTERVAL: Duration = NS_PER_S
TICK: Duration = ms(100)
LATE: Duration = ms(500)
TRIES = 3
END = either(event_named("disconnected"), event_named("error"))
CLOSING = ("ERROR", "DISCONNECT", "connection.close", "close")


class Cell(StrEnum):
    KEPT, DEVIATES, CANNOT, UNDECIDED = "kept", "deviates", "cannot", "undecided"


class _End(Exception):
    def __init__(self, sentence: str, cell: Cell = Cell.DEVIATES) -> None:
        super().__init__(sentence)
        self.cell = cell


@dataclass
class _Half:
    """Our end towards the client (side 0) or the broker (side 1)."""

    line: "Line"
    side: int

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self.line.follow(Bytes(at, self.side, data))
        self.line.pass_on(1 - self.side, data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self.line.ends.append(self.side)
        self.line.note_end(self.side, at)
        self.line.follow(Ended(at, self.side, how))
        self.line.end(1 - self.side, how)


class Line:
    """One of the client's connections, relayed to the broker."""

    def __init__(self, trial: "PairTrial") -> None:
        self._trial, self._world = trial, trial.world
        stream = Stream(opener=0, distance=0)
        for half in stream.halves:
            half.begun = True
        nobody = (bytes(4), 0)
        self._followed = FollowedConnection(1, (nobody, nobody), self._world.now(), stream)
        self.pair = Pair()
        self.channels: list[Channel] = []
        self.ends: list[int] = []
        """The sides that closed the connection, in order."""
        self.ending = ""
        self.said: list[tuple[int, str]] = []
        self.refusal = ""
        self.is_over = False
        self._free = [0, 0]
        self.passed = [self._world.now()] * 2
        """When the last byte was passed to each side."""

    def follow(self, piece: Piece) -> None:
        for event in self._followed.take(piece):
            self.pair.read(event)
            if isinstance(event, FrameSent | FrameReceived):
                self.said.append((isinstance(event, FrameReceived), event.command))
                words = "; ".join(f"{name}: {value}" for name, value in event.headers if value)
                if event.command in (*CLOSING, "channel.close"):
                    self.refusal = self.refusal or f"{event.command} ({words[:200]})"
                    if event.command in CLOSING:
                        self.note_end(self.said[-1][0], event.at_ns)

    def note_end(self, side: int, at: Instant) -> None:
        if not self.ending:
            silence = max(0, at - self.passed[side]) // ms(1)
            after = f"{silence} ms after the last byte of {SIDES[1 - side]}"
            self.ending = f"{SIDES[side]} ended the connection {after}"

    def pass_on(self, side: int, data: bytes) -> None:
        size, gap = self._trial.pace[side]
        now = self._world.now()
        if self._trial.is_mute:
            return
        for place in range(0, len(data), size or len(data)):
            piece = data[place : place + (size or len(data))]
            if self._free[side] >= now or size:
                self._free[side] = max(now, self._free[side]) + gap
                self._world.at(self._free[side], partial(self.channels[side].write, piece))
            else:
                self.channels[side].write(piece)
            self.passed[side] = max(now, self._free[side])

    def end(self, side: int, how: CloseHow = CloseHow.RESET) -> None:
        if not self._trial.is_mute and self.channels:
            channel = self.channels[side]
            act = channel.cut if how is CloseHow.RESET else channel.close
            self._world.at(max(self._world.now(), self._free[side]), act)


class PairTrial:
    """A client and a broker in one scenario. The queue between them is called ``name``."""

    def __init__(self, client: ClientTarget, broker: SocketTarget, name: str) -> None:
        self._client, self._broker, self._name = client, broker, name
        self._speech = KNOWN["speech"][client.identity.profile.name]
        self.world = broker.world(0, None, lambda _: None)
        self.lines: list[Line] = []
        self.drivers: list[Driver] = []
        self.pace, self.is_mute, self._is_blocked = [(0, 0)] * 2, False, False
        self._interval = INTERVAL
        self._faults: list[str] = []
        self._tick_due = self.world.now()
        self._sent: list[bytes] = []
        self._missing, self._mode, self._keeps = 0, "", False
        self._settled: set[int] = set()
        self._returns: Counter[bytes] = Counter()
        """The number of further times that each message may arrive, by body."""
        identity, of_stomp = broker.identity, self._speech["capability"] == "stomp"
        parameters, spoken = identity.profile.parameters, client.identity.capabilities
        self._acceptor = identity.default_acceptor if of_stomp else identity.default_amqp_acceptor
        host = parameters.get("stomp_host") if of_stomp else host_of_amqp091(parameters)
        place = str(parameters.get(self._speech["place"], "{name}"))
        self._values: dict[str, Any] = {
            **{"beat": 0, "beat_s": 0, "place": place.format(name=name)},
            **{"vhost": host, "version": "1.2" if "stomp-1.2" in spoken else "1.1"},
            **{"login": identity.login or "guest", "passcode": identity.passcode or "guest"},
        }

    def run(self, steps: list[str]) -> tuple[Cell, str]:
        began = self.world.now()
        try:
            self._provide()
            for step in [*steps, "send 1", "receive 1", "wait 1"]:
                word, *values = step.split()
                call: Callable[..., None] = getattr(self, f"do_{word}")
                call(*(int(value) if value.isdigit() else value for value in values))
            self._faults += self._amiss()
        except _End as end:
            if end.cell is Cell.CANNOT:
                return Cell.CANNOT, str(end)
            self._faults.append(str(end))
        except ControlFailed as problem:
            self._faults.append(f"{str(problem)[:300]}{self._why()}")
        except (LimitReached, SetUpFailed, Unreachable) as problem:
            return Cell.UNDECIDED, str(problem)
        finally:
            late = self.world.lateness(began)
            self.world.close()
        said = "; ".join(self._faults[:3])
        if said and late > LATE:
            return Cell.UNDECIDED, f"the host was late by {late / NS_PER_S:.1f} s: {said}"
        return (Cell.DEVIATES if said else Cell.KEPT), said

    def _provide(self) -> None:
        identity, capability = self._broker.identity, self._speech["capability"]
        if lack := identity.lack_of({capability}):
            raise _End(lack, Cell.CANNOT)
        if capability != "stomp" and "amqp091" in identity.capabilities:
            there = Endpoint("amqp", *self.world.endpoint(self._acceptor), None, None, None, {})
            login = Credentials(self._values["login"], self._values["passcode"])
            queues.declare(there, login, self._name, "classic")
        self._broker.provide(self._name, RoutingType.ANYCAST)
        self._tick()

    def record(self, event: object) -> None: ...

    def _accepted(self) -> tuple[_Half, Callable[[Channel], None]]:
        line = Line(self)

        def use(channel: Channel) -> None:
            line.channels = [channel, self.world.open(self._acceptor, _Half(line, 1))]
            self.lines.append(line)

        return _Half(line, 0), use

    def _tick(self) -> None:
        now = self.world.now()
        for line in [line for line in self.lines if not line.is_over]:
            if self._is_blocked or now > self._tick_due + TICK:
                for half in line.pair.halves.values():
                    half.last = now  # its bytes have not been read yet
            self._faults += line.pair.pass_time(now)
        self._tick_due = now + TICK
        self.world.at(self._tick_due, self._tick)

    def _act(self, what: str, *, waits: bool = False, **values: Any) -> None:
        """Send the client this command. Commands are executed in order, so a refusal is noticed
        only later."""
        known = {name: json.dumps(value) for name, value in (self._values | values).items()}
        for line in self._speech[what]:
            step = json.loads(Template(line).substitute(known))
            if "saw" in step:
                self.drivers[-1].expect(event_named(step["saw"]))
                continue
            self.drivers[-1].do(what := step.pop("do"), **step)
            if waits:
                self.drivers[-1].expect(event_named("did", do=what))

    @property
    def _messages(self) -> list[bytes]:
        return [body_of(event) for event in self.drivers[-1].reports("message")]

    # the steps

    def do_beat(self) -> None:
        shortest = self._broker.identity.profile.parameters.get(self._speech.get("shortest", ""))
        self._interval = max(INTERVAL, 2 * ms(int(str(shortest or 0))))  # libraries announce half
        self._values |= {"beat": self._interval // ms(1), "beat_s": self._interval // NS_PER_S}
        if self._speech.get("beating") in self._broker.endpoints:
            self._acceptor = self._speech["beating"]

    def do_connect(self) -> None:
        """Start or restart the application."""
        driver = Driver(cast(Judge, self), 0, "driver")
        begun = self._client.begin_trial(self.world, driver, self._accepted)
        driver.use(begun.driver)
        self.drivers.append(driver)
        ready(driver)
        begun.loaded()
        self._settled, self._missing = set(), 0
        self._act("connect", waits=True, host=begun.host, port=begun.port)

    def do_consume(self, mode: str, window: int = 100) -> None:
        modes = self._speech["modes"]
        self._keeps = mode != "auto"
        self._mode = mode if mode in modes or self._keeps else "each"
        if self._mode not in modes:
            raise _End(self._speech["lacks"][self._mode], Cell.CANNOT)
        self._act("consume", waits=True, mode=modes[self._mode], window=window)

    def do_send(self, count: int, size: int = 10) -> None:
        for _ in range(count):
            body = b"%d " % len(self._sent)
            self._sent.append((body + b"0123456789abcdef" * (size // 16 + 1))[:size])
            self._act("send", body=self._sent[-1].decode())

    def do_receive(self, count: int, pause_ms: int = 0) -> None:
        self._missing += count

        def arrived() -> bool:
            if not self._keeps and self._mode == "each":
                self.do_settle(*range(1, len(self._messages) + 1))
            return len(self._messages) >= self._missing

        if not self.world.wait_until(arrived, self.world.now() + PATIENCE):
            came = f"{len(self._messages)} of {self._missing} messages arrived in 10 s"
            raise _End(f"{came}{self._why()}")

    def do_serve(self, count: int, pause_ms: int) -> None:
        """Receive ``count`` messages, and acknowledge each after a pause."""
        for number in range(1, count + 1):
            self.do_receive(1)
            self.world.wait_until(lambda: False, self.world.now() + ms(pause_ms))
            self.do_settle(number)

    def do_settle(self, *numbers: int) -> None:
        for number in numbers:
            if number not in self._settled:
                self._settled |= {number, *range(1, number if self._mode == "all" else 1)}
                self._act("settle", message=number, multiple=self._mode == "all")

    def do_reject(self, number: int) -> None:
        self._settled.add(number)
        self._returns[self._messages[number - 1]] = 99
        self._act("reject", message=number)

    def do_work(self, intervals: int) -> None:
        self._act("work", waits=True, ms=intervals * self._interval // ms(1))

    def do_wait(self, intervals: int) -> None:
        self.world.wait_until(lambda: False, self.world.now() + intervals * self._interval)

    def do_pace(self, to: int, size: int, gap_ms: int) -> None:
        self.pace[to] = (size, ms(gap_ms))

    def do_block(self, held: int) -> None:
        self._is_blocked = bool(held)
        self.lines[-1].channels[0].hold_reading(bool(held))

    def do_alarm(self, on: int) -> None:
        if lack := self._broker.identity.lack_of({"alarms"}):
            raise _End(lack, Cell.CANNOT)
        change = self._broker.raise_alarm if on else self._broker.clear_alarm
        with ThreadPoolExecutor(1) as pool:  # relayed heartbeats cannot wait for rabbitmqctl
            done = pool.submit(change, self.world, "memory")
            self.world.wait_until(done.done, self.world.now() + 6 * PATIENCE)
        done.result()

    def do_cut(self) -> None:
        self.do_mute(0)
        if self.drivers[-1].watch_for(END) is None:
            raise _End("the client did not report that its connection was reset")

    def _give_up(self) -> None:
        self.lines[-1].is_over = True
        for number, body in enumerate(self._messages, 1):
            self._returns[body] += self._mode != "auto" and number not in self._settled

    def do_mute(self, on: int) -> None:
        """Keep the connection open without forwarding anything or, if ``on`` is 0, break it."""
        self.is_mute = bool(on)
        self._give_up()
        for side in (0, 1):
            self.lines[-1].end(side)

    def do_notice(self) -> None:
        """Check that each side closes a connection on which the promised signs of life are missing.
        Each side has three intervals plus ten seconds, because some libraries add five."""
        line, since = self.lines[-1], self.world.now()
        dues = {side: line.pair.halves[SIDES[1 - side]].due for side in (0, 1)}
        dues = {side: due for side, due in dues.items() if 0 < due <= 2 * self._interval}
        if not dues:
            raise _End("neither side promised heartbeats that frequent", Cell.CANNOT)
        for side, due in dues.items():
            within, ended = 3 * due + seconds(10), partial(self._has_ended, line, side)
            if not self.world.wait_until(ended, since + within):
                silent = f"a connection open that had been silent for {within / NS_PER_S:g} s"
                raise _End(f"{SIDES[side]} kept {silent}; it had been promised heartbeats")

    def _has_ended(self, line: Line, side: int) -> bool:
        return side in line.ends or (not side and any(map(END.accepts, self.drivers[-1].inbox)))

    def do_leave(self) -> None:
        line, goodbye = self.lines[-1], self._speech["goodbye"]
        self.drivers[-1].do("disconnect")
        if not self.world.wait_until(lambda: bool(line.ends), self.world.now() + PATIENCE):
            raise _End("the connection was still open 10 s after the client was asked to end it")
        if (0, goodbye) not in line.said:
            raise _End(f"the client sent no {goodbye}{self._why()}")
        self._give_up()

    # the judgement

    def _why(self) -> str:
        broken = [line for line in self.lines if not line.is_over]
        ended = [line.ending for line in broken if line.ends]
        refused = [line.refusal for line in broken if line.refusal]
        errors = ("failed", "error", "heartbeat-timeout")
        told = [one.brief()[:200] for one in self.drivers[-1].inbox if one.step in errors]
        return "".join(f"; {words}" for words in [*ended, *refused, *told[:1]])

    def _amiss(self) -> list[str]:
        """Return what went wrong in a scenario that ran to its end."""
        got = Counter(body_of(one) for each in self.drivers for one in each.reports("message"))
        amiss = [
            f"message {number} {f'arrived {got[body]} times' if got[body] else 'was lost'}"
            for number, body in enumerate(self._sent)
            if not 1 <= got[body] <= 1 + self._returns[body]
        ]
        amiss += [f"{body[:40]!r} arrived, which nobody sent" for body in got.keys() - self._sent]
        return amiss + ([why.removeprefix("; ")] if (why := self._why()) else [])


def judge(client: ClientTarget, broker: SocketTarget, scenario: str, name: str) -> tuple[Cell, str]:
    """Judge a pair in a scenario: a deviation counts only if it occurs twice."""
    seen = ""
    for attempt in range(TRIES):
        trial = PairTrial(client, broker, f"anycast.{name}-{scenario}-{attempt}")
        cell, sentence = trial.run(SCENARIOS[scenario]["steps"])
        if cell is Cell.KEPT and seen:
            return Cell.UNDECIDED, f"once, but not again: {seen}"
        if cell in (Cell.KEPT, Cell.CANNOT) or (cell is Cell.DEVIATES and seen):
            break
        seen = sentence if cell is Cell.DEVIATES else seen
    return cell, sentence
