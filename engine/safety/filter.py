"""Filters an answer's text while it streams: what is blocked ends it, what is redacted is replaced. Pure.

What leaves it is a function of the text alone, not of how the text was cut, so a worker that takes an answer
over feeds all of it again. The definition, for a whole text:

- Its matches are those of all rules at all starts (engine/safety/scanner.py). Overlapping ones are one span
  (engine/safety/spans.py).
- A span with a match that blocks ends the answer where the span begins. Any other is replaced by a
  placeholder such as `[EMAIL_1]`: its category is that of its first match, its number that of the match's
  letters and digits among those of the category, by first appearance. A private key's letters are not seen
  before its placeholder is out: each gets a number of its own.
- Flags are looked for in the visible text, the first of each category, never on a placeholder.

Text is held only while a pattern could still match with it. At the end of an answer that went its way the
rest is text like any other (`final`); a cancelled one loses what is held. One that goes on there is filtered
with what readers have of it in front (seam.py): a match that begins there takes what is still to come.
"""

from collections import Counter
from collections.abc import Sequence

from engine.safety.answer_views import View
from engine.safety.cpu_budget import CpuBudget
from engine.safety.flags import FlagLane
from engine.safety.held_text import HeldText
from engine.safety.policy import CompiledPolicy
from engine.safety.rules import Match
from engine.safety.seam import BEHIND_REDACTION, TextSeam
from engine.safety.spans import Span, in_order
from engine.safety.verdicts import Block, Flag

PIECE = 4_096  # code points that are filtered at once: a bound of what is looked at before the budget is


