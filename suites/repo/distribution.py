"""Checks what users install, outside the checkout: ``tox -e distribution``.

The installed wheel has one top-level package that does not collide with PyPI's package
``fixtures``. It contains everything that runs and judges, but no test of this repository, and all
its modules can be imported. If the repository's folder is given as an argument, a clone without
symbolic links and an unpacked sdist are also installed as editable, each in its own environment.
"""

import importlib
import subprocess
import sys
import tarfile
import tempfile
import venv
from importlib.metadata import distribution
from pathlib import Path, PurePosixPath

TESTS_OF_OURS = ("browser", "fuzz", "interop", "repo", "scale", "soak", "units")
"""Folders of ``suites`` that are only needed in a checkout."""
LOADED_ELSEWHERE = ("__main__", "own_tests_driver")
"""Programs: an import would run them."""
DRIVERS = "brokerproof/harness/clients/drivers/"
"""Programs for their own interpreters, which find the files next to them."""


def shipped() -> list[str]:
    """Return the paths of the installed wheel's own files."""
    files = [path.as_posix() for path in distribution("brokerproof").files or ()]
    return [path for path in files if ".dist-info/" not in path and not path.startswith("../")]


def misplaced(paths: list[str]) -> list[str]:
    """Return one sentence for each file that does not belong in the wheel or is missing from it."""
    outside = [
        f"{path} is outside brokerproof/: map its folder in [tool.hatch.build.targets.wheel]"
        for path in paths
        if not path.startswith("brokerproof/")
    ]
    ours = tuple(f"brokerproof/suites/{folder}/" for folder in TESTS_OF_OURS)
    seeded = ("brokerproof/suites/mutation/", "brokerproof/suites/mini_brokers/")
    tests = [
        f"{path} is shipped and tests this repository: exclude it from the wheel in pyproject.toml"
        for path in paths
        if path.startswith(ours)
        or (path.startswith(seeded) and PurePosixPath(path).name.startswith("test_"))
    ]
    untyped = ["brokerproof/py.typed is missing: type checkers ignore the package without it"]
    return outside + tests + ([] if "brokerproof/py.typed" in paths else untyped)


def broken_imports(paths: list[str]) -> list[str]:
    """Return one sentence for each module of the wheel that cannot be imported."""
    names = [
        ".".join(PurePosixPath(path).with_suffix("").parts).removesuffix(".__init__")
        for path in paths
        if path.endswith(".py")
        and PurePosixPath(path).stem not in LOADED_ELSEWHERE
        and not path.startswith(DRIVERS)
    ]
    broken = []
    for name in names:
        try:
            importlib.import_module(name)
        except ImportError as error:
            broken.append(f"{name} cannot be imported: {error}; ship what it needs, or exclude it")
    if len(names) < 500:
        broken.append(f"the wheel has {len(names)} modules: folders are missing")
    return broken


def collisions() -> list[str]:
    """Return a sentence if PyPI's package ``fixtures`` and ours collide."""
    theirs, ours = (
        importlib.import_module("fixtures"),
        importlib.import_module("brokerproof.fixtures"),
    )
    if not hasattr(theirs, "Fixture"):
        return [f"{theirs.__file__} is not PyPI's package fixtures"]
    if ours.__file__ == theirs.__file__:
        return ["brokerproof.fixtures and PyPI's fixtures are one module"]
    return []


def editable(source: Path, folder: Path) -> Path:
    """Install ``source`` as editable into a new environment below ``folder``, with the dependencies
    of this process; return the environment's Python."""
    venv.create(folder, with_pip=False)
    python = folder / "bin" / "python"
    [site] = folder.glob("lib/python*/site-packages")
    # Read after the file of the editable installation, whose name begins with an underscore.
    dependencies = [path for path in sys.path if path.endswith("site-packages")]
    (site / "dependencies.pth").write_text("\n".join(dependencies) + "\n", "utf-8")
    options = ["--quiet", "--no-deps", "--no-build-isolation", "--ignore-installed"]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", python, "install", *options, "-e", source],
        check=True,
    )
    return python


def unlinked_clone(root: Path, folder: Path) -> Path:
    """Clone the repository at ``root`` as Git does on systems without symbolic links."""
    subprocess.run(
        ["git", "clone", "--quiet", "-c", "core.symlinks=false", root, folder], check=True
    )
    if (folder / "brokerproof" / "harness").is_dir():
        raise RuntimeError(
            f"{folder / 'brokerproof' / 'harness'} is a link or a folder, not a text"
        )
    return folder


def unpacked_sdist(root: Path, folder: Path) -> Path:
    """Build the sdist of ``root`` and unpack it below ``folder``."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "sdist", "-d", folder],
        cwd=root,
        check=True,
    )
    [archive] = folder.glob("*.tar.gz")
    with tarfile.open(archive) as opened:
        opened.extractall(folder, filter="data")
    return folder / archive.name.removesuffix(".tar.gz")


IMPORTS = """
import importlib, pathlib, sys
root = pathlib.Path(sys.argv[1])
for part in ("harness", "reference_broker", "suites", "fixtures", "reports"):
    module = importlib.import_module(f"brokerproof.{part}")
    assert pathlib.Path(module.__file__).resolve() == root.resolve() / part / "__init__.py", module
import brokerproof.reports.assembly.report_writing, brokerproof.suites.mutation.all_mutants
"""


def check_editable(root: Path, folder: Path) -> None:
    """Install an unlinked clone and an unpacked sdist of ``root`` as editable, and run a suite from
    the clone. Raises ``CalledProcessError`` if a step fails."""
    clone = unlinked_clone(root, folder / "clone")
    for source, name in ((clone, "unlinked"), (unpacked_sdist(root, folder / "sdist"), "unpacked")):
        python = editable(source, folder / name)
        subprocess.run([python, "-W", "ignore", "-c", IMPORTS, source], cwd=folder, check=True)
    command = [
        folder / "unlinked" / "bin" / "brokerproof",
        "run",
        "--suite",
        "stomp",
        "--seed",
        "1",
    ]
    options = ["--target", "reference", "--no-report", "--out", folder / "run"]
    subprocess.run([*command, *options], cwd=folder, check=True)


def main() -> None:
    paths = shipped()
    if problems := misplaced(paths) + broken_imports(paths) + collisions():
        sys.exit("\n".join(problems))
    if sys.argv[1:]:
        with tempfile.TemporaryDirectory(prefix="brokerproof-editable-") as folder:
            check_editable(Path(sys.argv[1]), Path(folder))


if __name__ == "__main__":
    main()
