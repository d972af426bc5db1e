"""The example brokers of Apache Qpid Proton as native processes: ``broker.c`` and ``broker.py``.

Both are in Debian's package of examples. That package and, for the C broker, the library are
fetched with ``apt-get download``, and unpacked and compiled in the cache: nothing is installed, and
none of their text is in this repository. The Python broker runs on this interpreter's
``python-qpid-proton``. Both brokers accept only ANONYMOUS and listen only on 127.0.0.1.
"""

import importlib.metadata
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from brokerproof.harness.targets.cache import cache_folder, locked, once
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.targets.local_process import NativeProcess, free_ports, listens
from brokerproof.harness.targets.managed_broker import ManagedBroker, RunningBroker

NAMES = ("proton-c", "proton-python")
START_S = 30
"""Seconds until a broker must accept connections; less than 1 s is usual."""
STOP_S = 5
"""Seconds until a stopping broker is killed."""
TRIES = 3
"""The most attempts with another free port if another program takes the first one."""

_EXAMPLES = "libqpid-proton11-dev-examples"
_PACKAGES = {
    "proton-c": (_EXAMPLES, "libqpid-proton11-dev", "libqpid-proton11"),
    "proton-python": (_EXAMPLES,),
}
_SCRIPT = Path("usr/share/proton/examples/python/broker.py")
_SOURCE = Path("usr/share/proton/examples/c/broker.c")
_PROGRAM = {"proton-c": Path("broker"), "proton-python": _SCRIPT}
_DEB = re.compile(r"[^_]+_(?:\d+(?:%3a|:))?(?P<release>\d+(?:\.\d+)+)[^_]*_[^_]+\.deb")
_TOOL_WITHIN_S = 180


def home_of(name: str, version: str) -> Path:
    return cache_folder() / name / version


def installed(name: str) -> dict[str, Path]:
    """Return every release in the cache with its folder, newest last."""
    packages = [
        path for path in (cache_folder() / name).glob("[0-9]*") if (path / _PROGRAM[name]).is_file()
    ]
    return {
        folder.name: folder
        for folder in sorted(
            packages, key=lambda folder: [int(part) for part in folder.name.split(".")]
        )
    }


def install(name: str, version: str | None = None) -> Path:
    """Fetch, unpack and build what ``name`` needs, unless that has been done already; return its
    folder.

    ``version`` is a release (None: the newest in the cache, or else the one that apt offers).
    Raises :class:`SetUpFailed` if apt, dpkg-deb or a C compiler is missing, or if apt offers
    another release.
    """
    have = installed(name)
    if version is None and have:
        return list(have.values())[-1]
    if version is not None and version in have:
        return have[version]
    with locked(cache_folder() / name / "download"):
        # Fetch them first, because the names of the files show the release.
        fetched = cache_folder() / name / "download"
        shutil.rmtree(fetched, ignore_errors=True)
        fetched.mkdir(parents=True)
        try:
            debs = _download(_PACKAGES[name], fetched)
            release = _release(debs[0])
            if version not in {None, release}:
                raise SetUpFailed(
                    f"{name} {version}: apt offers only {release}; name that version or omit it"
                )
            return once(home_of(name, release), lambda folder: _made(name, debs, folder))
        finally:
            shutil.rmtree(fetched)


def _download(packages: Sequence[str], folder: Path) -> list[Path]:
    _run(["apt-get", "download", "-q", *packages], folder, "run apt-get update first")
    archives = [next(iter(folder.glob(f"{package}_*.deb")), None) for package in packages]
    if missing := [
        package for package, path in zip(packages, archives, strict=True) if path is None
    ]:
        raise SetUpFailed(
            f"{missing[0]}: apt-get download fetched no file of that name; run apt-get update first"
        )
    return [line for line in archives if line is not None]


def _release(deb: Path) -> str:
    match = _DEB.fullmatch(deb.name)
    if match is None:
        raise SetUpFailed(f"{deb.name}: should be named NAME_RELEASE_ARCH.deb")
    return match["release"]


def _made(name: str, debs: Sequence[Path], folder: Path) -> Path:
    home = folder / "home"
    for deb in debs:
        _run(["dpkg-deb", "-x", str(deb), str(home)], folder, "it is part of Debian's dpkg")
    if name == "proton-c":
        _compile(home)
    if not (home / _PROGRAM[name]).is_file():
        raise SetUpFailed(f"{debs[0].name}: contains no {_SCRIPT}; name another release")
    return home


