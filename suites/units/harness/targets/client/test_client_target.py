"""Client libraries as targets: names, files and drivers; a real driver is judged."""

import re
from pathlib import Path

import pytest

from brokerproof.harness.cases.calls import all_calls
from brokerproof.harness.cases.execution import Run, execute
from brokerproof.harness.catalogue import requirements
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import shipped_targets, target_file
from brokerproof.harness.targets.client.target import ClientTarget
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.harness.trace.recorder import Recorder
from brokerproof.suites.repo.sources import ROOT

FIRST = "a_login_and_a_passcode_are_in_the_first_frame"  # a case for 1.0 only
HEADER = 'kind = "client"\nprofile = "stomp-client"\n'


def judged(target: ClientTarget, folder: Path, *cases: str) -> dict[str, Result]:
    facts = target.start(folder)
    try:
        recorder = Recorder(None, run="", target="client", clock=target.clock)
        run = Run(target, facts, requirements.load(), (), recorder, "smoke", 1)
        chosen = [call for call in all_calls() if call.case.name.endswith(cases)]
        return {
            call.id.partition(".stomp_")[2].partition(".")[2]: execute(run, call) for call in chosen
        }
    finally:
        target.stop()


def own(tmp_path: Path, driver: str, more: str = "") -> ClientTarget:
    (tmp_path / "my_driver.py").write_text(driver)
    path = tmp_path / "my.client.toml"
    path.write_text(HEADER + 'command = ["{python}", "{here}/my_driver.py"]\n' + more)
    target = target_file.load(str(path))
    assert isinstance(target, ClientTarget)
    assert target.identity.name == "my"
    return target


def test_an_unknown_client_is_answered_with_those_there_are() -> None:
    with pytest.raises(target_file.BadTarget, match=r"did you mean client:stomp\.py\?"):
        target_file.load("client:stompy")


def test_each_list_of_known_deviations_belongs_to_a_client() -> None:
    paths = [
        target_file.load(f"client:{name}").identity.deviations for name in shipped_targets.clients()
    ]
    known = (ROOT / "fixtures/clients/known").glob("*.toml")
    assert {path.resolve() for path in paths if path is not None} == {
        path.resolve() for path in known
    }


def test_a_shipped_driver_is_judged(tmp_path: Path) -> None:
    target = target_file.load("client:stomp.py")
    assert isinstance(target, ClientTarget)
    results = judged(target, tmp_path, "connect_names_versions_and_host")
    assert [result.verdict for result in results.values()] == [Verdict.PASS] * 2, results


def test_the_driver_of_the_how_to_guide_is_judged(tmp_path: Path) -> None:
    guide = (ROOT / "docs/how-to/judge-a-client.md").read_text("utf-8")
    driver, file = (re.search(rf"```{kind}\n(.*?)```", guide, re.S) for kind in ("python", "toml"))
    assert driver is not None
    assert file is not None
    target = own(tmp_path, driver[1], file[1].partition("\n\n")[2])
    results = judged(target, tmp_path, "ack_names_the_message", "nack_names_the_message", FIRST)
    assert {case: result.verdict for case, result in results.items()} == {
        FIRST: Verdict.SKIP,
        "ack_names_the_message[1.0]": Verdict.SKIP,
        "ack_names_the_message[1.1]": Verdict.SKIP,
        "ack_names_the_message[1.2]": Verdict.PASS,
        "nack_names_the_message[1.1]": Verdict.SKIP,
        "nack_names_the_message[1.2]": Verdict.SKIP,
    }


@pytest.mark.parametrize(
    ("driver", "sentence"),
    [
        ("raise SystemExit('no library here')", "no library here"),
        ("print('hello')", "did not report that it is ready"),
        ('print(\'{"saw": "connected"}\')', "it began with"),
    ],
)
def test_a_driver_that_is_not_ready_is_a_failed_set_up(
    tmp_path: Path, driver: str, sentence: str
) -> None:
    with pytest.raises(SetUpFailed, match=sentence):
        own(tmp_path, driver).start(tmp_path)


def test_a_command_that_is_not_there_is_a_failed_set_up(tmp_path: Path) -> None:
    path = tmp_path / "my.client.toml"
    path.write_text(HEADER + 'command = ["/nowhere/driver"]\n')
    with pytest.raises(SetUpFailed, match="/nowhere/driver cannot be run"):
        target_file.load(str(path)).start(tmp_path)


def test_a_driver_that_ends_leaves_its_case_open(tmp_path: Path) -> None:
    driver = 'import sys\nprint(\'{"saw": "ready"}\', flush=True)\nsys.stdin.readline()\n'
    results = judged(own(tmp_path, driver), tmp_path, FIRST)
    (result,) = results.values()
    assert result.verdict is Verdict.INCONCLUSIVE
    assert "the client opened no connection" in result.detail
