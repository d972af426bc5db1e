"""The process that starts brokers, when its child is faster than the process itself."""

import io
import os

import pytest

from brokerproof.suites.soak import process_forks


def test_the_id_of_a_process_precedes_all_that_it_prints(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    fork = os.fork
    children = []

    def slow_parent() -> int:
        child = fork()
        if child:
            os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)
            children.append(child)
        return child

    def broker(options: list[str]) -> None:
        os.write(1, f"ready with {options[0]}\n".encode())
        os._exit(0)

    monkeypatch.setattr(process_forks.os, "fork", slow_parent)
    monkeypatch.setattr(process_forks.os, "close", lambda descriptor: None)
    monkeypatch.setattr(process_forks.broker, "main", broker)
    monkeypatch.setattr(process_forks.sys, "stdin", io.StringIO('["first"]\n["second"]\n'))
    process_forks.main()
    os.waitpid(children[-1], 0)
    lines = capfd.readouterr().out.splitlines()
    assert lines == [
        str(children[0]), "ready with first", str(children[1]), "ready with second",
    ]  # fmt: skip
