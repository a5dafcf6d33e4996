"""Operations on API keys: made, listed, edited, rotated and revoked, and links that sign a browser in."""

from collections.abc import Sequence
from datetime import datetime
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType
from sqlalchemy import literal
from sqlmodel import col, select

from billing.operations.key_facts import (
    ApiKeyFacts,
    ListedKey,
    NewKey,
    RevokedKey,
    ShownKey,
    facts_of_key,
    listed_keys,
)
from billing.operations.shared_fields import AUDIT, CONTROL, Priority, TenantName
from billing.reports.key_use import requests_of_late
from billing.tables.tenants import ApiKey, Project
from billing.tenants import key_ends, keys, tenancy
from billing.tenants.key_ends import Which
from billing.tenants.key_links import key_for_link
from billing.tenants.key_rights import USAGE_SCOPES
from billing.tenants.keys import find_key, no_such_key
from billing.tenants.sign_in_links import make_link_code
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import bad_request, forbidden, unknown
from core.operations import ADMINS, DEVELOPERS, OPERATORS, ListedPage, Role, Secret, Uses, operation
from core.sql.database import Database
from core.sql.lower_case import holds
from core.web.local_urls import gateway_url

KEY_EDITORS = OPERATORS | DEVELOPERS
KEY_READERS = KEY_EDITORS | {Role.SUPPORT, Role.BILLING, Role.VIEWER}
HOUR_SECONDS = 3600
OVERLAP_HOURS_MAX = 720

Instant = Annotated[datetime, Meta(tz=True)]
KeyName = Annotated[str, Meta(description="The key's id or prefix.")]


class KeyScope(StrEnum):
    """What a key may do."""

    CHAT = "chat"
    REQUESTS_CANCEL = "requests:cancel"
    REQUESTS_READ = "requests:read"
    USAGE_READ = "usage:read"
    USAGE_READ_TENANT = "usage:read:tenant"


class CreateKey(msgspec.Struct, frozen=True, kw_only=True):
    """A new key."""

    tenant: TenantName
    project: Annotated[str, Meta(description="Its name or id.")] = tenancy.DEFAULT_PROJECT
    name: Annotated[str, Meta(description="What the key is for.")] = ""
    user: Annotated[
        str,
        Meta(description="Bind the key to this user. Without it the key may name users itself."),
    ] = ""
    shared: Annotated[
        bool,
        Meta(
            description="Its tickets need not name a user: all browsers that have them are one, and see each "
            "other's chats."
        ),
    ] = False
    scopes: Annotated[
        list[KeyScope],
        Meta(
            description="Several: once each. By default chat. usage:read: the usage of its project over the "
            "usage API, usage:read:tenant: of all projects."
        ),
    ] = msgspec.field(default_factory=lambda: [KeyScope.CHAT])
    origins: Annotated[
        list[str],
        Meta(
            description="Web pages that may use it, like https://app.example.com or https://*.example.com. "
            "Several: once each. By default any page and program may; with one, nothing but these pages."
        ),
    ] = msgspec.field(default_factory=list[str])
    priority_max: Priority = Priority.INTERACTIVE
    expires: Annotated[Instant | None, Meta(description="By default a key does not expire.")] = None


class ListKeys(ListQuestion, frozen=True, kw_only=True):
    """Whose keys."""

    tenant: TenantName
    name: Annotated[
        str, Meta(max_length=200, description="Only those with this in their name, prefix or project's name.")
    ] = ""


class NameKey(msgspec.Struct, frozen=True, kw_only=True):
    """Which key of which tenant."""

    tenant: TenantName
    key: KeyName


class EditKey(NameKey, frozen=True, kw_only=True):
    """What to change; what is not named stays as it is."""

    name: Annotated[str | UnsetType, Meta(description="What the key is for.")] = UNSET
    scopes: Annotated[
        list[KeyScope] | UnsetType, Meta(description="All that it may from now on. Several: once each.")
    ] = UNSET
    origins: Annotated[
        list[str] | UnsetType,
        Meta(description="All pages that may use it from now on; none: any page and program."),
    ] = UNSET


class RotateKey(NameKey, frozen=True, kw_only=True):
    """Which key, and for how long the old one works beside the new one."""

    overlap_hours: Annotated[int, Meta(ge=0, le=OVERLAP_HOURS_MAX)] = 24


class RevokeKey(NameKey, frozen=True, kw_only=True):
    """Which key, and while it is rotated, whether the old or the new one goes on."""

    which: Annotated[
        Which,
        Meta(
            description="While a rotated key and its successor both work: both, so that nobody with either "
            "is let in, or only the old or only the new one, whichever is named."
        ),
    ] = Which.BOTH


