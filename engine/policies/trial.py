"""What a policy does to a text, step by step, as tokens would bring it. Pure; for people who write policies.

The steps are those of a filter in a worker; tokens are guessed, which changes when something is shown and not
what.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from operator import attrgetter
from typing import Literal

import msgspec

from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy
from engine.safety.scanner import Scanner
from engine.safety.verdicts import Action, Block, Flag, Scope

Outcome = Literal["block", "redact"]
_TOKEN = re.compile(r"\s?[^\W\d_]{1,8}|\s?\d{1,3}|\s?[^\w\s]|.", re.DOTALL)


class TrialMatch(msgspec.Struct, frozen=True):
    """One match of one rule: `n` code points from `p` on."""

    p: int
    n: int
    category: str
    action: Action
    scope: Scope
    text: str


class TrialSpan(msgspec.Struct, frozen=True):
    """Matches that overlap, taken as one: replaced by `placeholder`, or the text's end."""

    p: int
    n: int
    outcome: Outcome
    category: str
    scope: Scope
    placeholder: str
    matches: int


class TrialStep(msgspec.Struct, frozen=True):
    """One token, what is `shown` after it for the first time, and how many code points are `held` then. The
    last step's token is empty: the text ends."""

    token: str
    shown: str
    flags: list[Flag]
    held: int


class Trial(msgspec.Struct, frozen=True):
    """All that became of a text: `flags` are places of what was `shown`. With a block nothing follows."""

    matches: list[TrialMatch]
    spans: list[TrialSpan]
    steps: list[TrialStep]
    flags: list[Flag]
    shown: str
    block: Block | None


def tried(text: str, policy: CompiledPolicy, whole: bool = False) -> Trial:
    """What becomes of a text that comes token by token; `whole`: at once, as a prompt does."""
    filter = Filter(policy)
    steps = list(_steps(text, filter, whole))
    flags = [flag for step in steps for flag in step.flags]
    shown = "".join(step.shown for step in steps)
    matches = [*_matches(text, policy.vetoes), *_matches(text, policy.flags)]
    matches.sort(key=lambda match: (match.p, -match.n))
    return Trial(matches, list(_spans(filter, flags, shown, matches)), steps, flags, shown, filter.blocked)


def tokens_of(text: str) -> list[str]:
    """The text in pieces about as long as tokens."""
    return _TOKEN.findall(text)


def _steps(text: str, filter: Filter, whole: bool) -> Iterator[TrialStep]:
    given = 0
    for token in [text] if whole else [*tokens_of(text), ""]:
        out = filter.feed(token, final=whole or not token)
        given += len(token)
        shown = "".join(each for each in out if isinstance(each, str))
        held = 0 if filter.blocked else given - filter.raw
        yield TrialStep(token, shown, [each for each in out if isinstance(each, Flag)], held)
        if filter.blocked is not None:
            return


def _matches(text: str, scanner: Scanner) -> Iterator[TrialMatch]:
    data, at, point = text.encode(), 0, 0
    for match in sorted(scanner.matches(data, 0, 0, len(data)), key=attrgetter("start")):
        point += len(data[at : match.start].decode())
        at, found, rule = match.start, data[match.start : match.end].decode(), match.rule
        yield TrialMatch(point, len(found), rule.category, rule.action, rule.scope, found)


def _spans(filter: Filter, flags: list[Flag], shown: str, matches: list[TrialMatch]) -> Iterator[TrialSpan]:
    """Places that were taken: redactions in the order of their placeholders, then the block."""
    redactions = iter(sorted((flag for flag in flags if flag.action == "redact"), key=lambda flag: flag.p))
    starts = [each.p for each in matches if each.action != "flag"]  # in order
    for start, end in filter.taken:
        count = bisect_left(starts, end) - bisect_left(starts, start)
        place = (start, end - start)
        flag = next(redactions, None)
        if flag is not None:
            placeholder = shown[flag.p : flag.p + flag.n]
            yield TrialSpan(*place, "redact", flag.category, flag.scope, placeholder, count)
        elif filter.blocked is not None:
            yield TrialSpan(*place, "block", filter.blocked.category, filter.blocked.scope, "", count)
