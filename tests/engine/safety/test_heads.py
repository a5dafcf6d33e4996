"""The fixed letters by which a pattern is looked for."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine.safety.detectors import DETECTORS
from engine.safety.patterns import parsed

PATTERNS = [each.pattern for detector in DETECTORS.values() for each in detector.patterns]


@pytest.mark.parametrize(
    ("pattern", "heads"),
    [
        ("EMP-[0-9]{6}", ("emp-",)),
        (r"\b(?i:Key)s?x", ("key",)),
        ("(?:foo|bar)-x", ("bar-x", "foo-x")),
        ("(?:AK|AKIA)[0-9]", ()),
        ("(?:AKI|AKIA)[0-9]", ("aki",)),
        ("(?:abc){1,3}d", ("abc",)),
        ("日[本]", ("日本",)),
        ("a{20}", ()),
        ("abcdefghijklmnopqrstuvwxyz", ("abcdefghijklmnop",)),
        ("[ab]cde", ()),
        ("x?abc", ()),
    ],
)
def test_heads_are_what_each_match_begins_with(pattern: str, heads: tuple[str, ...]):
    """Small letters, three bytes at least, none the beginning of another; else there are none."""
    assert parsed(pattern).heads == tuple(head.encode() for head in heads)


@given(st.data())
def test_every_match_begins_with_a_head(data: st.DataObject):
    """Of each detector's pattern that has heads."""
    pattern = data.draw(st.sampled_from([each for each in PATTERNS if parsed(each).heads]))
    text = data.draw(st.from_regex(re.compile(pattern, re.ASCII), fullmatch=True))
    assert text.encode().lower().startswith(parsed(pattern).heads)
