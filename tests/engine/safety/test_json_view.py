"""JSON as the filter sees it, against what a parser reads of the whole answer."""

import json
import random
import re
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from engine.safety.constrained_names import ConstrainedNames
from engine.safety.json_view import DEPTH_MAX, JsonView, Units
from tests.support.tiers import by_form

FREE = ConstrainedNames()
KIND = ConstrainedNames(frozenset({"kind", ""}))
EXAMPLES = by_form(300, 3_000)
# What breaks escapes, strings and nesting, in every order.
SHARDS = [
    *(
        '"',
        "\\",
        "\\\\",
        '\\"',
        "\\u",
        "\\u00",
        "\\u0041",
        "\\n",
        "\\/",
        "\\x",
        "\\ud83d",
        "\\uDE00",
        "\\udb",
    ),
    *("{", "}", "[", "]", ",", ":", '"kind":', '{"kind":"', "41", " ", "é", "😀", "\n", "\ud800", "\udc00"),
]
GARBAGE = st.lists(st.sampled_from(SHARDS) | st.text(max_size=3), max_size=30).map("".join)
LETTERS = st.text(st.characters(exclude_categories=()) | st.sampled_from('"\\/\n\b😀éA'), max_size=8)
NAMES = st.sampled_from(["kind", "kin", "kinds", "", "é", 'kind"']) | LETTERS
VALUES = st.recursive(
    LETTERS | st.integers() | st.booleans() | st.none(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=20,
)
SEEDS = st.integers(0, 2**32)
SURROGATE = re.compile("[\ud800-\udfff]")
HELD_MAX = len(r"\ud83d\ude0")


def seen(text: str, constrained: ConstrainedNames = FREE, seed: int | None = None) -> Units:
    """The units of a whole text, fed at once or in random parts, some of them empty."""
    view, parts = JsonView(constrained), [text]
    if seed is not None:
        rng = random.Random(seed)
        cuts = sorted(rng.choices(range(len(text) + 1), k=rng.randint(1, len(text) + 1)))
        parts = [text[start:end] for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True)]
    ends_alone = seed is not None and seed % 2
    last = len(parts) if ends_alone else len(parts) - 1
    feeds = [view.feed(part, final=at == last) for at, part in enumerate(parts)]
    feeds += [view.feed("", final=True)] if ends_alone else []
    return Units(
        "".join(each.text for each in feeds),
        [raw for each in feeds for raw in each.raws],
        [place for each in feeds for place in each.places],
    )


def strings(units: Units) -> list[tuple[str, bool]]:
    """The strings that a view saw, in order, and whether each may be replaced. Empty ones have no unit."""
    found: dict[int, str] = {}
    for letter, place in zip(units.text, units.places, strict=True):
        if place:
            found[place] = found.get(place, "") + letter
    return [(text, place > 0) for place, text in found.items()]


def parsed(value: Any, name: str | None = None) -> list[tuple[str, bool]]:
    """The same, of a value under its nearest name. An object is a tuple of pairs."""
    match value:
        case str():
            return [(SURROGATE.sub("\ufffd", value), name not in KIND.names)] if value else []
        case list():
            return [each for inner in value for each in parsed(inner, name)]
        case tuple():
            return [each for key, inner in value for each in [*parsed(key, ""), *parsed(inner, key)]]
        case _:
            return []


def written(value: Any, rng: random.Random) -> str:
    """The value as JSON, its letters escaped by chance."""

    def letter(character: str) -> str:
        ways = [json.dumps(character)[1:-1]]
        if character not in '"\\' and character >= " ":
            ways.append(character)
        units = character.encode("utf-16-be", "surrogatepass")
        pairs = [units[at : at + 2].hex() for at in range(0, len(units), 2)]
        ways.append("".join(f"\\u{rng.choice([pair, pair.upper()])}" for pair in pairs))
        return rng.choice(ways)

    def space() -> str:
        return rng.choice(["", "", " ", "\n  "])

    match value:
        case str():
            return f'"{"".join(map(letter, value))}"'
        case list():
            return f"[{space()}{f',{space()}'.join(written(each, rng) for each in value)}{space()}]"
        case dict():
            pairs = [
                f"{written(key, rng)}{space()}:{space()}{written(each, rng)}" for key, each in value.items()
            ]
            return f"{{{space()}{f',{space()}'.join(pairs)}{space()}}}"
        case _:
            return json.dumps(value)


@settings(max_examples=EXAMPLES)
@given(VALUES, SEEDS)
def test_a_view_reads_what_a_parser_reads(value: Any, seed: int):
    """Each string as the parser has it, in its order; names and what is under constrained ones are fixed."""
    text = written(value, random.Random(seed))
    read = json.loads(text, strict=False, object_pairs_hook=tuple)
    assert strings(seen(text, KIND, seed)) == parsed(read)


@settings(max_examples=EXAMPLES)
@given(VALUES, SEEDS)
def test_what_replaces_strings_leaves_json(value: Any, seed: int):
    """With another text in the place of each replaceable string the answer is otherwise the same value."""
    text = written(value, random.Random(seed))
    units = seen(text, KIND, seed)
    kept: list[str] = []
    for raw, place, before in zip(units.raws, units.places, [0, *units.places], strict=False):
        kept.append(raw if place <= 0 else "[EMAIL_1]" if place != before else "")
    read, original = (
        json.loads(each, strict=False, object_pairs_hook=tuple) for each in ("".join(kept), text)
    )
    expected = [("[EMAIL_1]", True) if free else (letters, free) for letters, free in parsed(original)]
    assert parsed(read) == expected


