"""What a target is made of before it starts: the Java that is found, the cache, downloads by Maven
coordinates.

No network but the loopback interface; where ``java`` or ``mvn`` is needed, a shell script stands in
for it.
"""

from __future__ import annotations

import hashlib
import io
import stat
import tarfile
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from brokerproof.harness.targets import cache, java_runtime, maven
from brokerproof.harness.targets.failure import SetUpFailed

COORDINATES = maven.Coordinates("org.example", "thing", "1.2.3", "tar.gz", "bin")


def script(path: Path, text: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return path


def fake_java(path: Path, version: str, after: str = "exit 1") -> Path:
    """Something that says a version as java does, and otherwise does ``after``."""
    return script(
        path,
        f'if [ "$1" = -version ]; then echo \'openjdk version "{version}" x\' >&2; exit 0;'
        f" fi\n{after}",
    )


# --- java -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "version"), [("1.8.0_402", 8), ("11.0.2", 11), ("17", 17), ("25.0.2-beta", 25)]
)
def test_the_feature_version_of_a_java_is_read(tmp_path: Path, said: str, version: int) -> None:
    assert java_runtime.version_of(fake_java(tmp_path / "java", said)) == version


def test_a_java_that_does_not_run_has_no_version(tmp_path: Path) -> None:
    assert java_runtime.version_of(tmp_path / "missing") is None
    assert java_runtime.version_of(script(tmp_path / "java", "echo hello")) is None


def test_java_home_comes_before_the_path_and_old_ones_are_passed_over(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "home" / "bin" / "java", "21.0.1")
    on_path = fake_java(tmp_path / "path" / "java", "17.0.1")
    environment = {"JAVA_HOME": str(tmp_path / "home"), "PATH": str(tmp_path / "path")}
    assert java_runtime.find_java(17, environment) == home
    fake_java(home, "11.0.1")
    assert java_runtime.find_java(17, environment) == on_path


def test_without_a_java_that_is_new_enough_the_sentence_says_what_was_looked_at(
    tmp_path: Path,
) -> None:
    fake_java(tmp_path / "java", "8.0.1")
    with pytest.raises(
        java_runtime.NoJava,
        match=r"Java 999 .*java on the PATH \(.*java\) is Java 8.*set JAVA_HOME",
    ):
        java_runtime.find_java(999, {"PATH": str(tmp_path)})


# --- the cache ------------------------------------------------------------------------------------


def test_where_the_cache_is(tmp_path: Path) -> None:
    assert cache.cache_folder({"BROKERPROOF_CACHE": "/a", "XDG_CACHE_HOME": "/b"}) == Path("/a")
    assert cache.cache_folder({"XDG_CACHE_HOME": "/b"}) == Path("/b/brokerproof")
    assert (
        cache.cache_folder({"XDG_CACHE_HOME": "relative"}) == Path.home() / ".cache" / "brokerproof"
    )
    assert cache.cache_folder({}) == Path.home() / ".cache" / "brokerproof"


def test_what_many_want_at_once_is_made_once(tmp_path: Path) -> None:
    made: list[int] = []
    start = threading.Barrier(8)

    def make(folder: Path) -> Path:
        made.append(1)
        (folder / "x").write_text("whole")
        return folder / "x"

    def want() -> None:
        start.wait()
        assert cache.once(tmp_path / "deep" / "thing", make).read_text() == "whole"

    threads = [threading.Thread(target=want) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [1]


def test_a_failure_leaves_nothing_behind_and_the_next_attempt_succeeds(tmp_path: Path) -> None:
    def fail(folder: Path) -> Path:
        (folder / "half").write_text("half")
        raise SetUpFailed("no")

    with pytest.raises(SetUpFailed):
        cache.once(tmp_path / "thing", fail)
    assert [path.name for path in tmp_path.iterdir()] == [".thing.lock"]
    assert cache.once(tmp_path / "thing", lambda folder: Path(script(folder / "x", ""))).exists()


def test_a_cache_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetUpFailed, match=r"cannot be written .*set BROKERPROOF_CACHE"):
        cache.once(tmp_path / "file" / "thing", lambda folder: folder)


def archive(path: Path, *names: str) -> Path:
    with tarfile.open(path, "w:gz") as tar:
        for name in names:
            entry = tarfile.TarInfo(name)
            entry.size = 2
            tar.addfile(entry, io.BytesIO(b"hi"))
    return path


def test_an_archive_is_unpacked_as_its_one_folder(tmp_path: Path) -> None:
    home = cache.unpacked(
        archive(tmp_path / "a.tar.gz", "thing-1/lib/x", "thing-1/y"), tmp_path / "home"
    )
    assert (home / "lib" / "x").read_text() == "hi"
    assert (home / "y").is_file()


@pytest.mark.parametrize("names", [("a/x", "b/x"), ("x",), ("../outside/x",)])
def test_an_archive_of_another_shape_is_refused(tmp_path: Path, names: tuple[str, ...]) -> None:
    with pytest.raises(SetUpFailed, match=r"a\.tar\.gz: .*delete it"):
        cache.unpacked(archive(tmp_path / "a.tar.gz", *names), tmp_path / "home")
    assert not (tmp_path / "home").exists()
    assert not (tmp_path / "outside").exists()


def test_a_truncated_archive_is_refused(tmp_path: Path) -> None:
    path = archive(tmp_path / "a.tar.gz", "thing-1/x")
    path.write_bytes(path.read_bytes()[:-20])
    with pytest.raises(SetUpFailed, match=r"cannot be unpacked"):
        cache.unpacked(path, tmp_path / "home")