class LinkKey(NameKey, frozen=True, kw_only=True):
    """Which key signs whom in."""

    user: Annotated[
        str,
        Meta(description="Whom it signs in. A key that is bound to a user names them itself."),
    ] = ""
    url: Annotated[
        str,
        Meta(description="Where browsers reach Parley. By default as `parley up` or the settings say."),
    ] = ""


class SignInAddress(msgspec.Struct, frozen=True):
    """A link that signs one browser in."""

    link: Secret


@operation(
    "keys.create",
    "POST /tenants/{tenant}/keys",
    may=KEY_EDITORS,
    audit="key.create user.create",
    reason=True,
    uses=Uses(reads="project", writes=f"tenant api_key tenant_user {AUDIT}"),
)
async def create_key(change: Change, ask: CreateKey) -> NewKey:
    """Create a key. Its secret is shown this once: only a hash of it is stored."""
    _check_money(change, ask.scopes)
    owner = await change.tenant(ask.tenant)
    project = await tenancy.find_project(change.db, owner.tenant_id, ask.project)
    if project is None:
        raise unknown(f"the tenant {owner.name!r} has no project {ask.project!r}", field="project")
    row, secret = await keys.create_key(
        change.db,
        owner.tenant_id,
        project.id,
        name=ask.name,
        scopes=ask.scopes,
        origins=ask.origins,
        user=ask.user,
        shared=ask.shared,
        priority_max=ask.priority_max,
        expires_ms=None if ask.expires is None else int(ask.expires.timestamp() * 1000),
        keys_max=change.settings.keys_per_tenant_max,
        users_max=change.settings.users_per_tenant_max,
        origins_max=change.settings.origins_per_key_max,
    )
    return NewKey(Secret(secret), await facts_of_key(change.db, row))


@operation(
    "keys.list",
    "GET /tenants/{tenant}/keys",
    may=KEY_READERS,
    uses=Uses(reads="tenant project api_key tenant_user rollup_hour"),
)
async def list_keys(look: Look, ask: ListKeys) -> ListedPage[ListedKey]:
    """List a tenant's keys, oldest first, revoked ones too. Secrets cannot be shown again."""
    owner = (await look.tenant(ask.tenant)).tenant_id
    statement = select(ApiKey).where(col(ApiKey.tenant_id) == owner)
    if ask.name:
        projects = select(Project.id).where(col(Project.tenant_id) == owner, holds(Project.name, ask.name))
        named = holds(ApiKey.name, ask.name) | holds(literal("pk_").concat(col(ApiKey.prefix)), ask.name)
        statement = statement.where(named | col(ApiKey.project_id).in_(projects))
    page: ListedPage[ApiKey] = await listed_page(look, ask, statement, col(ApiKey.id), lambda row: row)
    return ListedPage(await listed_keys(look, owner, page.items), page.next)


@operation(
    "keys.show",
    "GET /tenants/{tenant}/keys/{key}",
    may=KEY_READERS,
    uses=Uses(
        reads="tenant project cost_center api_key tenant_user period_close rollup_hour usage_line "
        "usage_event charge audit_log audit_state"
    ),
)
async def show_key(look: Look, ask: NameKey) -> ShownKey:
    """Show a key, who made it, what it spent this month, and how many requests it served of late: whether it
    may be ended."""
    from billing.operations.shown_keys import maker_of, spent_by  # a list of keys does without

    tenant = await look.tenant(ask.tenant)
    owner = tenant.tenant_id
    row = await _key(look.db, owner, ask.key)
    await look.seen(ApiKey, owner, owner, row.id)
    (listed,) = await listed_keys(look, owner, [row])
    of_late = await requests_of_late(look.db, owner, row.id, look.now_ms())
    facts = msgspec.structs.asdict(listed)
    if of_late.last_ms is not None:
        facts["last_used"] = iso_time(of_late.last_ms)
    return ShownKey(
        **facts,
        requests=of_late.requests,
        since=iso_time(of_late.since_ms),
        created_by=await maker_of(look, row),
        spent_this_month=await spent_by(look, tenant, row),
    )


