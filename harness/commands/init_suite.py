"""``brokerproof init-suite``: writes an installable package for your own conformance cases."""

import re
from importlib.resources import files
from pathlib import Path

import click

from brokerproof.harness.cases import case_index
from brokerproof.harness.catalogue.cases import SUITE_ALIASES
from brokerproof.harness.commands import errors

_NAME = "acme"
"""The name of the template's suite, which is replaced by the new name."""


@click.command("init-suite")
@click.argument("name")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder to create; never overwritten. Default: NAME-cases.",
)
def init_suite(name: str, out: Path | None) -> None:
    """Write a package for your own conformance cases, requirements and known deviations.

    Once it is installed alongside brokerproof, `brokerproof run` collects its suite NAME."""
    if not re.fullmatch(r"[a-z][a-z0-9]*", name):
        raise errors.Usage(f"NAME is {name!r}; use a short lower-case word such as acme")
    try:
        taken = {*case_index.suite_folders(), *SUITE_ALIASES}
    except case_index.NoIndex as problem:
        raise errors.Usage(str(problem)) from None
    if name in taken:
        raise errors.Usage(f"suite {name} already exists; choose another name")
    folder = out or Path(f"{name}-cases")
    if folder.exists():
        raise errors.Usage(f"{folder} exists; remove it, or name another folder with --out")
    template = Path(str(files("brokerproof.fixtures"))) / "suite_template"
    for source in sorted(template.rglob("*")):
        if source.suffix in (".txt", ".toml", ".md"):
            path = folder / _renamed(str(source.relative_to(template)).removesuffix(".txt"), name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_renamed(source.read_text("utf-8"), name), "utf-8")
    click.echo(
        f"{folder} was written; pip install -e {folder}, then brokerproof run --suite {name}"
    )


def _renamed(text: str, name: str) -> str:
    return text.replace(_NAME, name).replace(_NAME.upper(), name.upper())
