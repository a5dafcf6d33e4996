"""`parley requests`: a pool's requests, ended ones too; cancel one, move them. Never shows what was said."""

import asyncio
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import click
import msgspec

from billing.api import Quota
from billing.shared_commands import find_command
from core.errors import StartupError
from core.redis.pools import HOPS_MAX
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.connection import (
    PoolConnection,
    find_request,
    in_pool,
    json_option,
    names_of_tenants,
    on_record,
    pool_option,
    tenant_id_of,
    tenant_option,
)
from engine.cli.explain import explain_command
from engine.cli.formatting import NOTHING, duration, time_of_day, worker_table
from engine.cli.migrate import migrate
from engine.lifecycle.finish import end_unclaimed
from engine.operations.cancel import cancel_where_it_is
from engine.operations.inspection import InspectedRequest, RequestDetail
from engine.operations.worker_rows import WorkerRow
from engine.queue.client import DamagedRecordError
from engine.request import Control, EndReason, RequestStatus

CANCEL_SECONDS_MAX = 5.0
POLL_SECONDS = 0.05


class ListedRequests(NamedTuple):
    """Requests, names of tenants by id, and the time at which they were read."""

    rows: list[InspectedRequest]
    names: Mapping[str, str]
    now_ms: int


@click.group()
def command() -> None:
    """Requests: in a pool, and those that are over. Prompts and answers are never shown."""


command.add_command(migrate)
command.add_command(find_command)
command.add_command(explain_command)


@command.command("list")
@click.option("--tenant", help="Only this tenant's (name or id).")
@click.option("--status", type=click.Choice([status.value for status in RequestStatus]))
@click.option("--limit", default=100, show_default=True, type=click.IntRange(1, 10_000))
@pool_option
@json_option
def list_command(tenant: str | None, status: str | None, limit: int, pool: str | None, as_json: bool) -> None:
    """Requests that have not ended, the nearest deadline first. With `--status ended`: the last that have
    and are not billed yet, which takes a second or two; the others are in `parley requests find`."""
    wanted = RequestStatus(status) if status else None
    listed = in_pool(pool, lambda found: _list(found, tenant, wanted, limit))
    if as_json:
        for row in listed.rows:
            name = listed.names.get(row.tenant, row.tenant)
            print_json({**msgspec.structs.asdict(row), "tenant_name": name})
    elif listed.rows:
        print_blocks(_table(listed))
    elif wanted is RequestStatus.ENDED:
        print_line("No request fits that is not billed yet: for those that are, see `parley requests find`.")
    else:
        print_line("No request is open." if not (tenant or status) else "No request fits.")


@command.command()
@click.argument("id")
@tenant_option
@pool_option
@json_option
def show(id: str, tenant: str | None, pool: str | None, as_json: bool) -> None:
    """Where the request ID is, how far it got, who reads it. One that has moved is shown where it is now."""
    found, worker, came_from, names = in_pool(pool, lambda each: _show(each, id, tenant))
    if as_json:
        print_json({**_flat(found), "at": worker, "came_from": came_from})
        return
    for name, value in _lines(found, came_from, names):
        print_line(f"{name:15}{value}")
    if worker is not None:
        print_blocks(worker_table([worker]))


@command.command()
@click.argument("id")
@tenant_option
@pool_option
def cancel(id: str, tenant: str | None, pool: str | None) -> None:
    """End the request ID: its readers get `end` with reason `cancelled`, what was sampled is billed."""
    print_line(in_pool(pool, lambda found: _cancel(found, id, tenant)))


async def _list(
    pool: PoolConnection, tenant: str | None, status: RequestStatus | None, limit: int
) -> ListedRequests:
    rows = await pool.inspection.requests(await tenant_id_of(pool, tenant), status, limit)
    names = await names_of_tenants(pool) if rows else {}
    return ListedRequests(rows, names, await pool.queue.now_ms())


async def _show(
    pool: PoolConnection, id: str, tenant: str | None
) -> tuple[RequestDetail, WorkerRow | None, list[str], dict[str, str]]:
    """The request, its worker, the pools that it came from as far as they still know, and tenants' names."""
    pool, found = await find_request(pool, id, await tenant_id_of(pool, tenant))
    came_from = list[str]()
    while found.row.status == RequestStatus.MOVED and len(came_from) < HOPS_MAX:
        there = pool.another(found.moved_to)
        detail = await there.inspection.request(found.row.tenant, id)
        if detail is None:
            break
        came_from.append(pool.name)
        pool, found = there, detail
    workers = await pool.inspection.workers() if found.row.worker else []
    worker = next((row for row in workers if row.worker == found.row.worker), None)
    return found, worker, came_from, await names_of_tenants(pool)


