"""Operations on the history of pools' owners, and what operations on pools share."""

from typing import Annotated

import msgspec
from msgspec import Meta
from sqlmodel import col, select

from billing.dedicated_pools.commitments import gpu_commitments_of
from billing.prices.book import ANY_MODEL, gpu_price, pinned_prices
from billing.tables.dedicated_pools import PoolOwner
from billing.tables.tenants import Tenant
from billing.tenants.tenancy import find_project, tenant_names
from billing.unit_of_work.listing import ListQuestion, listed_page
from billing.unit_of_work.units import Change, Look
from core.clock import iso_time
from core.errors import Refused, see, unknown
from core.operations import STAFF, ListedPage, Uses, operation

SHARED = "(shared)"
NO_PRICE = "its price book has no price for any GPU (`*`): hours of types without one wait unbilled"
BILLS_TOKENS = "its price book bills tokens too"

PoolName = Annotated[str, Meta(description="The pool's name.")]


class OwnedPool(msgspec.Struct, frozen=True, kw_only=True):
    """Whose a pool is from a time on, by its name, or `(shared)`."""

    pool: str
    start: str | None = msgspec.field(name="from")
    tenant: str
    project: str


@operation("pools.owners", "GET /pools/owners", may=STAFF, uses=Uses(reads="pool_owner tenant"))
async def list_pool_owners(look: Look, ask: ListQuestion) -> ListedPage[OwnedPool]:
    """List pools' owners, present and past."""
    key = (col(PoolOwner.pool), col(PoolOwner.from_ms))
    page: ListedPage[PoolOwner] = await listed_page(look, ask, select(PoolOwner), key, lambda row: row)
    names = await tenant_names(look.db, (each.tenant_id for each in page.items))
    return ListedPage(
        [
            OwnedPool(
                pool=each.pool,
                start=iso_time(each.from_ms),
                tenant=names.get(each.tenant_id, each.tenant_id) or SHARED,
                project=each.project_id,
            )
            for each in page.items
        ],
        page.next,
    )


async def project_id_of(change: Change, owner: Tenant, named: str) -> str:
    """The id of a tenant's project. Raises Refused where it has none of this name."""
    found = await find_project(change.db, owner.tenant_id, named)
    if found is None:
        known = see("projects.list", tenant=owner.tenant_id)
        raise unknown(f"{owner.name} has no project {named!r}", field="project", see=known)
    return found.id


async def price_note(change: Change, owner: Tenant) -> str:
    """Warning about the tenant's prices, where they would bill what is hardly meant; else empty."""
    async with change.db.session() as session:
        price = await gpu_price(session, owner.tenant_id, ANY_MODEL, change.now_ms())
        held = await gpu_commitments_of(session, owner.tenant_id)
    if price is None and not held:
        return NO_PRICE
    try:
        prices = await pinned_prices(change.db, owner.tenant_id, ANY_MODEL)
    except Refused:
        return ""
    billed = prices.input_nano or prices.cached_input_nano or prices.output_nano or prices.request_nano
    return BILLS_TOKENS if billed else ""


OPERATIONS = (list_pool_owners,)
