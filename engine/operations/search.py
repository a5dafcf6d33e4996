"""The operation that finds what somebody has before them: one question over requests, tenants, users, keys
and workers. Each kind is looked for only where the caller's role may see it."""

import re
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta
from redis.exceptions import RedisError

from billing.api import (
    Look,
    NamedThing,
    ThingKind,
    list_tenants,
    requests_shortened,
    tenant_names,
    tenants_holding,
    tenants_with,
    things_beginning,
    things_named,
)
from core.access.processes import POOLS
from core.operations import STAFF, ListedPage, Uses, operation, registered
from core.redis.members import names, reading
from core.redis.pools import announced_pools
from engine.operations.pool_questions import AUDIT
from engine.queue import redis_keys

HITS_MAX = 20
BEGINNING_MAX = 8  # of a kind, so that none crowds the others out
SHORTENED = re.compile(r"([0-9a-f]{8})(?:…|\.{2,3})([0-9a-f]{4})", re.ASCII)  # an id as pages show it
REQUEST = re.compile(r"[A-Za-z0-9._-]{1,200}", re.ASCII)


class SearchKind(StrEnum):
    """What can be found."""

    REQUEST = "request"
    TENANT = "tenant"
    USER = "user"
    KEY = "key"
    WORKER = "worker"


# Who may do this may find that.
SEEN_BY = {
    SearchKind.REQUEST: "requests.explain",
    SearchKind.TENANT: "tenants.show",
    SearchKind.USER: "users.list",
    SearchKind.KEY: "keys.list",
    SearchKind.WORKER: "workers.list",
}


class SearchQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """What somebody has before them."""

    q: Annotated[
        str,
        Meta(
            min_length=1,
            max_length=200,
            description="An id, a name, a key's prefix, or the beginning of a name; a request's id also as "
            "pages shorten it, like 01a21726…98b5.",
        ),
    ]


class SearchHit(msgspec.Struct, frozen=True):
    """Something that was found. `tenant` empty: a worker, which is of `pool`; `exact`: it has this id or
    name, not only one that begins so."""

    kind: SearchKind
    id: str
    title: str
    tenant: str = ""
    tenant_name: str = ""
    pool: str = ""
    exact: bool = True


class SearchHits(ListedPage[SearchHit], frozen=True, kw_only=True):
    """At most 20, exact ones first. `unread`: what could not be looked at."""

    unread: str = ""


@operation(
    "search.find",
    "GET /search",
    may=STAFF,
    audit="request.find",
    uses=Uses(
        reads="tenant tenant_user api_key usage_event",
        writes=AUDIT,
        keys=("P:workers", "T:rq:", POOLS),
    ),
)
async def find_anything(look: Look, ask: SearchQuestion) -> SearchHits:
    """Find a request, tenant, user, key or worker by its id or name, or by how its name begins. Staff finds
    what its role may see."""
    text = ask.q.strip()
    may = {kind for kind, name in SEEN_BY.items() if look.who.role in registered()[name].may}
    kinds = [kind for kind in ThingKind if SearchKind(kind.value) in may and text]
    hits = [_hit(each) for kind in kinds for each in await things_named(look.db, kind, text, HITS_MAX)]
    workers, unread = await _workers(look, text) if SearchKind.WORKER in may and text else ([], "")
    hits += [each for each in workers if each.exact]
    if SearchKind.REQUEST in may and REQUEST.fullmatch(text):
        requests, unread = await _requests(look, text, bool(hits), unread)
        hits = requests + hits
    if SearchKind.REQUEST in may and (short := SHORTENED.fullmatch(text)):
        hits += await _shortened(look, *short.groups())
    for kind in kinds:
        if len(hits) < HITS_MAX:
            begins = await things_beginning(look.db, kind, text, BEGINNING_MAX + len(hits))
            hits += _others(hits, [_hit(each, exact=False) for each in begins])[:BEGINNING_MAX]
    hits += [each for each in workers if not each.exact][:BEGINNING_MAX]
    return SearchHits(hits[:HITS_MAX], unread=unread)


async def _requests(look: Look, id: str, else_found: bool, unread: str) -> tuple[list[SearchHit], str]:
    """Requests of this id, in the books or running; that staff found one is recorded with its tenant. Redis
    is asked only where nothing else has the id."""
    owners = list(await tenants_with(look.db, id))
    if not owners and not else_found:
        try:
            tenants = [each.tenant_id for each in await list_tenants(look.db)]
            owners = await tenants_holding(look.redis, tenants, id)
        except (RedisError, OSError) as error:
            unread = _unread(error)
    named = await tenant_names(look.db, owners)
    for owner in owners:
        await look.watched(owner, id)
    hits = [SearchHit(SearchKind.REQUEST, id, id, owner, named.get(owner, owner)) for owner in owners]
    return hits, unread


async def _shortened(look: Look, begin: str, end: str) -> list[SearchHit]:
    """Requests in the books whose id pages shorten so; that staff found them is recorded."""
    found = await requests_shortened(look.db, begin, end)
    named = await tenant_names(look.db, [owner for owner, _ in found])
    for owner, id in found:
        await look.watched(owner, id)
    return [
        SearchHit(SearchKind.REQUEST, id, id, owner, named.get(owner, owner), exact=False)
        for owner, id in found
    ]


async def _workers(look: Look, text: str) -> tuple[list[SearchHit], str]:
    """Workers that are registered in any pool."""
    hits: list[SearchHit] = []
    try:
        for pool in sorted({look.settings.pool} | await announced_pools(look.redis, look.settings)):
            key = redis_keys.workers(pool)
            registered_here = names(key, await reading(key, look.redis.zrange(key, 0, -1), []))
            alike = (each for each in registered_here if each.lower().startswith(text.lower()))
            hits += [_worker(each, pool, each == text) for each in alike]
    except (RedisError, OSError) as error:
        return [], _unread(error)
    return hits, ""


def _worker(worker: str, pool: str, exact: bool) -> SearchHit:
    return SearchHit(SearchKind.WORKER, worker, worker, pool=pool, exact=exact)


def _unread(error: Exception) -> str:
    return f"Redis does not answer ({type(error).__name__}): what runs now is not known"


def _hit(found: NamedThing, exact: bool = True) -> SearchHit:
    kind = SearchKind(found.kind.value)
    return SearchHit(kind, found.id, found.title, found.tenant, found.tenant_name, exact=exact)


def _others(hits: Sequence[SearchHit], more: Sequence[SearchHit]) -> list[SearchHit]:
    """Those that are not among the hits. Pure."""
    known = {(each.kind, each.tenant, each.id) for each in hits}
    return [each for each in more if (each.kind, each.tenant, each.id) not in known]


OPERATIONS = (find_anything,)
