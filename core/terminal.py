"""All that the commands print for people, and nothing else does: what others chose cannot steer a terminal.

Every text goes through `plain` or, where a model wrote it, `prose`; none is read as markup. JSON is for
programs: exact, with each character that is not plain ASCII as an escape.
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
from typing import Any, NamedTuple, TextIO

import click
import msgspec
from rich import box, table
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from core.errors import StartupError
from core.safe_text import printable_line, printable_text, spreadsheet_cell

PIPED_COLUMNS = 1_000


class Styled(NamedTuple):
    """A text with one of our own styles, as `bold red`."""

    text: str
    style: str


def print_line(text: str = "", *, err: bool = False, dim: bool = False, colour: str | None = None) -> None:
    """One line on stdout, or with `err` on stderr; `dim` and `colour` show on a terminal only."""
    line = printable_line(text)
    click.echo(
        click.style(line, dim=True) if dim else click.style(line, fg=colour) if colour else line, err=err
    )


def print_lines(text: str, *, err: bool = False) -> None:
    """Lines of our own making: what others chose in them is to be `plain` before."""
    click.echo(printable_text(text), err=err)


def print_dated_line(when: str, line: str) -> None:
    """A line of a process' account on stderr, behind its time."""
    click.echo(f"{click.style(printable_line(when), dim=True)}  {printable_line(line)}", err=True)


def print_json(value: Any) -> None:
    """One value as JSON on a line of stdout, exact."""
    click.echo(json.dumps(msgspec.to_builtins(value, enc_hook=str)))


def stream(text: str) -> None:
    """A piece of what a model writes, on stdout."""
    click.echo(printable_text(text), nl=False)


def progress(line: str) -> None:
    """One line about what is under way, on stderr, over the one before; only on a terminal."""
    if sys.stderr.isatty():
        click.echo(f"\r\033[K{printable_line(line)}", err=True, nl=False)


class Table:
    """A table of texts. `ruled`: with a line below its head; `headed`: its columns have names."""

    def __init__(self, *, ruled: bool = False, headed: bool = True) -> None:
        shape = box.SIMPLE_HEAD if ruled else None
        self._table = table.Table(box=shape, pad_edge=False, header_style="bold", show_header=headed)
        self._names: list[str] = []
        self._rows: list[tuple[str | Styled, ...]] = []

    def columns(
        self, *names: str, right: bool = False, whole: bool = False, min_width: int | None = None
    ) -> None:
        """Columns of one kind, after those there are. `whole`: never broken over lines, to be copied."""
        for name in names:
            self._names.append(name)
            self._table.add_column(
                Text(printable_line(name)),
                justify="right" if right else "left",
                overflow="fold",
                no_wrap=whole,
                min_width=min_width,
            )

    def row(self, *cells: str | Styled) -> None:
        """One more row; the cells that it lacks at its end are empty."""
        cells += ("",) * (len(self._names) - len(cells))
        self._rows.append(cells)
        self._table.add_row(*map(_text, cells))

    def rendered(self, columns: int | None = None) -> RenderableType:
        """For this module. Where words would be broken to fit `columns`: row by row, a line a fact."""
        if columns is None or not self._table.show_header:
            return self._table
        cells = [[_text(row[at]).plain for row in self._rows] for at in range(len(self._names))]
        wanted = [max(map(cell_len, [name, *texts])) for name, texts in zip(self._names, cells, strict=True)]
        count = len(wanted)
        room = columns - (2 * count if self._table.box is None else 3 * count + 1)
        if sum(wanted) <= room:
            return self._table
        words = [_longest_word(texts) for texts in cells]
        if sum(words) > room:
            return Group(*(self._record(row, first=at == 0) for at, row in enumerate(self._rows)))
        heads = [_longest_word([name.replace("_", " ")]) for name in self._names]
        with_heads = list(map(max, words, heads))
        self._narrow(fitted(with_heads if sum(with_heads) <= room else words, wanted, room))
        return self._table

    def _narrow(self, widths: list[int]) -> None:
        """Give the columns these widths. Heads fold, at their `_` first."""
        for column, name, width in zip(self._table.columns, self._names, widths, strict=True):
            column.width = width
            if cell_len(printable_line(name)) > width:
                column.header = Text(printable_line(name).replace("_", " "))

    def _record(self, row: tuple[str | Styled, ...], *, first: bool) -> RenderableType:
        facts = table.Table.grid(padding=(0, 2, 0, 0))
        facts.add_column(no_wrap=True)
        facts.add_column(overflow="fold")
        for name, cell in zip(self._names, map(_text, row), strict=True):
            if cell.plain:
                facts.add_row(Text(printable_line(name), "bold"), cell)
        return facts if first else Group(Text(), facts)


