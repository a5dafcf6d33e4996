"""All output of commands for people: text that others chose cannot steer a terminal. And what they read from
standard input. Tables are drawn by core/terminal/terminal_tables.py.

Every text goes through `printable_line` or, where a model wrote it, `printable_text`; none is read as markup.
JSON is for programs: exact, with each character that is not plain ASCII as an escape.
"""

import csv
import io
import json
import sys
import traceback
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Any, TextIO

import click
import msgspec

from core.errors import StartupError
from core.terminal.safe_text import printable_line, printable_text, spreadsheet_cell


def print_line(text: str = "", *, err: bool = False, dim: bool = False, colour: str | None = None) -> None:
    """One line on stdout, or with `err` on stderr; `dim` and `colour` show on a terminal only."""
    line = printable_line(text)
    click.echo(
        click.style(line, dim=True) if dim else click.style(line, fg=colour) if colour else line, err=err
    )


def print_lines(text: str, *, err: bool = False) -> None:
    """Print lines of our own making: a text of others within them must be a `printable_line` first."""
    click.echo(printable_text(text), err=err)


def print_dated_line(when: str, line: str) -> None:
    """Print a line of a process' account on stderr, behind its time."""
    click.echo(f"{click.style(printable_line(when), dim=True)}  {printable_line(line)}", err=True)


def print_json(value: Any) -> None:
    """One value as JSON on a line of stdout, exact."""
    click.echo(json.dumps(msgspec.to_builtins(value, enc_hook=str)))


def stream(text: str) -> None:
    """Print a piece of what a model writes, on stdout."""
    click.echo(printable_text(text), nl=False)


def progress(line: str) -> None:
    """Print a line of progress on stderr, over the one before; only on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{printable_line(line)}", err=True, nl=False)


def prompt_secret(what: str) -> str:
    """Read a secret from the terminal without showing it. Raises StartupError where it is not UTF-8."""
    with _utf8_only():
        return str(click.prompt(printable_line(what), hide_input=True, err=True))


def has_terminal() -> bool:
    """True where somebody can be asked."""
    return sys.stdin.isatty()


def prompt_line(what: str) -> str:
    """Read a line from the terminal. Raises StartupError where it is not UTF-8."""
    with _utf8_only():
        return str(click.prompt(printable_line(what), err=True))


def agrees(question: str) -> bool:
    """Ask on stderr; False where the answer is no, or nobody answers. Raises StartupError where it is not
    UTF-8."""
    try:
        with _utf8_only():
            return click.confirm(printable_line(question), err=True)
    except click.Abort:
        return False


def typed_line(mark: str) -> str:
    """Read a line behind a mark. Raises EOFError at the end, StartupError where the line is not UTF-8."""
    with _utf8_only():
        return input(mark)


def piped_text() -> str:
    """Read all of standard input. Raises StartupError where it is not UTF-8."""
    with _utf8_only():
        return sys.stdin.read()


@contextmanager
def _utf8_only() -> Generator[None]:
    try:
        yield
    except UnicodeDecodeError as error:
        problem = f"standard input is not UTF-8, at byte {error.start:,}: nothing was done with it"
        raise StartupError(problem) from error


def is_terminal() -> bool:
    """True where stdout is a terminal."""
    return sys.stdout.isatty()


@contextmanager
def sheet(file: Path | None) -> Generator[Callable[[Iterable[object]], None]]:
    """Gives a function that writes one row of a CSV file, or of stdout. Raises StartupError where the file
    cannot be made."""
    try:
        opened = file.open("w", newline="", encoding="utf-8") if file else nullcontext(sys.stdout)
    except OSError as error:
        raise StartupError(f"{file} cannot be written: {error.strerror}") from error
    with opened as stream:
        yield _writer(stream)


def sheet_text(rows: Iterable[Iterable[object]]) -> str:
    """The same rows as a text, for HTTP replies."""
    text = io.StringIO(newline="")
    write = _writer(text)
    for row in rows:
        write(row)
    return text.getvalue()


def _writer(stream: TextIO) -> Callable[[Iterable[object]], None]:
    writer = csv.writer(stream, lineterminator="\n")
    return lambda values: writer.writerow([spreadsheet_cell(value) for value in values])


def never_fail_to_print() -> None:
    """Make stdout and stderr print an escape for a character that the terminal lacks, and print crashes as
    prose. What is read from stdin is UTF-8 or refused, whatever the locale: no text has surrogates."""
    sys.excepthook = print_crash
    typed: object = sys.stdin
    if isinstance(typed, io.TextIOWrapper):
        typed.reconfigure(encoding="utf-8", errors="strict")
    for each in (sys.stdout, sys.stderr):
        if isinstance(each, io.TextIOWrapper):
            each.reconfigure(errors="backslashreplace")


def print_crash(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """Print a crash, for sys.excepthook: a traceback whose texts are prose."""
    click.echo(printable_text("".join(traceback.format_exception(kind, error, where))), err=True, nl=False)
