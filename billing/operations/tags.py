"""Operations on tags: which keys of requests' metadata tell a tenant's cost apart."""

from typing import Annotated

import msgspec
from msgspec import Meta

from billing.operations.shared_fields import AUDIT, NameTenant
from billing.tables.ledger import TagKey
from billing.tenants import tags
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.operations import ADMINS, MEMBERS, OPERATORS, STAFF, ListedPage, Uses, operation


class NameTag(NameTenant, frozen=True, kw_only=True):
    """Which key."""

    key: Annotated[str, Meta(description="The key in the metadata of requests, like team.")]


class TagFacts(msgspec.Struct, frozen=True):
    """A declared key. It counts for requests that ended from `since` on, before `until`; what ended before is
    not tagged."""

    key: str
    since: str | None
    until: str | None

    @classmethod
    def of(cls, row: TagKey) -> "TagFacts":
        """The facts of a row."""
        return cls(row.key, iso_time(row.since_ms), iso_time(row.until_ms))


@operation("tags.list", "GET /tenants/{tenant}/tags", may=STAFF | MEMBERS, uses=Uses(reads="tenant tag_key"))
async def list_tags(look: Look, ask: NameTenant) -> ListedPage[TagFacts]:
    """List the keys of requests' metadata that are declared as tags, and those that were."""
    owner = await look.tenant(ask.tenant)
    return ListedPage([TagFacts.of(row) for row in await tags.list_tags(look.db, owner.tenant_id)], None)


@operation(
    "tags.declare",
    "POST /tenants/{tenant}/tags",
    may=OPERATORS | ADMINS,
    audit="tag.declare",
    reason=True,
    uses=Uses(writes=f"tenant tag_key {AUDIT}"),
)
async def declare_tag(change: Change, ask: NameTag) -> TagFacts:
    """Declare a key of requests' metadata as a tag: reports tell cost apart by it, from the next minutes on.

    At most 20. A value is a text of up to 64 characters; longer ones are cut."""
    owner = await change.tenant(ask.tenant)
    return TagFacts.of(await tags.declare_tag(change.db, owner.tenant_id, ask.key))


@operation(
    "tags.withdraw",
    "POST /tenants/{tenant}/tags/{key}/withdraw",
    may=OPERATORS | ADMINS,
    audit="tag.withdraw",
    reason=True,
    uses=Uses(writes=f"tenant tag_key {AUDIT}"),
)
async def withdraw_tag(change: Change, ask: NameTag) -> TagFacts:
    """Withdraw a tag: later usage is not told apart by it; what was before stays."""
    owner = await change.tenant(ask.tenant)
    return TagFacts.of(await tags.withdraw_tag(change.db, owner.tenant_id, ask.key))


OPERATIONS = (list_tags, declare_tag, withdraw_tag)
