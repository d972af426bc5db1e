"""Our own Debian systems in the cache folder, for broker releases that this machine's system lacks.

``debootstrap`` creates a chroot once and installs one package in it. Programs in the chroot have
their own mounts and root folder (``unshare``, ``chroot``), but share this machine's network and
processes: they use its ports and can be ended like any other process. All this needs root
privileges.
"""

import os
import shutil
import subprocess
from pathlib import Path

from brokerproof.harness.targets.cache import cache_folder, once
from brokerproof.harness.targets.failure import SetUpFailed

FOLDER = Path("/srv")
"""Where the folder for a chroot's processes is mounted in it."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

_MOUNTS = (
    'for folder in proc dev sys; do mount --rbind "/$folder" "$0/$folder" || exit 125; done; '
    'mount --rbind "$1" "$0/srv" || exit 125; shift; exec chroot "$0" "$@"'
)
_INSTALL = (
    'for folder in proc dev sys; do mount --rbind "/$folder" "$0/$folder" || exit 125; done; '
    'exec chroot "$0" apt-get install --yes --quiet --no-install-recommends "$1"'
)


def home_of(suite: str, package: str) -> Path:
    """Return the chroot of that Debian release with that package; it may not exist yet."""
    return cache_folder() / "debian" / f"{suite}-{package}"


def install(suite: str, package: str) -> Path:
    """Return a chroot of Debian ``suite`` with ``package``, created unless it exists. Creating one
    takes about 45 s, a download of 90 MB, and 250 MB of disk space.

    ``BROKERPROOF_DEBIAN_MIRROR`` replaces debootstrap's own mirror. Raises :class:`SetUpFailed`.
    """
    return once(home_of(suite, package), lambda folder: _make(folder / "root", suite, package))


def entering(root: Path, folder: Path) -> list[str | Path]:
    """Return the words that precede a command to run it in ``root``, where it sees ``folder`` as
    :data:`FOLDER`.

    The command replaces the started program and keeps its process id.
    """
    return ["unshare", "--mount", "sh", "-c", _MOUNTS, root, folder]


def can_enter(what: str) -> None:
    """Raise :class:`SetUpFailed`, saying that ``what`` needs it, if this process cannot enter a
    chroot."""
    if os.geteuid() != 0:
        raise SetUpFailed(
            f"{what}: only root can create and enter a Debian root; run as root, or use another"
            " target"
        )
    for tool, package in (("unshare", "util-linux"), ("chroot", "coreutils")):
        if shutil.which(tool, path=PATH) is None:
            raise SetUpFailed(f"{what}: needs {tool}; install it with: apt-get install {package}")


def _make(root: Path, suite: str, package: str) -> Path:
    what = f"Debian {suite} with {package}"
    can_enter(what)
    if shutil.which("debootstrap", path=PATH) is None:
        raise SetUpFailed(
            f"{what}: needs debootstrap; install it with: apt-get install debootstrap"
        )
    mirror = os.environ.get("BROKERPROOF_DEBIAN_MIRROR")
    _run(what, ["debootstrap", "--variant=minbase", suite, root, *([mirror] if mirror else [])])
    # A package must not start its service while it is being installed.
    policy = root / "usr" / "sbin" / "policy-rc.d"
    policy.write_text("#!/bin/sh\nexit 101\n", "ascii")
    policy.chmod(0o755)
    (root / "etc" / "hosts").write_text("127.0.0.1 localhost\n", "ascii")
    _run(what, ["unshare", "--mount", "sh", "-c", _INSTALL, root, package])
    for name in ("var/cache/apt", "var/lib/apt/lists", "usr/share/locale", "usr/share/doc"):
        shutil.rmtree(root / name, ignore_errors=True)
    return root


def _run(what: str, command: list[str | Path]) -> None:
    environment = {
        **os.environ,
        "DEBIAN_FRONTEND": "noninteractive",
        "LC_ALL": "C.UTF-8",
        "PATH": PATH,
    }
    done = subprocess.run(
        command,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    if done.returncode:
        output = done.stdout.decode("utf-8", "replace").strip().splitlines()
        wrong = [
            line for line in output if line.startswith(("E:", "W: Failure", "unshare:", "mount:"))
        ] or output[-1:]
        raise SetUpFailed(
            f"{what}: could not be created; {Path(str(command[0])).name} ended with exit code"
            f" {done.returncode} ({wrong[0] if wrong else 'it printed nothing'}); it needs root,"
            " mounts and a Debian mirror"
        )
