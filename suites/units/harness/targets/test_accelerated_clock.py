"""Libraries that accelerate a broker's clock are found, compiled once, and named in its
environment."""

import subprocess
import sys
from pathlib import Path

import pytest

from brokerproof.harness.targets import accelerated_clock
from brokerproof.harness.targets.failure import SetUpFailed

RATE = 1000
ASKED_S = 600
WAITS = f"""
import select, time
began = time.monotonic()
time.sleep({ASKED_S})
select.select([], [], [], {ASKED_S})
print(time.monotonic() - began)
"""


def _installed() -> bool:
    try:
        accelerated_clock.prefix(RATE)
    except SetUpFailed:
        return False
    return True


needs_libraries = pytest.mark.skipif(
    not _installed(), reason="needs libfaketime and a C compiler: apt-get install libfaketime gcc"
)


@needs_libraries
def test_a_process_waits_on_the_accelerated_clock() -> None:
    """Twenty minutes of sleep and select calls end within the time limit of the process."""
    done = subprocess.run(
        [*accelerated_clock.prefix(RATE), sys.executable, "-c", WAITS],
        capture_output=True,
        timeout=ASKED_S / 2,
        check=True,
        text=True,
    )
    assert float(done.stdout) >= 2 * ASKED_S


TIMER = """
#include <stdint.h>
#include <stdio.h>
#include <sys/timerfd.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

int main(void)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), word = 0;
    struct itimerspec after = {{0, 0}, {600, 0}};
    struct timespec span = {600, 0};
    uint64_t times;
    timerfd_settime(timer, 0, &after, 0);
    if (read(timer, &times, sizeof times) != sizeof times)
        return 1;
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &span, 0, 0);
    return printf("waited") != 6;
}
"""


@needs_libraries
def test_timers_behind_descriptors_and_raw_futexes_keep_it_too(tmp_path: Path) -> None:
    """Ten minutes of each end within the time limit of the process."""
    (tmp_path / "timer.c").write_text(TIMER, "ascii")
    subprocess.run(["cc", "-o", tmp_path / "timer", tmp_path / "timer.c"], check=True)
    done = subprocess.run(
        [*accelerated_clock.prefix(RATE), tmp_path / "timer"],
        capture_output=True,
        timeout=ASKED_S / 2,
        check=True,
    )
    assert done.stdout == b"waited"


@needs_libraries
def test_the_library_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path))
    first = accelerated_clock._raw_waits()
    made = first.stat().st_mtime_ns
    monkeypatch.setenv("CC", "no-such-compiler")
    assert accelerated_clock._raw_waits() == first
    assert first.stat().st_mtime_ns == made


def test_a_missing_compiler_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BROKERPROOF_CACHE", str(tmp_path))
    monkeypatch.setenv("CC", "no-such-compiler")
    with pytest.raises(SetUpFailed, match="needs a C compiler; install one, or set CC to its"):
        accelerated_clock.prefix(RATE)


def test_a_missing_libfaketime_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerated_clock, "_FOLDERS", (f"{tmp_path}/none",))
    monkeypatch.setattr(accelerated_clock, "_raw_waits", lambda: tmp_path / "raw_waits.so")
    with pytest.raises(SetUpFailed, match=r"libfaketimeMT\.so\.1.*apt-get install libfaketime"):
        accelerated_clock.prefix(RATE)


def test_a_broker_on_the_hosts_clock_is_started_as_it_is(tmp_path: Path) -> None:
    assert accelerated_clock.prefix(1) == []
    assert accelerated_clock.prefix_inside(1, tmp_path, "/inside") == []
    assert not list(tmp_path.iterdir())
