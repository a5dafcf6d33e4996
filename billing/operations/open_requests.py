"""The operation that cancels all open requests of a tenant, or in it of a project, a key or a user."""

from functools import partial
from typing import Annotated

import msgspec
from msgspec import Meta

from billing.enforcement.scope_ids import scope_id_of
from billing.limits import Scope
from billing.operations.shared_fields import AUDIT, NameTenant
from billing.quota.open_requests import OwnerFilter, open_of
from billing.tenants.users import known_users
from billing.unit_of_work.units import Order
from core.access.processes import GATEWAY_HINTS, LINES, POOLS, READERS, REQUESTS, SETTLING, WORKER_WAKES
from core.actions import action
from core.errors import see, unknown
from core.operations import ADMINS, OPERATORS, Role, Uses, operation

CANCELS = (
    *(*REQUESTS, *LINES, *READERS, *SETTLING, POOLS, GATEWAY_HINTS, WORKER_WAKES),
    *("P:moving", "P:claims:", "P:bigs:", "P:ten:", "P:wake", "P:sys", "P:ended"),
)


class CancelRequests(NameTenant, frozen=True, kw_only=True):
    """Whose requests: those that match every name that is given."""

    project: Annotated[str, Meta(description="Only this project's, by name or id.")] = ""
    key: Annotated[str, Meta(description="Only what came with this key, by its prefix (pk_…).")] = ""
    user: Annotated[str, Meta(description="Only this user's: the name, or the id.")] = ""


class CancelledRequests(msgspec.Struct, frozen=True):
    """How many were cancelled, and how many of them have not ended yet."""

    cancelled: int
    not_ended_yet: int


@operation(
    "requests.cancel_all",
    "POST /tenants/{tenant}/requests/cancel",
    may=OPERATORS | {Role.SUPPORT} | ADMINS,
    audit="request.cancel",
    reason=True,
    uses=Uses(reads="tenant project api_key tenant_user conversation message", writes=AUDIT, keys=CANCELS),
)
async def cancel_requests(order: Order, ask: CancelRequests) -> CancelledRequests:
    """Cancel all open requests of a tenant, and new ones meanwhile; what was sampled is billed. A dry run
    says how many are open."""
    tenant = (await order.tenant(ask.tenant)).tenant_id
    of = await _narrowed(order, tenant, ask)
    whose = OwnerFilter(tenant, **of)
    would = CancelledRequests(len(await open_of(order.reads, whose)), 0)
    redis = await order.given(tenant, next(iter(of.values()), tenant), would, of)
    stored = partial(action("running_requests"), order.db, redis, order.settings, whose)
    return CancelledRequests(*await action("cancel_requests")(redis, order.settings, whose, stored))


async def _narrowed(order: Order, tenant: str, ask: CancelRequests) -> dict[str, str]:
    """Ids of the project, key and user that are named. Raises Refused for one that the tenant does not have:
    it would look as if it ran nothing."""
    of: dict[str, str] = {}
    if ask.project:
        of["project"] = await scope_id_of(order.db, tenant, Scope.PROJECT, ask.project, field="project")
    if ask.key:
        of["key"] = await scope_id_of(order.db, tenant, Scope.KEY, ask.key, field="key")
    if ask.user:
        of["user"] = await scope_id_of(order.db, tenant, Scope.USER, ask.user, must_exist=False, field="user")
        if not await known_users(order.db, tenant, [of["user"]]):
            listed = see("users.list", tenant=tenant)
            raise unknown(f"there is no user {ask.user!r}", field="user", see=listed)
    return of


OPERATIONS = (cancel_requests,)
