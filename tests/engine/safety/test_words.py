"""Word lists: words are found under their usual disguises, whole, and in no other language's words."""

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chaos.bench.safety.oracle import matches_in
from engine.safety.constrained_names import ConstrainedNames
from engine.safety.filter import Filter
from engine.safety.folding import DROPPED_MAX
from engine.safety.json_view import JsonView
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Rule
from engine.safety.verdicts import Flag
from engine.safety.words import WordLists
from tests.engine.safety.filters import filtered, shown
from tests.support.tiers import by_form


def listed(*words: str) -> CompiledPolicy:
    """One list of words, redacted."""
    return CompiledPolicy([Rule("", "bird", "redact", "tenant", words=words)])


BIRDS = listed("blue heron", "heron")


@pytest.mark.parametrize(
    ("text", "becomes"),
    [
        ("a Blue  HERON.", "a [BIRD_1]."),
        ("ｂｌｕｅ　ｈｅｒｏｎ", "[BIRD_1]"),
        ("𝐡𝐞𝐫𝐨𝐧 ⓗⓔⓡⓞⓝ ʜᴇʀᴏɴ", "[BIRD_1] [BIRD_1] [BIRD_1]"),
        ("h\u200be\u00adr\u2060o\ufeffn", "[BIRD_1]"),
        ("h\u0336e\u0336r\u0336o\u0336n\u0336 he\u0301ron", "[BIRD_1] [BIRD_1]"),
        ("hеrоn herøn", "[BIRD_1] [BIRD_1]"),
        ("heron's, (heron)", "[BIRD_1]'s, ([BIRD_1])"),
        ("blue\r\nheron", "[BIRD_1]"),
    ],
)
def test_disguises_are_seen_through(text: str, becomes: str):
    """Width, case, letters nobody sees, marks, look-alikes, blanks; one word has one number."""
    assert filtered(text, BIRDS) == becomes


@pytest.mark.parametrize("text", ["herons", "xheron", "heron_1", "heronе", "e\u0301heron", "blue her on"])
def test_words_are_whole(text: str):
    """Letters, digits and marks beside it, of any alphabet, make another word of it."""
    assert filtered(text, BIRDS) == text


def test_no_word_of_one_script_is_found_in_another():
    """Look-alikes count beside a letter of the word's own: Russian words are no English ones."""
    assert filtered("рот сорок нет", listed("pot", "copok", "het")) == "рот сорок нет"
    assert filtered("pot copok", listed("рот", "сорок")) == "pot copok"
    assert filtered("Сорок, cорок", listed("сорок")) == "[BIRD_1], [BIRD_1]"


def test_scripts_without_blanks_have_words_anywhere():
    """Chinese, Japanese, Korean, Thai: nothing else is beside the word to tell where it ends."""
    assert filtered("我是日本人", listed("日本")) == "我是[BIRD_1]人"
    assert filtered("서울은 크다", listed("서울")) == "[BIRD_1]은 크다"
    assert filtered("คำว่าแมวดำ", listed("แมว")) == "คำว่า[BIRD_1]ดำ"
    assert filtered("काम कम", listed("कम")) == "काम [BIRD_1]"


def test_offsets_are_those_of_the_text():
    """A flag stands on the disguised word with all that was dropped of it."""
    flagging = CompiledPolicy([Rule("", "bird", "flag", "tenant", words=("heron",))])
    text = "🙂 a h\u200be\u0301ron\u0301!"
    out = Filter(flagging).feed(text, final=True)
    assert out == [text, Flag("bird", "flag", "tenant", 4, 8)]


def test_text_is_held_only_while_a_word_may_match():
    """What begins no word goes at once; a word waits for the one code point behind it."""
    filter = Filter(BIRDS)
    assert filter.feed("the ") == ["the "]
    assert filter.feed("blu") == []
    assert filter.feed("e sky") == ["blue sky"]
    assert filter.feed(" heron") == [" "]
    assert shown(filter.feed("s")) == "herons"
    assert shown(filter.feed("e heron ")) == "e [BIRD_1] "


def test_what_nobody_sees_is_bounded():
    """A word takes up to 32 such code points in a row; more of them are not held back."""
    unseen = "\u200b"
    assert filtered(f"h{unseen * DROPPED_MAX}eron", BIRDS) == "[BIRD_1]"
    much = f"h{unseen * (DROPPED_MAX + 1)}"
    assert shown(Filter(BIRDS).feed(much)) == much


def test_json_strings_are_looked_at_unescaped():
    """A word in escapes is replaced, and the answer stays JSON."""
    text = '{"a": "\\u0068\\u200bеron, blue\\nheron"}'
    assert filtered(text, BIRDS, JsonView(ConstrainedNames())) == '{"a": "[BIRD_1], [BIRD_2]"}'


def test_words_that_fold_to_nothing_are_none():
    """They match nowhere, beside others that do."""
    assert filtered("a \u200b heron", listed("\u200b", " ", "", "heron")) == "a \u200b [BIRD_1]"


def test_hostile_text_costs_a_bounded_time():
    """10,000 words that all begin alike, in text that is nothing but their beginnings; marks without end."""
    many = listed(*(f"{'ab ' * 20}{number}" for number in range(10_000)))
    for text in ("ab " * 20_000, "a\u0301" * 20_000, "a" + "\u200b" * 40_000, "а" * 40_000):
        filter = Filter(many)
        began = time.thread_time()
        filter.feed(text)
        for letter in text[:1_000]:
            filter.feed(letter)
        assert time.thread_time() - began < 1.0


NESTED = tuple(" ".join("a" * count) for count in range(1, 33))


@pytest.mark.parametrize("words", [NESTED, tuple("日" * count for count in range(1, 65))])
def test_words_that_begin_alike_cost_linear_time(words: tuple[str, ...]):
    """Each begins with the ones before it: of 32,000 letters at once, each place is looked at once."""
    for letters in (words[0] + " ", words[0], "а "):  # the last one is no letter of the words' own
        began = time.thread_time()
        Filter(listed(*words)).feed(letters * (32_000 // len(letters)), final=True)
        assert time.thread_time() - began < 1.0


WORD = st.text("ab. а", min_size=1, max_size=5).map(str.strip).filter(bool)
WORDS = st.lists(WORD, min_size=1, max_size=8).map(tuple)


@settings(max_examples=by_form(200, 2_000))
@given(WORDS, WORDS, st.text("ab. а\u200b", max_size=16))
def test_of_each_list_the_longest_word_at_a_place_counts(
    one: tuple[str, ...], two: tuple[str, ...], text: str
):
    """As the definition has it, by brute force: words that begin, hold and overlap each other."""
    rules = [Rule("", "one", "redact", "tenant", words=one), Rule("", "two", "redact", "tenant", words=two)]
    known = [(match.start, match.end, match.order, match.word) for match in matches_in(text, rules)]
    lists = WordLists([(word, order) for order, rule in enumerate(rules) for word in rule.words])
    assert sorted(lists.matches(text, 0, len(text))) == sorted(known)


def test_a_prompt_full_of_words_costs_linear_time():
    """A word in each line of a text beyond ASCII: four times the text takes about four times as long."""

    def seconds(lines: int) -> float:
        began = time.thread_time()
        Filter(listed("heron", "цапля")).feed("heron — цапля\n" * lines, final=True)
        return time.thread_time() - began

    assert seconds(20_000) < 10 * seconds(5_000)
