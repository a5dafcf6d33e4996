"""`parley chargeback`: a tenant's month by two facts at once, for those who charge it to others."""

import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import msgspec

from billing.cli.operations import CommandTerms, answered, asks, facts_of, performed, with_performer
from billing.cli.performers import Performer
from billing.cli.run_command import show, show_table
from billing.money import to_text
from billing.operations import chargeback, chargeback_export, chargeback_idle, report_schedules, tags
from billing.operations.chargeback import AskChargeback, ChargebackHead, ChargebackReport, HeadKind
from billing.operations.chargeback_export import AskExport
from billing.operations.chargeback_idle import AskIdle
from billing.operations.report_schedules import NameSchedule, ScheduleReport
from billing.operations.shared_fields import NameTenant
from billing.operations.tags import NameTag
from core.errors import StartupError
from core.file_answer import FileAnswer
from core.terminal.terminal import print_json, print_line

WORDS = {HeadKind.TIERS: "(tiers)", HeadKind.NOBODY: "(none)"}


@click.group("chargeback")
def chargeback_command() -> None:
    """A tenant's month by any two facts: cost center, project, user, key, model, pool.

    \b
        parley chargeback report --tenant acme --month 2026-10
        parley chargeback report --tenant acme --rows project --columns key --as-of 2026-11-02
        parley chargeback tags declare team --tenant acme --reason "split by team"
        parley chargeback report --tenant acme --rows tag:team
        parley chargeback schedule add --tenant acme --every week --rows project
        parley chargeback export --tenant acme --month 2026-10 --out acme-2026-10.csv
    """


@chargeback_command.command("report")
@asks(
    chargeback.report,
    options={name: {"show_default": True} for name in ("rows", "columns", "top_rows", "top_columns")},
)
def report_command(ask: AskChargeback, how: CommandTerms) -> None:
    """Show what a month costs by rows and columns, in USD, exact; or as the books said at an earlier time."""
    told = answered(chargeback.report, ask, how)
    if how.as_json:
        print_json(told)
        return
    state = f"closed {told.closed}" if told.closed else "not closed"
    as_of = f", as of {told.as_of}" if told.as_of else ""
    print_line(f"{told.month}, {state}{as_of}; days of {told.time_zone}:", err=True)
    if told.lacks:
        print_line(f"the month was closed without: {told.lacks}", err=True)
    show_table(_rows(told), False, "nothing was used or charged in this month")


def _rows(told: ChargebackReport) -> list[dict[str, Any]]:
    heads = [_word(head) for head in told.heads]
    rows = [
        {
            told.rows: _word(line.head),
            **{head: to_text(cell.value) for head, cell in zip(heads, line.cells, strict=True)},
            "total": to_text(line.head.total.value),
        }
        for line in told.lines
    ]
    sums = {head: to_text(each.total.value) for head, each in zip(heads, told.heads, strict=True)}
    return [*rows, {told.rows: "total", **sums, "total": to_text(told.total.value)}] if rows else []


def _word(head: ChargebackHead) -> str:
    return f"({head.more} others)" if head.kind is HeadKind.OTHER else WORDS.get(head.kind, head.name)


@chargeback_command.command("months")
@asks(chargeback.list_months)
def months_command(ask: NameTenant, how: CommandTerms) -> None:
    """The last months with what each costs, and when it was closed."""
    page = answered(chargeback.list_months, ask, how)
    show_table([facts_of(each, how.as_json) for each in page.items], how.as_json, "no month was used")


@chargeback_command.command("export")
@click.option(
    "--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="By default stdout."
)
@asks(
    chargeback_export.export,
    options={name: {"show_default": True} for name in ("format", "issuer", "rows", "columns")},
)
def export_command(ask: AskExport, how: CommandTerms, out: Path | None) -> None:
    """Write a month as a CSV file: each charge in FOCUS 1.2 or as a plain table, or the report alone."""

    _save(chargeback_export.export, ask, how, out)


