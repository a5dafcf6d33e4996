"""Decides by which fixed letters a pattern is looked for: those that each match begins with. Pure.

It reads what Python's parser makes of a pattern (engine/safety/patterns.py). Letters are small ones: what
matches in either case is found, and so is what does not match, which is then tried.
"""

from collections.abc import Iterable
from typing import Any

LENGTH_MIN = 3  # bytes; less is in every text
LENGTH_MAX = 16
HEADS_MAX = 8


def heads_of(tree: Iterable[Any]) -> tuple[bytes, ...]:
    """No head is the beginning of another one. Empty where a match may begin with less than LENGTH_MIN."""
    heads = {head[:LENGTH_MAX] for head in _sequence(tree)[0]}
    if min(map(len, heads)) < LENGTH_MIN:
        return ()
    return tuple(sorted(each for each in heads if not any(each[:n] in heads for n in range(1, len(each)))))


# The beginnings of all matches, and whether these are the whole matches.
_Heads = tuple[frozenset[bytes], bool]
_UNKNOWN: _Heads = (frozenset((b"",)), False)


def _sequence(items: Iterable[Any]) -> _Heads:
    heads = frozenset((b"",))
    for op, value in items:
        more, are_whole = _heads(str(op), value)
        joined = frozenset(head + each for head in heads for each in more)
        if len(joined) > HEADS_MAX:
            return heads, False
        heads = joined
        if not are_whole:
            return heads, False
    return heads, True


def _heads(op: str, value: Any) -> _Heads:
    match op:
        case "AT":  # no letter of its own
            return frozenset((b"",)), True
        case "LITERAL":
            return frozenset((chr(value).encode().lower(),)), True
        case "SUBPATTERN":
            return _sequence(value[3])
        case "BRANCH":
            found = [_sequence(each) for each in value[1]]
            return frozenset[bytes]().union(*(heads for heads, _ in found)), all(whole for _, whole in found)
        case "MAX_REPEAT" | "MIN_REPEAT" if value[0] > 0:
            return _sequence(value[2])[0], False
        case _:
            return _UNKNOWN
