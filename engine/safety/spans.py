"""Merges overlapping matches into spans that are redacted as one, or that end the answer. Pure.

A span is decided once no further match can begin before its last letter but a key's tail: the tail is covered
as it comes, and what begins in it is covered too, but blocks nothing, since the span's placeholder is out.
Positions are bytes.
"""

from bisect import bisect_left

from engine.safety.rest import RestOfWord
from engine.safety.rules import Match
from engine.safety.tail import Tail


class Span:
    """Matches that overlap, the first one of them `lead`. `fixed_end` is the end of those that begin before
    any tail, `end` that of all. `quoted`: of an answer in JSON."""

    def __init__(self, lead: Match, quoted: bool = False) -> None:
        self.lead = lead
        self.start = lead.start
        self.fixed_end = lead.end
        self.block: Match | None = None
        self.decided = False
        self._quoted = quoted
        self._tails: list[Tail | RestOfWord] = []
        self._end = lead.end
        self.add(lead)

    @property
    def end(self) -> int:
        """End of all that it covers, as far as the text is known."""
        return max(self._end, *(tail.end for tail in self._tails)) if self._tails else self._end

    def grow(self, text: bytes, base: int) -> None:
        """Take the letters of tails, of `text` that begins at `base`."""
        for tail in self._tails:
            tail.grow(text, base)

    def takes(self, match: Match) -> bool:
        """True where the match is part of this span: it overlaps it, or joins a redaction that it touches."""
        return match.start < self.end or (match.rule.joins and match.start == self.end)

    def add(self, match: Match) -> None:
        """Cover what the match covers."""
        if match.start < self.fixed_end:
            self.fixed_end = max(self.fixed_end, match.end)
            if match.rule.action == "block" and self.block is None:
                self.block = match
        self._end = max(self._end, match.end)
        if match.rule.tail:
            self._tails.append(Tail(match.end, self._quoted))
        if match.rule.rest:
            self._tails.append(RestOfWord(match.end))

    def complete(self, undecided: int) -> bool:
        """True where no match that is part of it by its fixed end can still come."""
        return self.fixed_end <= undecided


def in_order(matches: list[Match], stop: int) -> list[Match]:
    """Take out the matches that begin before `stop`, by start, longest first, then in the rules' order."""
    if not matches:
        return []
    matches.sort(key=lambda match: (match.start, -match.end, match.order, match.text))
    count = bisect_left(matches, stop, key=lambda match: match.start)
    taken = matches[:count]
    del matches[:count]
    return taken
