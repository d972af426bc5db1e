"""The brokerproof command: a complete run, its exit codes, and one sentence for each error."""

import contextlib
import io
import json
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from brokerproof.harness.commands import cli, errors, judging, run
from brokerproof.harness.model.verdicts import Verdict
from brokerproof.harness.results import records, run_folder
from brokerproof.harness.results.records import Result
from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target import Target
from brokerproof.suites.units.drivers import toml_tables
from brokerproof.suites.units.drivers.commands import command

TABLES = toml_tables.beside(__file__)


def brokerproof(line: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(line), cwd=cwd, capture_output=True, text=True, timeout=120, check=False
    )


def here(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in this process: starting another takes longer than most commands."""
    out, err = io.StringIO(), io.StringIO()
    with (
        pytest.MonkeyPatch.context() as patched,
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        patched.setattr(sys, "argv", ["brokerproof", *arguments])
        with pytest.raises(SystemExit) as leaving:
            cli.main()
    assert isinstance(leaving.value.code, int)
    return subprocess.CompletedProcess(
        arguments, leaving.value.code, out.getvalue(), err.getvalue()
    )


def test_a_run_end_to_end_and_then_resumed(tmp_path: Path) -> None:
    line = "run --target reference --suite flow --effort smoke --seed 3 --no-report"
    cases = "chapter or (consumer_window and minus_one)"
    ran = brokerproof(f"{line} --case '{cases}' --out run --json", tmp_path)
    assert ran.returncode == 0, ran.stderr
    summary = json.loads(ran.stdout)
    assert summary["verdicts"] == {"PASS": 2}
    header = json.loads((tmp_path / "run" / "run.json").read_text())
    assert header["footer"]["exit_code"] == 0
    assert [target["name"] for target in header["targets"]] == ["reference"]
    assert list((tmp_path / "run" / "trace" / "target=reference").glob("part-*.parquet"))
    # cut the last line, as a kill would
    path = tmp_path / "run" / records.NAME
    first, second = path.read_text().splitlines(keepends=True)
    path.write_text(first + second[:30])
    with run_folder.alone(tmp_path / "run"):
        beside = brokerproof("run --out run --resume", tmp_path)
    assert beside.returncode == 4
    assert "run: a run is being written there" in beside.stderr
    assert "footer" in run_folder.read(tmp_path / "run"), "it was left alone"
    again = brokerproof("run --out run --resume --no-report", tmp_path)  # as requested
    assert again.returncode == 0, again.stderr
    assert again.stdout.strip() == "run"
    assert len(list(records.read(tmp_path / "run"))) == 2
    path.write_text("garbled\n" + path.read_text())
    other = brokerproof("run --out run --resume --seed 4", tmp_path)
    assert other.returncode == 4
    assert "has seed 3; omit --seed" in other.stderr
    garbled = brokerproof(f"{line} --out run --resume", tmp_path)
    assert garbled.returncode == 4
    assert "results.ndjson, line 1: is not a result" in garbled.stderr


@pytest.mark.parametrize(("arguments", "code", "words"), TABLES["refused"])
def test_what_is_wrong_is_said_in_one_sentence(
    tmp_path: Path, arguments: tuple[str, ...], code: int, words: str
) -> None:
    ran = here(*arguments, cwd=tmp_path)
    assert ran.returncode == code
    assert words in " ".join(ran.stderr.replace("│", " ").split())
    assert "Traceback" not in ran.stderr


TARGET = (
    'kind = "virtual"\nprofile = "artemis"\nfactory ='
    ' "brokerproof.reference_broker.runtime.virtual:make"\nconfig = "broker.xml"\n'
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("kind = ", "is not TOML"),
        ('kind = "magic"', "kind is 'magic'; it should be one of virtual, process, artemis, "),
        (TARGET + 'color = "blue"', "unknown key 'color'"),
        (TARGET.replace('"artemis"', '"artemiss"'), "artemiss"),
        (TARGET, "there is no file"),
        (TARGET.replace('config = "broker.xml"\n', ""), "config is missing"),
        (
            'kind = "address"\nprofile = "stomp"\nendpoints = { stomp = "nowhere" }',
            "endpoints.stomp is 'nowhere', which is not a valid HOST:PORT or URL",
        ),
    ],
)
def test_a_wrong_target_file_is_named(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "my.target.toml").write_text(text)
    ran = here("run", "my.target.toml", "--out", "x", cwd=tmp_path)
    assert ran.returncode == 4
    assert "my.target.toml" in ran.stderr
    assert words in " ".join(ran.stderr.split())


@pytest.mark.parametrize("how", [("--out", "x"), ("--dry-run",)])
def test_a_target_that_names_a_case_that_does_not_exist_is_refused(
    tmp_path: Path, how: tuple[str, ...]
) -> None:
    """Otherwise a run would silently judge nothing."""
    text = 'kind = "address"\nprofile = "stomp"\nendpoints = { stomp = "127.0.0.1:1" }\n'
    named = 'cases = ["stomp.no.such[1.2]"]\nothers_judged_on = "artemis"\n'
    (tmp_path / "my.target.toml").write_text(text + named)
    ran = here("run", "--target", "my.target.toml", *how, cwd=tmp_path)
    assert ran.returncode == 4
    assert "target my: cases has 'stomp.no.such[1.2]', which is not a case" in " ".join(
        ran.stderr.split()
    )


def test_an_unknown_setting_of_the_broker_is_a_failed_set_up(tmp_path: Path) -> None:
    (tmp_path / "my.target.toml").write_text(TARGET)
    (tmp_path / "broker.xml").write_text(
        '<configuration xmlns="urn:activemq"><core'
        ' xmlns="urn:activemq:core"><colour>blue</colour></core></configuration>'
    )
    ran = here(
        "run", "--target", "my.target.toml", "--suite", "openwire", "--out", "x", cwd=tmp_path
    )
    assert ran.returncode == 3
    assert "broker.xml, line 1" in ran.stderr
    assert "colour" in ran.stderr


def test_the_doctor_and_the_lists_speak_json(tmp_path: Path) -> None:
    checks = json.loads(here("doctor", "--json", cwd=tmp_path).stdout)
    assert {"Python", "pyspark"} <= {check["name"] for check in checks}
    for name in ("list", "requirements"):
        rows = json.loads(here(name, "--source", "stomp12", "--json", cwd=tmp_path).stdout)
        assert {row["id"] for row in rows} >= {"STOMP12-HB-09"}
    for name in ("explain", "requirements"):
        facts = json.loads(here(name, "STOMP12-HB-09", "--json", cwd=tmp_path).stdout)
        assert facts["cases"]
    named = json.loads(here("targets", "--json", cwd=tmp_path).stdout)
    assert {"artemis", "reference", "rabbitmq3"} <= {target["name"] for target in named}
    assert len({target["description"] for target in named}) == len(named), (
        "what tells two of them apart?"
    )


PLAIN = """<configuration xmlns="urn:activemq"><core xmlns="urn:activemq:core">
<security-enabled>false</security-enabled>
<acceptors><acceptor name="stomp">tcp://127.0.0.1:61613?protocols=STOMP</acceptor></acceptors>
</core></configuration>"""


def test_nothing_worse_than_inconclusive_may_be_let_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def undecided(
        console: object, target: Target, arguments: object, folder: Path, *_: object
    ) -> None:
        run_folder.add_cases(folder, {"stomp.a": {}})
        cited = ("STOMP12-HB-09",)
        records.append(
            folder, Result("stomp.a", target.identity.name, cited, Verdict.INCONCLUSIVE, "late")
        )

    monkeypatch.setattr(judging, "_judge", undecided)
    (tmp_path / "my.target.toml").write_text(TARGET)
    (tmp_path / "broker.xml").write_text(PLAIN)
    arguments = ("run", "--target", "my.target.toml", "--no-report")
    assert here(*arguments, "--out", "a", cwd=tmp_path).returncode == 2
    assert here(*arguments, "--out", "b", "--inconclusive-ok", cwd=tmp_path).returncode == 0


def test_what_was_interrupted_says_how_it_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(judging, "_judge", interrupted)
    folder = tmp_path / "my run"
    with pytest.raises(
        errors.Interrupted, match=r"brokerproof run --resume --out '.*my run' continues it"
    ) as caught:
        run.run.main(["--target", "reference", "--out", str(folder)], standalone_mode=False)
    assert caught.value.exit_code == 130
    assert run_folder.read(folder)["asked"] == {
        "targets": ["reference"],
        "suites": [],
        "selection": {"cases": [], "exclude": [], "requirements": [], "areas": []},
    }


def test_a_run_that_came_to_nothing_begins_again_in_its_folder(tmp_path: Path) -> None:
    def begin() -> None:
        run_folder.create(tmp_path, command=[], seed=1, effort="normal")

    begin()
    with pytest.raises(run_folder.BadRunFolder, match="already holds a run"):
        begin()  # a load's, for example
    run_folder.write_header_field(tmp_path, "asked", {})
    run_folder.add_cases(tmp_path, {"stomp.a": {}})
    (tmp_path / "logs").mkdir()
    with (
        run_folder.alone(tmp_path),
        pytest.raises(run_folder.BadRunFolder, match="is being written"),
    ):
        begin()
    begin()
    assert not run_folder.cases_of(tmp_path), "other cases may be asked for now"
    run_folder.write_header_field(tmp_path, "asked", {})
    (tmp_path / records.NAME).touch()
    with pytest.raises(run_folder.BadRunFolder, match="already holds a run"):
        begin()


def test_what_is_no_run_has_nothing_to_recover(tmp_path: Path) -> None:
    ran = here("recover", str(tmp_path), cwd=tmp_path)
    assert ran.returncode == 4
    assert "should be a run folder" in ran.stderr


@pytest.mark.parametrize(
    ("free", "kind", "words"),
    [
        (2**30, errors.Ours, "reference ended early: 1 cases have no result, stomp.a first"),
        (
            4096,
            errors.SetUp,
            "its disk is full; make room, then continue: brokerproof run --resume",
        ),
    ],
)
def test_a_full_disk_is_not_our_own_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, kind: type[Exception], words: str
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    run_folder.add_cases(tmp_path, {"stomp.a": {}})
    with pytest.raises(kind, match=words):
        judging._complete(target_file.load("reference"), tmp_path)