# --- downloads ------------------------------------------------------------------------------------


def test_coordinates() -> None:
    assert str(COORDINATES) == "org.example:thing:1.2.3:tar.gz:bin"
    assert COORDINATES.path == "org/example/thing/1.2.3/thing-1.2.3-bin.tar.gz"
    assert str(maven.Coordinates("g", "a", "1")) == "g:a:1:jar"


MVN = """
for each in "$@"; do case "$each" in -Dartifact=*) a=${each#*=};; -DoutputDirectory=*) o=${each#*=};; esac; done
echo "$a" >> "$LOG"
case "$a" in org.second:*) printf x > "$o/thing-1.2.3-bin.tar.gz";;
  *) printf '\\033[0m\\033[0m[ERROR] no %s here\\n[ERROR] \\n' "$a"; exit 1;; esac
"""  # noqa: E501


def test_mvn_is_asked_for_one_group_after_the_other_and_never_twice(tmp_path: Path) -> None:
    log = tmp_path / "log"
    script(tmp_path / "bin" / "mvn", MVN.replace("$LOG", str(log)))
    environment = {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
    second = maven.Coordinates("org.second", "thing", "1.2.3", "tar.gz", "bin")
    for _ in range(2):
        path = maven.download([COORDINATES, second], tmp_path / "dl", environment)
        assert path == tmp_path / "dl" / "thing-1.2.3-bin.tar.gz"
        assert path.read_text() == "x"
    assert log.read_text().splitlines() == [str(COORDINATES), str(second)]


def test_what_mvn_says_is_passed_on(tmp_path: Path) -> None:
    script(tmp_path / "bin" / "mvn", MVN.replace("$LOG", "/dev/null"))
    with pytest.raises(
        SetUpFailed, match=r"cannot be downloaded \(org\.example:.* mvn said: no org\.example:thing"
    ):
        maven.download(
            [COORDINATES], tmp_path / "dl", {"PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin"}
        )
    assert not (tmp_path / "dl" / COORDINATES.file_name).exists()


def test_without_mvn_and_without_a_repository_the_user_is_told_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(SetUpFailed, match=r"install Maven, or set BROKERPROOF_MAVEN_REPOSITORY"):
        maven.download([COORDINATES], tmp_path / "dl", {"PATH": "", "HOME": str(tmp_path)})


@pytest.fixture
def repository() -> object:
    """A Maven repository on the loopback interface: a dictionary from path to content, and its base
    URL."""
    held: dict[str, bytes] = {}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = held.get(self.path)
            self.send_response(404 if content is None else 200)
            self.end_headers()
            self.wfile.write(content or b"")

        def log_message(self, format: str, *args: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield held, f"http://127.0.0.1:{server.server_port}/maven2"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.parametrize("algorithm", ["sha512", "sha1", None])
def test_without_mvn_the_standard_layout_is_used_and_checksums_count(
    tmp_path: Path, repository: tuple[dict[str, bytes], str], algorithm: str | None
) -> None:
    held, base = repository
    path = f"/maven2/{COORDINATES.path}"
    held[path] = b"content"
    if algorithm:
        held[f"{path}.{algorithm}"] = (
            hashlib.new(algorithm, b"content").hexdigest().upper().encode() + b"  thing\n"
        )
    environment = {"PATH": "", "BROKERPROOF_MAVEN_REPOSITORY": base + "/"}
    assert maven.download([COORDINATES], tmp_path / "dl", environment).read_bytes() == b"content"


def test_a_wrong_checksum_refuses_the_file(
    tmp_path: Path, repository: tuple[dict[str, bytes], str]
) -> None:
    held, base = repository
    held[f"/maven2/{COORDINATES.path}"] = b"content"
    held[f"/maven2/{COORDINATES.path}.sha1"] = hashlib.sha1(b"other").hexdigest().encode()
    with pytest.raises(SetUpFailed, match=r"has the sha1 .* which is not the published one"):
        maven.download(
            [COORDINATES], tmp_path / "dl", {"PATH": "", "BROKERPROOF_MAVEN_REPOSITORY": base}
        )
    assert not (tmp_path / "dl" / COORDINATES.file_name).exists()


@pytest.mark.parametrize(
    ("of", "used"), [("central", True), ("*", True), ("*,!central", False), ("other", False)]
)
def test_the_mirror_of_the_settings_file(
    tmp_path: Path, repository: tuple[dict[str, bytes], str], of: str, used: bool
) -> None:
    held, base = repository
    held[f"/maven2/{COORDINATES.path}"] = b"content"
    settings = tmp_path / ".m2" / "settings.xml"
    settings.parent.mkdir()
    settings.write_text(
        '<settings xmlns="http://maven.apache.org/SETTINGS/1.0.0"><mirrors><mirror>'
        f"<mirrorOf>{of}</mirrorOf><url>{base}</url></mirror></mirrors></settings>"
    )
    environment = {"PATH": "", "HOME": str(tmp_path)}
    if used:
        assert (
            maven.download([COORDINATES], tmp_path / "dl", environment).read_bytes() == b"content"
        )
    else:
        with pytest.raises(SetUpFailed, match="install Maven"):
            maven.download([COORDINATES], tmp_path / "dl", environment)


def test_plain_http_to_another_machine_is_refused(tmp_path: Path) -> None:
    environment = {"PATH": "", "BROKERPROOF_MAVEN_REPOSITORY": "http://repository.invalid"}
    with pytest.raises(SetUpFailed, match=r"http://repository\.invalid is no https:// address"):
        maven.download([COORDINATES], tmp_path / "dl", environment)
