"""`parley restore`: a backup is put into an empty database, and Redis made to fit it."""

import asyncio
import sys
from pathlib import Path

import click

from admin.backup.commands import INTERRUPTED
from admin.backup.restore import restore
from admin.backup.restore_report import lines_of
from core.clock import monotonic
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files.private_files import keep_private
from core.runtime.embedded import RESTORE_MARK
from core.sql.store_errors import store_failure
from core.terminal.terminal import print_dated_line, print_json, print_line


@click.command("restore")
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option(
    "--heads",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What was kept of audit heads elsewhere; else the files of PARLEY_AUDIT_HEADS.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object.")
def restore_command(source: Path, heads: tuple[Path, ...], as_json: bool) -> None:
    """Put a backup into an empty database, and make Redis fit it, whether it survived or not.

    SOURCE is what `parley backup` made. With everything stopped, the settings name an empty database (SQLite:
    PARLEY_HOME has no parley.db; Postgres: one without tables), the Redis that there is, and the home, whose
    `ends` has journals perhaps. What ended after the backup and is still in Redis or a journal is billed.
    What is in no book is counted and named.

    It ends with what `parley audit verify` and `parley reconcile --from-first-row` find, what is gone and
    what to do next; exit code 1 where more is wrong than what is told as lost. One that was killed is said
    again with the same SOURCE. The audit log has a row of it, by which `audit verify` knows newer heads that
    were kept elsewhere as rolled back.
    """
    settings, began = Settings(), monotonic()
    keep_private(settings.home)

    def say(line: str) -> None:
        print_dated_line(f"{monotonic() - began:6.1f} s", line)

    try:
        report = asyncio.run(restore(source, settings, heads, say))
    except KeyboardInterrupt:
        begun = (settings.home / RESTORE_MARK).exists()
        how = "in the middle: say the same again" if begun else "before anything was written"
        print_line(f"interrupted {how} (`parley restore {source}`)", err=True)
        sys.exit(INTERRUPTED)
    except Exception as error:
        told = store_failure(error, settings)
        if told is None:
            raise
        raise StartupError(f"{told}; say the same restore again once it is mended") from error
    if as_json:
        print_json(report)
    else:
        for line in lines_of(report):
            print_line(line)
    if not report.whole:
        sys.exit(1)
