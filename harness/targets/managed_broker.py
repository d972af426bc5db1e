"""A broker that we started: facts about it while it runs, and how to stop it."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from brokerproof.harness.targets.local_process import NativeProcess, listens


@dataclass(frozen=True, slots=True)
class RunningBroker:
    """A broker that accepts connections. ``ports`` are by acceptor name; ``log`` is its own log."""

    version: str
    host: str
    ports: Mapping[str, int]
    pid: int
    folder: Path
    log: Path
    login: str
    passcode: str = field(repr=False)


class ManagedBroker:
    """One broker, from its start to its end: a context manager that starts and stops it."""

    clock_rate: int = 1
    """How many times as fast as the host's clock the broker's runs. Set before :meth:`start`."""
    keeps_data: bool = False
    """True if :meth:`start` keeps the data in the broker's folder."""
    _process: NativeProcess | None = None

    def start(self) -> RunningBroker:
        """Start the broker and wait until it is ready. Raises
        :class:`brokerproof.harness.targets.failure.SetUpFailed`."""
        raise NotImplementedError

    def ended(self, within_s: float = 0) -> bool:
        """Return True if the broker is not running; wait up to ``within_s`` seconds for its end."""
        return self._process is None or self._process.ended(within_s)

    def signal(self, number: int) -> None:
        """Send a signal to all of the broker's processes. Does nothing if it is not running."""
        if self._process is not None:
            self._process.signal(number)

    def _make(self, *folders: Path) -> None:
        """Make ``folders``, which are empty except for data to keep."""
        for folder in folders:
            if not (self.keeps_data and folder.name == "data"):
                shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True, exist_ok=True)

    def _ready(
        self, log: Path, has_started: Callable[[str], bool], ports: Iterable[int]
    ) -> Callable[[], bool]:
        """For polling: return True once ``log`` says that the broker is ready and every port
        accepts connections."""
        waiting = list(ports)

        def ready() -> bool:
            # Check the log first: an attempt to connect to a port on which nothing listens can
            # connect to itself.
            if not log.is_file() or not has_started(log.read_text("utf-8", errors="replace")):
                return False
            waiting[:] = [port for port in waiting if not listens("127.0.0.1", port)]
            return not waiting

        return ready

    def stop(self) -> None:
        """Stop the broker and wait until it has ended. The folder stays. Does nothing if it is not
        running."""
        if self._process is not None:
            self._process.stop()
            self._process = None

    def __enter__(self) -> RunningBroker:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()
