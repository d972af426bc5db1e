"""Bodies in the sentences of findings."""

from brokerproof.harness.model.finding import listed, shown


def test_bodies_are_listed_as_text_with_runs_shortened() -> None:
    assert listed([]) == "no message"
    assert listed([b"m1", b"m0", b"", b"\xff\0\n"]) == "m1, m0, (empty), 0xff000a"
    found = listed([*(b"m%d" % number for number in range(30)), b"end"])
    assert found == "m0, m1, … m29, 'end' (31)"


def test_values_are_shown_as_words() -> None:
    assert shown({"a": True, "b": [1, (2, None)], "c": {}}) == "a=true, b=(1, (2, none)), c=(none)"
    found = shown([b"text", b"\x00\x01", "two words", "<\n>", ""])
    assert found == r"'text', 0x0001, two words, '<\n>', ''"
