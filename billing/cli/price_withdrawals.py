"""`parley prices withdraw`: withdraws a version of a price book that has not begun."""

import click

from billing.cli.run_command import iso_time, json_option, run_on_database, show
from billing.prices.withdrawals import withdraw_version


@click.command("withdraw")
@click.argument("book")
@click.argument("version", type=int)
@click.option("--reason", required=True, help="Why; kept in the audit log.")
@click.option("--dry-run", is_flag=True, help="Only show which version would be in force instead.")
@json_option
def withdraw_command(book: str, version: int, reason: str, dry_run: bool, as_json: bool) -> None:
    """Take VERSION of BOOK back, at the latest a minute before it begins. It will never price anything.

    To put another in its place in one step: `parley prices import FILE --replace VERSION --reason …`.
    """
    done = run_on_database(lambda db: withdraw_version(db, book, version, reason, dry_run))
    show(
        {
            "book": done.version.book_id,
            "version": done.version.version,
            "valid_from": iso_time(done.version.valid_from_ms),
            "state": "would be withdrawn" if dry_run else "withdrawn",
            "instead": done.instead,
        },
        as_json,
    )