async def _cancel(pool: PoolConnection, id: str, tenant: str | None) -> str:
    """End the request; a line on the result. Repeating it changes nothing."""
    pool, found = await find_request(pool, id, await tenant_id_of(pool, tenant))
    row = found.row
    if row.status != RequestStatus.ENDED:
        await on_record(pool, row.tenant, "request.cancel", id, status=row.status)
    queue, status = await cancel_where_it_is(pool.queue, row.tenant, id)
    pool = pool.another(queue.pool)
    if status is RequestStatus.ENDED:
        return f"{id} had ended before"
    quota = Quota(pool.queue.redis, pool.settings)
    deadline = time.monotonic() + CANCEL_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            await end_unclaimed(pool.queue, quota, row.tenant, id, EndReason.CANCELLED)
        except DamagedRecordError as error:
            raise StartupError(f"{error}: it is marked cancelled, and nobody can end it") from error
        view = await pool.queue.view(row.tenant, id)
        if view is None or view.ended:
            return f"{id} was {row.status} and has ended"
        if view.status is RequestStatus.MOVED:
            pool = pool.another(view.dest)
        await asyncio.sleep(POLL_SECONDS)
    raise StartupError(f"{id} is marked cancelled, but its worker has not ended it yet")


def _table(listed: ListedRequests) -> Table:
    table = Table(ruled=True)
    table.columns("id", min_width=36)
    table.columns("tenant", "status", "class", "worker", "model")
    table.columns("prompt", "tokens", "age", "left", right=True, whole=True)
    for row in listed.rows:
        ended = row.status == RequestStatus.ENDED
        name = listed.names.get(row.tenant, row.tenant)
        table.row(
            *(row.id, name, row.reason or row.status, row.priority or NOTHING, row.worker or NOTHING),
            *(row.model, str(row.prompt_tokens), str(row.tokens)),
            duration(max(0, listed.now_ms - row.accepted_ms)),
            NOTHING if ended else duration(max(0, row.deadline_ms - listed.now_ms)),
        )
    return table


def _flat(found: RequestDetail) -> dict[str, Any]:
    fields = msgspec.structs.asdict(found)
    return {**msgspec.structs.asdict(fields.pop("row")), **fields}


def _lines(found: RequestDetail, came_from: list[str], names: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    row = found.row
    came = f", moved there from {', '.join(came_from)}" if came_from else ""
    tenant = f"{names[row.tenant]} ({row.tenant})" if row.tenant in names else row.tenant
    yield from (("request", row.id), ("tenant", tenant), ("pool", row.pool + came), ("model", row.model))
    moved = f" to pool {found.moved_to}" if found.moved_to else ""
    yield "status", row.status + moved + _orders(found.control)
    yield "class", f"{row.priority}, {row.lane} lane"
    if found.older is not None:
        yield "in line", f"{found.older} of its class wait longer"
    yield "worker", row.worker or (f"none; last {found.warm}" if found.warm else "none")
    yield "claims", f"{row.claims}, {found.deaths} engine deaths in a row, {found.preempts} preemptions"
    yield (
        "tokens",
        (
            f"{row.prompt_tokens} prompt ({found.input_cached} cached), {row.tokens} sampled "
            f"({found.covered} shown), {found.granted} granted, {found.recomputed_tokens} computed again"
        ),
    )
    kept = "none kept" if found.log_first is None else f"{found.log_first} to {row.log_head}"
    yield "log", f"entries {kept}, epoch {found.epoch}, {found.visible} characters"
    times = {"accepted": row.accepted_ms, "claimed": row.claimed_ms, "first token": row.first_token_ms}
    for name, at in {**times, "deadline": row.deadline_ms}.items():
        yield name, time_of_day(at) or NOTHING
    readers = ", ".join(f"{gateway} {state}" for gateway, state in sorted(found.readers.items()))
    yield "readers", readers or "none"


def _orders(control: int) -> str:
    names = [flag.name.lower() for flag in Control if flag & control and flag.name]
    return f", told to {' and '.join(names)}" if names else ""
