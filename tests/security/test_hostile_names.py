"""Whatever is stored or typed as a name, no command dies of it, and none hands it to the terminal."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from sqlmodel import select

from billing.tables.tenants import TenantUser
from chaos.tampering.unguarded import unguarded_file
from core.configuration.settings import Settings
from core.sql.database import Database
from engine.operations import requests, workers
from server.conversations.tables import Conversation, Message
from tests.billing.cli.audited_office import COMMANDS, READS, READS_TEXT, CommandsOffice, office
from tests.engine.builders import Pool, append_to, request
from tests.security.typist import FILLING, HOSTILE, STAY, WORDS, Typist
from tests.support.models import add_model
from tests.support.redis import Redis

__all__ = ["office"]

# Where names stand that somebody chose, or that come from what somebody chose.
NAMES = {
    "alert_target": "address author",
    "api_key": "name prefix user_id",
    "audit_log": "author action target",
    "budget": "scope_id author",
    "charge": "user_id model pool",
    "commitment": "pool gpu_type",
    "cost_center": "code name",
    "gpu_cost": "gpu_type region",
    "ledger_txn": "idempotency_key",
    "model_version": "name version folder",
    "noisy_finding": "pool reason",
    "outbox": "last_error topic",
    "period_commitment": "model",
    "plan": "name",
    "pool": "model version",
    "pool_owner": "pool",
    "price": "model",
    "price_book": "name",
    "project": "name",
    "quota_policy": "scope_id model_glob author",
    "recon_item": "subject detail",
    "rollup_hour": "user_id model pool",
    "safety_policy": "author reason",
    "tenant": "name",
    "tenant_user": "name",
    "usage_event": "user_id model pool code",
    "usage_quarantine": "request_id pool reason detail",
    "wallet_grant": "idempotency_key author note",
}


def spoil(file: Path) -> int:
    """Put the hostile name wherever a name is; how many were."""
    spoiled = 0
    with closing(sqlite3.connect(file)) as connection, connection, unguarded_file(connection):
        for table, columns in NAMES.items():
            for column in columns.split():
                spoiled += connection.execute(f"UPDATE {table} SET {column} = ? || rowid", [HOSTILE]).rowcount
        facts = json.dumps({HOSTILE: HOSTILE})
        connection.execute("UPDATE audit_log SET before = 'null', after = ?", [facts])
    return spoiled


async def speak(database: Database) -> None:
    """A chat of the first user, and what it says."""
    async with database.transaction() as session:
        user = (await session.exec(select(TenantUser))).first()
        assert user is not None
        chat = Conversation(
            tenant_id=user.tenant_id,
            id="c1",
            project_id="p1",
            owner_key="",
            user_id=user.id,
            title=WORDS,
            created_ms=1,
            updated_ms=1,
        )
        session.add(chat)
        await session.flush()
        message = Message(
            tenant_id=user.tenant_id,
            id="m1",
            conversation_id="c1",
            request_id="r1",
            position=0,
            role="user",
            content=WORDS,
            status="ended",
            created_ms=1,
        )
        session.add(message)


@pytest.fixture
def spoiled(office: CommandsOffice, home: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database file of an installation in which every name is hostile."""
    office.on_database(lambda db: add_model(db, "m"))
    for line in FILLING:
        result = office.run(line.format(**office.facts))
        assert result.exit_code == 0, (line, result.output, result.exception)
    office.on_database(speak)
    assert spoil(home / "parley.db") > 40
    monkeypatch.setenv("PARLEY_HOME", str(home))
    monkeypatch.setenv("PARLEY_REDIS_URL", redis_url)
    monkeypatch.setattr(workers, "DRAIN_SECONDS_MAX", 0.0)
    monkeypatch.setattr(workers, "KILL_SECONDS_MAX", 0.0)
    monkeypatch.setattr(requests, "CANCEL_SECONDS_MAX", 0.0)
    return home / "parley.db"


async def test_no_command_dies_of_a_name_or_hands_it_on(
    spoiled: Path,
    redis: Redis,
    settings: Settings,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
):
    """All that can be typed, about stored hostile names and about ones that nobody has; as tables and as
    JSON. And what people said is shown by those commands alone that record it."""
    pool = Pool(redis, settings, clock=None)  # pyright: ignore[reportArgumentType]
    claim = await pool.running(HOSTILE, model=HOSTILE)  # no worker is given a tenant of such a name
    await pool.queue.append(HOSTILE, [append_to(claim, ids=(1, 2), x=WORDS)])
    await pool.queue.enqueue(request(tenant=HOSTILE, model=HOSTILE))
    typist = Typist(spoiled, capsys, monkeypatch)
    groups = set[str]()
    for name in sorted(set(COMMANDS) - STAY, key=lambda name: (name not in READS, name)):
        await asyncio.to_thread(typist.type, name, known=True)
        if name in READS:
            await asyncio.to_thread(typist.type, name, known=True, as_json=True)
        elif name.split()[0] not in groups:
            await asyncio.to_thread(typist.type, name, known=False)
            groups.add(name.split()[0])
    assert typist.said.count("[/x]\\x1b]0;x\\x07\\u202e\\r\\n\\x9b31m") > 100
    assert typist.told_words == READS_TEXT
    assert "\n'=cmd()[/x]" in typist.said or ",'=cmd()[/x]" in typist.said
