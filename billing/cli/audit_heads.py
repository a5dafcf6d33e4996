"""`parley audit head`, and the reading of kept heads for `parley audit verify`."""

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from billing.audit.verify import owners
from billing.audit_heads.check import CheckedHeads, check_heads
from billing.audit_heads.head_files import chosen_files, lines_of, require_heads
from billing.audit_heads.heads import ChainHead
from billing.audit_heads.store_heads import HeadStoreProgress, current_heads
from billing.audit_heads.stores import HeadNotStored, HeadStore, head_stores_of, key_of
from billing.cli.run_command import json_option, run_on_database, show_table
from core.configuration.settings import Settings
from core.sql.database import Database
from core.terminal.terminal import print_line


@click.command("head")
@json_option
def head_command(as_json: bool) -> None:
    """Show the end and hash of each chain, and keep them at the places of PARLEY_AUDIT_HEADS too.

    What is kept where nobody can change it shows later that no chain was cut off or made anew: name it with
    `parley audit verify --heads FILE`. --json prints what such a file holds. Exit code 1 where a place did
    not take it.
    """
    settings = Settings()
    places = head_stores_of(settings)

    async def read(db: Database) -> list[dict[str, Any]]:
        names = await owners(db)
        rows: list[dict[str, Any]] = []
        async for heads in current_heads(db, settings):
            for head in heads:
                facts = msgspec.to_builtins(head)
                rows.append(facts if as_json else _line(head, names.get(head.tenant, head.tenant)))
        return rows

    async def store(db: Database) -> list[tuple[HeadStore, str]]:
        return await asyncio.gather(*(_stored(HeadStoreProgress(db, settings, place)) for place in places))

    show_table(run_on_database(read, settings), as_json, "there are no chains")
    failed = False
    for place, why in run_on_database(store, settings) if places else []:
        failed = failed or bool(why)
        print_line(f"{place.shown}: not kept: {why}" if why else f"kept in {place.shown}", err=True)
    if failed:
        sys.exit(1)


async def _stored(progress: HeadStoreProgress) -> tuple[HeadStore, str]:
    try:
        await progress.store_moved()
    except HeadNotStored as error:
        return progress.store, str(error)
    return progress.store, ""


def _line(head: ChainHead, name: str) -> dict[str, Any]:
    return {"tenant": name, "chain": head.chain.value, "sequence": head.sequence, "sha256": head.sha256}


async def checked_heads(
    db: Database, files: Sequence[Path], only: str | None
) -> list[tuple[Path, CheckedHeads]]:
    """Check files of heads: these, else the configured ones that exist. Raises StartupError where one cannot
    be read, or is named and has none."""
    settings = Settings()
    require_heads(settings, files)
    key = key_of(settings)
    return [
        (path, await check_heads(db, lines_of(path), settings.installation, key, only))
        for path in chosen_files(settings, files)
    ]


def faults_of(path: Path, checked: CheckedHeads) -> list[tuple[str, str]]:
    """Faults found by means of a file, each with its owner."""
    faults = [(tenant, f"{fault} in {path}") for tenant, fault in checked.faults]
    if faults:
        faults += [("", refused) for refused in checked.refused]
    if checked.unsigned:
        told = f"{checked.unsigned} heads in {path} are not signed by PARLEY_AUDIT_HEADS_KEY"
        faults.append(("", f"{told}: somebody else wrote them, or another key was in use"))
    return faults


def tell_heads(found: Sequence[tuple[Path, CheckedHeads]]) -> None:
    """Print the heads with which the chains were compared."""
    for path, checked in found:
        if checked.latest:
            print_line(f"as of the head of {checked.latest} kept in {path}: {checked.heads} heads", err=True)
        else:
            print_line(f"there are no heads of this installation in {path}", err=True)
        if not checked.faults:  # else they are among the faults
            for refused in checked.refused:
                print_line(refused, err=True)
        if checked.unread:
            print_line(f"{checked.unread} lines of {path} hold no head, and were left out", err=True)
    if not found:
        told = "no heads were kept elsewhere (PARLEY_AUDIT_HEADS, --heads)"
        print_line(f"{told}: a chain that was cut off with its head is not seen", err=True)
