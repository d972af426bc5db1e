"""Command lines in documents, workflows and the Dockerfile: their commands and options exist."""

import configparser
import re
import shlex
from collections.abc import Iterator

import click
import pytest
import yaml

from brokerproof.harness.commands.cli import cli
from brokerproof.suites.repo.sources import ROOT, texts

FENCED = re.compile(r"^```(?:sh|text|console)\n(.*?)^```", re.MULTILINE | re.DOTALL)
CALL = re.compile(r"(?:^|[\s;(/])brokerproof ((?!of\b|will\b)[a-z][a-z-]*(?:[ \t][^\n]*)?)")
WORKFLOWS = (
    "action.yml",
    ".github/workflows/ci.yml",
    *(path.relative_to(ROOT).as_posix() for path in sorted((ROOT / "docs/examples").glob("*.yml"))),
)
DOCUMENTS = sorted(
    path for path in texts() if path.endswith(".md") and path not in ("CHANGELOG.md",)
)


def problems(line: str) -> Iterator[str]:
    """Yield one sentence for each command or option of ``line`` that does not exist."""
    for found in CALL.finditer(line):
        lexer = shlex.shlex(found.group(1), posix=True, punctuation_chars="|;&><()")
        lexer.whitespace_split = True
        words = []
        for word in lexer:
            if word[0] in "|;&><()#":
                break
            words.append(word)
        command: click.Command = cli
        context = click.Context(cli, info_name="brokerproof")
        while isinstance(command, click.Group) and words:
            name = words.pop(0)
            inner = command.get_command(context, name)
            if inner is None:
                yield f"`brokerproof {found.group(1)}`: there is no command {name}"
                return
            command = inner
        known = {option for parameter in command.params for option in parameter.opts}
        known |= {"--help", "-h"}
        for word in words:
            option = re.match(r"--?[a-zA-Z][\w-]*", word)
            if option and option.group() not in known:
                yield f"`brokerproof {found.group(1)}`: there is no option {option.group()}"


def runs(node: object) -> Iterator[str]:
    """Return the shell lines of a workflow: ``run``, ``script`` and ``after_script``."""
    if isinstance(node, dict):
        for key, value in node.items():
            if key in ("run", "script", "before_script", "after_script"):
                yield from [value] if isinstance(value, str) else value
            else:
                yield from runs(value)
    elif isinstance(node, list):
        for value in node:
            yield from runs(value)


@pytest.mark.parametrize("document", DOCUMENTS)
def test_a_document_shows_commands_that_exist(document: str) -> None:
    blocks = "\n".join(FENCED.findall(texts()[document])).replace("\\\n", " ")
    wrong = [problem for line in blocks.splitlines() for problem in problems(line)]
    assert not wrong, f"{document}: {'; '.join(wrong)}"


@pytest.mark.parametrize("workflow", WORKFLOWS)
def test_a_workflow_runs_commands_that_exist(workflow: str) -> None:
    lines = list(runs(yaml.safe_load((ROOT / workflow).read_text())))
    assert any("brokerproof" in line for line in lines), "does it run anything of ours?"
    wrong = [problem for text in lines for line in text.splitlines() for problem in problems(line)]
    assert not wrong, f"{workflow}: {'; '.join(wrong)}"


def test_the_action_uses_the_inputs_that_it_has() -> None:
    text = (ROOT / "action.yml").read_text()
    declared = set(yaml.safe_load(text)["inputs"])
    assert set(re.findall(r"inputs\.([\w-]+)", text)) == declared
    for path in (ROOT / "docs/examples").glob("github-*.yml"):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            for step in job["steps"]:
                if "brokerproof/" in step.get("uses", ""):
                    assert set(step["with"]) <= declared


def test_the_image_copies_what_is_there_and_starts_the_command() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    entry = next(line for line in lines if line.startswith("ENTRYPOINT"))
    environment = re.search(r"-m venv (\S+)", "\n".join(lines))
    assert environment is not None
    assert f'["{environment.group(1)}/bin/brokerproof"]' in entry
    assert len({line.split()[1] for line in lines if line.startswith("FROM")}) == 1


def test_contributing_lists_the_default_environments_first() -> None:
    tox = configparser.ConfigParser(interpolation=None)
    tox.read(ROOT / "tox.ini", "utf-8")
    section = texts()["CONTRIBUTING.md"].partition("## Ten tox environments")[2].partition("\n## ")
    listed = re.findall(r"^\| `([\w-]+)` \|", section[0], re.MULTILINE)
    assert len(listed) == 10
    assert listed[:6] == tox["tox"]["env_list"].split(", ")
    assert not [name for name in listed if f"testenv:{name}" not in tox]


def test_a_stale_command_is_seen() -> None:
    assert list(problems("brokerproof judgement x"))
    assert list(problems("brokerproof run --target x --ficticious 1"))
    assert not list(problems("brokerproof run --target x -x | tee --bogus"))
