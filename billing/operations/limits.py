"""Operations on limits: rates, concurrency and answers of a tenant, and how much of them is used."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlmodel import col

from billing.enforcement.limit_settings import (
    find_policy,
    list_policies,
    name_owners,
    policies_of,
    tell_limits,
    write_policy,
    write_policy_end,
)
from billing.enforcement.scope_ids import counted_id_of
from billing.limits import Dimension, Mode, RequestLimits, Scope, UnitLimit
from billing.operations.last_month import READS as LAST_MONTH
from billing.operations.last_month import LastMonth, month_of_limit
from billing.operations.limited import NAMED_IN, check_below, check_own, keys_held, names_of, whom
from billing.operations.shared_fields import AUDIT, CONTROL, NameTenant
from billing.quota.client import Quota
from billing.quota.shadow_counts import shadow_refusals
from billing.quota.types import LimitUse
from billing.tables.limits import QuotaPolicy
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import Refused, see, unknown
from core.operations import ADMINS, MEMBERS, OPERATORS, ListedPage, Role, Uses, operation

EDITORS = OPERATORS | ADMINS
READERS = OPERATORS | {Role.SUPPORT} | MEMBERS
COUNTS = ("T:rate:", "T:rate~:", "T:conc:", "T:conc~:", "T:shadowed")

Burst = Annotated[int, Meta(ge=1)]
ShadowCounts = Mapping[tuple[str, str], int]


class SetLimit(NameTenant, frozen=True, kw_only=True):
    """A limit, in place of the one that counts the same."""

    scope: Annotated[Scope, Meta(description="Whom it is for.")]
    of: Annotated[str, Meta(description="One project, key, user or model; by default each of them.")] = ""
    dimension: Annotated[Dimension, Meta(description="What is counted.")]
    limit: Annotated[int, Meta(ge=0, description="Units a minute, or at once; 0: nothing passes.")]
    burst: Annotated[Burst | None, Meta(description="Units that may come at once; by default the limit.")] = (
        None
    )
    models: Annotated[str, Meta(description="The models that are counted, as `gpt-*`.")] = "*"
    mode: Annotated[Mode, Meta(description="shadow: only count what would be refused.")] = Mode.ENFORCE


class NameLimit(NameTenant, frozen=True, kw_only=True):
    """Which limit."""

    limit_id: Annotated[str, Meta(description="The limit's id.")]


class EditLimit(NameLimit, frozen=True, kw_only=True):
    """What to change; what is not named stays as it is."""

    limit: Annotated[
        Annotated[int, Meta(ge=0)] | UnsetType,
        Meta(description="Units a minute, or at once; 0: nothing passes."),
    ] = UNSET
    burst: Annotated[
        Burst | UnsetType | None, Meta(description="Units that may come at once; `none`: the limit.")
    ] = UNSET
    mode: Annotated[Mode | UnsetType, Meta(description="shadow: only count what would be refused.")] = UNSET


class ShowLimit(NameLimit, frozen=True, kw_only=True):
    """Which limit, and whose use."""

    of: Annotated[str, Meta(description="Whose use is to be shown, where each has the limit for itself.")] = (
        ""
    )


class ListLimits(ListQuestion, frozen=True, kw_only=True):
    """Whose limits."""

    tenant: Annotated[str, Meta(description="The tenant's name or id.")]
    ended: Annotated[bool, Meta(description="Those that were, too.")] = False


class StoredLimit(msgspec.Struct, frozen=True, kw_only=True):
    """A limit. `of`: whom it is for, or whose use is shown: `each`, or empty for the tenant; `burst` None: as
    much as the limit; `by_tenant`: its own admins set it."""

    limit_id: str
    scope: Scope
    of: str
    dimension: Dimension
    models: str
    limit: int
    burst: int | None
    mode: Mode
    by_tenant: bool
    set: str | None
    ended: str | None


class LimitFor(StoredLimit, frozen=True, kw_only=True):
    """A limit; one on a key says for which keys it holds. `last_month`: of a dry run, in which hours more
    came; None of what is no rate."""

    holds_for: list[str] | UnsetType = UNSET
    note: str | UnsetType = UNSET
    last_month: LastMonth | UnsetType | None = UNSET


class LimitInUse(StoredLimit, frozen=True, kw_only=True):
    """A limit and its use; None where it is not of one alone. `would_refuse`: of one in shadow mode, how many
    requests such limits would have refused."""

    used: int | None
    remaining: int | None
    would_refuse: int | None


class ShownLimit(StoredLimit, frozen=True, kw_only=True):
    """A limit and its use by one: `of`."""

    would_refuse: int | None
    used: int | UnsetType = UNSET
    remaining: int | UnsetType = UNSET
    holds_for: list[str] | UnsetType = UNSET
    note: str | UnsetType = UNSET


@operation(
    "limits.set",
    "POST /tenants/{tenant}/limits",
    may=EDITORS,
    audit="limit.set",
    reason=True,
    uses=Uses(reads=f"{NAMED_IN} {LAST_MONTH}", writes=f"tenant quota_policy {AUDIT}", keys=CONTROL),
)
async def set_limit(change: Change, ask: SetLimit) -> LimitFor:
    """Set a limit, in place of the one that counts the same. A tenant's admins set their own beside the
    operators': whichever is stricter holds."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    scope_id = await counted_id_of(change.db, owner, ask.scope, ask.of)
    counted = (ask.scope, scope_id, ask.models, ask.dimension, ask.mode)
    theirs = [row for row in await list_policies(change.db, owner) if not row.by_tenant]
    check_below(
        change,
        ask.limit,
        [(each.limit_units, str(each.limit_units)) for each in theirs if _counted(each) == counted],
    )
    row = await write_policy(
        change.db,
        owner,
        scope=ask.scope,
        scope_id=scope_id,
        dimension=ask.dimension,
        limit=ask.limit,
        burst=ask.burst,
        model_glob=ask.models,
        mode=ask.mode,
        by_tenant=change.who.tenant is not None,
    )
    change.after(tell_limits, owner)
    return await _with_last_month(change, owner, row, await _limit_for(change, owner, row))