@operation(
    "keys.edit",
    "PATCH /tenants/{tenant}/keys/{key}",
    may=KEY_EDITORS,
    audit="key.edit",
    reason=True,
    edits=True,
    uses=Uses(reads="tenant_user", writes=f"tenant api_key {AUDIT}", keys=CONTROL),
)
async def edit_key(change: Change, ask: EditKey) -> ApiKeyFacts:
    """Give a key another name, other scopes or other origins; they count from its next call on, and its open
    connections from pages that are not listed any more are closed. Its secret stays."""
    from billing.tenants.key_edits import write_key_edit  # a list of keys does without

    owner = (await change.tenant(ask.tenant)).tenant_id
    old = await _key(change.db, owner, ask.key)
    await change.editing(ApiKey, owner, owner, old.id)
    scopes = None if ask.scopes is UNSET else ask.scopes
    _check_money(change, [*old.scopes, *(scopes or ())])
    name = None if ask.name is UNSET else ask.name
    origins = None if ask.origins is UNSET else ask.origins
    most = change.settings.origins_per_key_max
    row = await write_key_edit(change.db, owner, old.id, name, scopes, origins, most)
    change.after(tenancy.tell_access, owner)
    return await facts_of_key(change.db, row)


@operation(
    "keys.rotate",
    "POST /tenants/{tenant}/keys/{key}/rotate",
    may=KEY_EDITORS,
    audit="key.rotate",
    reason=True,
    uses=Uses(reads="project tenant_user", writes=f"tenant api_key {AUDIT}", keys=CONTROL),
)
async def rotate_key(change: Change, ask: RotateKey) -> NewKey:
    """Replace a key by one with the same rights; the old one works for the overlap."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    row, secret = await keys.rotate_key(change.db, owner, ask.key, ask.overlap_hours * HOUR_SECONDS)
    _check_money(change, row.scopes)
    change.after(tenancy.tell_access, owner)
    return NewKey(Secret(secret), await facts_of_key(change.db, row))


@operation(
    "keys.revoke",
    "POST /tenants/{tenant}/keys/{key}/revoke",
    may=KEY_EDITORS,
    audit="key.revoke",
    reason=True,
    uses=Uses(reads="tenant_user", writes=f"tenant api_key {AUDIT}", keys=CONTROL),
)
async def revoke_key(change: Change, ask: RevokeKey) -> RevokedKey:
    """Revoke a key at once, and the old or new one beside it while it is rotated, unless `which` says that
    one goes on; their open connections are closed. What they have running goes on."""
    owner = (await change.tenant(ask.tenant)).tenant_id
    done = await key_ends.write_revocation(change.db, owner, ask.key, ask.which)
    if done is None:
        raise no_such_key(ask.key, owner)
    change.after(key_ends.tell_revoked, owner, [row.id for row in done.ended])
    return RevokedKey.after(await facts_of_key(change.db, done.named), done)


@operation(
    "keys.sign_in_link",
    "POST /tenants/{tenant}/keys/{key}/sign-in-link",
    may=OPERATORS | ADMINS,
    audit="key.link user.create",
    reason=True,
    uses=Uses(reads="project api_key", writes=f"tenant tenant_user {AUDIT}"),
)
async def link_key(change: Change, ask: LinkKey) -> SignInAddress:
    """Make a link that signs one browser in with a key, once, within an hour.

    The same user finds the same chats in every browser that they sign in. A dry run makes no code."""
    if ask.url and not ask.url.startswith(("http://", "https://")):
        raise bad_request("a gateway's URL begins with https:// or http://", field="url")
    owner = (await change.tenant(ask.tenant)).tenant_id
    users_max = change.settings.users_per_tenant_max
    row, whom = await key_for_link(change.db, owner, ask.key, ask.user, users_max)
    address = (ask.url or gateway_url(change.settings)).rstrip("/")
    _check_page(row, address)
    code = ""
    if not change.terms.dry_run:  # a code works whatever is rolled back
        code = make_link_code(change.settings.keyring, owner, row.id, whom, change.now_ms())
    return SignInAddress(Secret(f"{address}/#c={code}"))


def _check_money(change: Change, scopes: Sequence[str]) -> None:
    """Raise Refused where a developer would have a key that tells what is spent: their role does not."""
    if change.who.role is Role.DEVELOPER and not USAGE_SCOPES.isdisjoint(scopes):
        raise forbidden("a key that reads usage is your tenant's admin's to make and to rotate")


def _check_page(row: ApiKey, address: str) -> None:
    """Raise Refused where the page of this address may not use the key: its link would sign nobody in."""
    from core.network.origins import checked_origin, is_listed  # a list of keys does without

    origin = checked_origin("/".join(address.split("/", 3)[:3]), "url") if row.origins else ""
    if row.origins and not is_listed(origin, row.origins):
        message = (
            f"pages of {origin} may not use pk_{row.prefix}: list it among the key's origins, or name another"
        )
        raise bad_request(message, field="url")


async def _key(db: Database, tenant_id: str, named: str) -> ApiKey:
    async with db.session() as session:
        row = await find_key(session, tenant_id, named)
    if row is None:
        raise no_such_key(named, tenant_id)
    return row


OPERATIONS = (create_key, list_keys, show_key, edit_key, rotate_key, revoke_key, link_key)
