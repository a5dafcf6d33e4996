"""Books from before usage was proved."""

from functools import partial

import pytest

from billing.booking import assess as assessing
from billing.ledger import transactions
from billing.ledger.rows import TxnRow
from billing.ledger.verify import verify_ledger
from billing.posting.biller import post
from billing.usage import UsageOwner, encode
from core.sql.database import Database
from tests.billing.events import an_event

OPAQUE = "u_" + "0a" * 16

OWNER = UsageOwner(
    project="p1", key="k1", user=OPAQUE, conversation="c1", metadata=b'{"b":[1.5,null],"a":"x"}'
)


async def booked(db: Database, *requests: str, tenant: str = "t1") -> None:
    """Requests, each in a transaction of its own."""
    for request in requests:
        await post(db, "default", [encode(an_event(request, tenant, owner=OWNER, claimed_ms=1_500))])


async def found(db: Database, tenant: str = "t1") -> str:
    """What verifying says, in one text."""
    return "\n".join((await verify_ledger(db, tenant)).faults)


def as_an_older_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Books from now on without proofs."""
    monkeypatch.setattr(transactions, "TxnRow", partial(TxnRow, hash_version=1))
    monkeypatch.setattr(transactions, "event_proof", lambda row: "")
    monkeypatch.setattr(assessing, "words_proof", lambda user, labels: "")


async def old_books(db: Database, monkeypatch: pytest.MonkeyPatch, *requests: str) -> None:
    """Requests of an older version."""
    with monkeypatch.context() as patch:
        as_an_older_version(patch)
        await booked(db, *requests)