@operation(
    "limits.edit",
    "PATCH /tenants/{tenant}/limits/{limit_id}",
    may=EDITORS,
    audit="limit.set",
    reason=True,
    edits=True,
    uses=Uses(reads=LAST_MONTH, writes=f"tenant quota_policy {AUDIT}", keys=CONTROL),
)
async def edit_limit(change: Change, ask: EditLimit) -> LimitFor:
    """Change a limit, which gets a new id: it counts within a second, and nothing of what was used is
    forgotten."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    old = await change.editing(QuotaPolicy, owner, owner, ask.limit_id)
    if old is None or old.ended_ms is not None:
        raise _no_limit(ask.limit_id, owner)
    check_own(change, old, "limit_id")
    row = await write_policy(
        change.db,
        owner,
        scope=old.scope,
        scope_id=old.scope_id,
        dimension=old.dimension,
        limit=old.limit_units if ask.limit is UNSET else ask.limit,
        burst=old.burst_units if ask.burst is UNSET else ask.burst,
        model_glob=old.model_glob,
        mode=old.mode if ask.mode is UNSET else ask.mode,
        by_tenant=old.by_tenant,
        edited=old.id,
    )
    change.thing = (QuotaPolicy, owner, (owner, row.id))
    change.after(tell_limits, owner)
    return await _with_last_month(change, owner, row, await _limit_for(change, owner, row))


@operation(
    "limits.list",
    "GET /tenants/{tenant}/limits",
    may=READERS,
    uses=Uses(reads="tenant quota_policy api_key tenant_user", keys=COUNTS),
)
async def list_limits(look: Look, ask: ListLimits) -> ListedPage[LimitInUse]:
    """List a tenant's limits, oldest first, with what is used of those that are of one alone."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    page = await listed_page(look, ask, policies_of(owner, ended=ask.ended), col(QuotaPolicy.id), _itself)
    async with look.db.session() as session:
        await name_owners(session, owner, page.items)
    counted = [row for row in page.items if row.ended_ms is None and _is_of_one(row, row.scope_id)]
    uses = await _use(look, owner, [_limit(row, row.scope_id) for row in counted])
    used = dict(zip((row.id for row in counted), uses, strict=True))
    shadowed = await shadow_refusals(look.redis, owner)
    names = await names_of(look.db, owner, (row.scope_id for row in page.items))
    return ListedPage([_in_use(row, names, used.get(row.id), shadowed) for row in page.items], page.next)


