"""Replays the bytes of a case file in a target's own world, for a case that can no longer run."""

from collections.abc import Callable

from brokerproof.harness.counterexamples.decision import Decision, decide
from brokerproof.harness.counterexamples.player import PATIENCE_S, Diverged, Player
from brokerproof.harness.counterexamples.script_builder import Composed, Line
from brokerproof.harness.model.enums import CloseHow
from brokerproof.harness.model.time import NS_PER_S, Instant
from brokerproof.harness.targets.target import Target
from brokerproof.harness.worlds.world import Channel


class _Ear:
    def __init__(self, player: Player, conn: int) -> None:
        self._player, self._conn = player, conn

    def bytes_arrived(self, at: Instant, data: bytes) -> None:
        self._player.arrived(self._conn, data)

    def channel_closed(self, at: Instant, how: CloseHow) -> None:
        self._player.closed(self._conn, how.value)


class WorldPlayer(Player):
    """The player on a target, in virtual or real time."""

    def __init__(self, target: Target, talk: Composed, say: Callable[[str], None]) -> None:
        identity = target.identity
        super().__init__(
            {}, identity.login or "", identity.passcode or "", talk.mark, say, talk.recorded
        )
        self._world = target.world(0, None, lambda observed: None)
        self._start = self._world.now()
        self._channels: dict[int, Channel] = {}

    def now(self) -> float:
        return (self._world.now() - self._start) / NS_PER_S

    def _dial(self, conn: int, acceptor: str) -> None:
        self._channels[conn] = self._world.open(acceptor, _Ear(self, conn))

    def _write(self, conn: int, data: bytes) -> None:
        self._channels[conn].write(data)

    def _wait(self, deadline: float, ready: Callable[[], bool]) -> None:
        self._world.wait_until(ready, self._start + round(deadline * NS_PER_S))

    def _hang_up(self, conn: int, how: str) -> None:
        (self._channels[conn].cut if how == "RESET" else self._channels[conn].close)()

    def close(self) -> None:
        self._world.close()


def play(target: Target, talk: Composed, say: Callable[[str], None]) -> Decision:
    """Replay ``talk``, and judge what arrives by the recorded expectation
    (:func:`brokerproof.harness.counterexamples.decision.decide`).

    Raises :class:`brokerproof.harness.worlds.world.Unreachable` if an acceptor of the recording
    does not exist."""
    player = WorldPlayer(target, talk, say)
    try:
        for line in talk.lines:
            _play_step(player, line)
        return decide(talk.expected, talk.recorded, player)
    except Diverged as problem:
        return None, str(problem)
    finally:
        player.close()


def _play_step(player: Player, line: Line) -> None:
    conn, fields, mark = line.conn or 0, line.about, str(line.about.get("mark", ""))
    within = float(fields.get("within_s", PATIENCE_S))
    match line.verb:
        case "open":
            player.open(conn, str(fields["acceptor"]))
        case "send":
            player.send(conn, *line.parts, mark=mark)
        case "receive":
            like = line.frame.line() if line.frame is not None else ""
            needed = bool(fields.get("needed"))
            player.receive(
                conn, int(fields["count"]), like, needed=needed, within=within, mark=mark
            )
        case "pause":
            player.pause(fields["ms"] / 1000)
        case "leave":
            player.leave(conn, str(fields["how"]))
        case "ends":
            player.ends(conn, str(fields["how"]), within=within, mark=mark)
