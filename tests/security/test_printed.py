"""What others chose cannot steer a terminal, a spreadsheet or the markup that tables are made of."""

import ast
import csv
import io
import json
import sys
import unicodedata
from pathlib import Path

import pytest

from admin.child_processes import ChildProcess
from admin.own_pool import WantedPool
from admin.up import PlatformStart
from core.access.processes import GATEWAY
from core.cli import main
from core.configuration.settings import Settings
from core.errors import StartupError
from core.terminal import terminal_tables as printed
from core.terminal.safe_text import printable_line, printable_text, spreadsheet_cell
from core.terminal.terminal import (
    never_fail_to_print,
    print_crash,
    print_dated_line,
    print_json,
    print_line,
    print_lines,
    progress,
    sheet,
    stream,
)
from core.terminal.terminal_tables import Styled, Table, print_blocks, working

ROOT = Path(__file__).parents[2]
PACKAGES = ("core", "billing", "engine", "server", "admin")
HOSTILE = "[/x]\x1b]0;x\x07\u202e\r\n\x9b31m\x7f\u2028=cmd()"
# Who prints beside core/terminal/terminal.py and core/terminal/terminal_tables.py, and why that is safe.
OTHERWISE = {
    "billing/reports/exports.py": "a file for saving: its cells are made safe for spreadsheets there",
    "core/files/file_lock.py": "a program that imports nothing of ours; it names a file of the data folder",
    "engine/models/download.py": "a program of ours reads what it prints: a commit's digits",
    "engine/worker/answer_check.py": "a program of ours reads what it prints, and prints it safely",
    "server/models/template_check.py": "a program of ours reads what it prints, and prints it safely",
}
FORBIDDEN = {"echo", "secho", "style", "prompt", "confirm", "edit", "echo_via_pager", "progressbar"}


def controls(text: str) -> list[str]:
    """What is left in a text that a terminal could obey, line breaks aside."""
    return [
        each for each in text if each != "\n" and unicodedata.category(each) in ("Cc", "Cf", "Zl", "Zp", "Cs")
    ]


@pytest.mark.parametrize(
    "code", [*range(0x20), *range(0x7F, 0xA0), 0x2028, 0x202E, 0x2066, 0xD800, 0xFFFB, 0xE0041]
)
def test_every_control_becomes_its_escape(code: int):
    """It can be read and told from others; prose loses it, but for line breaks and tabs."""
    assert printable_line(f"a{chr(code)}b") == f"a{chr(code).encode('unicode_escape').decode()}b"
    assert printable_text(f"a{chr(code)}b") == (f"a{chr(code)}b" if code in (9, 10) else "ab")


def test_what_people_write_stays():
    """Other scripts, emoji made of several characters, brackets: nobody's name is changed."""
    text = "Ünïcode 東京 שלום مرحبا 👩‍💻 [bold] C:\\x1b"
    assert printable_line(text) == printable_text(text) == text


def test_each_way_to_print_shows_hostile_text_harmlessly(capsys: pytest.CaptureFixture[str]):
    """Lines, dated lines, tables, what a model says, and a crash."""
    print_line(HOSTILE)
    print_line(HOSTILE, err=True, dim=True)
    print_dated_line(HOSTILE, HOSTILE)
    print_lines(printable_line(HOSTILE))
    print_lines(HOSTILE, err=True)
    stream(HOSTILE)
    table = Table(ruled=True)
    table.columns("a", HOSTILE)
    table.row(HOSTILE, Styled(HOSTILE, "red"))
    print_blocks(HOSTILE, table)
    error = ValueError(HOSTILE)
    print_crash(type(error), error, None)
    out, err = capsys.readouterr()
    assert controls(out + err) == []
    assert out.count("[/x]\\x1b]0;x\\x07\\u202e\\r\\n") == 6  # shown, not lost
    print_json({"name": HOSTILE})
    said = capsys.readouterr().out
    assert controls(said) == []
    assert json.loads(said) == {"name": HOSTILE}