@operation(
    "limits.show",
    "GET /tenants/{tenant}/limits/{limit_id}",
    may=READERS,
    uses=Uses(reads="tenant quota_policy api_key project tenant_user audit_state", keys=COUNTS),
)
async def show_limit(look: Look, ask: ShowLimit) -> ShownLimit:
    """Show a limit and how much of it is used."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    row = await find_policy(look.db, owner, ask.limit_id)
    if row is None:
        raise _no_limit(ask.limit_id, owner)
    await look.seen(QuotaPolicy, owner, owner, row.id)
    whose = row.scope_id
    if ask.of:
        whose = await counted_id_of(look.db, owner, row.scope, ask.of, must_exist=False)
    names = await names_of(look.db, owner, {row.scope_id, whose})
    held = await keys_held(look.db, owner, row.scope, whose)
    facts: dict[str, Any] = _facts(row, names) | {"holds_for": held.prefixes, "note": held.note}
    if row.ended_ms is None and _is_of_one(row, whose):
        (use,) = await _use(look, owner, [_limit(row, whose)])
        facts |= {"of": names.get(whose, whose), "used": use.spent, "remaining": use.remaining}
    return ShownLimit(**facts, would_refuse=_would_refuse(row, await shadow_refusals(look.redis, owner)))


@operation(
    "limits.end",
    "POST /tenants/{tenant}/limits/{limit_id}/end",
    may=EDITORS,
    audit="limit.end",
    reason=True,
    uses=Uses(reads="api_key tenant_user", writes=f"tenant quota_policy {AUDIT}", keys=CONTROL),
)
async def end_limit(change: Change, ask: NameLimit) -> LimitFor:
    """End a limit at once. What it counted is not forgotten, should it be set again."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    found = await find_policy(change.db, owner, ask.limit_id)
    if found is None:
        raise _no_limit(ask.limit_id, owner)
    check_own(change, found, "limit_id")
    ended = await write_policy_end(change.db, owner, ask.limit_id)
    if ended is None:
        raise _no_limit(ask.limit_id, owner)
    change.after(tell_limits, owner)
    return await _limit_for(change, owner, ended)


def _no_limit(id: str, owner: str) -> Refused:
    return unknown(f"there is no limit {id!r}", field="limit_id", see=see("limits.list", tenant=owner))


def _counted(row: QuotaPolicy) -> tuple[str, str, str, str, str]:
    """What a limit counts: two of one count are compared."""
    return row.scope, row.scope_id, row.model_glob, row.dimension, row.mode


def _itself(row: QuotaPolicy) -> QuotaPolicy:
    return row


async def _limit_for(change: Change, owner: str, row: QuotaPolicy) -> LimitFor:
    held = await keys_held(change.db, owner, row.scope, row.scope_id)
    names = await names_of(change.db, owner, [row.scope_id])
    return LimitFor(**_facts(row, names), holds_for=held.prefixes, note=held.note)


async def _with_last_month(change: Change, owner: str, row: QuotaPolicy, would: LimitFor) -> LimitFor:
    """The answer of a dry run tells, too, what came last month."""
    if not change.terms.dry_run:
        return would
    alike, tenant = await list_policies(change.db, owner), await change.tenant(owner)
    return msgspec.structs.replace(would, last_month=await month_of_limit(change, tenant, row, alike))


def _in_use(
    row: QuotaPolicy, names: Mapping[str, str], use: LimitUse | None, shadowed: ShadowCounts
) -> LimitInUse:
    return LimitInUse(
        **_facts(row, names),
        used=None if use is None else use.spent,
        remaining=None if use is None else use.remaining,
        would_refuse=_would_refuse(row, shadowed),
    )


def _facts(row: QuotaPolicy, names: Mapping[str, str]) -> dict[str, Any]:
    return {
        "limit_id": row.id,
        "scope": Scope(row.scope),
        "of": whom(row.scope, row.scope_id, names),
        "dimension": Dimension(row.dimension),
        "models": row.model_glob,
        "limit": row.limit_units,
        "burst": row.burst_units,
        "mode": Mode(row.mode),
        "by_tenant": row.by_tenant,
        "set": iso_time(row.created_ms),
        "ended": iso_time(row.ended_ms),
    }


def _is_of_one(row: QuotaPolicy, scope_id: str) -> bool:
    """True where something is counted, of one alone."""
    return row.dimension != Dimension.ANSWER and (row.scope == Scope.TENANT or scope_id != "")


async def _use(look: Look, owner: str, limits: Sequence[UnitLimit]) -> Sequence[LimitUse]:
    return await Quota(look.redis, look.settings).use(owner, RequestLimits(tuple(limits)), look.now_ms())


def _limit(row: QuotaPolicy, scope_id: str) -> UnitLimit:
    burst = row.limit_units if row.burst_units is None else row.burst_units
    dimension, shadow = Dimension(row.dimension), row.mode == Mode.SHADOW
    return UnitLimit(Scope(row.scope), scope_id, row.model_glob, dimension, row.limit_units, burst, shadow)


def _would_refuse(row: QuotaPolicy, shadowed: ShadowCounts) -> int | None:
    """Number of refusals that limits in shadow mode of its scope and dimension would have given."""
    return shadowed.get((row.scope, row.dimension), 0) if row.mode == Mode.SHADOW else None


OPERATIONS = (set_limit, edit_limit, list_limits, show_limit, end_limit)
