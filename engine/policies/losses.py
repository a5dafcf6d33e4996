"""Finds what a new document no longer does, rules that are gone or weaker, and sides without a rule. Pure.

It compares what holds before and after, all levels merged, by names: a pattern that is written otherwise
under its name is no loss, a word that is gone from its list is one.
"""

from collections import defaultdict
from collections.abc import Iterator
from typing import Literal

import msgspec

from engine.policies.merge import FIELDS, STRICTNESS, Entry
from engine.safety.documents import PolicyDocument, PolicyWords
from engine.safety.verdicts import Action

Side = Literal["action", "prompt"]  # in answers, in prompts
Named = tuple[type[Entry], str]


class Lost(msgspec.Struct, frozen=True):
    """What is no longer looked for on one side; `words`: only so many words of the list are gone."""

    name: str
    of: Side
    was: Action
    words: int | None = None


class Weakened(msgspec.Struct, frozen=True):
    """What has a weaker action on one side."""

    name: str
    of: Side
    was: Action
    becomes: Action


class Losses(msgspec.Struct, frozen=True):
    """All of a change."""

    lost: list[Lost]
    weakened: list[Weakened]

    def __bool__(self) -> bool:
        return bool(self.lost or self.weakened)


def losses(before: PolicyDocument, after: PolicyDocument) -> Losses:
    """What `after` no longer does of `before`; both are merged."""
    lost: list[Lost] = []
    weakened: list[Weakened] = []
    for side in FIELDS:
        new = _strictest(after, side)
        for named, was in _strictest(before, side).items():
            name, becomes = named[1], new.get(named)
            if becomes is None:
                lost.append(Lost(name, side, was))
                continue
            if STRICTNESS[becomes] < STRICTNESS[was]:
                weakened.append(Weakened(name, side, was, becomes))
            if gone := _words(before, named, side) - _words(after, named, side):
                lost.append(Lost(name, side, was, len(gone)))
    return Losses(lost, weakened)


def one_sided(document: PolicyDocument, held: PolicyDocument) -> dict[Side, list[str]]:
    """Names of a document's rules that are not looked for in answers, or not in prompts, though on the other
    side; `held`: what holds with it."""
    found: dict[Side, list[str]] = {}
    for side in FIELDS:
        looked_for = _strictest(held, side)
        names = {each.name: None for each in document.entries() if _named(each) not in looked_for}
        found[side] = list(names)
    return found


def _strictest(document: PolicyDocument, side: Side) -> dict[Named, Action]:
    found: defaultdict[Named, list[Action]] = defaultdict(list)
    for entry, action in _acting(document, side):
        found[_named(entry)].append(action)
    return {named: max(actions, key=lambda action: STRICTNESS[action]) for named, actions in found.items()}


def _words(document: PolicyDocument, named: Named, side: Side) -> set[str]:
    acting = [entry for entry, _ in _acting(document, side) if _named(entry) == named]
    return {word for entry in acting if isinstance(entry, PolicyWords) for word in entry.words}


def _acting(document: PolicyDocument, side: Side) -> Iterator[tuple[Entry, Action]]:
    for entry in document.entries():
        if (action := getattr(entry, side)) is not None:
            yield entry, action


def _named(entry: Entry) -> Named:
    return type(entry), entry.name
