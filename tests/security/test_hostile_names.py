"""Whatever is stored or typed as a name, no command dies of it, and none hands it to the terminal."""

import asyncio
import contextlib
import json
import os
import sqlite3
import sys
import unicodedata
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import click
import pytest
from sqlmodel import select

from billing.tables.tenants import TenantUser
from chaos.tampering.unguarded import unguarded_file
from core.cli import main
from core.database import Database
from core.settings import Settings
from engine.cli import requests, workers
from server.conversations.tables import Conversation, Message
from tests.billing.cli.test_audited_commands import COMMANDS, READS, READS_TEXT, CommandsOffice, office
from tests.engine.builders import Pool, append_to, request
from tests.support.redis import Redis

__all__ = ["office"]

WORDS = "what nobody but its reader may see"
HOSTILE = "=cmd()[/x]\x1b]0;x\x07\u202e\r\n\x9b31m"
# Processes, which stay; what they print is what `say` prints.
STAY = {"up", "gateway", "worker", "supervisor", "biller", "chat", "console"}
# What the office used is of the first month that there is.
MORE = {
    "usage export": ["--month", "1970-01"],
    "usage compare": ["--month", "1970-02", "--to-month", "1970-01", "--by", "model"],
    "usage show": ["--month", "1970-01", "--by", "user"],
    "reconcile": ["--show-equal"],
}
# What makes rows with names in them, in this order; the office has a tenant and an event.
FILLING = (
    "projects create --tenant acme research",
    "cost-centers create --tenant acme 4711 --name all",
    "users create --tenant acme alice",
    "keys create --tenant acme --name mine --user alice",
    "plans create gold --weight 2",
    "pools assign a --tenant acme",
    "pools commit --tenant acme --gpu h200 --gpus 2 --rate 2.40USD --days 30 --pool a",
    "pools costs --gpu h200 --hour 1.10USD",
    "prices import {prices}",
    "prices commit --tenant acme --amount 100USD --model large --meter output --units 1000000",
    "limits set --tenant acme --scope user --id alice --dimension concurrency --limit 2",
    "budgets set --tenant acme --limit 5USD --scope user --id alice",
    "wallets grant --tenant acme --amount 5USD --key k1 --note n",
    "alerts targets add --tenant acme --email ops@example.com",
)
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
    "model_version": "name version folder pool",
    "noisy_finding": "pool reason",
    "outbox": "last_error topic",
    "period_commitment": "model",
    "plan": "name",
    "pool_owner": "pool",
    "price": "model",
    "price_book": "name",
    "project": "name",
    "quota_policy": "scope_id model_glob author",
    "recon_item": "subject detail",
    "rollup_hour": "user_id model pool",
    "tenant": "name",
    "tenant_user": "name",
    "usage_event": "user_id model pool code",
    "usage_quarantine": "request_id pool reason detail",
    "wallet_grant": "idempotency_key author note",
}


def harmless(text: str) -> bool:
    """Whether there is nothing in it that a terminal obeys."""
    bad = ("Cc", "Cf", "Zl", "Zp", "Cs")
    return all(each == "\n" or unicodedata.category(each) not in bad for each in text)


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


def first(file: Path, query: str) -> str:
    """The first value that a query finds."""
    with closing(sqlite3.connect(file)) as connection:
        found = connection.execute(query).fetchone()
    return str(found[0]) if found else HOSTILE


class Typist:
    """Types every command with whatever arguments it needs."""

    def __init__(
        self, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._capsys = capsys
        self._monkeypatch = monkeypatch
        self.said = ""
        self.told_words = set[str]()
        self.values = {
            "tenant": first(file, "SELECT tenant_id FROM tenant"),
            "key": first(file, "SELECT id FROM api_key"),
            "project": first(file, "SELECT id FROM project"),
            "plan": first(file, "SELECT name FROM plan"),
            "user": first(file, "SELECT name FROM tenant_user"),
            "limit": first(file, "SELECT id FROM quota_policy"),
            "budget": first(file, "SELECT id FROM budget"),
            "target": first(file, "SELECT id FROM alert_target"),
            "cost_center": first(file, "SELECT id FROM cost_center"),
            "commitment": first(file, "SELECT id FROM period_commitment"),
            "event": first(file, "SELECT event_sha256 FROM usage_quarantine"),
            "grant": first(file, "SELECT id FROM wallet_grant"),
            "finding": "f1",
            "message": HOSTILE,
        }

    def type(self, name: str, *, known: bool, as_json: bool = False) -> None:
        """One command. `known`: about what there is, else about hostile names that nobody has."""
        arguments = [*self._arguments(name, COMMANDS[name], known), *MORE.get(name, [])]
        as_json = as_json and any(each.name == "as_json" for each in COMMANDS[name].params)
        self._monkeypatch.setattr(sys, "argv", ["parley", *name.split(), *arguments, *["--json"] * as_json])
        before = os.umask(0o022)
        try:
            with contextlib.suppress(SystemExit):
                main()  # narrows what files of this process are open to
        finally:
            os.umask(before)
        out, err = self._capsys.readouterr()
        assert harmless(out + err), (name, out, err)
        assert out + err or not known or as_json, name
        if as_json:
            assert all(isinstance(json.loads(line), dict) for line in out.splitlines()), (name, out)
        self.said += out + err
        if WORDS in out + err:
            self.told_words.add(name)

    def _arguments(self, name: str, command: click.Command, known: bool) -> Iterator[str]:
        for each in command.params:
            wanted = each.required or each.name in ("tenant", "once", "resolved", "history")
            if not wanted or (each.name == "tenant" and name == "audit list"):
                continue
            option = [each.opts[0]] if isinstance(each, click.Option) else []
            if isinstance(each, click.Option) and each.is_flag:
                yield from option * known
            else:
                yield from (*option, self._value(each, known))

    def _value(self, parameter: click.Parameter, known: bool) -> str:
        match parameter.type:
            case click.Choice() as choice:
                return str(choice.choices[0])
            case click.types.IntParamType() | click.types.FloatParamType():
                return "1"
            case click.Path():
                return "/dev/null"
            case _ if parameter.name in ("amount", "rate", "hour"):
                return "1USD"
            case _:
                return self.values.get(str(parameter.name), HOSTILE) if known else HOSTILE


@pytest.fixture
def spoiled(office: CommandsOffice, home: Path, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The database file of an installation in which every name is hostile."""
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
    claim = await pool.running(HOSTILE, tenant=HOSTILE, model=HOSTILE)
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