def _longest_word(texts: Iterable[str]) -> int:
    return max((cell_len(word) for text in texts for word in text.split()), default=1)


def fitted(words: list[int], wanted: list[int], room: int) -> list[int]:
    """The widths of columns that have to share so much room: what a column's longest word takes, then as far
    as it goes what it wants, those that want the least more first. Pure."""
    widths, left = list(words), room - sum(words)
    order = sorted(range(len(words)), key=lambda at: wanted[at] - words[at])
    for done, at in enumerate(order):
        more = min(wanted[at] - words[at], left // (len(order) - done))
        widths[at] += more
        left -= more
    return widths


Block = Table | str | Styled


def print_blocks(*blocks: Block) -> None:
    """Tables and lines on stdout, wide where it is no terminal, so that nothing is cut there."""
    console = Console(width=None if is_terminal() else PIPED_COLUMNS, highlight=False)
    console.print(_group(blocks, console.width))


@contextmanager
def live(*, screen: bool) -> Generator[Callable[..., None]]:
    """Gives a function that shows blocks in place of those before, `screen`: on all of the terminal."""
    with Live(console=Console(highlight=False), screen=screen, auto_refresh=False) as shown:
        yield lambda *blocks: shown.update(_group(blocks), refresh=True)


@contextmanager
def working(text: str) -> Generator[None]:
    """Says on a terminal's stderr that something is under way, as long as it is."""
    with Console(stderr=True, highlight=False).status(Text(printable_line(text))):
        yield


def prompt_secret(what: str) -> str:
    """What is typed at the terminal, without showing it."""
    return str(click.prompt(printable_line(what), hide_input=True, err=True))


def is_terminal() -> bool:
    """Whether a person sees stdout at once."""
    return sys.stdout.isatty()


@contextmanager
def sheet(file: Path | None) -> Generator[Callable[[Iterable[object]], None]]:
    """Gives a function that writes one row of a CSV file, or of stdout. Raises StartupError where there can
    be no such file."""
    try:
        opened = file.open("w", newline="", encoding="utf-8") if file else nullcontext(sys.stdout)
    except OSError as error:
        raise StartupError(f"{file} cannot be written: {error.strerror}") from error
    with opened as stream:
        yield _writer(stream)


def sheet_text(rows: Iterable[Iterable[object]]) -> str:
    """The same rows as a text, for who asks over HTTP."""
    text = io.StringIO(newline="")
    write = _writer(text)
    for row in rows:
        write(row)
    return text.getvalue()


def _writer(stream: TextIO) -> Callable[[Iterable[object]], None]:
    writer = csv.writer(stream, lineterminator="\n")
    return lambda values: writer.writerow([spreadsheet_cell(value) for value in values])


def never_fail_to_print() -> None:
    """A terminal that lacks a character gets its escape, and a crash is told as prose."""
    sys.excepthook = print_crash
    for each in (sys.stdout, sys.stderr):
        if isinstance(each, io.TextIOWrapper):
            each.reconfigure(errors="backslashreplace")


def print_crash(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """For sys.excepthook: a traceback whose texts are prose."""
    click.echo(printable_text("".join(traceback.format_exception(kind, error, where))), err=True, nl=False)


def _text(cell: str | Styled) -> Text:
    return (
        Text(printable_line(cell.text), cell.style)
        if isinstance(cell, Styled)
        else Text(printable_line(cell))
    )


def _group(blocks: Iterable[Block], columns: int | None = None) -> Group:
    return Group(*(each.rendered(columns) if isinstance(each, Table) else _text(each) for each in blocks))
