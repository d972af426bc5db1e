"""Release rules: only pyproject.toml has the version number, and CHANGELOG.md is short and written
for users."""

import re
import tomllib

from brokerproof.suites.repo.sources import ROOT, texts

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
VERSION = PROJECT["version"]
CHANGELOG = (ROOT / "CHANGELOG.md").read_text("utf-8")
SHIPPED = ("harness/", "reference_broker/", "reports/", "action.yml", "Dockerfile", "mkdocs.yml")


def naming(version: str, files: dict[str, str]) -> list[str]:
    number = re.compile(rf"(?<![\d.]){re.escape(version)}(?![\d.])")
    shipped = (path for path in files if path.startswith(SHIPPED))
    return [path for path in shipped if number.search(files[path])]


def test_the_version_stands_in_one_place() -> None:
    assert not naming(VERSION, texts()), "import it: brokerproof.reference_broker.kernel.release"


def test_a_version_in_a_source_is_seen() -> None:
    files = {"harness/a.py": 'SERVER = "brokerproof/3.1.4"', "reports/b.py": '"13.1.4", "3.1.42"'}
    assert naming("3.1.4", files) == ["harness/a.py"]


def test_the_changelog_is_by_release_and_short() -> None:
    lines = CHANGELOG.splitlines()
    releases = [line.split()[1] for line in lines if line.startswith("## ")]
    assert releases[0] == VERSION
    assert len(lines) <= 120
    for release in CHANGELOG.split("\n## ")[1:]:
        headings = re.findall(r"^### (.+)$", release, re.MULTILINE)
        assert headings == sorted({"Added", "Changed", "Fixed", "What to do"} & {*headings})


def test_the_security_policy_names_the_supported_release() -> None:
    minor = VERSION.rpartition(".")[0]
    assert f"| {minor}" in (ROOT / "SECURITY.md").read_text("utf-8")


def test_ci_runs_the_declared_versions_of_python() -> None:
    label = "Programming Language :: Python :: "
    declared = [line.removeprefix(label) for line in PROJECT["classifiers"] if f"{label}3." in line]
    ci = (ROOT / ".github/workflows/ci.yml").read_text("utf-8")
    assert re.findall(r'"(3\.\d+)"', ci.partition("python: [")[2].partition("]")[0]) == declared
