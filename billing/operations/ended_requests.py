"""Operations that find requests which are over: ended ones in the books, and sends that were refused. No text
of them is read."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Annotated
from zoneinfo import ZoneInfo

import msgspec
from msgspec import Meta

from billing.enforcement.scope_ids import scope_id_of
from billing.operations.shared_fields import AUDIT
from billing.periods import instant_or_ago
from billing.requests.find import (
    CURSOR_CHARACTERS_MAX,
    FOUND_MAX,
    RequestMatch,
    RequestSearch,
    WhyEnded,
    cursor_of,
    find_requests,
)
from billing.requests.refusal_views import RefusalMatch, RefusalSearch, find_refusals, refusal_cursor_of
from billing.tables.tenants import PLATFORM, Tenant, TenantUser
from billing.tenants.shown_names import Owned, keys_named
from billing.unit_of_work.units import Look
from core.clock import iso_time
from core.errors import Refused, bad_request
from core.names import NAME_RULE, name_of
from core.operations import DEVELOPERS, STAFF, ListedPage, Role, Uses, operation

DAY_MS = 86_400_000
FINDERS = STAFF | DEVELOPERS | {Role.VIEWER}


class FindRefused(msgspec.Struct, frozen=True, kw_only=True):
    """Which sends, in the minutes of which time."""

    tenant: Annotated[str | None, Meta(description="The tenant's name or id. Without it, all tenants'.")] = (
        None
    )
    user: Annotated[
        str | None, Meta(description="Only this user's, by name or id. As a key, it needs its tenant.")
    ] = None
    key: Annotated[str | None, Meta(description="Only what came with this key, by its prefix (pk_…).")] = None
    code: Annotated[str | None, Meta(description="The code of its error, as engine_lost.")] = None
    since: Annotated[
        str, Meta(description="From this time on, as 2h, 7d or 2026-10-01T12:00. By default 24h.")
    ] = ""
    until: Annotated[str, Meta(description="Before this time, written likewise. By default now.")] = ""
    limit: Annotated[int, Meta(ge=1, le=FOUND_MAX, description="How many at most.")] = 50
    after: Annotated[
        str,
        Meta(max_length=CURSOR_CHARACTERS_MAX, description="Go on behind an earlier page: its `next`."),
    ] = ""


class FindEnded(FindRefused, frozen=True, kw_only=True):
    """Which requests, of those that ended in which time."""

    project: Annotated[str | None, Meta(description="Only this project's, by name or id.")] = None
    model: Annotated[str | None, Meta(description="Only answers of this model.")] = None
    pool: Annotated[str | None, Meta(description="Only what this pool ended.")] = None
    reason: Annotated[WhyEnded | None, Meta(description="Why it ended.")] = None
    over_ms: Annotated[
        Annotated[int, Meta(ge=0)] | None, Meta(description="Took longer than this, in ms.")
    ] = None
    cost_over_nano: Annotated[
        Annotated[int, Meta(ge=0)] | None,
        Meta(description="Was billed more than this when it ended, in nano-USD."),
    ] = None


class EndedRequestFacts(RequestMatch, frozen=True, kw_only=True):
    """A request that ended. Times are RFC 3339 in UTC, those in `_ms` Unix ms; `key_name`: the key's name,
    else its id."""

    ended: str | None
    accepted: str | None
    key_name: str = ""

    @classmethod
    def of(cls, found: RequestMatch, keys: Mapping[Owned, str]) -> "EndedRequestFacts":
        """The facts of a match."""
        ended, accepted = iso_time(found.ended_ms), iso_time(found.accepted_ms)
        key_name = keys.get((found.tenant, found.key), found.key)
        facts = msgspec.structs.asdict(found)
        return cls(**facts, ended=ended, accepted=accepted, key_name=key_name)


class RefusedSends(RefusalMatch, frozen=True, kw_only=True):
    """Sends of one minute, key, user and code that were refused. `minute`: when it began, in UTC;
    `key_name`: the key's name, else its id."""

    minute: str | None
    key_name: str = ""

    @classmethod
    def of(cls, found: RefusalMatch, keys: Mapping[Owned, str]) -> "RefusedSends":
        """The facts of a match."""
        key_name = keys.get((found.tenant, found.key), found.key)
        return cls(**msgspec.structs.asdict(found), minute=iso_time(found.minute_ms), key_name=key_name)


