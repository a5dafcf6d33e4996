"""`parley requests`: a pool's requests, ended ones too; cancel one, move them. Never shows what was said."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import click
import msgspec

from billing.rendering import CommandTerms, answered, asks, facts_of
from billing.shared_commands import find_command
from core.errors import StartupError
from core.terminal.terminal import print_json, print_line
from core.terminal.terminal_tables import Table, print_blocks
from engine.cli.explain import explain_command
from engine.cli.formatting import NOTHING, duration, life, reader_table, time_of_day, worker_table
from engine.cli.migrate import migrate
from engine.operations import requests
from engine.operations.inspection import InspectedRequest, RequestDetail
from engine.operations.pool_questions import NameRequest
from engine.operations.requests import CancelledRequest, CancelState, ListRequests
from engine.request import Control, RequestStatus

REQUEST = {"request": {"metavar": "ID"}}


class ListedRequests(NamedTuple):
    """Requests, names of tenants by id, and the time at which they were read."""

    rows: Sequence[InspectedRequest]
    names: Mapping[str, str]
    now_ms: int


@click.group()
def command() -> None:
    """Requests: in a pool, and those that are over. Prompts and answers are never shown."""


command.add_command(migrate)
command.add_command(find_command)
command.add_command(explain_command)


@command.command("list")
@asks(requests.list_requests, options={"limit": {"show_default": True}})
def list_command(ask: ListRequests, how: CommandTerms) -> None:
    """Requests that have not ended, the nearest deadline first. With `--status ended`: the last that have
    and are not billed yet, which takes a second or two; the others are in `parley requests find`."""
    line = answered(requests.list_requests, ask, how)
    if how.as_json:
        for row in line.items:
            print_json(row)
    elif line.items:
        names = {row.tenant: row.tenant_name for row in line.items}
        print_blocks(_table(ListedRequests(line.items, names, line.now_ms)))
    elif ask.status is RequestStatus.ENDED:
        print_line("No request fits that is not billed yet: for those that are, see `parley requests find`.")
    elif ask.tenant or ask.status:
        print_line("No request fits.")
    else:
        print_line(f"No request is open in pool {ask.pool}." if ask.pool else "No request is open.")


@command.command()
@asks(requests.show_request, arguments=("request",), options=REQUEST)
def show(ask: NameRequest, how: CommandTerms) -> None:
    """Where the request ID is, how far it got, who reads it. One that has moved is shown where it is now."""
    shown = answered(requests.show_request, ask, how)
    if how.as_json:
        facts = {"at": shown.at, "came_from": shown.came_from, "reading": shown.readers}
        print_json({**_flat(shown.request), **facts, "unheard": shown.unheard})
        return
    tenant = shown.request.row.tenant
    names = {tenant: shown.tenant_name} if shown.tenant_name != tenant else {}
    for name, value in _lines(shown.request, shown.came_from, names):
        print_line(f"{name:15}{value}")
    if shown.readers:
        print_blocks(reader_table(shown.readers, shown.request.now_ms))
    if shown.unheard:
        print_line(f"{'told nothing':15}{', '.join(shown.unheard)}, of its readers")
    if shown.at is not None:
        print_blocks(worker_table([shown.at]))


@command.command()
@asks(requests.cancel_request, arguments=("request",), options=REQUEST)
def cancel(ask: NameRequest, how: CommandTerms) -> None:
    """End the request ID: its readers get `end` with reason `cancelled`, what was sampled is billed."""
    cancelled = answered(requests.cancel_request, ask, how)
    if how.as_json:
        print_json(facts_of(cancelled, True))
    else:
        print_line(_became(cancelled))


def _became(cancelled: CancelledRequest) -> str:
    """A line on what became of a cancel. Raises StartupError where it is not obeyed."""
    match cancelled.state:
        case CancelState.HAD_ENDED:
            return f"{cancelled.request} had ended before"
        case CancelState.WOULD_END:
            return f"{cancelled.request} is {cancelled.was} and would end"
        case CancelState.ENDED:
            return f"{cancelled.request} was {cancelled.was} and has ended"
        case CancelState.TOLD:
            told = f"{cancelled.request} is marked cancelled, but its worker has not ended it yet"
            raise StartupError(told)


def _table(listed: ListedRequests) -> Table:
    table = Table(ruled=True)
    table.columns("id", min_width=36)
    several = len({row.pool for row in listed.rows}) > 1
    table.columns("tenant", *(["pool"] if several else []), "status", "class", "worker", "model")
    table.columns("prompt", "tokens", "age", "left", right=True, whole=True)
    for row in listed.rows:
        ended = row.status == RequestStatus.ENDED
        name = listed.names.get(row.tenant, row.tenant)
        table.row(
            *(row.id, name, *([row.pool] if several else [])),
            *(row.reason or row.status, row.priority or NOTHING, row.worker or NOTHING),
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
    if found.phases:
        yield "life", life(found.phases)
    times = {"accepted": row.accepted_ms, "claimed": row.claimed_ms, "first token": row.first_token_ms}
    for name, at in {**times, "deadline": row.deadline_ms}.items():
        yield name, time_of_day(at) or NOTHING
    if found.parked_ms:
        yield "parked since", time_of_day(found.parked_ms) or NOTHING
    readers = ", ".join(f"{gateway} {state}" for gateway, state in sorted(found.readers.items()))
    yield "readers", readers or "none"


def _orders(control: int) -> str:
    names = [flag.name.lower() for flag in Control if flag & control and flag.name]
    return f", told to {' and '.join(names)}" if names else ""
