"""Merges the documents of the levels into the one that is pinned. Pure.

All entries of all levels are in it, each with whose it is. Where several ask the same (one detector in one
version, one pattern, one list of words), the strictest action holds, for answers and for prompts apart, and
is the outermost level's that asks for it. So a lower level adds or tightens, and never loosens. In which
order documents and lists have their entries changes nothing: equal rules are equal bytes, and have one hash.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, TypeAlias, TypeVar

from msgspec.structs import replace

from engine.safety.documents import DEFAULT, PolicyDetector, PolicyDocument, PolicyPattern, PolicyWords
from engine.safety.verdicts import Action, Scope

SCOPES: tuple[Scope, ...] = ("platform", "tenant", "project")  # outermost first
STRICTNESS: Mapping[Action | None, int] = {None: 0, "flag": 1, "redact": 2, "block": 3}
FIELDS: tuple[Literal["action", "prompt"], ...] = ("action", "prompt")
_FIRST = [each.name for each in DEFAULT.detectors]

Entry: TypeAlias = PolicyDetector | PolicyPattern | PolicyWords
E = TypeVar("E", bound=PolicyDetector | PolicyPattern | PolicyWords)


def merged(
    platform: PolicyDocument | None,
    tenant: PolicyDocument | None = None,
    project: PolicyDocument | None = None,
) -> PolicyDocument:
    """The document that holds. A platform without one has the built-in default."""
    documents = (DEFAULT if platform is None else platform, tenant, project)
    asked = zip(SCOPES, documents, strict=True)
    levels: list[tuple[Scope, PolicyDocument]] = [(scope, each) for scope, each in asked if each is not None]
    return PolicyDocument(
        _joined((scope, each.detectors) for scope, each in levels),
        _joined((scope, each.patterns) for scope, each in levels),
        _joined((scope, each.words) for scope, each in levels),
    )


def _joined(levels: Iterable[tuple[Scope, Sequence[E]]]) -> tuple[E, ...]:
    groups: dict[E, list[E]] = {}
    for scope, entries in levels:
        for entry in entries:
            groups.setdefault(subject_of(entry), []).append(replace(entry, scope=scope))
    joined = [each for asked, group in groups.items() for each in _strictest(asked, group)]
    return tuple(sorted(joined, key=_place))


def subject_of(entry: E) -> E:
    """What is looked for, whatever is done about it and whose rule it is."""
    bare = replace(entry, action=None, prompt=None, scope=SCOPES[0])
    return replace(bare, words=tuple(sorted(set(bare.words)))) if isinstance(bare, PolicyWords) else bare


def _strictest(asked: E, group: Sequence[E]) -> list[E]:
    """One entry with both actions, or two where they are of different levels."""
    found: dict[Scope, E] = {}
    for field in FIELDS:
        best = max(group, key=lambda each: (STRICTNESS[getattr(each, field)], -_depth(each)))
        if (action := getattr(best, field)) is not None:
            of_scope = found.get(best.scope, replace(asked, scope=best.scope))
            found[best.scope] = replace(of_scope, **{field: action})
    return list(found.values())


def _depth(entry: Entry) -> int:
    return SCOPES.index(entry.scope)


def _place(entry: Entry) -> tuple[Any, ...]:
    """Outer levels first; of one level the default's detectors in its order, then by name."""
    match entry:
        case PolicyDetector():
            known = _FIRST.index(entry.name) if entry.name in _FIRST else len(_FIRST)
            return _depth(entry), known, entry.name, entry.version
        case PolicyPattern():
            return _depth(entry), entry.name, entry.pattern, entry.ignore_case
        case PolicyWords():
            return _depth(entry), entry.name, entry.words