def _compile(home: Path) -> None:
    library = next((home / "usr" / "lib").glob("*/libqpid-proton.so"), None)
    if library is None:
        raise SetUpFailed(
            f"{home.name}: Proton's packages contain no libqpid-proton.so; name another release"
        )
    # The folder is renamed afterwards, so the program must find the library by a relative path.
    beside = f"-Wl,-rpath,$ORIGIN/{library.parent.relative_to(home)}"
    command = [
        "cc",
        "-O2",
        "-w",
        "-o",
        str(home / "broker"),
        str(home / _SOURCE),
        f"-I{home}/usr/include",
    ]
    command += [f"-L{library.parent}", beside, "-lqpid-proton", "-lpthread"]
    _run(command, home, "it needs gcc, libc6-dev and libssl3")


def _run(command: Sequence[str], folder: Path, advice: str) -> None:
    tool = command[0]
    if shutil.which(tool) is None:
        raise SetUpFailed(f"Proton's example brokers need {tool} on the PATH; {advice}")
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            capture_output=True,
            text=True,
            timeout=_TOOL_WITHIN_S,
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        raise SetUpFailed(
            f"{' '.join(command)[:200]} took longer than {_TOOL_WITHIN_S} s; try again"
        ) from None
    if done.returncode != 0:
        words = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
        raise SetUpFailed(
            f"{' '.join(command)[:200]} failed ({words[-1] if words else 'it printed nothing'});"
            f" {advice}"
        )


class ProtonProcess(ManagedBroker):
    """One example broker, as a context manager that installs, starts and stops it.

    ``name`` is one of :data:`NAMES`, ``version`` a release of the examples (None: see
    :func:`install`). ``folder`` receives the log. If ``free``, the broker keeps running when the
    harness ends. Its only port is ``amqp``.
    """

    def __init__(
        self, name: str, folder: Path, version: str | None = None, *, free: bool = False
    ) -> None:
        if name not in NAMES:
            raise ValueError(f"name must be one of {', '.join(NAMES)}, not {name!r}")
        self._name, self._version, self._free = name, version, free
        self._folder = folder.absolute()

    @property
    def log(self) -> Path:
        """Return the broker's output, which contains only errors of its peers."""
        return self._folder / "console.log"

    def start(self) -> RunningBroker:
        """Install what is missing, start the broker and wait until it accepts connections.

        Raises :class:`SetUpFailed`, leaving nothing running.
        """
        if self._process is not None:
            raise SetUpFailed(
                f"{self._folder}: this broker has been started already; stop it first"
            )
        home = install(self._name, self._version)
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self.log.write_bytes(b"")
        except OSError as problem:
            raise SetUpFailed(
                f"{self._folder}: cannot be written ({problem.strerror}); use another folder"
            ) from None
        for attempt in range(1, TRIES + 1):
            port = free_ports(1)[0]
            try:
                pid = self._launch(home, port)
            except SetUpFailed as problem:
                if attempt < TRIES and re.search("in use", str(problem), re.IGNORECASE):
                    continue
                raise
            version = self._describe(home.name)
            return RunningBroker(
                version, "127.0.0.1", {"amqp": port}, pid, self._folder, self.log, "", ""
            )
        raise AssertionError("the last try returns or raises")

    def _describe(self, release: str) -> str:
        if self._name == "proton-c":
            return release
        return f"{importlib.metadata.version('python-qpid-proton')} (script of {release})"

    def _launch(self, home: Path, port: int) -> int:
        program = str(home / _PROGRAM[self._name])
        command = [program, "127.0.0.1", str(port)]
        if self._name == "proton-python":
            command = [sys.executable, program, "-a", f"127.0.0.1:{port}"]
        self._process = NativeProcess(
            command, folder=self._folder, console=self.log, grace_s=STOP_S, free=self._free
        )
        try:
            pid = self._process.start()
            self._process.wait_until_ready(
                lambda: listens("127.0.0.1", port), within_s=START_S, reason=self._last_line
            )
        except SetUpFailed:
            self._process = None
            raise
        return pid

    def _last_line(self) -> str:
        lines = self.log.read_text("utf-8", errors="replace").strip().splitlines()
        return lines[-1][:240] if lines else ""
