"""Flags in an answer's visible text: the first match of each category. Pure.

Nothing is held back for them, so a flag may follow its text. They never stand on a placeholder.
"""

from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter

from engine.safety.held_text import HeldText
from engine.safety.rules import Match
from engine.safety.scanner import Scanner
from engine.safety.spans import in_order
from engine.safety.verdicts import Flag


class FlagLane:
    """Add what is shown, then ask what was found."""

    def __init__(self, scanner: Scanner) -> None:
        self._scanner = scanner
        self._missing = {rule.category for rule in scanner.rules}
        self._text = HeldText()
        self._seen = 0
        self._pending: list[Match] = []
        self._placeholders: list[tuple[int, int]] = []

    def add(self, text: str, raws: Sequence[str] | None, is_placeholder: bool) -> None:
        """Visible text; of a view, with each code point's raw text."""
        if self._missing:
            start = self._text.end
            self._text.add(text, raws)
            if is_placeholder:
                self._placeholders.append((start, self._text.end))

    def certain(self, final: bool) -> list[Flag]:
        """Flags that are certain now, in the order of the text. `final`: no more text follows."""
        text = self._text
        if not self._missing or (self._seen == text.end and not final):
            return []
        undecided = (
            text.end if final else text.base + self._scanner.undecided(text.data, self._seen - text.base)
        )
        self._pending += self._scanner.matches(text.data, text.base, self._seen, undecided)
        self._seen = undecided
        flags = [self._flag(match) for match in in_order(self._pending, undecided) if self._counts(match)]
        text.take(min([undecided, *(match.start for match in self._pending)]))
        self._placeholders = [each for each in self._placeholders if each[1] > text.at]
        text.forget()
        return flags

    def _counts(self, match: Match) -> bool:
        """True for the first of its category that is on no placeholder."""
        first = match.rule.category in self._missing
        behind = bisect_right(self._placeholders, match.start, key=itemgetter(1))
        free = behind == len(self._placeholders) or match.end <= self._placeholders[behind][0]
        if free:
            self._missing.discard(match.rule.category)
        return free and first

    def _flag(self, match: Match) -> Flag:
        start = self._text.position_of(match.start)
        return Flag(
            match.rule.category, "flag", match.rule.scope, start, self._text.position_of(match.end) - start
        )
