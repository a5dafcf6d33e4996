"""What customers and operators are shown by commands, held beside what it should be."""

import csv
import time
from collections.abc import Mapping
from fractions import Fraction
from typing import Any

from chaos.books.checks import SumCheck, sums_of
from chaos.books.expected import ExpectedBooks
from chaos.books.judge import expected_by
from chaos.books.months import month_of, name_of
from chaos.books.price_files import NANO
from chaos.books.reports import GROUPINGS, SUMS, Report, instant, report, summed
from chaos.books.rows import Rows
from chaos.books.terms import Customer, History
from chaos.books.wallet_checks import wallet_of
from chaos.installation.command_runner import CommandRunner

Month = tuple[int, int]
TWO_DAYS_MS = 2 * 86_400_000


async def check_command_output(history: History, commands: CommandRunner, read: Rows) -> list[SumCheck]:
    """Each report of each customer's two months, its wallet, and the difference of the months."""
    expected = expected_by(history, read)
    users = {each["id"]: each["name"] for each in read["tenant_user"]}
    reports, exported = SumCheck("shown: usage by each grouping"), SumCheck("exported: FOCUS of each month")
    compared, wallets = (
        SumCheck("shown: a month beside the other"),
        SumCheck("shown: wallets and what they owe"),
    )
    for customer in history.customers.values():
        months = _months(customer)
        totals: list[int] = []
        for month in months:
            for by in GROUPINGS:
                wanted = report(expected, customer.id, month, customer.zone, by, users)
                found = await _shown(commands, customer, month, by)
                _compare(reports, f"{customer.name} by {by}", wanted, found)
            total = report(expected, customer.id, month, customer.zone, "total", users).get("", (0,))[-1]
            totals.append(total)
            off = await _exported(commands, customer, month) - total
            exported.add([(off, f"{customer.name}: {off} nano more than {total}")] if off else [])
        await _months_compared(compared, commands, customer, months, totals)
        if customer.prepaid:
            await _wallet(wallets, commands, customer, expected, read)
    return [reports, exported, compared, wallets]


def _months(customer: Customer) -> list[Month]:
    first = month_of(time.time_ns() // 1_000_000, customer.zone)
    return [first, month_of(first[1], customer.zone)]


def _compare(check: SumCheck, what: str, wanted: Report, found: Report) -> None:
    nothing = (0,) * len(SUMS)
    for group in sorted(wanted.keys() | found.keys()):
        said, right = found.get(group, nothing), wanted.get(group, nothing)
        off = f"{what}, {group!r}: {said}, expected {right}"
        check.add([(said[-1] - right[-1], off)] if said != right else [])


async def _shown(commands: CommandRunner, customer: Customer, month: Month, by: str) -> Report:
    of = ("--tenant", customer.name, "--month", name_of(month[0], customer.zone), "--by", by)
    rows = await commands.parley("usage", "show", *of)
    return summed((_group(row, by), _sums(row)) for row in rows)


def _group(row: Mapping[str, Any], by: str) -> str:
    return instant(row[by]) if by == "day" else str(row[by])


def _sums(row: Mapping[str, Any]) -> tuple[int, ...]:
    output = row["output_text"] + row["output_reasoning"]
    return tuple(int(value) for value in (*(row[name] for name in SUMS[:4]), output, row["amount_nano"]))


async def _exported(commands: CommandRunner, customer: Customer, month: Month) -> int:
    of = ("--tenant", customer.name, "--month", name_of(month[0], customer.zone))
    sheet = csv.DictReader((await commands.run("usage", "export", *of)).out.splitlines())
    return sum(int(Fraction(row["BilledCost"]) * NANO) for row in sheet)


async def _months_compared(
    check: SumCheck, commands: CommandRunner, customer: Customer, months: list[Month], totals: list[int]
) -> None:
    first, second = (name_of(month[0], customer.zone) for month in months)
    later_ms = months[1][1] + TWO_DAYS_MS - time.time_ns() // 1_000_000
    of = ("--tenant", customer.name, "--month", second, "--to-month", first)
    done = await commands.run("usage", "compare", *of, "--json", later_ms=later_ms)
    if done.code or len(done.objects) != 1:
        check.add([(0, f"{customer.name}: {done.err or done.out or done.code}")])
        return
    (row,) = done.objects
    parts = ("volume_nano", "mix_nano", "price_nano", "tiers_nano", "corrections_nano")
    said = [row["before_nano"], row["after_nano"], sum(row[part] for part in parts)]
    right = [*totals, totals[1] - totals[0]]
    off = sum(abs(one - other) for one, other in zip(said, right, strict=True))
    check.add([(off, f"{customer.name}: {said}, expected {right}")] if off else [])


async def _wallet(
    check: SumCheck, commands: CommandRunner, customer: Customer, expected: ExpectedBooks, read: Rows
) -> None:
    """Of grants that are over, the biller books the rest when it comes to it."""
    wallet = wallet_of(customer.id, expected, read)
    grants = await commands.parley("wallets", "show", "--tenant", customer.name)
    open_ = {key: kept.left for key, kept in wallet.grants.items() if kept.granted.ends_ms is None}
    found = {row["key"]: int(row["left_nano"]) for row in grants if row["key"] in open_}
    owed = await commands.parley("wallets", "owed", "--tenant", customer.name)
    lacking = {request: nano for (_, request), nano in wallet.lacking.items()}
    for part in (
        sums_of("", open_, found),
        sums_of("", lacking, {row["request"]: int(row["owed_nano"]) for row in owed}),
    ):
        check.compared, check.off = check.compared + part.compared, check.off + part.off
        check.off_nano += part.off_nano
        check.details += [f"{customer.name} {each}" for each in part.details]
