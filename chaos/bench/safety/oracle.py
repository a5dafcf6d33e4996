"""What the safety filter's definition makes of a whole text, by brute force: no RE2, no holding, no pieces.
Pure.

Patterns are tried by Python's own `re`, words by folding, both at every start, for every end.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cache

from engine.safety.checks import CHECKS
from engine.safety.documents import DEFAULT
from engine.safety.folding import continues_a_word, folded
from engine.safety.json_view import Units
from engine.safety.patterns import WIDTH_MAX
from engine.safety.policy import rules_of
from engine.safety.rules import Rule
from engine.safety.tail import Tail
from engine.safety.verdicts import Block, Flag


@dataclass
class Vetted:
    """What is to leave the filter: text, flags, the block; `raw` code points are decided at the end."""

    text: str = ""
    flags: list[Flag] = field(default_factory=list)
    block: Block | None = None
    raw: int = 0


@dataclass(frozen=True)
class RuleMatch:
    """One match, in code points; of a word, the word as it folds."""

    start: int
    end: int
    order: int
    rule: Rule
    word: str = ""


@cache
def default_rules() -> list[Rule]:
    """Those of the policy that gateways pin."""
    return list(rules_of(DEFAULT, "answer"))


def vetted(text: str, rules: Sequence[Rule], units: Units | None = None) -> Vetted:
    """What the rules make of a text; of a view's units, where those are given."""
    seen = units or Units(text, list(text), [])
    found, shown = Vetted(), _Shown()
    numbers = _Numbers()
    vetoes, quoted = [rule for rule in rules if rule.action != "flag"], units is not None
    at = 0
    for span in _spans(seen.text, matches_in(seen.text, vetoes), quoted):
        lead, fixed_end, blocking = span[0], span[0].end, list[RuleMatch]()
        for match in span:
            if match.start < fixed_end:
                fixed_end = max(fixed_end, match.end)
                blocking += [match] if match.rule.action == "block" else []
        shown.add(seen.text[at : lead.start], seen.raws[at : lead.start])
        at = lead.start
        if blocking or not _is_one_string(units, lead.start, fixed_end):
            found.block = _block((blocking or [lead])[0])
            break
        placeholder = f"[{lead.rule.category.upper()}_{numbers.of(lead, seen.text)}]"
        found.flags.append(
            Flag(lead.rule.category, "redact", lead.rule.scope, shown.position(), len(placeholder))
        )
        shown.add(placeholder, list(placeholder), is_placeholder=True)
        late = [each for each in span if each.start >= fixed_end]
        if outside := [each for each in late if not _is_one_string(units, each.start, each.end)]:
            at, found.block = outside[0].start, _block(lead)
            break
        at = max(_reach(seen.text, match, quoted) for match in span)
    else:
        shown.add(seen.text[at:], seen.raws[at:])
        at = len(seen.text)
    found.text, found.raw = "".join(shown.raws), len("".join(seen.raws[:at]))
    found.flags += _flags(shown, [rule for rule in rules if rule.action == "flag"])
    return found


class _Shown:
    """The visible text as the flags' rules see it, with the raw text of each code point."""

    def __init__(self) -> None:
        self.text = ""
        self.raws: list[str] = []
        self.placeholders: list[tuple[int, int]] = []

    def add(self, text: str, raws: Sequence[str], is_placeholder: bool = False) -> None:
        if is_placeholder:
            self.placeholders.append((len(self.text), len(self.text) + len(text)))
        self.text += text
        self.raws += raws

    def position(self, at: int | None = None) -> int:
        return len("".join(self.raws[:at]))


def _flags(shown: _Shown, rules: Sequence[Rule]) -> list[Flag]:
    first: dict[str, Flag] = {}
    for match in matches_in(shown.text, rules):
        if all(match.end <= start or end <= match.start for start, end in shown.placeholders):
            start = shown.position(match.start)
            size = shown.position(match.end) - start
            flag = Flag(match.rule.category, "flag", match.rule.scope, start, size)
            first.setdefault(match.rule.category, flag)
    return list(first.values())


