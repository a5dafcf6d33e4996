"""Draws tables and live screens for people, for core/terminal/terminal.py. As there, every text goes through
`printable_line`, and none is read as markup."""

from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from typing import NamedTuple

from rich import box, table
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.text import Text

from core.terminal.safe_text import printable_line
from core.terminal.terminal import is_terminal

PIPED_COLUMNS = 1_000


class Styled(NamedTuple):
    """A text with one of our own styles, as `bold red`."""

    text: str
    style: str


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
        """Add columns of one kind. `whole`: never broken over lines, so that it can be copied."""
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
        """Add a row; cells missing at its end are empty."""
        cells += ("",) * (len(self._names) - len(cells))
        self._rows.append(cells)
        self._table.add_row(*map(_text, cells))

    def rendered(self, columns: int | None = None) -> RenderableType:
        """Rich's form of the table. Where words would be broken to fit `columns`: a line for each cell."""
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
        """Set these widths. Heads fold, at their `_` first."""
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
    """Widths of columns that share `room`: each gets its longest word, then what it wants as far as there is
    room, the least wanted first. Pure."""
    widths, left = list(words), room - sum(words)
    order = sorted(range(len(words)), key=lambda at: wanted[at] - words[at])
    for done, at in enumerate(order):
        more = min(wanted[at] - words[at], left // (len(order) - done))
        widths[at] += more
        left -= more
    return widths


Block = Table | str | Styled


def print_blocks(*blocks: Block) -> None:
    """Print tables and lines on stdout, wide where it is no terminal, so that nothing is cut there."""
    console = Console(width=None if is_terminal() else PIPED_COLUMNS, highlight=False)
    console.print(_group(blocks, console.width))


@contextmanager
def live(*, screen: bool) -> Generator[Callable[..., None]]:
    """Gives a function that shows blocks in place of those before. `screen`: on all of the terminal."""
    from rich.live import Live  # most commands print and end

    with Live(console=Console(highlight=False), screen=screen, auto_refresh=False) as shown:
        yield lambda *blocks: shown.update(_group(blocks), refresh=True)


@contextmanager
def working(text: str) -> Generator[None]:
    """Show a note on a terminal's stderr while the block runs."""
    with Console(stderr=True, highlight=False).status(Text(printable_line(text))):
        yield


def _text(cell: str | Styled) -> Text:
    return (
        Text(printable_line(cell.text), cell.style)
        if isinstance(cell, Styled)
        else Text(printable_line(cell))
    )


def _group(blocks: Iterable[Block], columns: int | None = None) -> Group:
    return Group(*(each.rendered(columns) if isinstance(each, Table) else _text(each) for each in blocks))
