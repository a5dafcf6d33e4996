"""The watched tables: the audit log has every change of their rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, cast

from sqlalchemy import inspect
from sqlmodel import SQLModel

from billing.audit.states import row_name, stored_value
from billing.tables.dedicated_pools import Commitment, GpuCost, PoolOwner
from billing.tables.ledger import CostCenter, ProjectCostCenter
from billing.tables.limits import Budget, QuotaPolicy
from billing.tables.people import Invitation, Membership, Person, ServiceToken
from billing.tables.pools import PoolAdmission, PoolRow
from billing.tables.prices import GpuPrice, PeriodClose, PeriodCommitment, PriceTier
from billing.tables.safety import SafetyPolicy
from billing.tables.tenants import (
    PLATFORM,
    ApiKey,
    Plan,
    PoolTerms,
    Price,
    PriceBook,
    PriceVersion,
    Project,
    Tenant,
    TenantUser,
)
from billing.tables.wallets import AlertTarget, Wallet, WalletGrant


@dataclass(frozen=True)
class AuditedTable:
    """A table whose rows are compared. `apart`: columns that change without a command; `platform`: all rows
    belong to the platform's chain; `opaque`: only rows with opaque ids are compared, and rows that no change
    mentions are no fault."""

    table: type[SQLModel]
    apart: frozenset[str] = frozenset()
    platform: bool = False
    opaque: bool = False
    keys: tuple[str, ...] = field(init=False)
    columns: tuple[str, ...] = field(init=False)
    name: str = field(init=False)

    def __post_init__(self) -> None:
        mapper = inspect(self.table)
        object.__setattr__(self, "name", str(cast(Any, self.table).__tablename__))
        object.__setattr__(self, "keys", tuple(column.name for column in mapper.primary_key))
        columns = (column.name for column in mapper.columns)
        object.__setattr__(self, "columns", tuple(name for name in columns if name not in self.apart))

    def chain_of(self, row: Any) -> str:
        """Owner of the chain that records a row."""
        return PLATFORM if self.platform else row.tenant_id

    def thing_of(self, row: Any) -> str:
        """Unique name of a row: its table and its primary key."""
        return row_name(self.name, [getattr(row, name) for name in self.keys])

    def state_of(self, row: Any) -> dict[str, Any]:
        """The compared columns of a row."""
        return {name: stored_value(name, getattr(row, name)) for name in self.columns}


WATCHED: Mapping[str, AuditedTable] = {
    each.name: each
    for each in (
        AuditedTable(Tenant),
        AuditedTable(Project),
        AuditedTable(TenantUser, apart=frozenset({"name"}), opaque=True),
        AuditedTable(ApiKey),
        AuditedTable(Person, apart=frozenset({"totp_pending", "totp_step"}), platform=True),
        AuditedTable(Membership),
        AuditedTable(Invitation),
        AuditedTable(ServiceToken, apart=frozenset({"last_used_ms"})),
        AuditedTable(Plan),
        AuditedTable(PoolTerms, apart=frozenset({"updated_ms"})),
        AuditedTable(PriceBook),
        AuditedTable(PriceVersion),
        AuditedTable(Price),
        AuditedTable(PriceTier),
        AuditedTable(GpuPrice),
        AuditedTable(PeriodCommitment),
        AuditedTable(PeriodClose),
        AuditedTable(QuotaPolicy),
        AuditedTable(Budget),
        AuditedTable(SafetyPolicy),
        AuditedTable(Wallet, apart=frozenset({"posted_nano"})),
        AuditedTable(WalletGrant, apart=frozenset({"left_nano", "lapsed_nano"})),
        AuditedTable(AlertTarget),
        AuditedTable(CostCenter),
        AuditedTable(ProjectCostCenter),
        AuditedTable(Commitment),
        AuditedTable(PoolRow, platform=True),
        AuditedTable(PoolAdmission, platform=True),
        AuditedTable(PoolOwner, platform=True),
        AuditedTable(GpuCost, platform=True),
    )
}
WATCHED_BY_CLASS: Mapping[type[SQLModel], AuditedTable] = {each.table: each for each in WATCHED.values()}
