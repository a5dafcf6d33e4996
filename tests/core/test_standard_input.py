"""What commands read from standard input is UTF-8, or refused in one line."""

import ast
import os
from pathlib import Path

import click
import pytest

from core.errors import StartupError
from core.terminal import terminal
from tests.support.patience import patience
from tests.support.processes import parley, piped

PRODUCT = ("core", "billing", "engine", "server", "admin")
# What reads bytes of our own making, or looks for the terminal alone.
NO_TEXT = {"engine/trials/host.py"}


@pytest.mark.parametrize("locale", ["C", "C.UTF-8", "POSIX"])
async def test_a_pipe_that_is_not_utf8_is_one_line(home: Path, locale: str):
    """In every locale, with its place; nothing is sent, and no traceback shows what was piped."""
    environment = os.environ | {"PARLEY_HOME": str(home), "LC_ALL": locale}
    process = await piped(parley("chat", "--url", "http://127.0.0.1:9", "--key", "k"), environment)
    async with patience():
        out, error = await process.communicate("caf\u00e9 ".encode() + b"caf\xe9")
    assert (process.returncode, out) == (1, b"")
    assert error.decode() == "parley: standard input is not UTF-8, at byte 9: nothing was done with it\n"


@pytest.mark.parametrize("asked", [terminal.agrees, terminal.prompt_secret])
def test_what_is_typed_is_text(asked: object, monkeypatch: pytest.MonkeyPatch):
    """A question and a secret too."""

    def typed(*_: object, **__: object) -> str:
        return b"\xe9".decode()

    for name in ("confirm", "prompt"):
        monkeypatch.setattr(click, name, typed)
    with pytest.raises(StartupError, match="not UTF-8, at byte 0"):
        asked("yes?")  # pyright: ignore[reportCallIssue, reportUnknownVariableType]


def test_text_is_read_in_one_place():
    """So that no command has a traceback of its own."""
    root = Path(__file__).parents[2]
    found = {
        str(path.relative_to(root))
        for room in PRODUCT
        for path in (root / room).rglob("*.py")
        if any(_reads(node) for node in ast.walk(ast.parse(path.read_text())))
    }
    assert found - NO_TEXT == {"core/terminal/terminal.py"}


def _reads(node: ast.AST) -> bool:
    """True for `input(…)`, `click.prompt`, `click.confirm` and whatever reads `sys.stdin`."""
    match node:
        case ast.Call(func=ast.Name(id="input")):
            return True
        case ast.Attribute(value=ast.Name(id="click"), attr="prompt" | "confirm" | "get_text_stream"):
            return True
        case ast.Attribute(value=ast.Attribute(attr="stdin"), attr="read" | "readline" | "buffer"):
            return True
        case _:
            return False