def test_what_is_under_way_shows_hostile_text_harmlessly(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """On a terminal, where such lines are shown at all: beside our own sequences there are no others."""
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    progress(HOSTILE)
    with working(HOSTILE):
        pass
    said = capsys.readouterr().err
    assert said.count("[/x]\\x1b]0;x\\x07\\u202e\\r\\n") >= 2
    assert not {"\x1b]", "\x07", "\u202e", "\x9b"} & {
        said[at : at + n] for n in (1, 2) for at in range(len(said))
    }


def test_what_is_to_be_copied_is_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """An id or a key in a narrow terminal: in one piece; texts fold, and lose nothing."""
    monkeypatch.setattr(printed, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    table = Table()
    table.columns("id", whole=True)
    table.columns("name")
    table.row("i" * 20, "xxxxx " * 5)
    print_blocks(table)
    out = capsys.readouterr().out
    assert "i" * 20 in out
    assert (out.count("x"), max(map(len, out.splitlines())) <= 30) == (25, True)


def test_the_names_of_a_sheets_facts_are_never_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Beside long facts, which fold."""
    monkeypatch.setattr(printed, "is_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "30")
    table = Table(headed=False)
    table.columns("fact", whole=True)
    table.columns("is")
    table.row("what it was billed", "xxxxx " * 20)
    print_blocks(table)
    assert capsys.readouterr().out.startswith("what it was billed ")


def test_a_table_that_would_break_words_is_shown_row_by_row(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """A line a fact, those that are empty left out; where rows fit, it stays a table."""
    monkeypatch.setattr(printed, "is_terminal", lambda: True)
    table = Table()
    table.columns("id", "when_it_ended")
    table.columns("amount", right=True)
    table.row("i" * 20, "2026-11-22", "$1.00")
    table.row("j" * 20, "", HOSTILE)
    monkeypatch.setenv("COLUMNS", "50")
    print_blocks(table)
    said = capsys.readouterr().out
    first, second = said.split("\n\n")
    assert [line.split() for line in first.splitlines()] == [
        ["id", "i" * 20],
        ["when_it_ended", "2026-11-22"],
        ["amount", "$1.00"],
    ]
    assert (second.split()[1], "when_it_ended" in second, controls(said)) == ("j" * 20, False, [])
    table = Table()
    table.columns("id", "when_it_ended")
    table.row("i" * 20, "now")
    monkeypatch.setenv("COLUMNS", "30")
    print_blocks(table)
    assert "i" * 20 + "  now" in capsys.readouterr().out


@pytest.mark.parametrize("ruled", [False, True])
def test_nothing_of_a_row_is_cut_where_heads_are_too_wide(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, ruled: bool
):
    """An amount that ends early is another amount: heads fold, and where that is not enough it is shown row
    by row."""
    monkeypatch.setattr(printed, "is_terminal", lambda: True)
    heads = ("project", "requests", "errors", "input_uncached", "input_cached", "output_text")
    cells = ("web", "1", "0", "50,000,000", "4", "100,000", "0", "$5.0400001")
    for columns in range(30, 130):
        monkeypatch.setenv("COLUMNS", str(columns))
        table = Table(ruled=ruled)
        table.columns(*heads, "output_reasoning", "amount", right=True)
        table.row(*cells)
        print_blocks(table)
        out = capsys.readouterr().out
        assert set(cells) <= set(out.split()), columns
        assert max(map(len, out.splitlines())) <= columns
        assert columns < 90 or "reasoning" in out


@pytest.mark.parametrize("line", ["tenants create \udcff", "keys list --tenant \udc9b31m", "\udcff"])
def test_what_is_typed_in_no_utf_8_is_one_line(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """Whatever command it is for; no database sees it."""
    monkeypatch.setattr("sys.argv", ["parley", *line.split()])
    with pytest.raises(SystemExit):
        main()
    (said,) = capsys.readouterr().err.splitlines()
    assert "an argument is not UTF-8: \\udc" in said


def test_a_terminal_without_a_character_gets_its_escape(monkeypatch: pytest.MonkeyPatch):
    """Where a language is set that has no ellipsis."""
    written = io.BytesIO()
    terminal = io.TextIOWrapper(written, "latin-1")
    monkeypatch.setattr("sys.stdout", terminal)
    never_fail_to_print()
    print("pk_…")
    terminal.flush()
    assert written.getvalue() == b"pk_\\u2026\n"


def test_a_child_s_last_words_do_not_end_parley_up(settings: Settings, capsys: pytest.CaptureFixture[str]):
    """What a process logged before it died may be what a model said."""
    log = settings.home / "logs" / "gateway.log"
    log.parent.mkdir()
    log.write_text(f"all is well\n[bold]{HOSTILE.split(chr(13))[0]}")
    up = PlatformStart(settings, WantedPool("smollm2", True, 1), as_json=False)
    child = ChildProcess(GATEWAY, [], settings.home, {}, up._say)
    up._say(f"gateway ended with code 1 and is started again: {child._last_line()}")
    said = capsys.readouterr().err
    assert controls(said) == []
    assert "started again: [bold][/x]\\x1b]0;x\\x07\\u202e" in said


@pytest.mark.parametrize(
    "text", ["=1+1", "+1", "-1+1", "@a", " =1", "＝1", "＋1", "－1", "＠a", "-", "\t=1", "\r=1", "\n=1"]
)
def test_a_cell_is_no_formula(text: str):
    """It begins with what no spreadsheet runs."""
    assert spreadsheet_cell(text)[:1] in ("'", "\\")


@pytest.mark.parametrize("text", ["x;=1+1", ";=1", "a; \u200d+1;@b", "\u200c=1"])
def test_no_part_of_a_cell_is_a_formula(text: str):
    """Where a comma is for decimals, spreadsheets divide a line at semicolons, whatever the quotes say."""
    cells = spreadsheet_cell(text).split(";")
    assert not [cell for cell in cells if cell.lstrip(" \u200c\u200d")[:1] in tuple("=+-@")]
    assert spreadsheet_cell(text).replace("'", "") == text


@pytest.mark.parametrize("unseen", "\xad\u061c\u180e\u200b\u200e\u200f\u2060\u206f\ufeff")
def test_nothing_in_a_line_is_unseen(unseen: str):
    """Two names that look the same in a list are the same, and no mark turns a part of the line around."""
    assert printable_line(f"a{unseen}b") == f"a{unseen.encode('unicode_escape').decode()}b"
    assert printable_line("👩\u200d💻 ") == "👩\u200d💻 "


def test_a_sheet_holds_numbers_as_they_are(tmp_path: Path):
    """Amounts below zero too; a line break in a name does not make a row."""
    file = tmp_path / "x.csv"
    with sheet(file) as write:
        write(["-1.50", -2, 3.5, "a\nb", None, "=x"])
    assert list(csv.reader(io.StringIO(file.read_text()))) == [["-1.50", "-2", "3.5", "a\\nb", "", "'=x"]]


def printing(tree: ast.Module) -> list[str]:
    """Where a module prints by itself."""
    found: list[str] = []
    for node in ast.walk(tree):
        match node:
            case ast.Import(names=names):
                found += [each.name for each in names if each.name.split(".")[0] in ("rich", "csv")]
            case ast.ImportFrom(module=str(module), names=names):
                told = {each.name for each in names} & FORBIDDEN if module == "click" else set[str]()
                found += [module] if module.split(".")[0] in ("rich", "csv") or told else []
            case ast.Attribute(value=ast.Name(id="click"), attr=name) if name in FORBIDDEN:
                found.append(f"click.{name}")
            case ast.Attribute(value=ast.Attribute(value=ast.Name(id="sys"), attr=name), attr="write"):
                found.append(f"sys.{name}.write")
            case ast.Call(func=ast.Name(id="print")):
                found.append("print")
            case _:
                pass
    return found


def test_nothing_else_prints():
    """Two modules print for people, so that one place makes names harmless."""
    files = [file for package in PACKAGES for file in (ROOT / package).rglob("*.py")]
    assert len(files) > 250
    found = {
        str(file.relative_to(ROOT)): told for file in files if (told := printing(ast.parse(file.read_text())))
    }
    assert set(found) == {"core/terminal/terminal.py", "core/terminal/terminal_tables.py", *OTHERWISE}, found


@pytest.mark.parametrize(
    "line",
    [
        "import rich",
        "from rich.table import Table",
        "import csv",
        "click.echo(1)",
        "from click import echo",
        "print(1)",
        "sys.stdout.write(1)",
        "prepare(click.secho)",
    ],
)
def test_the_rule_sees(line: str):
    """Each way that was used before."""
    assert printing(ast.parse(line))


def test_a_file_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    """Not a traceback."""
    with (
        pytest.raises(StartupError, match="cannot be written: No such file or directory"),
        sheet(tmp_path / "none" / "a.csv"),
    ):
        pass


def test_a_table_in_a_pipe_is_as_wide_as_it_has_to_be(capsys: pytest.CaptureFixture[str]):
    """A row is a line there, whatever a terminal would fold: other programs read it."""
    table, words = Table(), "so it is " * 40
    table.columns("said", "by")
    table.row(words, "a" * 90)
    print_blocks(table)
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["said", "by"],
        [*words.split(), "a" * 90],
    ]
