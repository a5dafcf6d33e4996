"""The values and patterns of conformance cases (README.md, both tables). Pure but for fresh ids and the time.

Knows nothing of gateways or clients: both suites speak this language.
"""

import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, cast

from core.clock import now_ms
from core.ids import uuid7

UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
HASH = re.compile(r"[0-9a-f]{64}")
ABSENT = "$absent"


class BadCase(Exception):  # noqa: N818  (the suite's error, not the tested side's)
    """A case says something that the suite's language does not have."""


def is_number(value: Any) -> bool:
    """Whether a value is a number; true and false are none."""
    return isinstance(value, int | float) and not isinstance(value, bool)


KINDS: dict[str, Callable[[Any], bool]] = {
    "$any": lambda _: True,
    "$int": lambda value: is_number(value) and isinstance(value, int),
    "$text": lambda value: isinstance(value, str),
    "$bool": lambda value: isinstance(value, bool),
    "$uuid": lambda value: isinstance(value, str) and UUID.fullmatch(value) is not None,
    "$hash": lambda value: isinstance(value, str) and HASH.fullmatch(value) is not None,
}


class Names:
    """What one playing of a case has named: ids, kept values, keys."""

    def __init__(self, keys: Mapping[str, str] | None = None, each: Any = None) -> None:
        self.bound: dict[str, Any] = {}
        self.ids: dict[str, str] = {}
        self._keys = keys or {}
        self._each = each

    # Values

    def value(self, written: Any) -> Any:
        """What a written value stands for. Raises BadCase."""
        match written:
            case str() if written.startswith("$"):
                return self._word(written)
            case dict():
                return self._map(cast(dict[Any, Any], written))
            case list():
                return [self.value(item) for item in cast(list[Any], written)]
            case _:
                return written

    def text(self, written: Any) -> str:
        """A value that must be text."""
        value = self.value(written)
        if not isinstance(value, str):
            raise BadCase(f"{written!r} is no text")
        return value

    def _word(self, written: str) -> Any:
        if written.startswith("$$"):
            return written[1:]
        word, *rest = written.split()
        if word == "$each" or word.startswith("$each."):
            return self.value(self._of_each(word))
        match word, rest:
            case "$id", [name]:
                return self._id(name, 0)
            case "$uuid4", []:
                return self.ids.setdefault(word, str(uuid.uuid4()))
            case "$now", []:
                return now_ms()
            case "$key", [] | [_]:
                return self._named(self._keys, rest[0] if rest else "own")
            case "$ref", [name]:
                return self._named(self.bound, name)
            case "$ref", [name, step] if re.fullmatch(r"[+-]\d+", step):
                return self._named(self.bound, name) + int(step)
            case _:
                raise BadCase(f"{written!r} is no word of the suite")

    def _map(self, written: dict[Any, Any]) -> Any:
        if not _is_special(written):
            return {self.value(key): self.value(item) for key, item in written.items()}
        match written:
            case {"$id": name, "ahead_ms": ahead} if len(written) == 2:
                return self._id(name, self.value(ahead))
            case {"$repeat": text, "times": times} if len(written) == 2:
                return self.text(text) * self.value(times)
            case {"$list": item, "times": times} if len(written) == 2:
                return [self.value(item) for _ in range(self.value(times))]
            case {"$merge": maps} if len(written) == 1:
                return {key: item for each in maps for key, item in self.value(each).items()}
            case {"$join": parts} if len(written) == 1:
                return "".join(str(self.value(part)) for part in parts)
            case _:
                raise BadCase(f"{written!r} is no value of the suite")

    def _id(self, name: str, ahead_ms: int) -> str:
        if name not in self.ids:
            self.ids[name] = uuid7(now_ms() + ahead_ms)
        return self.ids[name]

    def _of_each(self, word: str) -> Any:
        value = self._each
        for name in word.split(".")[1:]:
            value = self._named(value, name)
        return value

    def _named(self, among: Mapping[str, Any], name: str) -> Any:
        if name not in among:
            raise BadCase(f"nothing is named {name!r} here, only {sorted(among)}")
        return among[name]

    # Patterns

    def mismatch(self, pattern: Any, found: Any) -> str | None:
        """How a message fails a pattern, None where it matches; only then are its names kept."""
        kept: dict[str, Any] = {}
        problem = self._differs(pattern, found, "", kept)
        if problem is None:
            self.bound |= kept
        return problem

    def _differs(self, pattern: Any, found: Any, at: str, kept: dict[str, Any]) -> str | None:
        match pattern:
            case str() if pattern.startswith("$"):
                return self._differs_word(pattern, found, at, kept)
            case dict():
                return self._differs_map(cast(dict[Any, Any], pattern), found, at, kept)
            case list():
                return self._differs_list(cast(list[Any], pattern), found, at, kept)
            case _:
                return _unequal(pattern, found, at)

    def _differs_word(self, pattern: str, found: Any, at: str, kept: dict[str, Any]) -> str | None:
        if pattern in KINDS:
            return None if KINDS[pattern](found) else f"{at}: {_short(found)} is not {pattern}"
        if pattern.startswith("$bind "):
            return self._bind(pattern.split()[1], found, at, kept)
        if pattern.startswith("$each"):
            return self._differs(self._of_each(pattern), found, at, kept)
        return _unequal(self._word(pattern), found, at)

    def _bind(self, name: str, found: Any, at: str, kept: dict[str, Any]) -> str | None:
        if name in self.bound:
            return _unequal(self.bound[name], found, at)
        kept[name] = found
        return None

    def _differs_map(self, pattern: dict[Any, Any], found: Any, at: str, kept: dict[str, Any]) -> str | None:
        if _is_special(pattern):
            return self._differs_special(pattern, found, at, kept)
        if not isinstance(found, dict):
            return f"{at}: {_short(found)} is no map"
        there = cast(dict[Any, Any], found)
        for written, wanted in pattern.items():
            key = self.value(written)
            where = f"{at}.{key}"
            if wanted == ABSENT:
                if key in there:
                    return f"{where}: {_short(there[key])} should not be there"
            elif key not in there:
                return f"{where} is missing"
            elif problem := self._differs(wanted, there[key], where, kept):
                return problem
        return None

    def _differs_list(self, pattern: list[Any], found: Any, at: str, kept: dict[str, Any]) -> str | None:
        if not isinstance(found, list):
            return f"{at}: {_short(found)} is no list"
        items = cast(list[Any], found)
        if len(items) != len(pattern):
            return f"{at}: {len(items)} elements instead of {len(pattern)}: {_short(items)}"
        problems = (
            self._differs(wanted, item, f"{at}[{n}]", kept)
            for n, (wanted, item) in enumerate(zip(pattern, items, strict=True))
        )
        return next((problem for problem in problems if problem), None)

    def _differs_special(  # noqa: C901  (one arm a pattern)
        self, pattern: dict[Any, Any], found: Any, at: str, kept: dict[str, Any]
    ) -> str | None:
        failed = f"{at}: {_short(found)} does not match {_short(pattern)}"
        match pattern:
            case {"$bind": name, "as": wanted} if len(pattern) == 2:
                return self._differs(wanted, found, at, kept) or self._bind(name, found, at, kept)
            case {"$contains": text} if len(pattern) == 1:
                return None if isinstance(found, str) and self.text(text) in found else failed
            case {"$between": [low, high]} if len(pattern) == 1:
                good = is_number(found) and self.value(low) <= found <= self.value(high)
                return None if good else failed
            case {"$one_of": choices} if len(pattern) == 1:
                return None if any(not self._differs(one, found, at, kept) for one in choices) else failed
            case {"$has": wanted} if len(pattern) == 1:
                if not isinstance(found, list):
                    return failed
                items = cast(list[Any], found)
                hit = (any(not self._differs(one, item, at, kept) for item in items) for one in wanted)
                return None if all(hit) else failed
            case {"$length": length} if len(pattern) == 1:
                return None if isinstance(found, list | str) and len(cast(Any, found)) == length else failed
            case {"$only": wanted} if len(pattern) == 1:
                problem = self._differs(wanted, found, at, kept)
                return problem or (None if len(wanted) == len(found) else failed)
            case {"$not": wanted} if len(pattern) == 1:
                return failed if self._differs(wanted, found, at, {}) is None else None
            case {"$repeat": _} | {"$join": _} | {"$list": _} | {"$id": _}:
                return _unequal(self.value(pattern), found, at)
            case _:
                raise BadCase(f"{pattern!r} is no pattern of the suite")


def _is_special(written: dict[Any, Any]) -> bool:
    """Whether a map is a word of the suite, and not a map whose first key is a value."""
    first = next(iter(written), None)
    return isinstance(first, str) and first.startswith("$") and " " not in first and first[:5] != "$each"


def _unequal(wanted: Any, found: Any, at: str) -> str | None:
    same = isinstance(wanted, bool) is isinstance(found, bool) and wanted == found
    return None if same else f"{at}: {_short(found)} instead of {_short(wanted)}"


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) <= 300 else f"{shown[:300]}… ({len(shown)} characters)"
