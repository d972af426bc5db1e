"""The first frame of a STOMP client."""

from brokerproof.harness.cases.client_trials import LOGIN, PASSCODE
from brokerproof.harness.clients.client_event import event_named
from brokerproof.suites.api import Bench, case

TRIAL = {"stomp-client"}
LOGIN_AND_PASSCODE = "STOMP10-CONNECT-01"
EMPTY_BODY = {"1.0": "STOMP10-CONNECT-04", "1.1": "STOMP11-BODY-02", "1.2": "STOMP12-BODY-02"}
ACCEPT_VERSION = {
    "1.1": ("STOMP11-CONNECT-08", "STOMP11-NEGO-01"),
    "1.2": ("STOMP12-CONNECT-06", "STOMP12-NEGO-01"),
}
HOST = {"1.1": ("STOMP11-CONNECT-09",), "1.2": ("STOMP12-CONNECT-07", "STOMP12-FH-01")}
CONNECT_FOR_OLD_SERVERS = {"1.1": "STOMP11-CONNECT-07", "1.2": "STOMP12-CONNECT-05"}
ASCENDING = {"1.1": "STOMP11-NEGO-02", "1.2": "STOMP12-NEGO-02"}
LOGIN_GIVEN = {
    "1.1": ("STOMP11-CONNECT-12", "STOMP11-CONNECT-13"),
    "1.2": ("STOMP12-CONNECT-10", "STOMP12-CONNECT-11"),
}
UNESCAPED = {"1.1": "STOMP11-ENC-03", "1.2": "STOMP12-ENC-03"}
HEART_BEAT_FORM = {"1.1": "STOMP11-HB-01", "1.2": "STOMP12-HB-01"}
CAN_SEND = {"1.1": "STOMP11-HB-02", "1.2": "STOMP12-HB-02"}
WANTS = {"1.1": "STOMP11-HB-03", "1.2": "STOMP12-HB-03"}
HEART_BEAT_GIVEN = "STOMP12-CONNECT-12"


@case(LOGIN_AND_PASSCODE, needs=TRIAL | {"stomp-1.0"})
def test_a_login_and_a_passcode_are_in_the_first_frame(target: Bench) -> None:
    """A 1.0 client with a login and a passcode connects. Its first frame is CONNECT with both."""
    first = target.stomp_client("1.0").dial()
    target.record_finding(
        LOGIN_AND_PASSCODE,
        first.command == "CONNECT" and None not in (first.get("login"), first.get("passcode")),
        f"the first frame is {first.brief()}",
    )


@case(EMPTY_BODY, needs=TRIAL)
def test_connect_has_no_body(target: Bench, version: str) -> None:
    """A client's first frame has no body."""
    first = target.stomp_client(version).dial()
    detail = f"the body has {len(first.body)} bytes"
    target.record_finding(EMPTY_BODY[version], not first.body, detail)


@case(ACCEPT_VERSION, HOST, needs=TRIAL)
def test_connect_names_versions_and_host(target: Bench, version: str) -> None:
    """A 1.1 or 1.2 client's first frame has host, and accept-version with that version.

    One scenario: these are the headers that 1.1 made mandatory.
    """
    first = target.stomp_client(version).dial()
    named = (first.get("accept-version") or "").split(",")
    detail = f"the first frame is {first.brief()}"
    target.record_finding(ACCEPT_VERSION[version], version in named, detail)
    target.record_finding(HOST[version], first.get("host") is not None, detail)


@case(CONNECT_FOR_OLD_SERVERS, needs=TRIAL)
def test_the_first_frame_is_one_that_old_servers_know(target: Bench, version: str) -> None:
    """A 1.1 or 1.2 client's first frame is CONNECT, which 1.0 servers know, and not STOMP."""
    first = target.stomp_client(version).dial()
    detail = f"the first frame is {first.command}; expected CONNECT"
    target.record_finding(CONNECT_FOR_OLD_SERVERS[version], first.command == "CONNECT", detail)


@case(ASCENDING, needs=TRIAL)
def test_versions_are_listed_in_ascending_order(target: Bench, version: str) -> None:
    """The accept-version of a 1.1 or 1.2 client is one version, or several in ascending order,
    separated by commas."""
    first = target.stomp_client(version).dial()
    versions = (first.get("accept-version") or "").split(",")
    target.record_finding(
        ASCENDING[version],
        versions == sorted(versions) and all(versions),
        f"CONNECT has accept-version {first.get('accept-version')!r}; expected ascending order",
    )


@case(LOGIN_GIVEN, needs=TRIAL)
def test_a_login_that_was_given_is_sent(target: Bench, version: str) -> None:
    """The first frame of a client with a login and a passcode has both."""
    first = target.stomp_client(version).dial()
    target.record_finding(
        LOGIN_GIVEN[version],
        first.get("login") == LOGIN and first.get("passcode") is not None,
        f"the first frame is {first.brief()}",
    )


@case(UNESCAPED, needs=TRIAL)
def test_connect_is_not_escaped(target: Bench, version: str) -> None:
    """A client connects with a passcode that has a colon and a backslash. Its CONNECT has the colon
    unescaped; no requirement mentions backslashes. Control: a login of letters arrives
    unchanged."""
    first = target.stomp_client(version).dial()
    target.control(first.get("login") == LOGIN, f"the login arrived as {first.get('login')!r}")
    target.record_finding(
        UNESCAPED[version],
        (first.get("passcode") or "").replace("\\\\", "\\") == PASSCODE,
        f"the passcode {PASSCODE!r} arrived as {first.get('passcode')!r}",
    )


@case(HEART_BEAT_FORM, CAN_SEND, WANTS, needs=TRIAL | {"heart-beat"})
def test_the_heart_beats_that_were_asked_for_are_announced(target: Bench, version: str) -> None:
    """An application asks its client to send heartbeats every 400 ms and to request them every 700
    ms. The client's heart-beat header is two numbers: at most 400, since a larger one would promise
    fewer heartbeats, and 700."""
    first = target.stomp_client(version).dial(heart_beat=(400, 700))
    value = first.get("heart-beat") or ""
    numbers = value.split(",")
    target.require(
        HEART_BEAT_FORM[version],
        len(numbers) == 2 and all(number.isdecimal() for number in numbers),
        f"heart-beat is {value!r}",
    )
    target.record_finding(CAN_SEND[version], numbers[0] == "400", f"heart-beat is {value!r}")
    target.record_finding(WANTS[version], numbers[1] == "700", f"heart-beat is {value!r}")


@case(HEART_BEAT_GIVEN, needs=TRIAL | {"stomp-1.2", "heart-beat"})
def test_a_client_may_announce_heart_beats(target: Bench) -> None:
    """A 1.2 client that should send heartbeats sends CONNECT with a heart-beat header, and
    continues after CONNECTED."""
    trial = target.stomp_client("1.2")
    first = trial.dial(heart_beat=(1000, 1000))
    trial.server.accept("1.2", (0, 0))
    trial.driver.expect(event_named("connected"))
    detail = f"the first frame is {first.brief()}"
    target.record_finding(HEART_BEAT_GIVEN, first.get("heart-beat") is not None, detail)
