"""`parley backup`: parses, shows progress on stderr, prints what was copied."""

import asyncio
import sys
from pathlib import Path

import click

from admin.backup.backup import BackupCall, BackupReport, backup
from admin.backup.manifest import UnbookedEnds
from billing.api import PLATFORM
from core.configuration.settings import Settings
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks

HEADS_SHOWN_MAX = 20
HASH_SHOWN = 16
WARNING = "yellow"
WITH_WARNINGS = 3
INTERRUPTED = 130


@click.command("backup")
@click.argument("target", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print the backup's manifest and facts as JSON.")
def backup_command(target: Path, as_json: bool) -> None:
    """Copy the whole installation while it runs.

    TARGET is a folder to be made, or a file where it ends with `.tar`; it must not exist. It has its name
    once it is whole and checked: a backup that fails or is killed leaves none.

    It holds one state of the database, the signing secret, ended requests that wait in Redis for the biller,
    and the journals of this machine: whoever reads it can sign for this installation. Not in it: weights of
    models, journals of other machines, passwords, PARLEY_AUDIT_HEADS_KEY, and answers that run just now.

    Run it on the machine of PARLEY_HOME with the settings of the other processes. Postgres is copied by
    `pg_dump` of the server's version or newer (PARLEY_PG_TOOLS). `parley restore` puts a backup into an empty
    installation.

    Exit code 3 where there is a backup, and a warning: what is not in it, or what is wrong in what it copied.
    """
    try:
        report = asyncio.run(backup(Settings(), BackupCall(target), _say))
    except KeyboardInterrupt:
        print_line("interrupted: there is no backup. Say the same again", err=True)
        sys.exit(INTERRUPTED)
    if as_json:
        print_json(report)
    else:
        show_report(report)
    for warning in report.warnings:
        print_line(f"WARNING: {warning}", err=True, colour=WARNING)
    if report.warnings:
        sys.exit(WITH_WARNINGS)


def show_report(report: BackupReport) -> None:
    """Print what was copied, for people."""
    made = report.manifest
    database = made.database
    rows = ", ".join(f"{count:,} {name}" for name, count in database.rows.items())
    by = f", Postgres {database.server} by pg_dump {database.tool}" if database.server else ""
    seconds = f"{report.seconds:.1f} s, of which the database took {report.copy_seconds:.1f} s"
    print_line(f"backup         {report.target}")
    print_line(f"size           {report.bytes:,} bytes in {len(made.files)} files, in {seconds}")
    print_line(f"installation   {made.installation}, Parley {made.release}, schema {database.schema}{by}")
    print_line(f"rows           {rows}")
    _show_heads(report)
    for each in made.unbooked:
        print_line(f"not booked     {_unbooked(each)}")
    if not made.unbooked:
        print_line("not booked     nothing: each ended request is in the books of this backup")
    for model in made.models:
        print_line(f"model          {model.name} {model.version}: add it again (`parley models add`)")
    print_line("secret         is in it: keep the backup as you keep the secret", colour=WARNING)


def _show_heads(report: BackupReport) -> None:
    heads = report.manifest.heads
    table = Table()
    table.columns("chain", "tenant", whole=True)
    table.columns("sequence", right=True)
    table.columns("sha256", whole=True)
    for head in heads[:HEADS_SHOWN_MAX]:
        tenant = "(platform)" if head.tenant == PLATFORM else head.tenant
        table.row(head.chain, tenant, f"{head.sequence:,}", head.sha256[:HASH_SHOWN])
    if heads:
        print_blocks(table)
    if len(heads) > HEADS_SHOWN_MAX:
        print_line(f"and {len(heads) - HEADS_SHOWN_MAX:,} more heads: see manifest.json")


def _unbooked(each: UnbookedEnds) -> str:
    redis = "UNKNOWN IN REDIS" if each.redis is None else f"{each.redis:,} in Redis"
    return f"pool {each.pool}: {redis}, {each.journals:,} in journals; a restore books them"


def _say(words: str) -> None:
    print_line(words, err=True, dim=True)
