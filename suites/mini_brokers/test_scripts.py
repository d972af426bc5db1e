"""The scripts of a counterexample, and ``brokerproof replay``. On the faulty mini-broker each
script reproduces the violation (exit 1); on the honest one each confirms the fix (exit 0)."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.counterexamples import case_file
from brokerproof.suites.mini_brokers.judging import judge, write_target

KINDS = {
    "never-beats": (r"the_server_beats_as_agreed\[1.2\]", "signs"),
    "closes-early": (r"a_client_that_beats_as_agreed.*\[1.2\]", "open"),
    "closes-never": (r"what_is_said_when_the_ttl_ends", "end"),
    "window-ignored": (r"what_is_sent_while_the_window_is_shut", "window"),
    "window-not-refilled": (r"messages_flow_until_their_octets_reach", "window"),
    "order-lost": (r"what_comes_back_goes_before_what_waits", "messages"),
    "acknowledged-again": (r"what_was_acknowledged_is_gone_for_good", "messages"),
    "receipt-early": (r"a_frame_that_failed_gets_no_receipt\[1.2\]", "absence"),
    "receipt-never": (r"any_value_comes_back_as_receipt_id\[1.2\]", "frame"),
    "colon-not-escaped": (r"any_header_text_survives_from_send_to_message\[1.2\]", "frame"),
}
"""For each fault, the case that finds it and the kind of its expectation."""
REPLAY = (sys.executable, "-m", "brokerproof.harness.commands.cli", "replay")
AT_ONCE = 4
"""The number of brokers and scripts that run at the same time: they mostly wait."""


@contextmanager
def mini_broker(name: str) -> Iterator[str]:
    """Yield the address of a mini-broker in a separate process."""
    command = [sys.executable, "-m", "brokerproof.suites.mini_brokers", name, "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{json.loads(process.stdout.readline())['acceptors']['stomp']}"
        finally:
            process.terminate()


def found(name: str, folder: Path) -> Path:
    """Return the case file of the counterexample for one mini-broker."""
    calls = [call for call in all_calls() if re.search(KINDS[name][0], call.id) is not None]
    folder.mkdir()
    judge(str(write_target(name, folder)), calls, folder, counterexamples=folder)
    [path] = folder.glob(f"*{case_file.SUFFIX}")
    return path


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("scripts")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        files = list(pool.map(lambda name: found(name, folder / name), KINDS))
    return dict(zip(KINDS, files, strict=True))


@pytest.fixture(scope="module")
def answers(kept: dict[str, Path]) -> dict[tuple[str, str], dict[str, tuple[int, str]]]:
    """Return the result and the output of each script and way of replaying, by fault and broker."""

    def asked(pair: tuple[str, str]) -> dict[str, tuple[int, str]]:
        name, broker = pair
        path = kept[name]
        stem = path.name.removesuffix(case_file.SUFFIX)
        target = str(write_target(broker, path.parent))
        result = {}
        with mini_broker(broker) as address:
            for suffix in ("_raw.py", "_stompy.py"):
                script = path.with_name(stem + suffix)
                if script.exists():
                    result[suffix] = run([sys.executable, str(script), address])
        result["replay"] = run([*REPLAY, str(path), "--target", target])
        result["replay --bytes"] = run([*REPLAY, str(path), "--target", target, "--bytes"])
        return result

    pairs = [(name, broker) for name in KINDS for broker in (name, "honest")]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(pairs, pool.map(asked, pairs), strict=True))


def run(command: list[str]) -> tuple[int, str]:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize("name", KINDS)
def test_the_expectation_is_kept_in_the_form_that_scripts_check(
    name: str, kept: dict[str, Path]
) -> None:
    conversation = case_file.read(kept[name]).conversation
    assert conversation is not None
    assert conversation.expected["kind"] == KINDS[name][1]


@pytest.mark.parametrize("name", KINDS)
def test_each_script_shows_the_violation_again_on_the_faulty_broker(
    name: str, answers: dict[tuple[str, str], dict[str, tuple[int, str]]]
) -> None:
    assert "_raw.py" in answers[name, name]
    for script, (status, printed) in answers[name, name].items():
        assert status == 1, f"{script}: {printed[-2000:]}"


@pytest.mark.parametrize("name", KINDS)
def test_each_script_confirms_the_fix_on_the_honest_broker(
    name: str, answers: dict[tuple[str, str], dict[str, tuple[int, str]]]
) -> None:
    for script, (status, printed) in answers[name, "honest"].items():
        assert status == 0, f"{script}: {printed[-2000:]}"