@settings(max_examples=EXAMPLES)
@given(GARBAGE, SEEDS, st.sampled_from([FREE, KIND, ConstrainedNames(every=True, nameless=True)]))
@example(r'{"\ud83d\ud83d\ude0', 1, KIND)
@example('"\\', 1, FREE)
def test_no_cut_changes_a_unit(text: str, seed: int, constrained: ConstrainedNames):
    """Any text, JSON or not, has the same units however it comes."""
    assert seen(text, constrained, seed) == seen(text, constrained)


@settings(max_examples=EXAMPLES)
@given(GARBAGE)
def test_units_are_all_of_the_text(text: str):
    """The raw texts joined are the text; each is the character that it stands for, or its escape in JSON."""
    units = seen(text)
    assert "".join(units.raws) == text
    for letter, raw, place in zip(units.text, units.raws, units.places, strict=True):
        assert letter.encode()
        if len(raw) == 1:
            assert letter == SURROGATE.sub("\ufffd", raw)
        else:
            assert place != 0
            assert letter == SURROGATE.sub("\ufffd", json.loads(f'"{raw}"'))


@settings(max_examples=EXAMPLES)
@given(GARBAGE)
def test_no_more_than_a_pair_is_held(text: str):
    """Nothing but an unfinished escape is held back, whatever is fed."""
    view, behind = JsonView(FREE), 0
    for character in text:
        behind += 1 - sum(map(len, view.feed(character).raws))
        assert behind <= HELD_MAX


@pytest.mark.parametrize(
    ("text", "letters", "places"),
    [
        ("", "", []),
        ("12", "12", [0, 0]),
        ('"a"', '"a"', [0, 1, 0]),
        ('"a', '"a', [0, 1]),
        ('["","b"]', '["","b"]', [0, 0, 0, 0, 0, 2, 0, 0]),
        ('{"a":"b"}', '{"a":"b"}', [0, 0, -1, 0, 0, 0, 2, 0, 0]),
        ('{"kind":"b"', '{"kind":"b"', [0, 0, -1, -1, -1, -1, 0, 0, 0, -2, 0]),
        (r'"\u0041\n"', '"A\n"', [0, 1, 1, 0]),
        (r'"\ud83d\uDE00"', '"😀"', [0, 1, 0]),
        (r'"\ud83d\n"', '"\ufffd\n"', [0, 1, 1, 0]),
        (r'"\ude00\ud83d"', '"\ufffd\ufffd"', [0, 1, 1, 0]),
        (r'"\ud83d\ud83d\ude00"', '"\ufffd😀"', [0, 1, 1, 0]),
        (r'"\ud83d\ude0', r'"' + "\ufffd" + r"\ude0", [0, *[1] * 6]),
        (r'"\u00', r'"\u00', [0, 1, 1, 1, 1]),
        (r'"\u00"', r'"\u00"', [0, 1, 1, 1, 1, 0]),
        (r'"\x"', r'"\x"', [0, 1, 1, 0]),
        (r'\n"', r'\n"', [0, 0, 0]),
        ('"\ud800"', '"\ufffd"', [0, 1, 0]),
    ],
)
def test_units_by_hand(text: str, letters: str, places: list[int]):
    """Letters and places of short texts, whole, cut off and wrong."""
    assert (seen(text, KIND).text, seen(text, KIND).places) == (letters, places)


@pytest.mark.parametrize(
    ("text", "last_is_free"),
    [
        ('{"kind":["x"', False),
        ('{"kind":[["a"],[1,"x"', False),
        ('{"kind":[{"a":"b"},"x"', False),
        ('{"kind":{"a":"x"', True),
        ('{"kind":{"a":1},"b":"x"', True),
        ('{"a":[{"kind":"b"},"x"', True),
        ('{"a":"kind","b":"x"', True),
        ('{"kind":1,"x"', False),
        (r'{"k\u0069nd":"x"', False),
        ('{"kinds":"x"', True),
        ('{"kin":"x"', True),
        (r'{"kind\"":"x"', True),
        ('{"":"x"', False),
        ('["kind","x"', True),
        ('{"kind":"a"}"x"', True),
        ("[" * (DEPTH_MAX - 1) + '{"a":"x"', True),
        ("[" * DEPTH_MAX + '{"a":"x"', False),
        ('{"a":' * (DEPTH_MAX + 50) + '"b"' + "}" * (DEPTH_MAX + 49) + ',"a":"x"', True),
        ('{"kind":' + "[" * (DEPTH_MAX + 50) + "]" * (DEPTH_MAX + 49) + '"x"', False),
        ("]}" * 50 + '{"a":"x"', True),
    ],
)
def test_the_nearest_name_decides(text: str, last_is_free: bool):
    """A name counts for its value and through arrays, not in objects further in; far down nothing is free."""
    assert strings(seen(text, KIND))[-1] == ("x", last_is_free)


def test_a_long_name_takes_no_room():
    """Of a name that cannot be a constrained one no more is kept than tells them apart."""
    view = JsonView(KIND)
    view.feed('{"' + "kind" * 100_000)
    assert sum(len(str(value)) for value in vars(view).values() if not isinstance(value, list)) < 1_000
    assert strings(view.feed('":"x"')) == [("x", True)]


def test_nameless_strings_are_fixed_where_the_schema_says_so():
    """A constraint outside all objects counts there, also behind one."""
    nameless = ConstrainedNames(nameless=True)
    assert strings(seen('["a",{"b":"c"},["d"]]', nameless)) == [
        ("a", False),
        ("b", False),
        ("c", True),
        ("d", False),
    ]
