"""Legal styles, judged by their addresses alone: none gets a FAIL.

With BROKERPROOF_MINI_BROKERS=all every case runs, otherwise some of the STOMP cases that the
choices affect; BROKERPROOF_MINI_BROKERS_SEED draws other examples.
"""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.results.verdict import NEVER_JUDGED
from brokerproof.suites.mini_brokers.judging import judge
from brokerproof.suites.mini_brokers.styles import STYLES
from brokerproof.suites.mini_brokers.test_mini_brokers import AT_ONCE, SEED, SUITES, WHOLE
from brokerproof.suites.mini_brokers.test_scripts import mini_broker

TOUCHED = (
    r"stomp\.(ack|errors|nack|heart_beats|receipts|subscribe|unsubscribe|send|message_frames|escapes"
    r"|bodies\.content_length|transactions\.a_name_in_use|negotiation|connecting)"
)
"""Cases that the styles' choices affect."""
WRONG = {Verdict.FAIL, Verdict.ERROR}
"""A WARN is not wrong: it names a recommendation that the style does not follow."""
OF_THE_HOST = ("the host was late", "within the margin of")  # may leave a case undecided
LEAST = 40
"""The least number of cases that a server of one version passes."""


def results_of(name: str, folder: Path, touched: str = TOUCHED) -> list[Result]:
    calls = [
        call
        for call in all_calls()
        if call.case.suite in SUITES and (WHOLE or re.match(touched, call.id))
    ]
    folder.mkdir()
    with mini_broker(name) as address:
        return judge(address, calls, folder, SEED)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Result]]:
    folder = tmp_path_factory.mktemp("styles")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        judged = pool.map(lambda name: results_of(name, folder / name), STYLES)
        return dict(zip(STYLES, judged, strict=True))


def is_wrong(result: Result) -> bool:
    if result.verdict is Verdict.INCONCLUSIVE:
        return not any(reason in result.detail for reason in OF_THE_HOST)
    return result.verdict in WRONG or NEVER_JUDGED in result.detail


@pytest.mark.parametrize("name", STYLES)
def test_no_legal_style_is_accused(name: str, results: dict[str, list[Result]]) -> None:
    accused = {
        result.case: f"{result.verdict} {result.detail}"
        for result in results[name]
        if is_wrong(result)
    }
    assert not accused
    judged = [result for result in results[name] if result.verdict is not Verdict.SKIP]
    passed = sum(result.verdict is Verdict.PASS for result in judged)
    assert passed >= max(LEAST, len(judged) // 4), f"{passed} of {len(judged)} cases passed"


def test_a_producer_may_wait_for_a_reader(tmp_path: Path) -> None:
    stalled = r"flow\.stalled_readers\.a_client_that_does_not_read_holds_up_nobody"
    results = results_of("patient", tmp_path / "patient", stalled)
    assert {result.verdict for result in results} == {Verdict.PASS}
