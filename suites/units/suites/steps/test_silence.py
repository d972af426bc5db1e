"""Closes of connections that fell silent one after another."""

from dataclasses import dataclass, field
from typing import Any, cast

from brokerproof.harness.model.time import Duration, Instant, ms
from brokerproof.suites.steps.silence import SPREAD, judge_spread_closes

PROVES = "STOMP12-HB-02"
INTERVAL = ms(800)
LATER: Instant = ms(10_000)


@dataclass
class Clock:
    """A bench whose time passes only in :meth:`advance`."""

    at: Instant = 0
    judged: list[Duration] = field(default_factory=list)

    def advance(self, duration: Duration) -> None:
        self.at += duration

    def wait_until(self, ready: object, within: Duration) -> bool:
        self.at += within
        return True

    def require(self, proves: str, held: bool, detail: str) -> None:
        assert held, detail

    def sending_jitter(self, bound: Duration) -> Duration:
        return 0

    def judge_duration(
        self,
        proves: str,
        label: str,
        value: Duration,
        bounds: tuple[Duration, Duration],
        since: Instant,
    ) -> None:
        self.judged.append(value)


@dataclass(eq=False)
class Client:
    """A client whose connection is closed after a silence, or at ``closed`` if that is earlier."""

    clock: Clock
    closed: Instant = LATER
    spoke_at: Instant | None = None

    def speak(self) -> None:
        self.spoke_at = self.clock.at


def judged(clients: list[Client]) -> list[Duration]:
    target = cast(Any, clients[0].clock)
    judge_spread_closes(
        target,
        cast(Any, clients),
        Client.speak,
        PROVES,
        (ms(1000), ms(9000)),
        INTERVAL,
        closed=lambda client: client.closed,
    )
    return clients[0].clock.judged


def test_a_silence_begins_with_the_last_sign_of_life() -> None:
    clock = Clock()
    clients = [Client(clock) for _ in range(SPREAD)]
    assert judged(clients) == [ms(10_000 - 100 * place) for place in range(SPREAD)]


def test_a_sign_of_life_behind_the_close_begins_no_silence() -> None:
    clock = Clock()
    clients = [Client(clock) for _ in range(SPREAD)]
    clients[-1].closed = ms(250)
    assert judged(clients)[-1] == ms(50), "the last one before the close was at 200 ms"


def test_a_client_given_up_while_others_connect_was_silent_since_its_login() -> None:
    clock = Clock(at=ms(1500))
    clients = [Client(clock, spoke_at=0) for _ in range(SPREAD)]
    clients[0].closed = ms(1200)
    assert judged(clients)[0] == ms(1200)
