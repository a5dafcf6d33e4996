"""Service tokens: what scripts show instead of signing in, `pt_<prefix>_<rest>`. The prefix finds the row and
is shown; of the rest only the SHA-256 is kept."""

import hashlib
import hmac
import re
import secrets
from collections.abc import Sequence

from sqlalchemy import update
from sqlmodel import col, func, select

from billing.audit.log import record
from billing.people.memberships import checked_role, lock_people, manages_no_more
from billing.tables.people import ServiceToken
from billing.tables.tenants import Tenant
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import bad_request, see, unknown
from core.ids import uuid7
from core.names import checked_name
from core.sql.database import Database

TOKENS_MAX: int = Settings.model_fields["tokens_per_tenant_max"].default
SECRET = re.compile(r"pt_([0-9a-f]{12})_([0-9a-f]{48})", re.ASCII)
NO_DIGEST = "0" * 64  # the digest that an unknown prefix is compared with
USED_EVERY_MS = 60_000
DAY_MS = 86_400_000
DAYS_MAX = 366


async def create_token(
    db: Database, tenant_id: str, name: str, role: str, days: int, by: str = "", tokens_max: int = TOKENS_MAX
) -> tuple[ServiceToken, str]:
    """Create a token; return it and its secret, which is stored nowhere. `by`: the maker's person; empty: a
    command. Raises Refused where a fact is invalid, or there are `tokens_max` working ones."""
    role, name, now = checked_role(tenant_id, role), checked_name("name", name), now_ms()
    if not 1 <= days <= DAYS_MAX:
        raise bad_request(f"a token lasts 1 to {DAYS_MAX} days", field="days")
    prefix, rest = secrets.token_hex(6), secrets.token_hex(24)
    row = ServiceToken(
        tenant_id=tenant_id,
        id=uuid7(now),
        name=name,
        role=role,
        prefix=prefix,
        token_sha256=hashlib.sha256(rest.encode()).hexdigest(),
        by=by,
        created_ms=now,
        expires_ms=now + days * DAY_MS,
    )
    many = select(func.count()).where(
        col(ServiceToken.tenant_id) == tenant_id,
        col(ServiceToken.revoked_ms).is_(None),
        col(ServiceToken.expires_ms) > now,
    )
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        if (await session.exec(many)).one() >= tokens_max:
            raise bad_request(
                f"there are {tokens_max} tokens (PARLEY_TOKENS_PER_TENANT_MAX): revoke some",
                see=see("tokens.list"),
            )
        session.add(row)
        await record(session, tenant_id, "token.create", row.id, None, recorded_of(row))
    return row, f"pt_{prefix}_{rest}"


async def find_token(db: Database, secret: str) -> ServiceToken | None:
    """The token of a secret; None for a wrong one, and where it was revoked or is late, its tenant is closed,
    or its maker manages people no more. Notes its use, at most once a minute."""
    parts = SECRET.fullmatch(secret)
    prefix, rest = parts.groups() if parts else ("", secret[:200])
    statement = (
        select(ServiceToken, Tenant.closed_ms)
        .join(Tenant, col(Tenant.tenant_id) == col(ServiceToken.tenant_id), isouter=True)
        .where(col(ServiceToken.prefix) == prefix)
    )
    async with db.session() as session:
        found = (await session.exec(statement)).first()
        row = found[0] if found is not None else None
        digest = hashlib.sha256(rest.encode("utf-8", "surrogatepass")).hexdigest()
        good = hmac.compare_digest(digest, row.token_sha256 if row is not None else NO_DIGEST)
        if row is None or found is None or not good:
            return None
        if row.revoked_ms is not None or row.expires_ms <= now_ms() or found[1] is not None:
            return None
        if row.by and await manages_no_more(session, row.tenant_id, row.by):
            return None
    await _used(db, row)
    return row


async def list_tokens(db: Database, tenant_id: str) -> Sequence[ServiceToken]:
    """A tenant's tokens (PLATFORM: the platform's), oldest first."""
    statement = select(ServiceToken).where(col(ServiceToken.tenant_id) == tenant_id)
    async with db.session() as session:
        return (await session.exec(statement.order_by(col(ServiceToken.id)))).all()


async def revoke_token(db: Database, tenant_id: str, named: str) -> ServiceToken:
    """Refuse the token of this id, prefix or name from now on. Raises Refused where there is none, or several
    working ones have the name."""
    statement = select(ServiceToken).where(
        col(ServiceToken.tenant_id) == tenant_id,
        (col(ServiceToken.id) == named)
        | (col(ServiceToken.prefix) == named)
        | (col(ServiceToken.name) == named),
    )
    async with db.transaction() as session:
        await lock_people(session, tenant_id)
        rows = (await session.exec(statement.with_for_update())).all()
        working = [each for each in rows if each.revoked_ms is None] or rows
        if not working:
            raise unknown(f"there is no token {named!r}", field="token", see=see("tokens.list"))
        if len(working) > 1:
            raise bad_request(
                f"{len(working)} tokens are called {named!r}: name one by its prefix",
                field="token",
                see=see("tokens.list"),
            )
        row = working[0]
        if row.revoked_ms is None:
            before = recorded_of(row)
            row.revoked_ms = now_ms()
            session.add(row)
            await record(session, tenant_id, "token.revoke", row.id, before, recorded_of(row))
    return row


def recorded_of(row: ServiceToken) -> dict[str, object]:
    """What the audit log has of a token. Pure."""
    return row.model_dump(exclude={"token_sha256", "last_used_ms", "name"})


async def _used(db: Database, row: ServiceToken) -> None:
    now = now_ms()
    if row.last_used_ms is not None and now - row.last_used_ms < USED_EVERY_MS:
        return
    noted = update(ServiceToken).where(
        col(ServiceToken.tenant_id) == row.tenant_id, col(ServiceToken.id) == row.id
    )
    async with db.transaction() as session:
        await session.exec(noted.values(last_used_ms=now))
