"""Drivers as processes on this machine."""

import subprocess
import sys


class LocalDrivers:
    """One process per driver, in its own session so that an interrupt from the terminal does not
    reach it."""

    def __init__(self) -> None:
        self._processes: list[subprocess.Popen[bytes]] = []

    def host(self) -> str:
        return "127.0.0.1"

    def start(self, address: str, token: str, drivers: int) -> None:
        command = [sys.executable, "-P", "-m", "brokerproof.harness.load.worker", address, token]
        self._processes = [
            subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, start_new_session=True
            )
            for _ in range(drivers)
        ]

    def problem(self) -> str:
        codes = [process.poll() for process in self._processes]
        # a driver that exits with code 3 reports the reason itself
        failed = [code for code in codes if code not in (None, 0, 3)]
        return f"a driver ended with exit code {failed[0]}" if failed else ""

    def stop(self) -> None:
        for process in self._processes:
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
