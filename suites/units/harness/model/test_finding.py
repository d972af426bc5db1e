"""Bodies in the sentences of findings."""

from brokerproof.harness.model.finding import listed


def test_bodies_are_listed_as_text_with_runs_shortened() -> None:
    assert listed([]) == "no message"
    assert listed([b"m1", b"m0", b"", b"\xff\0\n"]) == "m1, m0, (empty), 0xff000a"
    assert listed([*(b"m%d" % number for number in range(30)), b"end"]) == (
        "m0, m1, … m29, 'end' (31)"
    )
