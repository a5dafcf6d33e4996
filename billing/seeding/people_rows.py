"""People of a seeded tenant, with their sessions, an invitation and a token. Pure."""

import hashlib
import random

from billing.seeding.changes import OPERATORS, SeededRows
from billing.seeding.shapes import DAY_MS, SeedShape, TenantShape
from billing.tables.people import Invitation, Membership, Person, PersonSession, ServiceToken
from billing.tables.tenants import PLATFORM, Tenant
from core.actor import Author
from core.ids import uuid7
from core.operations import Role

ROLES = (Role.ADMIN, Role.DEVELOPER, Role.BILLING, Role.VIEWER)
SESSION_MS = 12 * 3_600_000
TOKEN_DAYS = 90


def member_rows(
    shape: SeedShape, of: TenantShape, chance: random.Random, tenant: Tenant
) -> tuple[SeededRows, str]:
    """The tenant's people, and the id of the first, who is an admin."""
    rows, born, chain = SeededRows(), tenant.created_ms, tenant.tenant_id
    admin = ""
    for number in range(of.members):
        at_ms = born + 2000 + number
        person = person_row(at_ms, f"Member {number} of {of.name}", f"m{number}@{of.name}.example")
        admin = admin or person.id
        by = OPERATORS[number % len(OPERATORS)] if number == 0 else Author(admin, "api")
        join_rows(rows, at_ms, by, person, chain, ROLES[number % len(ROLES)])
        for _ in range(2):
            rows.others.append(_session(shape, chance, chain, person.id))
    waiting = Invitation(
        tenant_id=chain,
        id=uuid7(shape.end_ms - DAY_MS),
        code_sha256=_digest(f"invitation {chain}"),
        email=f"new@{of.name}.example",
        role=Role.VIEWER,
        by=admin,
        created_ms=shape.end_ms - DAY_MS,
        expires_ms=shape.end_ms + 6 * DAY_MS,
    )
    at = Author(admin, "api")
    rows.change(waiting.created_ms, chain, at, ("invitation.create", waiting.id), waiting)
    token = token_row(shape, chain, "deploys", Role.DEVELOPER, admin)
    rows.change(token.created_ms, chain, at, ("token.create", token.id), token)
    return rows, admin


def person_row(at_ms: int, name: str, email: str) -> Person:
    """Somebody who signs in by links."""
    return Person(id=uuid7(at_ms), name=name, email=email, created_ms=at_ms)


def join_rows(rows: SeededRows, at_ms: int, by: Author, person: Person, chain: str, role: Role) -> None:
    """Note that somebody came, and their role."""
    rows.change(at_ms, PLATFORM, by, ("person.create", person.id), person)
    joined = Membership(tenant_id=chain, person_id=person.id, role=role, created_ms=at_ms)
    rows.change(at_ms, chain, by, ("membership.begin", person.id), joined)


def token_row(shape: SeedShape, chain: str, name: str, role: Role, by: str) -> ServiceToken:
    """A token whose secret nobody has."""
    at_ms = shape.end_ms - TOKEN_DAYS * DAY_MS // 2
    id = uuid7(at_ms)
    return ServiceToken(
        tenant_id=chain,
        id=id,
        name=name,
        role=role,
        prefix=_digest(id)[:16],
        token_sha256=_digest(id),
        by=by,
        created_ms=at_ms,
        expires_ms=at_ms + TOKEN_DAYS * DAY_MS,
        last_used_ms=shape.end_ms - 60_000,
    )


def _session(shape: SeedShape, chance: random.Random, chain: str, person: str) -> PersonSession:
    at_ms = shape.end_ms - chance.randrange(1, 20 * DAY_MS)
    id = uuid7(at_ms)
    return PersonSession(
        tenant_id=chain,
        id=id,
        token_sha256=_digest(id),
        person_id=person,
        address="10.1.0.1",
        agent="Mozilla/5.0 (Macintosh) Safari/26.0",
        made_ms=at_ms,
        seen_ms=at_ms + SESSION_MS // 2,
        ends_ms=at_ms + SESSION_MS,
        ended_ms=at_ms + SESSION_MS // 2,
    )


def _digest(of: str) -> str:
    return hashlib.sha256(of.encode()).hexdigest()
