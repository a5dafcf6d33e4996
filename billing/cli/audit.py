"""`parley audit`: administrators' changes, and proof that nobody changed that record or the books."""

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

import click
import msgspec

from billing.audit.compare import StateComparison, compare_states
from billing.audit.verify import (
    FAULTS_MAX,
    PLATFORM_NAME,
    VerifiedLog,
    owners,
    verify_log,
)
from billing.audit_heads.check import CheckedHeads
from billing.audit_heads.earlier import VerifiedHeads, verify_against_earlier
from billing.audit_heads.heads import iso
from billing.audit_heads.stores import key_of
from billing.cli.audit_heads import checked_heads, faults_of, head_command, tell_heads
from billing.cli.operations import CommandTerms, answered, asks
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    show_table,
    tenant_named,
)
from billing.ledger.pricing_proof import pricing_faults
from billing.ledger.verify import Verified, record_failure, verify_ledger
from billing.money import to_display
from billing.operations.audit import DELETED, AuditFacts, ListAudit, list_audit
from billing.tables.tenants import PLATFORM
from billing.wallets.budgets import budget_faults
from billing.wallets.ledger_check import wallet_faults
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import StartupError
from core.files.named_files import read_bounded
from core.observability.error_facts import reason
from core.sql.database import Database
from core.terminal.terminal import print_line, progress

KEPT_BYTES_MAX = 64 << 20
CHANGE_CHARACTERS_MAX = 120
NOT_SHOWN = frozenset({"id", "tenant_id", "created_ms", "secret_sha256"})

Found = tuple[str, Verified, VerifiedLog, StateComparison]  # of one owner, by name


@click.group("audit")
def audit_command() -> None:
    """List administrators' changes, and prove that their record and the books are whole."""


@audit_command.command("list")
@asks(list_audit, omitted=("after",), options={"limit": {"show_default": True}})
def list_command(ask: ListAudit, how: CommandTerms) -> None:
    """List changes, newest first: of tenants, keys, plans, limits, money, prices, corrections, terms.

    Of a change only what differs is shown, without secrets; with --tenant, names in place of ids.
    `parley --author "Ann, ticket 7" …` names who makes a change, beside the system's user. A time is in the
    tenant's zone, without a tenant in UTC.
    """
    rows = [_row_facts(row) if how.as_json else _line(row) for row in answered(list_audit, ask, how).items]
    show_table(rows, how.as_json, "nothing was changed")


@audit_command.command("verify")
@click.option("--tenant", help="Only this tenant (name or id).")
@click.option(
    "--earlier",
    "kept",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What --json printed before: nothing that was there then may be missing now.",
)
@click.option(
    "--heads",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="What was kept of heads elsewhere; else the files of PARLEY_AUDIT_HEADS.",
)
@json_option
def verify_command(tenant: str | None, kept: Path | None, heads: tuple[Path, ...], as_json: bool) -> None:
    """Read all books and the record of all changes from their first row: hash chains, balances, lines, sums.

    One line a tenant. Exit code 1 where anything is wrong: what was found is printed, of a request also which
    fact of it. A row that was changed, removed, inserted or moved is found, and so is an end that was cut
    off. Rows of what is administered (prices, tiers, terms, keys, limits, budgets, grants, commitments, …)
    are compared with what the last change of each left. A request is named that another price version billed
    than one that was in force when it was admitted.
    Who can write all of the database can make a chain anew, or cut it off with its head: heads that were kept
    elsewhere (`parley audit head`) show that, and what is said last is as of which head. What a restore took
    back (`parley restore` records it) is named too, and is no fault.
    """

    checked: list[tuple[Path, CheckedHeads]] = []
    settings = Settings()

    async def verify(db: Database) -> list[Found]:
        only = await _owner(db, tenant)
        readings = [each for each in _read_kept(kept) if only in (None, each.tenant)]
        earlier = await verify_against_earlier(db, readings, settings.installation, key_of(settings))
        before = earlier.faults
        rolled_back = earlier.rolled_back
        checked.extend(await checked_heads(db, heads, only))
        for path, each in checked:
            for id, fault in faults_of(path, each):
                before.setdefault(id if only is None else only, []).append(fault)
            for id, words in each.rolled_back.shown():
                rolled_back.setdefault(id, []).append(f"{words}, kept in {path}")
        return await verify_all(db, only, before, rolled_back)

    found = run_on_database(verify, settings)
    show_table([_facts(*each, as_json) for each in found], as_json, "there are no tenants")
    tell_heads(checked)
    for _, _, log, _ in found:
        for words in log.rolled_back[:FAULTS_MAX]:
            print_line(f"{log.tenant_id or PLATFORM_NAME}: {words}", err=True)
    wrong = faults_in(found)
    for id, fault in wrong:
        print_line(f"{id or PLATFORM_NAME}: {fault}", err=True)
    if wrong:
        sys.exit(1)


audit_command.add_command(head_command)


