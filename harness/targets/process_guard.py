"""Guards a broker's process so that it cannot outlive the harness. This file is run as a script,
never imported.

``process_guard.py held|free GRACE_S CONSOLE COMMAND…`` starts COMMAND in its own session, appends
its output to the file CONSOLE, and prints one line: ``pid N``, or ``error TEXT``.

* ``held``: ends COMMAND (SIGTERM, then SIGKILL after GRACE_S seconds) as soon as standard input
  ends, as it does if the harness is killed, and exits as COMMAND did. If the guard itself is
  killed, the kernel kills COMMAND.
* ``free``: exits immediately; COMMAND continues.

The guard is a separate process, because the kernel's parent-death signal is sent when the *thread*
that started a process ends, and the harness starts brokers from threads.
"""

import ctypes
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

_PR_SET_PDEATHSIG = 1


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)


def _end(child: subprocess.Popen[bytes], grace_s: float) -> None:
    for number, patience in ((signal.SIGTERM, grace_s), (signal.SIGKILL, None)):
        try:
            os.killpg(child.pid, number)
            child.wait(patience)
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue
        return


def main() -> int:
    """Return the exit code of COMMAND or, if a signal killed it, 128 plus the signal's number."""
    mode, grace_s, console, *command = sys.argv[1:]
    held = mode == "held"
    with Path(console).open("ab") as out:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                start_new_session=True,
                preexec_fn=_die_with_parent if held else None,
            )
        except OSError as problem:
            print(f"error {problem}", flush=True)  # noqa: T201
            return 127
    print(f"pid {child.pid}", flush=True)  # noqa: T201
    if not held:
        return 0
    waiting = select.poll()
    done = os.pidfd_open(child.pid)
    waiting.register(done, select.POLLIN)
    waiting.register(sys.stdin.fileno(), select.POLLIN | select.POLLHUP)
    ready = {handle for handle, _ in waiting.poll()}
    if done not in ready:
        _end(child, float(grace_s))
    code = child.wait()
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main())
