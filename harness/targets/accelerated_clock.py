"""A clock that runs faster for one broker's process, by means of two preloaded libraries.

libfaketime replaces functions of the C library: clocks, sleeps, condition variables and polls
follow the accelerated time, so a time-out of a minute takes six seconds at a rate of ten. Debian
and most other distributions have the package ``libfaketime``. ``raw_waits.c``, compiled once into
the cache, handles the waits that libfaketime leaves at the host's rate.
``suites/interop/accelerated`` shows that the waits of Java and Erlang follow the accelerated clock.
"""

import hashlib
import os
import shutil
import subprocess
from collections.abc import Sequence
from importlib.resources import as_file, files
from pathlib import Path

from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed

FAKETIME = "libfaketimeMT.so.1"
"""The build of libfaketime for multi-threaded processes."""
_FOLDERS = ("/usr/lib/*/faketime", "/usr/lib*/faketime", "/usr/local/lib/faketime")
_COMPILE_S = 60


def prefix(rate: int) -> list[str]:
    """Return the words that precede a command whose process must see a clock at ``rate`` times the
    host's speed from its start; none for 1. Raises :class:`SetUpFailed`."""
    return [] if rate == 1 else _prefix(rate, _libraries())


def prefix_inside(rate: int, folder: Path, seen_as: Path | str) -> list[str]:
    """Return the words for a command that sees ``folder`` as ``seen_as`` and may see nothing else.
    The libraries are therefore copied into the folder. Raises :class:`SetUpFailed`."""
    if rate == 1:
        return []
    copies = [shutil.copy(library, folder) for library in _libraries()]
    return _prefix(rate, [f"{seen_as}/{Path(copy).name}" for copy in copies])


def _prefix(rate: int, preloaded: Sequence[Path | str]) -> list[str]:
    return [
        "env",
        f"LD_PRELOAD={':'.join(map(str, preloaded))}",
        f"FAKETIME=+0x{rate}",
        f"BROKERPROOF_CLOCK_RATE={rate}",
    ]


def _libraries() -> list[Path]:
    return [_raw_waits(), _faketime()]


def _faketime() -> Path:
    for pattern in _FOLDERS:
        for folder in sorted(Path("/").glob(pattern[1:])):
            if (folder / FAKETIME).is_file():
                return folder / FAKETIME
    raise SetUpFailed(
        f"clock_rate needs {FAKETIME}, which is not in {', '.join(_FOLDERS)}; install it with:"
        " apt-get install libfaketime"
    )


def _raw_waits() -> Path:
    with as_file(files("brokerproof.harness.targets").joinpath("raw_waits.c")) as source:
        digest = hashlib.sha256(source.read_bytes()).hexdigest()[:12]
        library = cache_folder() / "clock" / f"raw_waits-{digest}.so"
        return once(library, lambda folder: _compiled(source, folder / library.name))


def _compiled(source: Path, library: Path) -> Path:
    compiler = shutil.which(os.environ.get("CC", "cc"))
    if compiler is None:
        raise SetUpFailed("clock_rate needs a C compiler; install one, or set CC to its path")
    done = subprocess.run(
        [compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"],
        capture_output=True,
        text=True,
        timeout=_COMPILE_S,
        check=False,
    )
    if done.returncode:
        raise SetUpFailed(f"{source}: {compiler} cannot compile it ({done.stderr[:300]})")
    return library
