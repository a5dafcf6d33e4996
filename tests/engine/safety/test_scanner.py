"""Many patterns at once find what each would find alone."""

from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Rule
from tests.engine.safety.filters import filtered, shown


def many(count: int) -> CompiledPolicy:
    """As many patterns with fixed letters in front, and as many without."""
    rules: list[Rule] = []
    for at in range(count):
        rules.append(Rule(rf"\bitem{at}[a-c]{{1,3}}\b", f"h{at}", "redact", "tenant", own=True))
        rules.append(Rule(f"[xy]{at}z", f"o{at}", "redact", "tenant", own=True))
    return CompiledPolicy(rules)


def test_a_thousand_patterns_find_what_each_finds():
    """In lanes, by their letters or a few dozen together; an edge before the letters counts."""
    policy = many(500)
    assert filtered("ITEM7a item7a xitem7a x499z y12z item499abc", policy) == (
        "ITEM7a [H7_1] xitem7a [O499_1] [O12_1] [H499_1]"
    )


def test_text_is_held_only_while_one_of_them_may_match():
    """Letters that begin a head, a head with more to come; what is no match goes at once."""
    filter = Filter(many(100))
    assert filter.feed("an it") == ["an "]
    assert filter.feed("em is") == ["item is"]
    assert filter.feed(" item5a") == [" "]
    assert filter.feed("d") == ["item5ad"]
    assert shown(filter.feed(" item5ab.")) == " [H5_1]."
