"""Stop strings: found wherever the text is cut, never shown, and nothing else is lost or delayed for good."""

from random import Random

import pytest

from engine.text.stop_strings import StopMatcher


def test_a_stop_string_across_pieces_is_cut_off():
    """Neither the stop string nor what follows it is released."""
    matcher = StopMatcher(["END"])
    assert matcher.feed("one E") == "one "
    assert matcher.feed("N") == ""
    assert matcher.feed("D two") == ""
    assert matcher.stopped
    assert matcher.feed("three") == ""
    assert matcher.finish() == ""


def test_a_false_start_is_released_as_soon_as_it_is_one():
    """Text is held only while it may still become a stop string; the end of the answer frees the rest."""
    matcher = StopMatcher(["\n\nUser:"])
    assert matcher.feed("a\n") == "a"
    assert matcher.feed("b\n\nUs") == "\nb"
    assert matcher.feed("a") == "\n\nUsa"
    assert matcher.feed("\n\nUser") == ""
    assert matcher.finish() == "\n\nUser"
    assert not matcher.stopped


def test_the_match_that_ends_first_wins_and_of_those_the_longest():
    """So the answer does not depend on the order in which the client named the strings."""
    for stops in (["bcd", "c", "abc"], ["abc", "c", "bcd"], ["c", "abc", "bcd"]):
        matcher = StopMatcher(stops)
        assert matcher.feed("xabcd") == "x"


def test_a_match_inside_unarmed_text_does_not_count():
    """Before min_tokens stop strings are ignored, but one that begins there and ends behind it counts."""
    matcher = StopMatcher(["ab"])
    assert matcher.feed("xab", armed=False) == "xab"
    assert matcher.feed("ya", armed=False) == "y"
    assert matcher.feed("b") == ""
    assert matcher.stopped


def test_a_match_that_ended_in_unarmed_text_is_not_found_later():
    """Though its text is held, as the beginning of a longer one; that one counts where it ends."""
    for piece, released, stopped in (("x", "abx", False), ("c", "", True)):
        matcher = StopMatcher(["ab", "abc"])
        assert matcher.feed("ab", armed=False) == ""
        assert matcher.holding
        assert (matcher.feed(piece), matcher.stopped, matcher.holding) == (released, stopped, False)


def test_only_what_may_become_a_stop_string_is_held():
    """As long an end as the longest could need; not a whole one that did not count."""
    assert StopMatcher(["a", "bcd"]).feed("xbc") == "x"
    assert StopMatcher(["ab", "wxyz"]).feed("ab", armed=False) == "ab"
    assert StopMatcher(["ab", ""]).feed("xb") == "xb"


def test_without_stop_strings_everything_passes_at_once():
    """No request pays for what it does not use."""
    matcher = StopMatcher([])
    assert matcher.feed("text") == "text"
    assert matcher.finish() == ""


@pytest.mark.parametrize("seed", range(200))
def test_the_pieces_do_not_matter(seed: int):
    """Any cutting of a text gives what feeding it character by character gives."""
    random = Random(seed)
    stops = ["".join(random.choices("ab", k=random.randint(1, 5))) for _ in range(random.randint(1, 4))]
    text = "".join(random.choices("abc", k=30))
    assert _released(stops, list(text)) == _released(stops, _cut(text, random)), (stops, text)


def _released(stops: list[str], pieces: list[str]) -> tuple[str, bool]:
    matcher = StopMatcher(stops)
    released = "".join(matcher.feed(piece) for piece in pieces)
    return released + matcher.finish(), matcher.stopped


def _cut(text: str, random: Random) -> list[str]:
    at = sorted(random.sample(range(len(text)), 5))
    return [text[a:b] for a, b in zip([0, *at], [*at, len(text)], strict=True)]