async def verify_all(
    db: Database,
    only: str | None,
    before: Mapping[str, Sequence[str]],
    rolled_back: Mapping[str, Sequence[str]] = MappingProxyType({}),
) -> list[Found]:
    """Verify one owner, or all: books, wallets and budgets beside them, the record of changes, and
    administered rows. `before` and `rolled_back`: faults, and what restores took back, by owner, known from
    heads kept elsewhere."""
    names = await owners(db)
    found: list[Found] = []
    for id in sorted({*names, *before, *rolled_back}) if only is None else [only]:
        name = names.get(id, id)
        progress(f"{name}: reading")
        books, log, rows = await verify_ledger(db, id), VerifiedLog(id), StateComparison()
        for wrong_in in (wallet_faults, budget_faults, pricing_faults):
            with record_failure(books.faults):
                books.faults += await wrong_in(db, id)
        with record_failure(log.faults):
            log = await verify_log(db, id)
        log.faults += before.get(id, ())
        log.rolled_back += rolled_back.get(id, ())
        with record_failure(rows.faults):
            rows = await compare_states(db, id, lambda words, name=name: progress(f"{name}: {words}"))
        found.append((names.get(id, DELETED), books, log, rows))
    progress("")
    return found


def faults_in(found: Sequence[Found]) -> list[tuple[str, str]]:
    """Every fault, with its owner."""
    return [(books.tenant_id, fault) for _, books, log, rows in found for fault in _faults(books, log, rows)]


async def _owner(db: Database, name: str | None) -> str | None:
    """Owner of the chain to read; None: all."""
    if name is None:
        return None
    return PLATFORM if name == PLATFORM_NAME else (await tenant_named(db, name)).tenant_id


def _read_kept(path: Path | None) -> list[VerifiedHeads]:
    if path is None:
        return []
    try:
        data = read_bounded(path, KEPT_BYTES_MAX)
        if len(data) > KEPT_BYTES_MAX:
            raise StartupError(f"{path} is larger than {KEPT_BYTES_MAX:,} bytes")
        return [msgspec.json.decode(line, type=VerifiedHeads) for line in data.splitlines() if line.strip()]
    except (msgspec.MsgspecError, OSError) as error:
        raise StartupError(
            f"{path} is not what `parley audit verify --json` prints: {reason(error)}"
        ) from error


def _faults(books: Verified, log: VerifiedLog, rows: StateComparison) -> list[str]:
    return [*books.faults, *log.faults, *rows.faults]


def _facts(
    name: str, books: Verified, log: VerifiedLog, rows: StateComparison, as_json: bool
) -> dict[str, Any]:
    amount = books.amount_nano
    money: dict[str, Any] = {"amount_nano": amount} if as_json else {"amount": to_display(amount)}
    faults = _faults(books, log, rows)
    facts = {
        "tenant": books.tenant_id if as_json or name == DELETED else name,
        "transactions": books.txns,
        "lines": books.lines,
        **money,
        "sha256": books.sha256,
        "changes": log.rows,
        "changes_sha256": log.sha256,
        "rows": rows.rows,
        "state": "wrong" if faults else "whole",
    }
    if not as_json:
        return facts
    return {**facts, "faults": faults, "rolled_back": log.rolled_back, "time": iso(now_ms())}


def _row_facts(row: AuditFacts) -> dict[str, Any]:
    return {name: value for name, value in msgspec.structs.asdict(row).items() if name != "tenant_name"}


def _line(row: AuditFacts) -> dict[str, Any]:
    author = row.names.get(row.author, row.author)
    return {
        "at": row.at,
        "tenant": row.tenant_name,
        "author": author if row.source == "command" else f"{author} ({row.source})",
        "action": row.action,
        "target": row.names.get(row.target, row.target) if row.target != row.tenant else "",
        "change": _change(row.before or {}, row.after or {}, row.names),
    }


def _change(before: Mapping[str, Any], after: Mapping[str, Any], names: Mapping[str, str]) -> str:
    """Summarise a change in a few words, with names (by id) in place of ids; the JSON has all of it."""
    words: list[str] = []
    for name in {**before, **after}:
        old, new = before.get(name), after.get(name)
        if name in NOT_SHOWN or old == new or (old is None and new == ""):
            continue
        was, now = (
            _value(name, names.get(each, each) if isinstance(each, str) else each) for each in (old, new)
        )
        words.append(f"{name} {now}" if old is None else f"{name} {was} → {now}")
    text = ", ".join(words)
    return text if len(text) <= CHANGE_CHARACTERS_MAX else text[: CHANGE_CHARACTERS_MAX - 1] + "…"


def _value(name: str, value: Any) -> Any:
    if isinstance(value, Mapping):
        facts = cast(Mapping[str, Any], value)
        told = (f"{each} {_value(each, said)}" for each, said in facts.items() if said not in (None, ""))
        return f"({', '.join(told)})"
    if isinstance(value, list):
        items = cast(list[Any], value)
        return f"({'; '.join(str(_value(name, each)) for each in items)})"
    return iso_time(value) if name.endswith("_ms") and isinstance(value, int) else value
