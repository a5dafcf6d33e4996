"""What limits and budgets share: whom each is for, as shown. A key stands for its chain of rotations."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from msgspec import UNSET, UnsetType

from billing.limits import Scope
from billing.tables.limits import Budget, QuotaPolicy
from billing.tenants.keys import list_keys
from billing.tenants.users import known_users
from billing.unit_of_work.units import Change
from core.errors import Refusal, Refused, bad_request
from core.sql.database import Database

EACH = "each"
CHAIN_NOTE = "for the whole chain: what a key is rotated into, too"
# What a name may be of: tables that looking it up reads.
NAMED_IN = "tenant api_key project tenant_user model_version usage_event"


@dataclass(frozen=True)
class HeldKeys:
    """Keys that a limit on one of them holds for, by prefix. UNSET where it is not on a key."""

    prefixes: list[str] | UnsetType = UNSET

    @property
    def note(self) -> str | UnsetType:
        """Says that they are all of a chain."""
        return UNSET if self.prefixes is UNSET else CHAIN_NOTE


async def keys_held(db: Database, tenant_id: str, scope: str, scope_id: str) -> HeldKeys:
    """The keys that a limit of this scope and id holds for."""
    if scope != Scope.KEY or not scope_id:
        return HeldKeys()
    chain = [f"pk_{key.prefix}" for key in await list_keys(db, tenant_id) if key.owner_key == scope_id]
    return HeldKeys(chain or UNSET)


async def names_of(db: Database, tenant_id: str, ids: Iterable[str]) -> Mapping[str, str]:
    """Names to show for ids of scopes, of users who have one; all else is shown by its id."""
    return await known_users(db, tenant_id, ids)


def check_own(change: Change, row: QuotaPolicy | Budget, field: str) -> None:
    """Raise Refused where a tenant's admin would change what the operators set."""
    if change.who.tenant is not None and not row.by_tenant:
        told = "Parley's operators set this one: set a stricter one of your own beside it"
        raise Refused(Refusal("forbidden", told, field=field))


def check_below(change: Change, limit: int, theirs: Iterable[tuple[int, str]]) -> None:
    """Raise Refused where a tenant's admin would set a limit above one of the operators' on the same count.
    `theirs`: each with its words."""
    if change.who.tenant is None:
        return
    least = min(theirs, default=None)
    if least is not None and limit > least[0]:
        raise bad_request(f"Parley's own limit here is {least[1]}: yours can only be lower", field="limit")


def whom(scope: str, scope_id: str, names: Mapping[str, str]) -> str:
    """Whom a limit of this scope and id is for, as it is shown; empty: the tenant. Pure."""
    if scope_id:
        return names.get(scope_id, scope_id)
    return "" if scope == Scope.TENANT else EACH
