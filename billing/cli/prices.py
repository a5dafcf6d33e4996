"""`parley prices`: token prices over time, and trials of other prices."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import click

from billing.cli.months import month_window
from billing.cli.price_commitments import commit_command, commitments_command, end_commitment_command
from billing.cli.price_periods import close_period_command, periods_command
from billing.cli.price_withdrawals import withdraw_command
from billing.cli.run_command import (
    iso_time,
    json_option,
    run_on_database,
    run_with_redis,
    show,
    show_table,
    tenant_named,
)
from billing.closing.what_if import WhatIfResult, what_if
from billing.money import UNITS, round_half_even, to_display, to_text
from billing.periods import UTC_ZONE, Calendar, PeriodWindow
from billing.prices.book import NewVersion, add_version, list_price_books, pinned_prices
from billing.prices.calendars import calendar_of
from billing.prices.files import FlatPrices, PriceFile, gpus_of, parse, tiers_of
from billing.prices.price_file_tiers import HOUR_SECONDS, TierKey
from billing.prices.tiers import TierPrices
from billing.prices.versions import Contents, contents_of
from billing.prices.withdrawals import NOTICE_MS
from billing.tables.tenants import PLATFORM, PriceBook, PriceVersion
from billing.tenants.tenancy import PRICES_CHANGED, publish_news, tenant_names
from core.clock import now_ms
from core.errors import StartupError
from core.files.named_files import read_bounded
from core.observability.error_facts import reason
from core.redis.client import RedisClient
from core.sql.database import Database
from core.terminal.terminal import print_line, progress

FILE_BYTES_MAX = 1 << 20
EPOCH = datetime.fromtimestamp(0, UTC)
MILLISECOND = timedelta(milliseconds=1)
SUMS = ("requests", "unpriced", "was_nano", "would_nano", "was_true_up_nano", "would_true_up_nano")


@click.group("prices")
def prices_command() -> None:
    """Price books: what tokens cost, and from when on.

    A price file is TOML:

    \b
        book = "default"
        valid_from = 2027-01-01T00:00:00Z      # without it: from now on
        [models."*"]                           # any model that is not named
        input = "0.10"                         # USD for 1,000,000 tokens
        cached_input = "0.025"
        output = "0.40"
        request = "0.0001"                     # USD for one request

    \b
        [models.large]
        input = "1.00"
        output = "3.00"

    \b
        [models.large.tiers.output]            # of a month's quantity; or mode = "volume"
        mode = "graduated"
        steps = [{ up_to = 1_000_000_000, price = "3.00" }, { percent = 80 }]
        minimum = "50.00"                      # of a month in which it was used

    \b
        [models.large.tiers.request]
        mode = "package"                       # 0.05 USD for each thousand that was begun
        units = 1000
        price = "0.05"

    \b
        [gpus.h200]                            # a dedicated pool's GPU, USD for an hour
        hour = "3.50"

    Flat prices are billed with each request. What tiers make of a month's quantity is booked at its end, as
    the difference: `parley prices close-period`. A version's tiers count what was admitted under it.
    """


for _command in (
    close_period_command,
    commit_command,
    commitments_command,
    end_commitment_command,
    periods_command,
    withdraw_command,
):
    prices_command.add_command(_command)

_file = click.argument("file", type=click.Path(exists=True, dir_okay=False, path_type=Path))


@prices_command.command("import")
@_file
@click.option("--replace", "replaces", type=int, help="A version that has not begun, withdrawn for this one.")
@click.option("--reason", help="Why it is replaced; kept in the audit log.")
@click.option("--yes", is_flag=True, help="It is meant to begin in more than 13 months.")
@click.option(
    "--now", "at_once", is_flag=True, help="From this moment on, or as the file says, not in a minute."
)
@json_option
def import_command(
    file: Path, replaces: int | None, reason: str | None, yes: bool, at_once: bool, as_json: bool
) -> None:
    """Add the version in FILE to its book. Importing the same file again changes nothing.

    What was admitted before the version begins keeps its prices; versions may be planned in any order. Where
    another is in force it begins in a minute at the earliest, so that all gateways know of it when it does;
    --now tells them at once, and some requests of that moment may still have the prices before.
    `tenant = "acme"` in the file makes the book that tenant's own; `parent = "default"` takes what it does
    not name from another book.
    """
    if (replaces is None) != (reason is None):
        raise StartupError("--replace and --reason belong together: say which version, and why")
    parsed, contents = _read(file)
    lead_ms = 0 if at_once else NOTICE_MS

    async def add(db: Database) -> tuple[PriceVersion, bool]:
        new = await _new_version(db, parsed, contents)
        return await add_version(
            db, replace(new, lead_ms=lead_ms, far_ahead=yes, replaces=replaces, reason=reason or "")
        )

    async def add_and_tell(db: Database, redis: RedisClient) -> tuple[PriceVersion, bool]:
        done = await add(db)
        await publish_news(redis, PLATFORM, PRICES_CHANGED)
        return done

    version, made = run_with_redis(add_and_tell) if at_once else run_on_database(add)
    show(
        {
            "book": version.book_id,
            "version": version.version,
            "valid_from": iso_time(version.valid_from_ms),
            "state": "added" if made else "there already",
        },
        as_json,
    )


@prices_command.command("show")
@click.option("--book", help="Only this book; with --tenant only if that pays by it.")
@click.option("--tenant", help="The prices that this tenant (name or id) pays now for --model.")
@click.option("--model", default="*", show_default=True)
@json_option
def show_command(book: str | None, tenant: str | None, model: str, as_json: bool) -> None:
    """The books with all their versions, or what a tenant pays for a model now."""
    if tenant is not None:
        show(run_on_database(lambda db: _paid(db, tenant, model, book)), as_json)
        return
    show_table(run_on_database(lambda db: _books(db, book)), as_json, "there are no price books")


@prices_command.command("what-if")
@_file
@click.option("--month", help="As 2026-10; by default the last one that is over.")
@click.option("--tenant", help="Only this tenant (name or id), by its own time zone; else all, by UTC.")
@json_option
def what_if_command(file: Path, month: str | None, tenant: str | None, as_json: bool) -> None:
    """Price a month's usage again under the prices in FILE. Changes nothing.

    Every request is priced again, and both are trued up by their tiers and what tenants committed to. One
    line a tenant and model, the greatest change first, then the sum.
    """
    _, (prices, tiers, _) = _read(file)

    names: dict[str, str] = {}

    async def compare(db: Database) -> tuple[PeriodWindow, list[WhatIfResult]]:
        names.update(await tenant_names(db))
        owner = await tenant_named(db, tenant) if tenant else None
        calendar = await calendar_of(db, owner) if owner else Calendar(UTC_ZONE)
        window = month_window(month, calendar, now_ms())

        def show_progress(done: int) -> None:
            progress(f"{done} requests priced again")

        who = owner.tenant_id if owner else None
        return window, await what_if(db, prices, window, who, None if as_json else show_progress, tiers)

    window, compared = run_on_database(compare)
    total = WhatIfResult("", "total")
    for each in compared:
        for name in SUMS:
            setattr(total, name, getattr(total, name) + getattr(each, name))
    print_line(f"From {iso_time(window.start_ms)} to {iso_time(window.end_ms)}:", err=True)
    lines = (*compared, total)
    show_table([_in_nano(each) if as_json else _in_words(each, names) for each in lines], as_json, "")


def _read(file: Path) -> tuple[PriceFile, Contents]:
    try:
        data = read_bounded(file, FILE_BYTES_MAX)
        if len(data) > FILE_BYTES_MAX:
            raise StartupError(f"{file} is larger than a price file may be ({FILE_BYTES_MAX:,} bytes)")
        parsed, prices = parse(data.decode())
        return parsed, (prices, tiers_of(parsed), gpus_of(parsed))
    except (ValueError, OSError) as error:
        raise StartupError(f"{file}: {reason(error)}") from error


async def _new_version(db: Database, file: PriceFile, contents: Contents) -> NewVersion:
    tenant_id = (await tenant_named(db, file.tenant)).tenant_id if file.tenant else PLATFORM
    prices, tiers, gpus = contents
    return NewVersion(
        book=file.book,
        prices=prices,
        name=file.name,
        currency=file.currency,
        tenant_id=tenant_id,
        parent=file.parent,
        valid_from_ms=(file.valid_from - EPOCH) // MILLISECOND if file.valid_from else None,
        tiers=tiers,
        gpus=gpus,
    )


async def _paid(db: Database, name: str, model: str, only: str | None) -> dict[str, Any]:
    """Prices that a tenant pays. Raises StartupError where `only` names another book than the one they are
    from."""
    tenant = await tenant_named(db, name)
    async with db.session() as session:
        book = await session.get(PriceBook, only) if only is not None else None
    if only is not None and (book is None or book.tenant_id not in (PLATFORM, tenant.tenant_id)):
        raise StartupError(f"there is no price book {only!r}: see `parley prices show`")
    prices = await pinned_prices(db, tenant.tenant_id, model)
    if only not in (None, prices.book):
        pays = f"{tenant.name!r} pays for the model {model!r} by the book {prices.book!r}"
        raise StartupError(f"{pays}, not by {only!r}: leave --book or --tenant out")
    flat = FlatPrices(prices.input_nano, prices.cached_input_nano, prices.output_nano, prices.request_nano)
    return {
        "tenant": tenant.name,
        "model": model,
        "book": prices.book,
        "version": prices.version,
        **_amounts(flat),
    }


async def _books(db: Database, only: str | None) -> list[dict[str, Any]]:
    """A fact sheet for each model of each version."""
    sheets: list[dict[str, Any]] = []
    found = [entry for entry in await list_price_books(db) if only in (None, entry[0].id)]
    if only is not None and not found:
        raise StartupError(f"there is no price book {only!r}: see `parley prices show`")
    async with db.session() as session:
        for book, versions in found:
            states = _states(versions, now_ms())
            for version in versions:
                flat, tiers, gpus = await contents_of(session, version)
                of = {
                    "book": book.id,
                    "version": version.version,
                    "valid_from": iso_time(version.valid_from_ms),
                    "state": states[version.version],
                }
                for model, prices in sorted(flat.items()):
                    more = {"currency": book.currency, **_amounts(prices), "tiers": _tiers(model, tiers)}
                    sheets.append({**of, "model": model, **more})
                for gpu_type, second_nano in sorted(gpus.items()):
                    hour = to_text(round_half_even(second_nano * HOUR_SECONDS, UNITS))
                    nothing = dict.fromkeys(("input", "cached_input", "output", "request"), "")
                    more = {"currency": book.currency, **nothing, "tiers": f"{hour} an hour"}
                    sheets.append({**of, "model": f"GPU {gpu_type}", **more})
    return sheets


def _states(versions: Sequence[PriceVersion], now: int) -> dict[int, str]:
    """State of each version of a book, in words."""
    begun = [each for each in versions if each.withdrawn_ms is None and each.valid_from_ms <= now]
    in_force = max(begun, key=lambda each: (each.valid_from_ms, each.version), default=None)
    states = {each.version: "planned" if each.valid_from_ms > now else "over" for each in versions}
    states |= {each.version: "withdrawn" for each in versions if each.withdrawn_ms is not None}
    return states if in_force is None else states | {in_force.version: "in force"}


def _amounts(prices: FlatPrices) -> dict[str, str]:
    return {
        "input": to_text(prices.input_nano),
        "cached_input": to_text(prices.cached_input_nano),
        "output": to_text(prices.output_nano),
        "request": to_text(prices.request_nano // UNITS),
    }


def _tiers(model: str, tiers: Mapping[TierKey, TierPrices]) -> str:
    """List the meters with tiers: `output graduated, request package`."""
    return ", ".join(f"{key[1]} {tiers[key].mode}" for key in sorted(tiers) if key[0] == model)


def _in_nano(compared: WhatIfResult) -> dict[str, Any]:
    return {**asdict(compared), "change_nano": compared.would_nano - compared.was_nano}


def _in_words(compared: WhatIfResult, names: Mapping[str, str]) -> dict[str, Any]:
    change = compared.would_nano - compared.was_nano
    percent = 100 * change / compared.was_nano if compared.was_nano else 0.0
    return {
        "tenant": names.get(compared.tenant_id, compared.tenant_id),
        "model": compared.model,
        "requests": compared.requests,
        "unpriced": compared.unpriced,
        "was": to_display(compared.was_nano),
        "would_be": to_display(compared.would_nano),
        "by_tiers": to_display(compared.would_true_up_nano),
        "change": f"{'+' if change > 0 else ''}{to_display(change)} ({percent:+.1f} %)",
    }