def _block(match: RuleMatch) -> Block:
    return Block(match.rule.category, match.rule.scope)


def matches_in(text: str, rules: Sequence[Rule]) -> list[RuleMatch]:
    """Each rule's match at each start, by start, longest first."""
    found: set[RuleMatch] = set()
    for order, rule in enumerate(rules):
        if rule.words:
            longest: dict[int, RuleMatch] = {}
            for start, end, word in _words_in(text, rule.words):
                known = longest.get(start)
                if known is None or (-end, word) < (-known.end, known.word):
                    longest[start] = RuleMatch(start, end, order, rule, word)
            found.update(longest.values())
            continue
        pattern, up_to_one = _compiled(rule.pattern)
        check = CHECKS[rule.check].good if rule.check else None
        for start in range(len(text)):
            if pattern.match(text, start) is None or (start and text[start - 1] == rule.not_behind):
                continue
            for end in range(min(len(text), start + WIDTH_MAX), start, -1):
                whole = end == len(text)
                match = pattern.fullmatch(text, start) if whole else up_to_one.match(text, start, end + 1)
                if match is not None and (check is None or check(text[start:end])):
                    covered = match.span("part" if pattern.groupindex else 0)
                    found.add(RuleMatch(*covered, order, rule))
                    break
                if match is not None and check is not None and CHECKS[rule.check].whole:
                    break
    return sorted(found, key=lambda each: (each.start, -each.end, each.order, each.word))


@cache
def _compiled(pattern: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """The pattern, and one that ends one character before the end of what it is shown."""
    return re.compile(pattern, re.ASCII), re.compile(rf"(?:{pattern})(?=[\s\S]\Z)", re.ASCII)


def _words_in(text: str, words: tuple[str, ...]) -> Iterator[tuple[int, int, str]]:
    known = [folded(word) for word in words]
    for start in range(len(text)):
        if start and _in_one_word(text[start - 1], text[start]):
            continue
        for end in range(start + 1, len(text) + 1):
            seen = folded(text[start:end])
            if list(seen.places[:1]) != [0] or not any(word.alike.startswith(seen.alike) for word in known):
                break
            if end < len(text):
                more = folded(text[start : end + 1])
                is_letter = len(more.places) > len(seen.places)
                if not is_letter or _in_one_word(text[start + seen.places[-1]], text[end]):
                    continue
            for word in known:
                own = any(
                    one == other and one.isalpha() for one, other in zip(seen.plain, word.plain, strict=False)
                )
                if word.alike == seen.alike and (word.plain == seen.plain or own):
                    yield start, end, word.plain


def _in_one_word(one: str, other: str) -> bool:
    return continues_a_word(one) and continues_a_word(other)


class _Numbers:
    """Numbers of placeholders."""

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], int] = {}
        self._last: Counter[str] = Counter()

    def of(self, match: RuleMatch, text: str) -> int:
        category = match.rule.category
        key = category, "".join(filter(str.isalnum, match.word or text[match.start : match.end]))
        if match.rule.tail or match.rule.joins or key not in self._known:
            self._last[category] += 1
            self._known[key] = self._last[category]
        return self._known[key]


def _spans(text: str, matches: Iterable[RuleMatch], quoted: bool) -> list[list[RuleMatch]]:
    spans: list[list[RuleMatch]] = []
    end = 0
    for match in matches:
        joins = spans and match.rule.joins and match.start == end
        if not spans or (match.start >= end and not joins):
            spans.append([])
            end = 0
        spans[-1].append(match)
        end = max(end, _reach(text, match, quoted))
    return spans


def _reach(text: str, match: RuleMatch, quoted: bool) -> int:
    if not match.rule.tail:
        return match.end
    tail = Tail(0, quoted)
    tail.grow(text[match.end :].encode(), 0)
    return match.end + tail.end  # its letters are ASCII


def _is_one_string(units: Units | None, start: int, end: int) -> bool:
    return units is None or (len(set(units.places[start:end])) == 1 and units.places[start] > 0)
