"""No log call of the code takes the words of an error: the source is swept, so that new ones are held too."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

from core.terminal import terminal

ROOT = Path(__file__).parents[2]
FOLDERS = ("core", "billing", "engine", "server", "admin")
LEVELS = frozenset({"debug", "info", "warning", "error", "critical", "exception", "log"})
# What an error says of itself in words; `named`, `kind` and `facts` of error_facts.py do not.
WORDS = frozenset({"str", "repr", "format"})


def _logs(node: ast.AST) -> bool:
    if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in LEVELS):
        return False
    owner = node.func.value
    return isinstance(owner, ast.Name | ast.Attribute)


def _caught(tree: ast.AST) -> Iterator[tuple[str, ast.ExceptHandler]]:
    for node in ast.walk(tree):
        if isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name, node


def _says(value: ast.AST, name: str) -> bool:
    """Whether the expression has the words of the error of this name in it."""
    for node in ast.walk(value):
        if isinstance(node, ast.FormattedValue) and _is(node.value, name):
            return True
        if isinstance(node, ast.Attribute) and node.attr == "args" and _is(node.value, name):
            return True
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in WORDS:
            return any(_is(each, name) for each in node.args)
    return False


def _is(node: ast.AST, name: str) -> bool:
    return isinstance(node, ast.Name) and node.id == name


def _wordy(source: str) -> list[int]:
    lines: list[int] = []
    for name, handler in _caught(ast.parse(source)):
        for node in ast.walk(handler):
            if isinstance(node, ast.Call) and _logs(node):
                values = [*node.args, *(keyword.value for keyword in node.keywords)]
                if any(_says(value, name) for value in values):
                    lines.append(node.lineno)
    return lines


FOREIGN = re.compile(r"Redis|Response|DBAPI|SQLAlchemy|OSError|ConnectionError|HTTP|SMTP")
PRINTS = frozenset({"print_line", "print_lines", "print_json"})
TOLD = frozenset({"StartupError", "bad_request", "_say"}) | PRINTS


def _told(source: str) -> list[int]:
    """Where an operator is told the words of an error of Redis, SQL or the system."""
    lines: list[int] = []
    for name, handler in _caught(ast.parse(source)):
        if not FOREIGN.search(ast.unparse(handler.type) if handler.type else ""):
            continue
        for node in ast.walk(handler):
            if not isinstance(node, ast.Call):
                continue
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in TOLD and any(_says(value, name) for value in node.args):
                lines.append(node.lineno)
    return lines


def test_no_message_to_operators_has_the_words_of_redis_sql_or_the_system():
    """They hold URLs with passwords, rows and keys; `core/sql/store_errors.py` and `kind` say what it is."""
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            found += [f"{path.relative_to(ROOT)}:{line}" for line in _told(path.read_text())]
    assert found == []


def test_the_sweep_of_messages_finds_what_it_looks_for():
    """What prints is looked for by the name that it has."""
    assert [name for name in PRINTS if not callable(getattr(terminal, name, None))] == []
    body = "try:\n    pass\nexcept (RedisError, ValueError) as error:\n    raise StartupError({})\n"
    for wordy in ("f'away: {error}'", "str(error)"):
        assert _told(body.format(wordy)), wordy
    for plain in ("f'away: {kind(error)}'", "f'away: {error.strerror}'"):
        assert not _told(body.format(plain)), plain


# A GPU's type that has no price: the error's word is the fleet's own, and what to act on.
KNOWN = {("billing/dedicated_pools/posting.py", "gpu_type=str(error)")}


def test_no_log_call_has_an_errors_words():
    """INV-15: `error=str(error)` is a prompt, a key or a row as soon as somebody else raises."""
    found: list[str] = []
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            source, shown = path.read_text(), str(path.relative_to(ROOT))
            if "logger(" not in source:
                continue
            lines = source.splitlines()
            for line in _wordy(source):
                call = " ".join(lines[line - 1 : line + 3])
                if not any(shown == known and words in call for known, words in KNOWN):
                    found.append(f"{shown}:{line}")
    assert found == []


def test_the_sweep_finds_what_it_looks_for():
    """All ways to say an error's words, and none that says its type."""
    body = "try:\n    pass\nexcept ValueError as error:\n    log.error('x', {})\n"
    for wordy in ("why=str(error)", "why=f'{error}'", "why=repr(error)", "why=error.args[0]"):
        assert _wordy(body.format(wordy)), wordy
    for plain in ("error=named(error)", "error=type(error).__name__", "**facts(error)"):
        assert not _wordy(body.format(plain)), plain


SPANS = re.compile(r"\.(start_span|start_as_current_span|record_exception|set_attributes?|add_event)\(")


def test_spans_are_made_in_one_place():
    """INV-15: OpenTelemetry's own calls keep an error's words and its traceback; `telemetry.Spans` in
    core/observability keeps the type, and nobody adds to them what was said."""
    found = [
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in sorted((ROOT / folder).rglob("*.py"))
        if SPANS.search(path.read_text())
    ]
    assert found == ["core/observability/telemetry.py"]
