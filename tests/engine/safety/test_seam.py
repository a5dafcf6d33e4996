"""An answer that goes on behind its length limit: a secret that the limit cut in two does not come out."""

import pytest

from engine.safety.filter import Filter
from engine.safety.seam import KEY_BEGINS, TextSeam, seam_behind
from engine.safety.verdicts import Block, Flag
from tests.engine.safety.filters import DEFAULT, policy
from tests.support.tiers import by_form

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
CARD = "4111 1111 1111 1111"
LETTERS = "MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKcwggSjAgEAAoIBAQC7\n" * 3


def going_on(before: str, after: str, flags: list[Flag] | None = None, cut: int = 1) -> str:
    """What of `after` is shown behind what readers have, fed in pieces."""
    filter = Filter(DEFAULT, seam=seam_behind(before, flags or []))
    pieces = [after[at : at + cut] for at in range(0, len(after), cut)]
    out = [each for piece in pieces for each in filter.feed(piece)] + filter.feed("", final=True)
    text = "".join(each for each in out if isinstance(each, str))
    for flag in out:
        assert (
            isinstance(flag, str) or flag.action == "flag" or text[flag.p : flag.p + flag.n].startswith("[")
        )
    assert filter.visible == len(text)
    assert filter.raw == len(after)
    return text


@pytest.mark.parametrize("secret", [KEY, CARD])
@pytest.mark.parametrize("cut", [1, 3, 500])
def test_a_secret_that_was_cut_is_not_completed(secret: str, cut: int):
    """Wherever it was cut: what readers have of it stays, and the rest is a placeholder's."""
    for at in range(1, len(secret)):
        before, after = f"Use {secret[:at]}", f"{secret[at:]} and go on."
        shown = going_on(before, after, cut=cut)
        assert shown.endswith("_1] and go on."), (at, shown)
        assert shown.startswith("["), (at, shown)


def test_ordinary_text_goes_on_unchanged():
    """In the middle of a word, behind a number or an address that is none; of what readers have nothing comes
    again."""
    for before, after in (
        ("The quick bro", "wn fox"),
        ("4111 1111", " is no card"),
        ("", "x"),
        ("é" * 9, "ü"),
    ):
        for cut in (1, 100):
            assert going_on(before, after, cut=cut) == after


def test_numbers_go_on():
    """A placeholder behind the seam is none of those before it."""
    before = "[CARD_1] and [CARD_2] or [CARD_9]"  # the last one is the model's own words
    flags = [Flag("card", "redact", "platform", 0, 8), Flag("card", "redact", "platform", 13, 8)]
    assert going_on(before, f" {CARD}", flags) == " [CARD_3]"


def test_a_private_key_goes_on_unseen():
    """Its letters follow no pattern: they are covered where readers have its placeholder last."""
    before = "Here: [PRIVATE_KEY_1]"
    flags = [Flag("private_key", "redact", "platform", 6, 15)]
    assert seam_behind(before, flags) == TextSeam("Here: " + KEY_BEGINS, {"private_key": 1})
    shown = going_on(before, LETTERS[20:] + "-----END PRIVATE KEY-----\nKeep it.", flags)
    assert "MIIE" not in shown
    assert shown.endswith("Keep it.")


def test_what_readers_have_is_not_judged_again():
    """A rule that is stricter now blocks what is still to come, not what was shown."""
    rules = policy(secret=("block", "xy{1,9}z"))
    filter = Filter(rules, seam=TextSeam("a xyz b xy"))
    assert filter.feed("y and on", final=True) == ["y and on"]
    filter = Filter(rules, seam=TextSeam("a xyz b xy"))
    assert filter.feed("yz and on") == []
    assert (filter.blocked, filter.raw) == (Block("secret", "tenant"), 0)


def test_a_long_answer_is_looked_at_by_its_end():
    """As much as any match may need."""
    assert len(seam_behind("x" * 100_000, []).text) == 4_096
    for at in range(1, len(KEY), by_form(5, 1)):
        assert going_on("word " * 3_000 + KEY[:at], KEY[at:] + ".", cut=7) == "[API_KEY_1]."
