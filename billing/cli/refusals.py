"""`parley requests find --refused`, and the options that it shares with finding ended requests."""

from collections.abc import Sequence
from typing import Any
from zoneinfo import ZoneInfo

from billing.cli.arguments import since_of
from billing.cli.run_command import iso_time, run_on_database, show_table, tenant_named
from billing.enforcement.scope_ids import scope_id_of
from billing.requests.refusal_views import (
    LOOKED_MAX,
    RefusalMatch,
    RefusalPage,
    RefusalSearch,
    find_refusals,
    refusal_cursor_of,
)
from billing.tables.tenants import TenantUser
from core.clock import now_ms
from core.errors import StartupError
from core.names import checked_name
from core.sql.database import Database
from core.terminal.terminal import print_json, print_line

DAY_MS = 86_400_000
OF_ENDED_ONES = ("project", "model", "pool", "reason", "over_ms", "cost_over")


def find_refused(asked: dict[str, Any], as_json: bool) -> None:
    """Print refused requests. Raises StartupError for a condition that refusals are not counted by."""
    for name in OF_ENDED_ONES:
        if asked[name] is not None:
            option = name.removesuffix("_ms").replace("_", "-")
            raise StartupError(f"refusals are not counted by --{option}: use --tenant, --user, --key, --code")

    async def find(db: Database) -> RefusalPage:
        given = await search_of(db, asked, ("user", "key"), ("code",))
        after = refusal_cursor_of(asked["after"]) if asked["after"] else None
        return await find_refusals(db, RefusalSearch(**given, after=after, limit=asked["limit"]))

    page = run_on_database(find)
    show_table(
        [_facts(each) if as_json else _row(each) for each in page.found], as_json, "nothing was refused"
    )
    if page.next is not None and as_json:
        print_json({"next": page.next.text()})
    elif page.next is not None:
        looked = "" if len(page.found) == asked["limit"] else f"{LOOKED_MAX:,} rows were looked at; "
        print_line(f"{looked}there may be more: --after {page.next.text()}", err=True)


async def search_of(
    db: Database, asked: dict[str, Any], scopes: Sequence[str], texts: Sequence[str]
) -> dict[str, Any]:
    """Times, the tenant, and its named objects by id. Raises StartupError for those that the tenant does not
    have."""
    owner = await tenant_named(db, asked["tenant"]) if asked["tenant"] else None
    zone, now = ZoneInfo(owner.time_zone if owner else "UTC"), now_ms()
    since = since_of(asked["since"], zone, now) if asked["since"] else now - DAY_MS
    until = since_of(asked["until"], zone, now) if asked["until"] else now + 1
    if since >= until:
        raise StartupError("--since must be before --until")
    found: dict[str, Any] = {"since_ms": since, "until_ms": until}
    found["tenant"] = owner.tenant_id if owner else None
    for scope in scopes:
        if not asked[scope]:
            continue
        if owner is None:
            raise StartupError(f"--{scope} is of one tenant: name it with --tenant")
        found[scope] = await _id_of(db, owner.tenant_id, scope, asked[scope])
    for name in texts:
        found[name] = checked_name(f"--{name}", asked[name]) if asked[name] else None
    return found


async def _id_of(db: Database, tenant: str, scope: str, named: str) -> str:
    """Id of a named object. A user may be given by id too, as an erased one has no name."""
    if scope == "user":
        async with db.session() as session:
            known = await session.get(TenantUser, (tenant, named))
        if known is not None:
            return known.id
    return await scope_id_of(db, tenant, scope, named)


def _row(found: RefusalMatch) -> dict[str, Any]:
    return {
        "minute": iso_time(found.minute_ms),
        "tenant": found.tenant_name or "(others)",
        "user": "(others)" if found.others else found.user,
        "key": "" if found.others else found.key,
        "code": found.code,
        "times": found.number,
        "limit": found.why,
        "last": " ".join(found.last_ids),
    }


def _facts(found: RefusalMatch) -> dict[str, Any]:
    facts = {name: getattr(found, name) for name in found.__struct_fields__}
    return {"minute": iso_time(found.minute_ms), **facts}
