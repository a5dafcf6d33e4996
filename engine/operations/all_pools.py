"""Requests of several pools that have not ended, in one order. Reads only.

Of each pool the beginning of its lines is read, and then the records of those alone that are listed, so that
what a list takes grows with its rows, hardly with pools.
"""

import asyncio
from collections.abc import Mapping, Sequence

from engine.operations.inspection import InspectedRequest, Inspection
from engine.queue.client import PoolQueue
from engine.request import RequestStatus


async def requests_of_pools(
    queues: Sequence[PoolQueue], tenant: str | None, status: RequestStatus | None, limit: int
) -> list[InspectedRequest]:
    """Requests of these pools, at most `limit` in all: moving ones first, then the nearest deadline. `status`
    is none of those that have ended, whose order only a pool of its own knows."""
    pools = {queue.pool: Inspection(queue) for queue in queues}
    if tenant is None and status is None:
        return await _first(pools, limit)
    lists = await asyncio.gather(*(each.requests(tenant, status, limit) for each in pools.values()))
    return sorted((row for rows in lists for row in rows), key=_order)[:limit]


async def _first(pools: Mapping[str, Inspection], limit: int) -> list[InspectedRequest]:
    found = await asyncio.gather(*(each.first_open(limit) for each in pools.values()))
    places = sorted(place for each in found for place in each)[:limit]
    wanted: dict[str, list[tuple[str, str]]] = {}
    for place in places:
        wanted.setdefault(place.pool, []).append((place.tenant, place.id))
    lists = await asyncio.gather(*(pools[pool].rows(members) for pool, members in wanted.items()))
    rows = {(row.pool, row.tenant, row.id): row for each in lists for row in each}
    return [row for place in places if (row := rows.get((place.pool, place.tenant, place.id)))]


def _order(row: InspectedRequest) -> tuple[bool, int, str, str]:
    return row.status != RequestStatus.MOVING, row.deadline_ms, row.pool, row.id
