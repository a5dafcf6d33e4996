"""One seeded tenant: itself, projects, cost centers, users, keys and signed-in browsers. Pure."""

import hashlib
import random
from dataclasses import dataclass, field

from billing.seeding.changes import OPERATORS, SeededRows
from billing.seeding.limit_rows import limit_rows
from billing.seeding.people_rows import member_rows
from billing.seeding.shapes import DAY_MS, SeedShape, TenantShape, chance_of
from billing.tables.ledger import CostCenter, ProjectCostCenter
from billing.tables.sessions import BrowserSession
from billing.tables.tenants import ApiKey, PoolTerms, Project, Tenant, TenantUser
from billing.tenants.tenancy import DEFAULT_PRICE_BOOK, DEFAULT_PROJECT, PRIORITIES
from billing.tenants.users import opaque_id
from core.actor import Author
from core.ids import uuid7
from core.sql.database import TableBase

ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Asia/Tokyo")
SCOPES = (["chat"], ["chat"], ["chat", "requests:read"], ["usage:read"])
KEPT_DAYS = 30


@dataclass(frozen=True)
class UsageSource:
    """Who asks in a tenant. `keys`: (key, project); plain, so that another process can take it."""

    tenant: str
    name: str
    rank: int
    events: int
    keys: list[tuple[str, str]]
    users: list[str]


@dataclass
class FilledTenant:
    """A tenant's rows, and what usage events need of it. `admin`: one of its people."""

    shape: TenantShape
    source: UsageSource
    admin: str
    rows: SeededRows = field(default_factory=SeededRows)


def seeded_tenant(shape: SeedShape, of: TenantShape, plans: list[str]) -> FilledTenant:
    """A tenant that came at some time in the first half of the shape's days."""
    chance = chance_of(shape, "tenant", of.rank)
    born = shape.start_ms + chance.randrange(shape.days * DAY_MS // 2)
    tenant = Tenant(
        tenant_id=uuid7(born),
        name=of.name,
        price_book_id=DEFAULT_PRICE_BOOK,
        priority_max=chance.choice(PRIORITIES),
        time_zone=chance.choice(ZONES),
        created_ms=born,
        plan_id=chance.choice(plans) if of.rank % 2 else None,
        plan_since_ms=born if of.rank % 2 else None,
    )
    maker = _TenantRows(shape, of, chance, tenant)
    projects = maker.projects()
    users, keys = maker.users(), maker.keys(projects)
    maker.sessions(users, keys)
    people, admin = member_rows(shape, of, chance, tenant)
    maker.rows.add(people)
    maker.rows.add(limit_rows(shape, of, chance, tenant, (projects, [key.owner_key for key in keys], users)))
    pairs = [(key.id, key.project_id) for key in keys]
    source = UsageSource(tenant.tenant_id, tenant.name, of.rank, of.events, pairs, users)
    return FilledTenant(of, source, admin, maker.rows)


class _TenantRows:
    def __init__(self, shape: SeedShape, of: TenantShape, chance: random.Random, tenant: Tenant) -> None:
        self._shape, self._of, self._chance, self._id = shape, of, chance, tenant.tenant_id
        self._born = tenant.created_ms
        self.rows = SeededRows()
        self._record(self._born, "tenant.create", tenant.tenant_id, tenant)
        if of.rank % 10 == 0:
            terms = PoolTerms(tenant_id=self._id, weight=2.0, slots_max=64, updated_ms=self._born)
            self._record(self._born + 1, "terms.set", self._id, terms)

    def projects(self) -> list[str]:
        """Projects, those of the larger ones with a cost center."""
        found: list[str] = []
        center = CostCenter(
            tenant_id=self._id, id=uuid7(self._born), code="CC-1", name="R&D", created_ms=self._born
        )
        self._record(self._born, "cost_center.create", center.id, center)
        for number in range(self._of.projects):
            at_ms = self._born + number
            name = f"project-{number}" if number else DEFAULT_PROJECT
            project = Project(tenant_id=self._id, id=uuid7(at_ms), name=name, created_ms=at_ms)
            self._record(at_ms, "project.create", project.id, project)
            found.append(project.id)
            if number % 2:
                move = ProjectCostCenter(
                    tenant_id=self._id,
                    project_id=project.id,
                    valid_from_ms=at_ms,
                    cost_center_id=center.id,
                )
                self._record(at_ms, "project.move", project.id, move)
        return found

    def users(self) -> list[str]:
        """Users; a few are closed."""
        found: list[str] = []
        for number in range(self._of.users):
            at_ms = self._later()
            closed = self._shape.end_ms - DAY_MS if number % 50 == 49 else None
            user = TenantUser(
                tenant_id=self._id,
                id=opaque_id(at_ms),
                name=f"user{number}@{self._of.name}.example",
                created_ms=at_ms,
                closed_ms=closed,
            )
            self._record(at_ms, "user.create", user.id, user)
            found.append(user.id)
        return found

    def keys(self, projects: list[str]) -> list[ApiKey]:
        """Keys; every tenth was rotated from the one before, every seventh is revoked."""
        found: list[ApiKey] = []
        for number in range(self._of.keys):
            at_ms = self._later()
            id, old = uuid7(at_ms), found[-1] if number % 10 == 9 else None
            if old is not None and old.rotated_from is not None:
                old = None
            key = ApiKey(
                tenant_id=self._id,
                id=id,
                project_id=old.project_id if old else projects[number % len(projects)],
                name=f"service {number}",
                prefix=_hidden(id)[:16],
                secret_sha256=_hidden(id),
                owner_key=old.owner_key if old else id,
                scopes=SCOPES[number % len(SCOPES)],
                priority_max=PRIORITIES[0],
                created_ms=at_ms,
                revoked_ms=self._shape.end_ms - DAY_MS if number % 7 == 6 else None,
                rotated_from=old.id if old else None,
            )
            self._record(at_ms, "key.rotate" if old else "key.create", old.id if old else id, key)
            found.append(key)
        return found

    def sessions(self, users: list[str], keys: list[ApiKey]) -> None:
        """Browsers that are signed in."""
        for number in range(self._of.sessions):
            at_ms = self._later()
            id = uuid7(at_ms)
            self.rows.others.append(
                BrowserSession(
                    tenant_id=self._id,
                    id=id,
                    token_sha256=_hidden(id),
                    key_id=keys[number % len(keys)].id,
                    user_id=users[number % len(users)],
                    address=f"10.0.{number >> 8 & 255}.{number & 255}",
                    agent="Mozilla/5.0 (X11; Linux x86_64) Firefox/145.0",
                    made_ms=at_ms,
                    seen_ms=self._shape.end_ms,
                    ends_ms=self._shape.end_ms + KEPT_DAYS * DAY_MS,
                    used=True,
                )
            )

    def _later(self) -> int:
        return self._born + 1000 + self._chance.randrange(self._shape.end_ms - self._born - 2000)

    def _record(self, at_ms: int, action: str, target: str, *rows: TableBase) -> None:
        by: Author = OPERATORS[at_ms % len(OPERATORS)]
        self.rows.change(at_ms, self._id, by, (action, target), *rows)


def _hidden(id: str) -> str:
    """What stands in the place of a secret's hash: nobody has the secret."""
    return hashlib.sha256(id.encode()).hexdigest()