class Filter:
    """Feed it an answer's text in order. `raw` code points of it are decided, `visible` were returned;
    `counts` are verdicts by category and action; `taken` the places, from code point to code point of the raw
    text, that were replaced, and the one that blocked. After a block nothing more is returned."""

    def __init__(
        self, policy: CompiledPolicy, view: View | None = None, seam: TextSeam | None = None
    ) -> None:
        assert seam is None or view is None, "no answer with a shape goes on behind its end"
        self.visible = 0
        self.blocked: Block | None = None
        self.counts: Counter[tuple[str, str]] = Counter()
        self.taken: list[tuple[int, int]] = []
        self._view = view
        self._vetoes = policy.vetoes
        self._budget = CpuBudget()
        self._flags = FlagLane(policy.flags)
        self._held = HeldText()
        self._seen = 0  # matches that begin before it are found
        self._pending: list[Match] = []
        self._span: Span | None = None
        self._numbers: dict[tuple[str, str], int] = {}
        self._categories: Counter[str] = Counter()
        self._out: list[str | Flag] = []
        self._before = self._before_end = 0  # code points and bytes that readers have already
        if seam is not None:
            self._begin_behind(seam)

    @property
    def raw(self) -> int:
        """Code points of the text that are decided."""
        return max(0, self._held.position - self._before)

    def _begin_behind(self, seam: TextSeam) -> None:
        """Look at what readers have, for what begins in it and does not end there. Nothing of it is shown."""
        self._before, self._before_end = len(seam.text), len(seam.text.encode())
        self._categories.update(seam.numbers)
        if seam.redacted:  # what readers have last begins what is covered
            end, last = self._before_end, len(seam.text[-1].encode())
            self._pending.append(Match(end - last, end, -1, BEHIND_REDACTION, ""))
        self.feed(seam.text)

    def feed(self, text: str, final: bool = False) -> list[str | Flag]:
        """Visible text and flags in the order of the log. `final`: no more text follows. Raises
        FilterTooDearError; nothing more may be fed then."""
        if len(text) <= PIECE:
            return _joined(self._feed(text, final))
        out: list[str | Flag] = []
        for at in range(0, len(text), PIECE):
            out += self._feed(text[at : at + PIECE], final and at + PIECE >= len(text))
        return _joined(out)

    def _feed(self, text: str, final: bool) -> list[str | Flag]:
        if self.blocked is not None:
            return []
        began = self._budget.clock()
        self._add(text, final)
        self._decide_up_to(self._undecided(final))
        self._held.forget()
        flags = self._flags.certain(final or self.blocked is not None)
        for flag in flags:
            self.counts[flag.category, "flag"] += 1
        out, self._out = [*self._out, *flags], []
        self._budget.spend(began, self._held.end)
        return out

    def _add(self, text: str, final: bool) -> None:
        if self._view is None:
            self._held.add(text)
        else:
            units = self._view.feed(text, final)
            self._held.add(units.text, units.raws, units.places)

    def _undecided(self, final: bool) -> int:
        held = self._held
        if final:
            return held.end
        return held.base + self._vetoes.undecided(held.data, self._seen - held.base)

    def _decide_up_to(self, undecided: int) -> None:
        held = self._held
        found = self._vetoes.matches(held.data, held.base, self._seen, undecided)
        self._pending += [match for match in found if match.rule.tail or match.end > self._before_end]
        self._seen = undecided
        if self._span is not None:
            self._span.grow(held.data, held.base)
        for match in in_order(self._pending, undecided):
            self._take(match)
            if self.blocked is not None:
                return
        span = self._span
        if span is not None and not span.decided and span.fixed_end <= undecided:
            self._decide(span)
        if self.blocked is None:
            self._release(undecided)

    def _take(self, match: Match) -> None:
        """Make a match part of the span before it, or begin one."""
        span = self._span
        if span is not None:
            if not span.decided and match.start >= span.fixed_end:
                self._decide(span)
            if self.blocked is not None:
                return
            if span.takes(match):
                span.add(match)
                span.grow(self._held.data, self._held.base)
                if span.decided and not self._may_replace(match.start, match.end):
                    self._held.take(max(self._held.at, match.start))
                    self._end(span.lead)
                return
            self._drop(span.end)
        self._span = Span(match, quoted=self._view is not None)
        self._span.grow(self._held.data, self._held.base)

    def _decide(self, span: Span) -> None:
        """Release what stands before it, then block or put its placeholder."""
        span.decided = True
        self._emit(span.start)
        fixed_end = self._held.position_of(span.fixed_end)
        self.taken.append((self.raw, max(0, fixed_end - self._before)))
        if span.fixed_end <= self._before_end:
            return  # a key whose placeholder readers have
        if span.block is not None or not self._may_replace(span.start, span.fixed_end):
            self._end(span.block or span.lead)
            return
        category, scope = span.lead.rule.category, span.lead.rule.scope
        placeholder = f"[{category.upper()}_{self._number(span.lead)}]"
        flag = Flag(category, "redact", scope, self.visible, len(placeholder))
        self._show(placeholder, placeholder, is_placeholder=True)
        self._out.append(flag)
        self.counts[category, "redact"] += 1

    def _may_replace(self, start: int, stop: int) -> bool:
        """True where this text can be replaced: in a view, within the value of one string."""
        if self._view is None:
            return True
        places = self._held.strings_at(start, stop)
        return len(places) == 1 and min(places) > 0

    def _end(self, match: Match) -> None:
        self.blocked = Block(match.rule.category, match.rule.scope)
        self.counts[match.rule.category, "block"] += 1

    def _number(self, match: Match) -> int:
        category = match.rule.category
        known = "".join(letter for letter in match.text if letter.isalnum())
        if match.rule.tail or match.rule.joins or (category, known) not in self._numbers:
            self._categories[category] += 1
            self._numbers[category, known] = self._categories[category]
        return self._numbers[category, known]

    def _release(self, undecided: int) -> None:
        """Let go of the text that no match can hold any more; of a span's text without showing it."""
        span = self._span
        if span is None:
            self._emit(undecided)
        elif not span.decided:
            self._emit(min(undecided, span.start))
        else:
            self._drop(min(undecided, span.end))
            self._emit(max(undecided, self._held.at))

    def _drop(self, stop: int) -> None:
        """Let go of the last span's text up to `stop`, which nobody sees."""
        if stop > self._held.at:
            self._held.take(stop)
            self.taken[-1] = (self.taken[-1][0], self.raw)

    def _emit(self, stop: int) -> None:
        if stop > self._held.at:
            known = max(0, self._before - self._held.position)
            text, raws = self._held.take(stop)
            if known:
                text = raws = text[known:]
            self._show(text, raws)

    def _show(self, text: str, raws: Sequence[str], is_placeholder: bool = False) -> None:
        shown = text if raws is text else "".join(raws)
        self.visible += len(shown)
        self._out.append(shown)
        self._flags.add(text, None if raws is text and self._view is None else raws, is_placeholder)


def _joined(out: Sequence[str | Flag]) -> list[str | Flag]:
    """The same with neighbouring texts as one."""
    found: list[str | Flag] = []
    for each in out:
        if isinstance(each, str) and found and isinstance(found[-1], str):
            found[-1] += each
        elif each != "":
            found.append(each)
    return found
