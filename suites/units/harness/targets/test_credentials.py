"""A passcode from the environment or a file, in target files and URLs."""

from pathlib import Path

import pytest

from brokerproof.harness.targets import target_file
from brokerproof.harness.targets.target_file import BadTarget

FILE = 'kind = "address"\nprofile = "stomp"\nendpoints = { stomp = "127.0.0.1:1" }\nlogin = "me"\n'


@pytest.mark.parametrize(
    ("line", "passcode"),
    [
        ('passcode_env = "BROKER_PASSCODE"', "p@ss/%41"),
        ('passcode_file = "secret"', "from a file"),
        ('passcode = "x${BROKER_PASSCODE}"', "xp@ss/%41"),
        ('passcode = "plain"', "plain"),
    ],
)
def test_a_target_file_names_where_the_passcode_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, passcode: str
) -> None:
    monkeypatch.setenv("BROKER_PASSCODE", "p@ss/%41")
    (tmp_path / "secret").write_text("from a file\n")
    path = tmp_path / "x.target.toml"
    path.write_text(FILE + line)
    assert target_file.load(str(path)).identity.passcode == passcode


@pytest.mark.parametrize(
    ("url", "passcode"),
    [
        ("stomp://me@127.0.0.1:1?passcode_env=BROKER_PASSCODE", "p@ss/%41"),
        ("stomp://me:${BROKER_PASSCODE}@127.0.0.1:1", "p@ss/%41"),
        ("stomp://me:a%41@127.0.0.1:1", "aA"),
        ("stomp://127.0.0.1:1", None),
    ],
)
def test_a_url_names_where_the_passcode_is(
    monkeypatch: pytest.MonkeyPatch, url: str, passcode: str | None
) -> None:
    monkeypatch.setenv("BROKER_PASSCODE", "p@ss/%41")
    assert target_file.load(url).identity.passcode == passcode


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('passcode_env = "NO_SUCH"', "no variable 'NO_SUCH'; set it"),
        ('passcode = "${NO_SUCH}"', "no variable 'NO_SUCH'; set it"),
        ('passcode_file = "none"', "none: cannot be read"),
        ('passcode_file = "two"', "two: should hold one line, the passcode"),
        ('passcode = "a"\npasscode_file = "two"', "passcode and passcode_file both give"),
    ],
)
def test_a_passcode_that_is_not_there_is_one_sentence(
    tmp_path: Path, line: str, words: str
) -> None:
    (tmp_path / "two").write_text("a\nb\n")
    path = tmp_path / "x.target.toml"
    path.write_text(FILE + line)
    with pytest.raises(BadTarget, match=words):
        target_file.load(str(path))


def test_no_sentence_repeats_a_passcode() -> None:
    for url in ("stomp://me:secret@host:x", "tcp://me:secret@host:1", "stomp://a:secret@h:1?b=c"):
        with pytest.raises(BadTarget) as caught:
            target_file.load(url)
        assert "secret" not in str(caught.value)
