"""`python -m chaos bench api-lists`: how soon the API lists things, among many tenants and usage events."""

import asyncio
import time
from collections.abc import Sequence
from contextlib import AsyncExitStack

import click

from admin.api.callers import OPERATORS_SIDE, SIDES, TENANTS_SIDE
from billing.seeding.fill import FilledInstallation
from billing.seeding.shapes import SeedShape
from chaos.bench.api_lists.cases import answers_at_once, is_list
from chaos.bench.api_lists.installation import (
    RunningConsole,
    admin_code,
    owner_code,
    running_consoles,
    seed_installation,
    signed_in,
)
from chaos.bench.api_lists.timing import TimedCase, Visit, cases_of, time_at_once, time_one_by_one
from chaos.bench.billing import billing_testbed
from chaos.figures.figures import Figure, json_option, progress, show
from chaos.figures.samples import percentile
from core.clock import iso_time, now_ms
from core.configuration.settings import Settings
from core.operations import Operation, Role, registered

LIST_MS_MAX = 150
TENANTS, EVENTS = 20, 2_000
AT_ONCE = 8
CALLS_AT_ONCE = 400
WEEK_MS = 7 * 86_400_000


@click.command("api-lists")
@click.option("--tenants", default=TENANTS, show_default=True, type=click.IntRange(3, 10_000))
@click.option("--events", default=EVENTS, show_default=True, type=click.IntRange(0, 100_000_000))
@click.option("--rounds", default=20, show_default=True, type=click.IntRange(1), help="Calls of each case.")
@click.option("--only", default="", help="Only operations with this in their name.")
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@json_option
def api_lists(tenants: int, events: int, rounds: int, only: str, postgres: bool, as_json: bool) -> None:
    """Call every list of the API, among tenants of very unlike sizes: first page, deep page, each filter.

    A console process of each side answers, one client asks: the owner, and admins of the largest and of a
    small tenant. A line is an operation's slowest case; below the lists stand all other reads.
    """
    dialect = "postgres" if postgres else "sqlite"
    figures, facts = asyncio.run(_measured(dialect, tenants, events, rounds, only))
    title = f"api-lists, {dialect}, {tenants:,} tenants, {events:,} usage events"
    show(title, figures, as_json, facts)
    raise SystemExit(0 if all(figure.reached is not False for figure in figures) else 1)


async def _measured(
    dialect: str, tenants: int, events: int, rounds: int, only: str
) -> tuple[list[Figure], dict[str, object]]:
    async with AsyncExitStack() as stack:
        settings = await stack.enter_async_context(billing_testbed(dialect))
        began = time.monotonic()
        seeded = await seed_installation(settings, SeedShape(tenants, events, now_ms()))
        took = time.monotonic() - began
        consoles = await stack.enter_async_context(running_consoles(settings))
        visits = await _visits(stack, settings, seeded, consoles, only)
        cases: list[TimedCase] = []
        left: dict[str, list[str]] = {}
        for visit in visits:
            found, left[visit.name] = await cases_of(visit)
            cases += found
        progress(f"{len(cases)} cases of {len({each.case.operation.name for each in cases})} operations")
        await time_one_by_one(cases, rounds)
        lists = [case for case in cases if is_list(case.case.operation)]
        at_once = await time_at_once(lists, AT_ONCE, CALLS_AT_ONCE)
    figures = [
        Figure("seeding", round(took, 1), "s"),
        Figure("changes in the audit log", seeded.changes, ""),
        *figures_of(cases, at_once),
    ]
    return figures, {"cases": [_facts(case) for case in cases], "not called": left}


async def _visits(
    stack: AsyncExitStack,
    settings: Settings,
    seeded: FilledInstallation,
    consoles: dict[str, RunningConsole],
    only: str,
) -> list[Visit]:
    largest, small = (seeded.sources[at].tenant for at in (0, len(seeded.sources) // 2))
    staff, members = (consoles[side.name].url for side in (OPERATORS_SIDE, TENANTS_SIDE))
    owner = await stack.enter_async_context(signed_in(staff, await owner_code(settings)))
    visits = [Visit("owner", owner, _reads(OPERATORS_SIDE.name, Role.OWNER, only), _known(settings, largest))]
    for name, tenant in (("admin of the largest", largest), ("admin of a small one", small)):
        client = await stack.enter_async_context(signed_in(members, admin_code(settings, seeded, tenant)))
        reads = _reads(TENANTS_SIDE.name, Role.ADMIN, only)
        visits.append(Visit(name, client, reads, _known(settings, tenant)))
    return visits


def _reads(side: str, role: Role, only: str) -> list[Operation]:
    return [
        each
        for each in registered().values()
        if not each.writes
        and answers_at_once(each)
        and role in each.may
        and SIDES[side].serves(each)
        and only in each.name
    ]


def _known(settings: Settings, tenant: str) -> dict[str, list[str]]:
    """Values of fields that no list tells."""
    week_ago = now_ms() - WEEK_MS
    return {
        "tenant": [tenant],
        "pool": [settings.pool],
        "as_of": [str(iso_time(week_ago))],
        "month": [str(iso_time(week_ago))[:7]],
        "days": ["30"],
        "last": ["1000"],
    }


def figures_of(cases: Sequence[TimedCase], at_once: Sequence[float]) -> list[Figure]:
    """Each operation's slowest case of each visitor, lists first, and all lists by several clients. Pure."""
    by_operation: dict[tuple[bool, str, str], list[TimedCase]] = {}
    for case in cases:
        key = (not is_list(case.case.operation), case.case.operation.name, case.visit.name)
        by_operation.setdefault(key, []).append(case)
    figures = [
        _slowest(name, visitor, found, None if other else LIST_MS_MAX)
        for (other, name, visitor), found in sorted(by_operation.items())
    ]
    if at_once:
        name = f"lists, {AT_ONCE} clients at once, p95 of {len(at_once)}"
        name += f" (p50 {percentile(at_once, 0.5):.0f}, worst {max(at_once):.0f})"
        figures.append(Figure(name, round(percentile(at_once, 0.95), 1), "ms"))
    return figures


def _slowest(name: str, visitor: str, cases: Sequence[TimedCase], most: float | None) -> Figure:
    worst = max(cases, key=lambda case: percentile(case.took_ms, 0.95))
    calls = sum(len(case.took_ms) for case in cases)
    shown = f"{name}, {visitor}, p95 of {calls} calls, {len(cases)} cases"
    p50, most_ms = percentile(worst.took_ms, 0.5), max(worst.took_ms)
    shown += f" ({worst.case.shown or 'one'}: p50 {p50:.0f}, worst {most_ms:.0f})"
    return Figure(shown, round(percentile(worst.took_ms, 0.95), 1), "ms", most=most)


def _facts(case: TimedCase) -> dict[str, object]:
    return {
        "operation": case.case.operation.name,
        "visitor": case.visit.name,
        "case": case.case.shown,
        "list": is_list(case.case.operation),
        "calls": len(case.took_ms),
        "p50": round(percentile(case.took_ms, 0.5), 1),
        "p95": round(percentile(case.took_ms, 0.95), 1),
        "worst": round(max(case.took_ms), 1),
        "bytes": case.bytes,
    }
