"""The driver of Artemis's own tests, on a class and tests of ours, to test what counts as a kill.
``tox -e foreign-mutants`` runs these tests; they need Maven and a JDK, but no checkout."""

import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

from brokerproof.suites.mutation.bytecode import agent, own_tests
from brokerproof.suites.mutation.bytecode.own_tests import OwnControl, OwnTests

MUTATED = """
package mutated;
public final class Switch {
  public static boolean on() {
    return true;
  }
}
"""
TESTS = """
import static org.junit.jupiter.api.Assertions.assertTrue;
import mutated.Switch;
import org.junit.jupiter.api.Test;
class SwitchTest {
  private static boolean broken;
  @Test void detects() {
    assertTrue(Switch.on());
  }
  @Test void looksElsewhere() {
    Switch.on();
  }
  @Test void staysBroken() {
    broken |= !Switch.on();
    assertTrue(!broken);
  }
  @Test void hangs() throws Exception {
    while (!Switch.on()) {
      Thread.sleep(10);
    }
  }
}
"""


@pytest.mark.parametrize(
    ("tried", "fate", "by"),
    [
        (["looksElsewhere", "detects"], "KILLED", "detects"),
        (["looksElsewhere"], "SURVIVED", ""),
        (["staysBroken"], "SURVIVED", ""),
        (["staysBroken", "detects"], "KILLED", "detects"),
        (["hangs", "detects"], "TIMED_OUT", "hangs"),
    ],
)
def test_a_test_kills_if_it_fails_on_the_mutant_and_passes_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tried: list[str], fate: str, by: str
) -> None:
    monkeypatch.setattr(own_tests, "LATE_S", 5)
    tests = OwnTests(tmp_path / "no sources", tmp_path)
    classes = tmp_path / "own-classes"
    classes.mkdir()
    (tmp_path / "Switch.java").write_text(MUTATED, "utf-8")
    (tmp_path / "SwitchTest.java").write_text(TESTS, "utf-8")
    driver = Path(agent.__file__).with_name("java") / "tests" / "OwnTests.java"
    sources = [tmp_path / "Switch.java", tmp_path / "SwitchTest.java", driver]
    compiler = shutil.which("javac") or "javac"
    subprocess.run([compiler, "-d", classes, "-cp", tests.class_path(), *sources], check=True)
    lib = tmp_path / "lib"
    lib.mkdir()
    with zipfile.ZipFile(lib / "mutated.jar", "w") as archive:
        archive.write(classes / "mutated" / "Switch.class", "mutated/Switch.class")
    (mutant,) = agent.population(lib, ["mutated."])
    names = {name: f"[engine:junit-jupiter]/[class:SwitchTest]/[method:{name}()]" for name in tried}
    tests.run_mutants(
        {mutant: [OwnControl(test, True, 0.0, frozenset()) for test in names.values()]}
    )
    (line,) = (tmp_path / own_tests.FATES).read_text("utf-8").splitlines()
    assert line.split("\t")[1:3] == [fate, names.get(by, "")]
