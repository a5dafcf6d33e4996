"""What may become a stop string is held back, and no more than that."""

from engine.text.stop_strings import StopMatcher


def test_a_stop_string_is_never_shown():
    """However it is cut into pieces. What turns out to be none is released at once."""
    matcher = StopMatcher(["END"])
    pieces = ("one E", "x", " E", "N", "D two")
    assert [matcher.feed(piece) for piece in pieces] == ["one ", "Ex", " ", "", ""]
    assert matcher.stopped
    assert matcher.finish() == ""
