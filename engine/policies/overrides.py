"""Finds rules that do nothing, since a level outside them is stricter. Pure."""

from collections.abc import Iterable, Mapping
from typing import Literal

import msgspec

from engine.policies.merge import FIELDS, STRICTNESS, merged, subject_of
from engine.safety.documents import PolicyDocument
from engine.safety.verdicts import Action, Scope

LevelKey = tuple[str, str]  # a level: ids of its tenant and its project, as in safety_policy


class Override(msgspec.Struct, frozen=True):
    """An entry's action, for answers ("action") or prompts, that does nothing: what `holds` is stricter, and
    is the rule of `scope`."""

    name: str
    of: Literal["action", "prompt"]
    asked: Action
    holds: Action
    scope: Scope


def overridden(outer: PolicyDocument, document: PolicyDocument) -> list[Override]:
    """What of a level's document does nothing under the merged document of the levels outside it."""
    found: list[Override] = []
    for field in FIELDS:
        rules = sorted(outer.entries(), key=lambda each: STRICTNESS[getattr(each, field)])
        strictest = {subject_of(each): each for each in rules}
        for entry in document.entries():
            asked: Action | None = getattr(entry, field)
            holding = strictest.get(subject_of(entry))
            holds: Action | None = getattr(holding, field, None)
            if asked and holds and holding and STRICTNESS[holds] > STRICTNESS[asked]:
                found.append(Override(entry.name, field, asked, holds, holding.scope))
    return found


def overridden_below(
    platform: PolicyDocument | None, levels: Mapping[LevelKey, PolicyDocument]
) -> Iterable[tuple[LevelKey, Override]]:
    """The same of all documents of tenants and their projects, each with whose it is."""
    for (tenant, project), document in sorted(levels.items()):
        outer = merged(platform, levels.get((tenant, "")) if project else None)
        for each in overridden(outer, document):
            yield (tenant, project), each
