"""An answer that goes on behind its length limit: a secret that the limit cut in two does not come out."""

import pytest
from msgspec.structs import replace

from chaos.bench.safety.differences import seam_difference
from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Rule
from engine.safety.seam import KEY_BEGINS, TextSeam, seam_behind
from engine.safety.verdicts import Block, Flag
from tests.engine.safety.filters import DEFAULT, policy, shown
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


PROJECT_KEY = "sk-proj-" + "aB3dE5fG7hI9jK1lM2nO4pQ6rS8tU8vW0xY1zA2bC3dE4f"
OWN = policy(password=("redact", "password: [A-Za-z0-9]{4,64}"))
JOINED = policy(pass_code=("redact", r"pw:[a-z]{4}(?:\.[a-z]{8,40}){0,2}é?"))
NAMES = CompiledPolicy([Rule("", "name", "redact", "tenant", words=("heron",))])
KEYS = [
    (PROJECT_KEY, DEFAULT),
    ("ghp_a1B2c3D4e5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v2W3x4", DEFAULT),
    ("password: hunter2hunter2hunter2", OWN),
    ("heron\u200bish", NAMES),
    ("pw:abcd.efghijklmnopq.rstuvwxyzabcdefé", JOINED),
]


def in_parts(text: str, under: CompiledPolicy, size: int, cut: int) -> str:
    """What readers have of an answer that goes on after each `size` letters, fed in pieces."""
    before, flags = "", list[Flag]()
    for at in range(0, len(text), size):
        filter = Filter(under, seam=seam_behind(before, flags) if at else None)
        part = text[at : at + size]
        out = [each for at in range(0, len(part), cut) for each in filter.feed(part[at : at + cut])]
        out += filter.feed("", final=True)
        assert filter.raw == len(part)
        flags += [replace(each, p=len(before) + each.p) for each in out if isinstance(each, Flag)]
        before += "".join(each for each in out if isinstance(each, str))
    return before


@pytest.mark.parametrize(("key", "under"), KEYS)
@pytest.mark.parametrize("cut", [1, 3, 500])
def test_a_key_that_was_cut_behind_a_match_is_not_completed(key: str, under: CompiledPolicy, cut: int):
    """It matched with the letters there were, or with all but the last ones: those that come go too, up to a
    blank, in any parts."""
    text = f"Use {key} and go on."
    for at in range(1, len(text)):
        before = shown(Filter(under).feed(text[:at], final=True))
        if "_1]" not in before or " " in before.partition("_1]")[2]:
            continue
        assert in_parts(text, under, at, cut).startswith(before + " and go on."), at
    assert in_parts(text, under, 2, cut).partition("_1]")[2].removeprefix(".") == " and go on."


def test_what_goes_behind_a_placeholder_has_an_end():
    """256 letters, a blank, or a mark that no key has: prose without blanks goes on. A placeholder that is
    the model's own word, or is not last, takes nothing."""
    flags = [Flag("card", "redact", "platform", 0, 8)]
    for after, left in (
        ("x" * 300, "x" * 44),
        ("é" * 300, "é" * 44),
        ("é9\u00a0on", "\u00a0on"),
        (", and", " and"),
        ("9，我们继续。", "，我们继续。"),
        ("9\non", "\non"),
    ):
        for cut in (1, 5, 500):
            assert going_on("[CARD_1]", after, flags, cut) == left
    assert going_on("[CARD_1]", "x") == "x"
    assert going_on("[CARD_1]: ", "x", flags) == "x"
    assert going_on("[CARD_1]é", "x y", flags) == " y"


def test_what_begins_in_the_rest_of_a_key_is_covered():
    """A second secret, a private key's letters: none of it is shown, and none of it is another's."""
    flags = [Flag("card", "redact", "platform", 0, 8)]
    private = "-----BEGIN PRIVATE KEY-----\n" + LETTERS + "-----END PRIVATE KEY-----"
    for cut in (1, 7, 500):
        assert going_on("[CARD_1]", f"9{private}\nKeep it.", flags, cut).endswith("Keep it.")
        assert "MII" not in going_on("[CARD_1]", f"9{private}\nKeep it.", flags, cut)
        assert going_on("[CARD_1]", f"9,{CARD} on", flags, cut) == " on"


def test_no_cut_and_no_takeover_changes_what_goes_on():
    """Random documents with a limit in them, a fifth of them behind a redaction."""
    assert [problem for seed in range(by_form(500, 10_000)) if (problem := seam_difference(seed))] == []


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