@operation(
    "requests.find",
    "GET /ended-requests",
    may=FINDERS,
    audit="request.find",
    uses=Uses(reads="tenant project api_key tenant_user usage_event usage_line", writes=AUDIT),
)
async def find_ended(look: Look, ask: FindEnded) -> ListedPage[EndedRequestFacts]:
    """Find requests that ended, the last first: whose, how long they took, what they cost. A page looks at so
    many at most, and may have fewer than there are. Members see their own."""
    owner, since_ms, until_ms = await _asked_of(look, ask)
    sought = RequestSearch(
        since_ms=since_ms,
        until_ms=until_ms,
        tenant=owner.tenant_id if owner else None,
        user=await _id_of(look, owner, "user", ask.user),
        project=await _id_of(look, owner, "project", ask.project),
        key=await _id_of(look, owner, "key", ask.key),
        model=_word("model", ask.model),
        pool=_word("pool", ask.pool),
        reason=ask.reason.value if ask.reason else None,
        code=_word("code", ask.code),
        over_ms=ask.over_ms,
        cost_over_nano=ask.cost_over_nano,
        after=cursor_of(ask.after) if ask.after else None,
        limit=ask.limit,
    )
    page = await find_requests(look.db, sought)
    keys = await keys_named(look.db, ((each.tenant, each.key) for each in page.found))
    found = [EndedRequestFacts.of(each, keys) for each in page.found]
    return ListedPage(found, page.next and page.next.text())


@operation(
    "requests.find_refused",
    "GET /refused-requests",
    may=FINDERS,
    audit="request.find",
    uses=Uses(reads="tenant api_key tenant_user refusal_minute", writes=AUDIT),
)
async def find_refused(look: Look, ask: FindRefused) -> ListedPage[RefusedSends]:
    """Find sends that were refused, by the minute, the last first; those that were refused least share a row
    (others). Members see their own."""
    owner, since_ms, until_ms = await _asked_of(look, ask)
    sought = RefusalSearch(
        since_ms=since_ms,
        until_ms=until_ms,
        tenant=owner.tenant_id if owner else None,
        user=await _id_of(look, owner, "user", ask.user),
        key=await _id_of(look, owner, "key", ask.key),
        code=_word("code", ask.code),
        after=refusal_cursor_of(ask.after) if ask.after else None,
        limit=ask.limit,
    )
    page = await find_refusals(look.db, sought)
    keys = await keys_named(look.db, ((each.tenant, each.key) for each in page.found))
    return ListedPage([RefusedSends.of(each, keys) for each in page.found], page.next and page.next.text())


async def _asked_of(look: Look, ask: FindRefused) -> tuple[Tenant | None, int, int]:
    """The tenant that is meant, a member's own, and the times in Unix ms. That staff looks is recorded."""
    named = ask.tenant if ask.tenant is not None else look.who.tenant
    owner = None if named is None else await look.tenant(named)
    zone, now = ZoneInfo(owner.time_zone if owner else "UTC"), look.now_ms()
    since_ms = instant_or_ago(ask.since, zone, now, "since") if ask.since else now - DAY_MS
    until_ms = instant_or_ago(ask.until, zone, now, "until") if ask.until else now + 1
    if since_ms >= until_ms:
        raise bad_request("since must be before until", field="since")
    await look.watched(
        owner.tenant_id if owner else PLATFORM, owner.tenant_id if owner else look.operation.name
    )
    return owner, since_ms, until_ms


async def _id_of(look: Look, owner: Tenant | None, scope: str, named: str | None) -> str | None:
    """The id of a named object of the tenant; of a user also by id, as an erased one has no name."""
    if named is None:
        return None
    if owner is None:
        raise bad_request(f"a {scope} is of one tenant: name the tenant too", field="tenant")
    if scope == "user":
        async with look.db.session() as session:
            known = await session.get(TenantUser, (owner.tenant_id, named))
        if known is not None:
            return known.id
    try:
        return await scope_id_of(look.db, owner.tenant_id, scope, named)
    except Refused as refused:
        raise Refused(replace(refused.refusal, field=scope)) from refused


def _word(field: str, given: str | None) -> str | None:
    """A name as it is stored. Raises Refused for what none could be."""
    if given is None:
        return None
    name = name_of(given)
    if name is None:
        raise bad_request(f"{field}: expected a name of {NAME_RULE}", field=field)
    return name


OPERATIONS = (find_ended, find_refused)
