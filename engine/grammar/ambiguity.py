"""Detects patterns that match some text in more ways than can be counted, whose token masks would grow
without bound. Pure.

Builds an automaton with one state for each character of the pattern written out (Glushkov's). A loop is
ambiguous where an edge comes about in two ways, `(a+)+`, or where two different paths lead from a state back
to it over one text, `(a|b|ab)*`.
"""

import re
from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

from engine.grammar.regex import COUNTED, SIZE_MAX

# A group repeated more often than this counts as repeated without end: 20 ways for each are too many, too.
COPIES_MAX = 4
LAST = 0x10FFFF
DIGITS = ((48, 57),)
LETTERS = ((48, 57), (65, 90), (95, 95), (97, 122))
SPACES = ((9, 13), (32, 32), (160, 160))
ESCAPED = {"n": 10, "r": 13, "t": 9, "f": 12, "v": 11}
CLASSES = {"d": DIGITS, "w": LETTERS, "s": SPACES}

Ranges = tuple[tuple[int, int], ...]
_Node = TypeVar("_Node", bound=Hashable)


def ambiguous_at(pattern: str) -> int | None:
    """End of the first ambiguous repetition, counted in characters; None where there is none. `pattern` has
    passed `check_pattern`."""
    built = _Builder(pattern)
    return _Automaton(built).diverging() if built.doubled is None else built.doubled


@dataclass
class _Part:
    """A part of the pattern: whether it takes the empty text, its first and its last states."""

    empty: bool = True
    first: set[int] = field(default_factory=set[int])
    last: set[int] = field(default_factory=set[int])


@dataclass(frozen=True)
class _Loop:
    """States from `low` up to `high`, repeated without end by the operator at character `at`."""

    low: int
    high: int
    at: int


class _Builder:
    """Reads a checked pattern into states and edges. Counted repetitions are written out."""

    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._at = 0
        self.sets: list[Ranges] = []
        self.edges: dict[int, set[int]] = {}
        self.loops: list[_Loop] = []
        self.doubled: int | None = None
        self._next("^")
        self._alternatives()

    def _alternatives(self) -> _Part:
        part = self._sequence()
        while self._next("|"):
            other = self._sequence()
            part = _Part(part.empty or other.empty, part.first | other.first, part.last | other.last)
        return part

    def _sequence(self) -> _Part:
        part = _Part()
        while self._at < len(self._pattern) and self._pattern[self._at] not in "|)":
            if self._pattern[self._at :] == "$":
                self._at += 1
                break
            part = self._joined(part, self._repeated())
        return part

    def _repeated(self) -> _Part:
        start, low, loops = self._at, len(self.sets), len(self.loops)
        part = self._atom()
        least, most = self._times()
        group = len(self.sets) - low > 1 or len(self.loops) > loops
        if (least if most is None else most) > COPIES_MAX and group:
            least, most = min(least, 1), None
        after = self._at
        copies = [part]
        for _ in range(1, max(least, 1) if most is None else most):
            self._at, low = start, len(self.sets)
            copies.append(self._atom())
        self._at = after
        if most is None:
            self._looped(copies[-1], low, after)
        if most == 0:
            return _Part()
        return self._chained(copies, least)

    def _chained(self, copies: list[_Part], least: int) -> _Part:
        """Copies of one part, at least `least` of which must match: an optional one is reached from the copy
        before it only."""
        whole, last = copies[0], set[int]() if least > 1 else copies[0].last
        for at, (before, copy) in enumerate(pairwise(copies), 2):
            if copy.empty:
                whole = self._joined(whole, copy)
            else:
                self._join(before.last, copy.first)
            last = last | copy.last if at >= least else last
        empty = whole.empty or least == 0
        return _Part(empty, whole.first, whole.last if whole.empty else last)

    def _looped(self, part: _Part, low: int, at: int) -> None:
        if self._join(part.last, part.first) and self.doubled is None:
            self.doubled = at
        self.loops.append(_Loop(low, len(self.sets), at))

    def _joined(self, left: _Part, right: _Part) -> _Part:
        self._join(left.last, right.first)
        return _Part(
            left.empty and right.empty,
            left.first | right.first if left.empty else left.first,
            left.last | right.last if right.empty else right.last,
        )

    def _join(self, lasts: Iterable[int], firsts: set[int]) -> bool:
        """Add edges; True where one of them was there already."""
        twice = False
        for last in lasts:
            known = self.edges.setdefault(last, set())
            twice = twice or not known.isdisjoint(firsts)
            known |= firsts
        return twice

    def _atom(self) -> _Part:
        character = self._pattern[self._at]
        self._at += 1
        match character:
            case "(":
                self._next("?:")
                part = self._alternatives()
                self._next(")")
                return part
            case "[":
                return self._state(self._class())
            case "\\":
                return self._state(self._escape())
            case ".":
                return self._state(_without(((10, 10), (13, 13))))
            case _:
                return self._state(((ord(character), ord(character)),))

    def _state(self, ranges: Ranges) -> _Part:
        self.sets.append(ranges)
        if len(self.sets) > SIZE_MAX:
            raise ValueError("pattern: too large")
        return _Part(False, {len(self.sets) - 1}, {len(self.sets) - 1})

    def _class(self) -> Ranges:
        negated, ranges = self._next("^"), list[tuple[int, int]]()
        while not self._next("]"):
            found = self._member()
            if found[0][0] == found[0][1] and re.match(r"-[^\]]", self._pattern[self._at :]):
                self._at += 1
                found = ((found[0][0], self._member()[0][1]),)
            ranges += found
        return _without(tuple(ranges)) if negated else tuple(ranges)

    def _member(self) -> Ranges:
        character = self._pattern[self._at]
        self._at += 1
        return self._escape() if character == "\\" else ((ord(character), ord(character)),)

    def _escape(self) -> Ranges:
        character = self._pattern[self._at]
        self._at += 1
        if character.lower() in CLASSES:
            ranges = CLASSES[character.lower()]
            return ranges if character.islower() else _without(ranges)
        if character == "u":
            code = int(self._pattern[self._at : self._at + 4], 16)
            self._at += 4
        else:
            code = ESCAPED.get(character, ord(character))
        return ((code, code),)

    def _times(self) -> tuple[int, int | None]:
        counted = COUNTED.match(self._pattern, self._at)
        times: tuple[int, int | None] = (1, 1)
        if counted:
            self._at = counted.end()
            least = int(counted[1])
            times = (least, int(counted[3]) if counted[3] else None if counted[2] else least)
        elif found := re.compile("[*+?]").match(self._pattern, self._at):
            self._at = found.end()
            times = {"*": (0, None), "+": (1, None), "?": (0, 1)}[found[0]]
        else:
            return times
        self._next("?")
        return times

    def _next(self, text: str) -> bool:
        found = self._pattern.startswith(text, self._at)
        self._at += len(text) if found else 0
        return found


