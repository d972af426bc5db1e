"""Downloads by Maven coordinates: mvn, or the standard layout with checksums."""

import hashlib
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from brokerproof.harness.targets import maven
from brokerproof.harness.targets.failure import SetUpFailed
from brokerproof.suites.units.drivers.executables import script

COORDINATES = maven.Coordinates("org.example", "thing", "1.2.3", "tar.gz", "bin")


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
    """Serve a Maven repository, a dictionary from path to content, on the loopback interface; yield
    its base URL."""
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
    with pytest.raises(SetUpFailed, match=r"has the sha1 .* which differs from the published one"):
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
        found = maven.download([COORDINATES], tmp_path / "dl", environment).read_bytes()
        assert found == b"content"
    else:
        with pytest.raises(SetUpFailed, match="install Maven"):
            maven.download([COORDINATES], tmp_path / "dl", environment)


def test_plain_http_to_another_machine_is_refused(tmp_path: Path) -> None:
    environment = {"PATH": "", "BROKERPROOF_MAVEN_REPOSITORY": "http://repository.invalid"}
    with pytest.raises(SetUpFailed, match=r"http://repository\.invalid is not an https:// address"):
        maven.download([COORDINATES], tmp_path / "dl", environment)
