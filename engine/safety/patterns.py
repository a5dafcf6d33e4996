"""Detectors' patterns as RE2 takes them: one for whole matches, one for what may become one. Pure.

A pattern is written in Python's syntax, without what has no bound or no end (`*`, `+`, lookaround,
references, `^`, `$`). `\\b`, `\\d`, `\\w` and `\\s` know ASCII only. A group named `part` is what a match
covers; without one it covers all.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from re import _constants as sre  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from re import _parser  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]
from typing import Any

from engine.safety.documents import PolicyError
from engine.safety.heads import heads_of
from engine.safety.stretches import Ranges, Shape, Stretch, some_of

WIDTH_MAX = 256
LENGTH_MAX = 1_024  # of the pattern itself
DEPTH_MAX = 40  # of its brackets; the same everywhere, unlike Python's own bound
SHOWN_MAX = 200  # of it in an error
STRETCH_MIN = 12  # characters
STRETCHES_MAX = 32
_NESTED = re.compile(r"(?<!\\)\[\^?\[")  # `[[:alpha:]]`: Python takes it for single letters, and warns
_CODE_POINT_MAX = 0x10FFFF
_CATEGORIES = {
    "CATEGORY_DIGIT": [(48, 57)],
    "CATEGORY_SPACE": [(9, 13), (32, 32)],
    "CATEGORY_WORD": [(48, 57), (65, 90), (95, 95), (97, 122)],
}


class PatternError(PolicyError):
    """A pattern that nobody may look for. The message has it, and why."""


@dataclass(frozen=True)
class Pattern:
    """A pattern compiled for RE2. `whole` matches it; `begun` matches each of its beginnings, the empty one
    too. `width` is the most code points that a match has, `firsts` the bytes that one may begin with.
    `heads`: each match begins with one of them, in small letters; none where they are too short. `sample`:
    one of the longest matches, `letters`: some that stand in matches, `stretches`: those of the pattern."""

    whole: str
    begun: str
    width: int
    firsts: frozenset[int]
    has_part: bool
    heads: tuple[bytes, ...]
    sample: str
    letters: frozenset[str]
    stretches: frozenset[Stretch]


def parsed(pattern: str) -> Pattern:
    """Raises PatternError."""
    try:
        return _parsed(pattern)
    except (PatternError, re.error, OverflowError) as error:
        raise PatternError(f"{shown(pattern)}: {error}") from error


def shown(pattern: str) -> str:
    """A pattern, for an error."""
    return repr(pattern) if len(pattern) <= SHOWN_MAX else f"{pattern[:SHOWN_MAX]!r}…"


def _parsed(pattern: str) -> Pattern:
    if len(pattern) > LENGTH_MAX:
        raise PatternError(f"a pattern has {LENGTH_MAX:,} characters at most")
    if _NESTED.search(pattern):
        raise PatternError(r"a class has no class in it; write \[ for a bracket")
    steps = ((character == "(") - (character == ")") for character in pattern)
    if max(accumulate(steps), default=0) > DEPTH_MAX:
        raise PatternError(f"its brackets are more than {DEPTH_MAX} deep")
    tree = _parser.parse(pattern, re.ASCII)
    _check_flags(tree.state.flags & ~re.ASCII)
    node = _sequence(tree, bool(tree.state.flags & re.IGNORECASE), tree.state.groupdict.get("part"))
    least, most = node.least, node.most
    if least == 0:
        raise PatternError("it matches the empty text")
    if most > WIDTH_MAX:
        raise PatternError(f"it matches up to {most} characters; {WIDTH_MAX} at most")
    if len(node.stretches) > STRETCHES_MAX:
        many = f"{len(node.stretches)} parts that match {STRETCH_MIN} characters or more"
        raise PatternError(f"it has {many}; {STRETCHES_MAX} at most")
    has_part = "part" in tree.state.groupdict
    found = (node.sample, node.letters, node.stretches)
    return Pattern(node.whole, node.begun, most, node.firsts, has_part, heads_of(tree), *found)


def _check_flags(flags: int) -> None:
    if flags & ~re.IGNORECASE:
        raise PatternError("of the flags only i is supported")


@dataclass(frozen=True)
class _Node:
    """A part of a pattern: what matches it, what matches its beginnings, code points of the shortest and
    the longest match, the bytes that a match begins with, a longest match, letters of matches, a shortest
    match, its stretches; whether characters of words begin and end its matches, or others. `edge`: it is the
    edge of a word (True), or none (False)."""

    whole: str
    begun: str
    least: int
    most: int
    firsts: frozenset[int] = frozenset()
    sample: str = ""
    letters: frozenset[str] = frozenset()
    short: str = ""
    stretches: frozenset[Stretch] = frozenset()
    shape: Shape = ("then",)
    begins: frozenset[bool] = frozenset()
    ends: frozenset[bool] = frozenset()
    edge: bool | None = None


_EMPTY = _Node("", "", 0, 0)


def _sequence(items: Iterable[Any], ignore_case: bool, part: int | None) -> _Node:
    found = _EMPTY
    nodes = [_node(op, value, ignore_case, part) for op, value in items]
    for node in reversed(nodes):
        found = _then(node, found)
    for at, node in enumerate(nodes):
        if node.edge is not None:
            _check_edge(node.edge, nodes[:at], nodes[at + 1 :])
    return replace(found, stretches=found.stretches | _unrolled(nodes)) if nodes else found


def _check_edge(edge: bool, before: Sequence[_Node], after: Sequence[_Node]) -> None:
    """Raises PatternError where the characters beside it are such that it is never there."""
    one = _beside((node.ends, node.least) for node in reversed(before))
    other = _beside((node.begins, node.least) for node in after)
    if any((left != right) == edge for left in one for right in other):
        return
    raise PatternError(
        r"nothing matches: \b stands between two characters that are both of a word, or both not"
        if edge
        else r"nothing matches: \B stands between a character of a word and one that is not"
    )


def _beside(parts: Iterable[tuple[frozenset[bool], int]]) -> frozenset[bool]:
    found = frozenset[bool]()
    for those, least in parts:
        found |= those
        if least:
            return found
    return frozenset((True, False))  # what stands around is not known


def _unrolled(nodes: Sequence[_Node]) -> frozenset[Stretch]:
    """Stretches that are written one short part after the other."""
    found: set[Stretch] = set()
    lead, run = "", list[_Node]()
    for node in [*nodes, _EMPTY]:
        if 0 < node.most < STRETCH_MIN and (run or len(node.letters) > 1):
            run.append(node)
            continue
        if sum(each.most for each in run) >= STRETCH_MIN and any(len(each.letters) > 1 for each in run):
            found.add(Stretch(lead, ("then", *(each.shape for each in run))))
        lead += "".join(each.short for each in (*run, node))
        run = []
    return frozenset(found)


def _then(first: _Node, rest: _Node) -> _Node:
    if rest is _EMPTY:
        return first
    firsts = first.firsts if first.least else first.firsts | rest.firsts
    begun = f"(?:{first.whole}{rest.begun}|{first.begun})"
    if first.begun in ("", f"(?:{first.whole})?"):  # one character, or an edge between two
        begun = f"(?:{first.whole}{rest.begun})?"
    return _Node(
        first.whole + rest.whole,
        begun,
        first.least + rest.least,
        first.most + rest.most,
        firsts,
        first.sample + rest.sample,
        first.letters | rest.letters,
        first.short + rest.short,
        first.stretches | {Stretch(first.short + each.lead, each.shape) for each in rest.stretches},
        ("then", first.shape, *(rest.shape[1:] if rest.shape[0] == "then" else (rest.shape,))),
        first.begins if first.least else first.begins | rest.begins,
        rest.ends if rest.least else first.ends | rest.ends,
    )


def _node(op: Any, value: Any, ignore_case: bool, part: int | None) -> _Node:
    match str(op):
        case "LITERAL" | "NOT_LITERAL" | "ANY" | "IN":
            return _characters(_ranges(str(op), value, ignore_case))
        case "BRANCH":
            return _choice([_sequence(each, ignore_case, part) for each in value[1]])
        case "SUBPATTERN":
            group, added, removed, inner = value
            _check_flags(added)
            cased = (ignore_case or bool(added & re.IGNORECASE)) and not removed & re.IGNORECASE
            node = _sequence(inner, cased, part)
            bracket = "(" if group is not None and group == part else "(?:"
            return replace(node, whole=f"{bracket}{node.whole})")
        case "MAX_REPEAT" | "MIN_REPEAT":
            return _repeat(_sequence(value[2], ignore_case, part), value[0], value[1])
        case "AT" if str(value) in ("AT_BOUNDARY", "AT_NON_BOUNDARY"):
            is_edge = str(value) == "AT_BOUNDARY"
            return _Node(r"\b" if is_edge else r"\B", "", 0, 0, edge=is_edge)
        case "AT":
            raise PatternError("a pattern has no ^, $, \\A or \\Z: it is looked for everywhere")
        case "ASSERT" | "ASSERT_NOT":
            raise PatternError(
                r"lookaround is not supported; \b is where a word begins or ends (\\b in JSON)"
            )
        case "GROUPREF" | "GROUPREF_EXISTS":
            raise PatternError("references to groups are not supported")
        case name:
            raise PatternError(f"{name.lower()} is not supported")


def _repeat(node: _Node, least: int, most: Any) -> _Node:
    if most is sre.MAXREPEAT:
        raise PatternError("*, + and {n,} have no bound: write {n,m}")
    if node.most * most > WIDTH_MAX or most > WIDTH_MAX:
        raise PatternError(
            f"a repetition matches up to {max(node.most, 1) * most} characters; {WIDTH_MAX} at most"
        )
    if most == 0:
        return _EMPTY
    stretches = node.stretches
    if most > 1 and node.most * most >= STRETCH_MIN:
        stretches |= {Stretch("", node.shape)}
    inner = f"(?:{node.whole})"
    begun = (
        f"{inner}{{0,{most}}}" if node.most == node.least == 1 else f"(?:{inner}{{0,{most - 1}}}{node.begun})"
    )
    return replace(
        node,
        whole=f"{inner}{{{least},{most}}}",
        begun=begun,
        least=node.least * least,
        most=node.most * most,
        sample=node.sample * most,
        short=node.short * least,
        shape=("repeat", node.shape, max(least, 1), most),
        stretches=stretches,
    )


def _choice(nodes: Sequence[_Node]) -> _Node:
    firsts = frozenset[int]().union(*(node.firsts for node in nodes))
    return _Node(
        f"(?:{'|'.join(node.whole for node in nodes)})",
        f"(?:{'|'.join(node.begun for node in nodes)})",
        min(node.least for node in nodes),
        max(node.most for node in nodes),
        firsts,
        max((node.sample for node in nodes), key=len),
        frozenset[str]().union(*(node.letters for node in nodes)),
        min((node.short for node in nodes), key=len),
        frozenset[Stretch]().union(*(node.stretches for node in nodes)),
        ("one", *(node.shape for node in nodes)),
        frozenset[bool]().union(*(node.begins for node in nodes)),
        frozenset[bool]().union(*(node.ends for node in nodes)),
    )


def _ranges(op: str, value: Any, ignore_case: bool) -> Ranges:
    """Code points that one of these takes."""
    if op == "IN":
        return _class_of(value, ignore_case)
    literal = _with_cases([(10, 10)] if op == "ANY" else [(value, value)], ignore_case)
    return literal if op == "LITERAL" else _inverted(literal)


def _class_of(items: Iterable[Any], ignore_case: bool) -> Ranges:
    ranges: Ranges = []
    inverted = False
    for op, value in items:
        match str(op):
            case "NEGATE":
                inverted = True
            case "LITERAL":
                ranges.append((value, value))
            case "RANGE":
                ranges.append(value)
            case _:
                ranges += _category(str(value))
    ranges = _with_cases(ranges, ignore_case)
    return _inverted(ranges) if inverted else ranges


def _category(name: str) -> Ranges:
    if (positive := name.replace("NOT_", "")) == name:
        return _CATEGORIES[name]
    return _inverted(_CATEGORIES[positive])


def _with_cases(ranges: Ranges, ignore_case: bool) -> Ranges:
    """The ranges, with the other case of each ASCII letter in them."""
    if not ignore_case:
        return ranges
    swapped = [
        (max(low, first) + shift, min(high, last) + shift)
        for low, high in ranges
        for first, last, shift in ((65, 90, 32), (97, 122, -32))
        if max(low, first) <= min(high, last)
    ]
    return ranges + swapped


def _inverted(ranges: Ranges) -> Ranges:
    found: Ranges = []
    at = 0
    for low, high in sorted(ranges):
        if low > at:
            found.append((at, low - 1))
        at = max(at, high + 1)
    return [*found, (at, _CODE_POINT_MAX)] if at <= _CODE_POINT_MAX else found


def _characters(ranges: Ranges) -> _Node:
    ranges = [each for low, high in ranges for each in ((low, min(high, 0xD7FF)), (max(low, 0xE000), high))]
    ranges = [(low, high) for low, high in ranges if low <= high]  # no text has halves of surrogate pairs
    if not ranges:
        raise PatternError("a class without a character matches nothing")
    one = len(ranges) == 1 and ranges[0][0] == ranges[0][1]
    named = [_escaped(low) if low == high else f"{_escaped(low)}-{_escaped(high)}" for low, high in ranges]
    whole = named[0] if one else f"[{''.join(named)}]"
    letters = some_of(ranges)
    node = _Node(
        whole, f"(?:{whole})?", 1, 1, _first_bytes(ranges), letters[0], frozenset(letters), letters[0]
    )
    kinds = _kinds(ranges)
    return replace(node, shape=("of", tuple(ranges)), begins=kinds, ends=kinds)


def _kinds(ranges: Ranges) -> frozenset[bool]:
    """Whether characters of words are among these, and others (of ASCII, as `\\b` has it)."""
    words = sum(
        max(0, min(high, last) - max(low, first) + 1)
        for low, high in _disjoint(ranges)
        for first, last in _CATEGORIES["CATEGORY_WORD"]
    )
    size = sum(high - low + 1 for low, high in _disjoint(ranges))
    return frozenset(is_word for is_word, count in ((True, words), (False, size - words)) if count)


def _disjoint(ranges: Ranges) -> Ranges:
    return _inverted(_inverted(ranges))


def _first_bytes(ranges: Ranges) -> frozenset[int]:
    found: set[int] = set()
    for low, high in ranges:
        found.update(range(low, min(high, 127) + 1))
        if high > 127:
            found.update(range(0xC2, 0xF5))
    return frozenset(found)


def _escaped(code_point: int) -> str:
    character = chr(code_point)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code_point:x}}}"