class _Automaton:
    """Search for ambiguous loops in a built automaton."""

    def __init__(self, built: _Builder) -> None:
        self._built = built
        self._masks = _masks(built.sets)
        self._components = _components(
            {state: sorted(built.edges.get(state, ())) for state in range(len(built.sets))}
        )

    def diverging(self) -> int | None:
        """The end of the innermost loop in which two paths over one text part and meet again."""
        pairs: dict[tuple[int, int], list[tuple[int, int]]] = {}
        open_ = [(state, state) for state in range(len(self._masks)) if state in self._built.edges]
        while open_:
            pair = open_.pop()
            if pair not in pairs:
                pairs[pair] = self._steps(*pair)
                open_ += pairs[pair]
        met: dict[int, tuple[int, int]] = {}
        diagonal = set[int]()
        for pair, component in _components(pairs).items():
            if pair[0] == pair[1]:
                diagonal.add(component)
            else:
                met.setdefault(component, pair)
        found = [pair for component, pair in met.items() if component in diagonal]
        return self._innermost(*min(found)) if found else None

    def _steps(self, one: int, two: int) -> list[tuple[int, int]]:
        """Pairs of states that both reach by one character without leaving their components."""
        edges, components, masks = self._built.edges, self._components, self._masks
        ones = [state for state in edges.get(one, ()) if components[state] == components[one]]
        twos = [state for state in edges.get(two, ()) if components[state] == components[two]]
        return [(min(a, b), max(a, b)) for a in ones for b in twos if masks[a] & masks[b]]

    def _innermost(self, one: int, two: int) -> int:
        around = [
            each for each in self._built.loops if each.low <= min(one, two) and max(one, two) < each.high
        ]
        return min(around, key=lambda each: each.high - each.low).at


def _masks(sets: list[Ranges]) -> list[int]:
    """Each set as bits, one bit for every piece of Unicode that the sets cut it into."""
    cuts = sorted({0, *(edge for ranges in sets for low, high in ranges for edge in (low, high + 1))})
    bit = {cut: at for at, cut in enumerate(cuts)}
    bit[LAST + 1] = len(cuts)
    found: dict[Ranges, int] = {}
    for ranges in set(sets):
        found[ranges] = 0
        for low, high in ranges:
            found[ranges] |= (1 << bit[high + 1]) - (1 << bit[low])
    return [found[ranges] for ranges in sets]


def _without(ranges: Ranges) -> Ranges:
    rest, start = list[tuple[int, int]](), 0
    for low, high in sorted(ranges):
        if start < low:
            rest.append((start, low - 1))
        start = max(start, high + 1)
    if start <= LAST:
        rest.append((start, LAST))
    return tuple(rest)


def _components(graph: dict[_Node, list[_Node]]) -> dict[_Node, int]:
    """The strongly connected component of each node, by Tarjan's algorithm without recursion."""
    order: dict[_Node, int] = {}
    lowest: dict[_Node, int] = {}
    components: dict[_Node, int] = {}
    open_: list[_Node] = []
    for root in graph:
        path = [] if root in order else [(root, iter(graph[root]))]
        while path:
            node, rest = path[-1]
            if node not in order:
                order[node] = lowest[node] = len(order)
                open_.append(node)
            following = next(rest, None)
            if following is None:
                path.pop()
                if path:
                    lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[node])
                if lowest[node] == order[node]:
                    _close(node, open_, components, order[node])
            elif following not in order:
                path.append((following, iter(graph[following])))
            elif following not in components:
                lowest[node] = min(lowest[node], order[following])
    return components


def _close(node: _Node, open_: list[_Node], components: dict[_Node, int], number: int) -> None:
    while True:
        each = open_.pop()
        components[each] = number
        if each == node:
            return
