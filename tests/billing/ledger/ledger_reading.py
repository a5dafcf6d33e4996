"""Books read back whole, and proved."""

import random
from typing import Any

from sqlmodel import col, select

from billing.ledger.transactions import HOUR_MS
from billing.ledger.verify import Verified, verify_ledger
from billing.posting.biller import post
from billing.usage import UsageEvent, UsageOwner, encode
from core.sql.database import Database
from tests.billing.events import an_event

REASONS = ("stop", "length", "cancelled", "error")
OPAQUE = "u_" + "0a" * 16
OWNER = UsageOwner(
    project="p1", key="k1", user=OPAQUE, conversation="c1", metadata=b'{"b":[1.5,null],"a":"x"}'
)


def an_hour_of(count: int, seed: int, tenant: str = "t1") -> list[UsageEvent]:
    """Different requests of several users, models, hours and reasons, some without any usage."""
    chosen = random.Random(seed)
    return [
        an_event(
            f"r{number:05}",
            tenant,
            model=chosen.choice(("small", "large")),
            owner=UsageOwner(project="p1", key=chosen.choice(("k1", "k2")), user=chosen.choice(("", "u1"))),
            ended_ms=chosen.randrange(5 * HOUR_MS),
            reason=chosen.choice(REASONS),
            input_uncached=chosen.choice((0, 5, 1_000_003)),
            input_cached=chosen.choice((0, 17)),
            output_text=chosen.choice((0, 1, 333)),
        )
        for number in range(count)
    ]


async def read(database: Database, table: Any, tenant: str = "t1") -> list[Any]:
    """All rows of a tenant's table in the order of their keys."""
    async with database.session() as session:
        found = (await session.exec(select(table).where(col(table.tenant_id) == tenant))).all()
    return sorted(found, key=lambda row: [str(value) for value in row.model_dump().values()])


async def booked(db: Database, *requests: str, tenant: str = "t1") -> None:
    """Requests, each in a transaction of its own."""
    for request in requests:
        await post(db, "default", [encode(an_event(request, tenant, owner=OWNER, claimed_ms=1_500))])


async def found(db: Database, tenant: str = "t1") -> str:
    """What verifying says, in one text."""
    return "\n".join((await verify_ledger(db, tenant)).faults)


async def proven(database: Database, tenant: str = "t1") -> Verified:
    """The tenant's books, which are right."""
    books = await verify_ledger(database, tenant)
    assert books.faults == []
    return books
