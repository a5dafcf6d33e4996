"""The fixed operators that make fresh faults out of a file's text. Pure.

Left alone: asserts, log lines, annotations, messages: what they say is seen by people, not by tests.
"""

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

COMPARISONS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
BOOLEANS = {"and": "or", "or": "and"}
ARITHMETIC = {"+": "-", "-": "+", "*": "//", "//": "*", "%": "//"}
SWAPPED_CALLS = {"any": "all", "all": "any", "min": "max", "max": "min"}
LOGGERS = {"log", "logger", "progress", "click", "say"}
LOG_LEVELS = {"debug", "info", "warning", "error", "exception", "critical"}
ONE_MORE_MAX = 100  # of 60,000 milliseconds one more is no fault that anybody meets: it is doubled
TYPED = {"assert_never"}  # no value that the types allow comes there
SKIPPED = (ast.Assert, ast.JoinedStr, ast.Raise)
UNSEEN = {"frozen", "kw_only", "repr"}  # what pyright holds, and nothing does otherwise without it
LUA = {
    "<=": "<", ">=": ">", "==": "~=", "~=": "==", "<": "<=", ">": ">=",
    "and": "or", "or": "and", "+": "-", "not": "", "true": "false", "false": "true",
}  # fmt: skip
LUA_TOKENS = re.compile(r"<=|>=|==|~=|(?<=\s)[<>+](?=\s)|\b(?:and|or|not|true|false)\b")
LUA_HIDDEN = re.compile(r"--.*|'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"")


class Change(NamedTuple):
    """Characters `start` to `end` of a text become `now`, on `line` (from 1)."""

    line: int
    start: int
    end: int
    now: str


def python_changes(text: str) -> list[Change]:
    """Every change that the operators make of a Python file."""
    return list(_Python(text).changes(ast.parse(text)))


def lua_changes(text: str) -> list[Change]:
    """Every change that the operators make of a Lua script."""
    hidden = LUA_HIDDEN.sub(lambda found: " " * len(found[0]), text)
    return [
        Change(hidden.count("\n", 0, found.start()) + 1, found.start(), found.end(), LUA[found[0]])
        for found in LUA_TOKENS.finditer(hidden)
    ]


class _Python:
    def __init__(self, text: str) -> None:
        self._text = text
        self._lines = text.splitlines(keepends=True)
        self._begins = [0]
        for line in self._lines:
            self._begins.append(self._begins[-1] + len(line))

    def changes(self, node: ast.AST) -> Iterator[Change]:
        if isinstance(node, SKIPPED) or _is_unseen(node) or getattr(node, "arg", None) in UNSEEN:
            return
        yield from self._of(node)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "returns", "decorator_list", "type_params"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    yield from self.changes(child)

    def _of(self, node: ast.AST) -> Iterator[Change]:
        match node:
            case ast.Compare(left=left, comparators=[right]):
                yield from self._between(left, right, COMPARISONS)
            case ast.BoolOp(values=[first, second, *_]):
                yield from self._between(first, second, BOOLEANS)
            case ast.BinOp(left=left, right=right):
                yield from self._between(left, right, ARITHMETIC)
            case ast.UnaryOp(op=ast.Not()):  # what follows may stand in brackets
                yield self._change(node, self._start(node), self._start(node) + len("not"), "")
            case ast.If(test=test) | ast.IfExp(test=test) if isinstance(
                test, ast.Name | ast.Call | ast.Attribute
            ):
                yield self._change(test, self._start(test), self._start(test), "not ")
            case ast.Constant(value=bool() as value):
                yield self._whole(node, str(not value))
            case ast.Constant(value=int() as value):
                yield self._whole(node, str(value + 1 if abs(value) < ONE_MORE_MAX else value * 2))
            case ast.Expr(value=ast.Call() | ast.Await()):
                yield self._whole(node, "pass")
            case ast.Call(func=ast.Name(id=name) as function) if name in SWAPPED_CALLS:
                yield self._whole(function, SWAPPED_CALLS[name])
            case _:
                pass

    def _between(self, left: ast.expr, right: ast.expr, swapped: dict[str, str]) -> Iterator[Change]:
        start, end = self._end(left), self._start(right)
        found = self._text[start:end]
        word = " ".join(found.replace("(", " ").replace(")", " ").split())
        if word in swapped and word in found:
            at = start + found.index(word)
            yield self._change(left, at, at + len(word), swapped[word], self._text.count("\n", 0, at) + 1)

    def _whole(self, node: ast.AST, now: str) -> Change:
        return self._change(node, self._start(node), self._end(node), now)

    def _change(self, node: ast.AST, start: int, end: int, now: str, line: int = 0) -> Change:
        return Change(line or int(getattr(node, "lineno", 0)), start, end, now)

    def _start(self, node: ast.AST) -> int:
        return self._at(getattr(node, "lineno", 1), getattr(node, "col_offset", 0))

    def _end(self, node: ast.AST) -> int:
        return self._at(getattr(node, "end_lineno", 1), getattr(node, "end_col_offset", 0))

    def _at(self, line: int, column_bytes: int) -> int:
        head = self._lines[line - 1].encode()[:column_bytes]
        return self._begins[line - 1] + len(head.decode())


def _is_unseen(node: ast.AST) -> bool:
    if not isinstance(node, ast.Expr):
        return False
    call = node.value.value if isinstance(node.value, ast.Await) else node.value
    function = call.func if isinstance(call, ast.Call) else None
    if isinstance(function, ast.Attribute) and function.attr in LOG_LEVELS:
        return True
    base = function.value if isinstance(function, ast.Attribute) else function
    return isinstance(base, ast.Name) and base.id in LOGGERS | TYPED


def applied(text: str, change: Change) -> str:
    """The text with it."""
    return text[: change.start] + change.now + text[change.end :]


def unique(text: str, change: Change) -> tuple[str, str]:
    """The lines around it as they are and as they become, grown upwards until they stand once."""
    start = text.rfind("\n", 0, change.start) + 1
    end = text.find("\n", change.end)
    end = len(text) if end < 0 else end
    while text.count(text[start:end]) > 1 and start:
        start = text.rfind("\n", 0, start - 1) + 1
    return text[start:end], applied(text, change)[start : end + len(change.now) - (change.end - change.start)]
