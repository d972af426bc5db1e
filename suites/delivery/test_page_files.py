"""Page files: their folder, their maximum size, and their removal. The cases recognise an address's
files by the bodies in them."""

from collections.abc import Set
from pathlib import PurePath

from hypothesis import strategies as st

from brokerproof.suites.api import Bench, case, ms, over
from brokerproof.suites.api.stomp import Destination
from brokerproof.suites.steps import paging, small_addresses
from brokerproof.suites.steps.paging import Taker
from brokerproof.suites.steps.small_addresses import page_of

FOLDER_AND_SIZE = "ARTEMIS-PAGING-2"
REMOVED = "ARTEMIS-PAGING-3"
UNLIMITED = "ARTEMIS-PAGING-7"
NEEDS = {"stomp-1.2", "admin", "paging", "page-files"}
DEFAULT_PAGE = 10 * 1024 * 1024
"""The default of page-size-bytes (ARTEMIS-PAGING-2)."""
PAGES_OF_DEFAULT_SIZE = "default-pages."
"""The prefix of addresses with a limit and no page-size-bytes in our broker.xml."""
SIZE, LARGE = 1000, 90_000
"""Bytes of a body. A message of more than 100 KiB would be stored in its own file."""


def mark(to: Destination, number: int) -> bytes:
    """Bytes that identify a message in a file."""
    return b"|%d|%s|" % (number, to.name.encode())


def send(target: Bench, to: Destination, count: int, size: int) -> None:
    """Send messages that contain their numbers and their address."""
    peer = target.stomp()
    for number in range(count):
        body = (b"%d." % number + mark(to, number)).ljust(size, b".")
        peer.publish(to, body, receipt=number == count - 1)


def pages(target: Bench, to: Destination) -> dict[str, int]:
    """Return the bytes of each page file that contains messages of this address, in order."""
    return dict(sorted(target.world.page_files(b"|%s|" % to.name.encode()).items()))


def until_gone(target: Bench, to: Destination, files: Set[str]) -> bool:
    """Wait until none of these files contains messages of this address."""
    for _ in range(100):
        if not files & pages(target, to).keys():
            return True
        target.advance(ms(100))
    return False


@case(FOLDER_AND_SIZE, needs=NEEDS)
@over(
    examples=4,
    count=st.integers(30, 60),
    size=st.sampled_from([300, SIZE, 3000]),
    always=lambda target: [{"count": 60, "size": SIZE}],
)
def test_an_address_that_pages_has_a_folder_of_its_own(
    target: Bench, count: int, size: int
) -> None:
    """Two addresses page. Each has its files in a folder of its own, and no file is larger than
    page-size-bytes."""
    admin = target.admin()
    places = [small_addresses.destination(target, "page") for _ in range(2)]
    for to in places:
        send(target, to, count, size)
    if not all(paging.paged(target, admin, to.name) for to in places):
        return
    target.advance(ms(100))
    files = [pages(target, to) for to in places]
    folders = [{PurePath(path).parent for path in paths} for paths in files]
    target.record_finding(
        FOLDER_AND_SIZE,
        len(folders[0]) == len(folders[1]) == 1 and folders[0] != folders[1],
        f"the pages of two addresses are in {len(folders[0])} and {len(folders[1])} folders,"
        f" {len(folders[0] & folders[1])} of them shared",
    )
    largest = max([0, *files[0].values(), *files[1].values()])
    target.judge_count(FOLDER_AND_SIZE, "largest page file", largest, (1, page_of(target)), "bytes")


@case(FOLDER_AND_SIZE, UNLIMITED, needs=NEEDS)
def test_limits_that_are_not_configured_have_their_defaults(target: Bench) -> None:
    """An address with a limit and no page-size-bytes gets 12 MB, and so does one without limits.
    The first has a page file of 10 MiB, give or take a message; the second does not page. One
    scenario: each address is the other's control."""
    admin = target.admin()
    fresh = target.destination()
    limited = Destination(
        f"{PAGES_OF_DEFAULT_SIZE}{fresh.name}", fresh.send_headers, fresh.subscribe_headers
    )
    unlimited = target.destination()
    count = 12_000_000 // LARGE
    for to in (limited, unlimited):
        send(target, to, count, LARGE)
    if not paging.paged(target, admin, limited.name):
        return
    target.advance(ms(100))
    largest = max([0, *pages(target, limited).values()])
    bounds = (DEFAULT_PAGE - 2 * LARGE, DEFAULT_PAGE)
    target.judge_count(FOLDER_AND_SIZE, "largest page file", largest, bounds, "bytes")
    state, files = admin.address(unlimited.name), pages(target, unlimited)
    target.record_finding(
        UNLIMITED,
        not state.paging and state.pages == 0 and not files,
        f"with {count} messages of {LARGE} bytes and no limit, the address has {state} and"
        f" {len(files)} page files",
    )


@case(REMOVED, needs=NEEDS)
@over(examples=3, count=st.integers(60, 90), always=lambda target: [{"count": 80}])
def test_a_page_file_goes_when_all_up_to_its_end_is_acknowledged(target: Bench, count: int) -> None:
    """Two thirds of the messages of a paging address are acknowledged. Files with only such
    messages are removed, and every other message is still in its file. Once all are acknowledged,
    no file is left."""
    admin = target.admin()
    to = small_addresses.destination(target, "page")
    send(target, to, count, SIZE)
    if not paging.paged(target, admin, to.name):
        return
    target.advance(ms(100))
    before = pages(target, to)
    where = {number: target.world.page_files(mark(to, number)) for number in range(count)}
    taker = Taker(target, to, window=SIZE)
    done = set(taker.take(count * 2 // 3))
    others = set(range(count)) - done
    needed = {path for number in others for path in where[number]}
    over = before.keys() - needed
    target.control(bool(over), f"no file has only messages of {paging.brief(sorted(done))}")
    removed = until_gone(target, to, over)
    target.record_finding(
        REMOVED,
        removed,
        f"{len(done)} of {count} messages are acknowledged; of {len(over)} files with these only,"
        f" {len(over & pages(target, to).keys())} are left",
    )
    lost = [
        number
        for number in sorted(others)
        if where[number] and not target.world.page_files(mark(to, number))
    ]
    detail = f"of the unacknowledged messages, {lost} are in no file"
    target.record_finding(REMOVED, not lost, detail)
    done = set(taker.take(count))
    target.control(done == set(range(count)), f"{paging.brief(sorted(done))} arrived in all")
    left = set(pages(target, to))
    target.record_finding(
        REMOVED,
        until_gone(target, to, left),
        f"all messages are acknowledged; {len(left)} page files are left",
    )