def _save(
    run: Callable[[Any, Any], Awaitable[FileAnswer]], ask: msgspec.Struct, how: CommandTerms, out: Path | None
) -> None:
    """Write an operation's file, and say how large it is where it goes to a file."""

    async def export(performer: Performer) -> int:
        file = await performed(run, performer, ask, how)
        with opened_output(out) as write:
            async with file.read() as pieces:
                return sum([write(piece) async for piece in pieces])

    size = with_performer(export)
    if out is not None:
        facts = {"file": str(out), "bytes": size}
        show(facts, how.as_json)


@contextmanager
def opened_output(out: Path | None) -> Generator[Callable[[bytes], int]]:
    """Gives a function that writes to the file, or to stdout, there with lines as a terminal has them. Raises
    StartupError where it cannot be made."""
    if out is None:
        yield lambda piece: sys.stdout.buffer.write(piece.replace(b"\r\n", b"\n"))
        sys.stdout.flush()
        return
    try:
        file = out.open("wb")
    except OSError as error:
        raise StartupError(f"{out} cannot be written: {error.strerror}") from error
    with file:
        yield file.write


@chargeback_command.group("tags")
def tags_command() -> None:
    """Keys of requests' metadata that are declared as tags: reports tell cost apart by them."""


@tags_command.command("list")
@asks(tags.list_tags)
def list_tags_command(ask: NameTenant, how: CommandTerms) -> None:
    """List the declared keys with since when they count, and those that were withdrawn."""
    page = answered(tags.list_tags, ask, how)
    show_table([facts_of(each, how.as_json) for each in page.items], how.as_json, "no key is declared")


@tags_command.command("declare")
@asks(tags.declare_tag, arguments=("key",))
def declare_tag_command(ask: NameTag, how: CommandTerms) -> None:
    """Declare a KEY of requests' metadata as a tag. It counts from the next minutes on."""
    show(facts_of(answered(tags.declare_tag, ask, how), how.as_json), how.as_json)


@tags_command.command("withdraw")
@asks(tags.withdraw_tag, arguments=("key",))
def withdraw_tag_command(ask: NameTag, how: CommandTerms) -> None:
    """Withdraw a tag: later usage is not told apart by its KEY; what was before stays."""
    show(facts_of(answered(tags.withdraw_tag, ask, how), how.as_json), how.as_json)


@chargeback_command.group("schedule")
def schedule_command() -> None:
    """Reports by mail: a link behind sign-in, no numbers, to members who may see money."""


@schedule_command.command("list")
@asks(report_schedules.list_schedules)
def list_schedules_command(ask: NameTenant, how: CommandTerms) -> None:
    """List the reports that are sent by mail, with how many people are told."""
    page = answered(report_schedules.list_schedules, ask, how)
    rows = [facts_of(each, how.as_json) for each in page.items]
    show_table(rows, how.as_json, "no report is sent by mail")


@schedule_command.command("add")
@asks(
    report_schedules.schedule_report,
    options={name: {"show_default": True} for name in ("every", "rows", "columns")},
)
def add_schedule_command(ask: ScheduleReport, how: CommandTerms) -> None:
    """Send a report by mail: on the morning after a month's close, or every Monday."""
    show(facts_of(answered(report_schedules.schedule_report, ask, how), how.as_json), how.as_json)


@schedule_command.command("delete")
@asks(report_schedules.unschedule_report, arguments=("schedule",))
def delete_schedule_command(ask: NameSchedule, how: CommandTerms) -> None:
    """Send a report by mail no more: SCHEDULE is its id."""
    show(facts_of(answered(report_schedules.unschedule_report, ask, how), how.as_json), how.as_json)


@chargeback_command.command("idle")
@click.option(
    "--out", type=click.Path(dir_okay=False, writable=True, path_type=Path), help="Write a CSV file instead."
)
@asks(chargeback_idle.show_idle)
def idle_command(ask: AskIdle, how: CommandTerms, out: Path | None) -> None:
    """What shared pools cost while idle, by tenants' shares of their tokens: for operators, on no bill."""
    if out is not None:
        _save(chargeback_idle.export_idle, ask, how, out)
        return
    told = answered(chargeback_idle.show_idle, ask, how)
    rows = [facts_of(each, how.as_json) for each in told.shares]
    show_table(rows, how.as_json, "no shared pool was ready in this month")
