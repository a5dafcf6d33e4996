"""`--cancel` of `keys revoke`, `users close`, `projects close` and `tenants close`, on a real Valkey."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import engine.operations.cancel
from billing.api import OperationActor, Quota, Stores, Terms, find_tenant
from billing.audit.log import list_rows
from billing.operations.open_requests import CancelRequests, cancel_requests
from billing.quota.redis_keys import open_requests_key, rq_key
from billing.quota.types import Admission, Admitted
from billing.unit_of_work.perform import answer_of
from core.actor import Author
from core.cli import parley as cli
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.ids import uuid7
from core.operations import Role
from core.redis.pools import HOPS_MAX
from core.sql.database import Database
from engine.api import Control, PoolQueue
from engine.queue import redis_keys
from server.access.authorization import ConversationOwner
from server.conversations.store import ConversationStore, Turn
from tests.engine.builders import FINGERPRINT, PRICES, Pool, request
from tests.support.patience import wait_until
from tests.support.redis import Redis

FAR_MS = 4_000_000_000_000


class CancelOffice:
    """An installation with a tenant that has two projects, a key in each, and open requests."""

    def __init__(self, pool: Pool, database: Database) -> None:
        self.pool = pool
        self.db = database
        self.quota = Quota(pool.redis, pool.settings)
        self.keys: dict[str, dict[str, Any]] = {}
        self.tenant = ""

    async def run(self, *arguments: str) -> dict[str, Any]:
        """What a command prints with --json."""
        result = await asyncio.to_thread(CliRunner().invoke, cli, [*arguments, "--json"])
        assert result.exit_code == 0, (result.output, result.exception)
        return json.loads(result.stdout)

    async def prepare(self) -> None:
        """The tenant, its projects and keys."""
        await self.run("tenants", "create", "acme")
        await self.run("projects", "create", "--tenant", "acme", "other")
        for project in ("default", "other"):
            self.keys[project] = await self.run("keys", "create", "--tenant", "acme", "--project", project)
        found = await find_tenant(self.db, "acme")
        assert found is not None
        self.tenant = found.tenant_id

    async def send(self, project: str = "default", user: str = "", pool: Pool | None = None) -> str:
        """A request in line; its id."""
        at, key = pool or self.pool, self.keys[project]
        sent = request(tenant=self.tenant, deadline_ms=FAR_MS)
        admission = Admission(
            tenant=self.tenant,
            id=sent.id,
            body_hash="h",
            owner_key=key.get("owner", key["key"]),
            key=key["key"],
            project=key["project"],
            user=user,
            model="smollm2",
            pool=at.name,
            fingerprint=FINGERPRINT,
            input_tokens=10,
            chunk_tokens=256,
            deadline_ms=FAR_MS,
            prices=PRICES,
        )
        assert isinstance(await self.quota.admit(admission), Admitted)
        await at.queue.enqueue(sent)
        return sent.id

    async def hidden(self, project: str = "default", user: str = "", keep_record: bool = False) -> str:
        """A request of a conversation that a worker took out of the tenant's list."""
        id, key = await self.send(project, user), self.keys[project]
        owner = ConversationOwner(key["project"], key["key"], "")
        turn = Turn(uuid7(now_ms()), id, "hello", "smollm2", now_ms(), key=key["key"], user=user)
        await ConversationStore(self.db).open_turn(self.tenant, owner, turn)
        await self.pool.redis.zrem(open_requests_key(self.tenant), id)
        if not keep_record:
            await self.pool.redis.delete(rq_key(self.tenant, id))
        return id

    async def over(self, *ids: str) -> list[bool]:
        """Which of these have ended."""
        views = [await self.pool.queue.view(self.tenant, id) for id in ids]
        return [view is not None and view.ended for view in views]

    async def ended(self, ids: Sequence[str]) -> list[bool]:
        """Which of these have ended, and are settled."""
        over = [await self.ends_of(id) for id in ids]
        assert all(ended == settled for ended, settled in over)
        return [ended for ended, _ in over]

    async def ends_of(self, id: str) -> tuple[bool, bool]:
        """Whether it has ended, and is settled: a moment later."""
        view = await self.pool.queue.view(self.tenant, id)
        open_ids = {hold.id for hold in await self.quota.holds(self.tenant)}
        return view is not None and view.ended, id not in open_ids

    async def last_row(self) -> tuple[str, str, dict[str, Any]]:
        """Action, target and facts of the newest row of the tenant's audit chain."""
        (row,) = await list_rows(self.db, self.tenant, limit=1)
        return row.action, row.target, json.loads(row.after)


@pytest.fixture
async def office(
    redis: Redis,
    settings: Settings,
    sqlite: Database,
    home: Path,
    redis_url: str,
    monkeypatch: pytest.MonkeyPatch,
) -> CancelOffice:
    """Ready, with commands that wait for nobody."""
    monkeypatch.setenv("PARLEY_HOME", str(home))
    monkeypatch.setenv("PARLEY_REDIS_URL", redis_url)
    monkeypatch.setattr(engine.operations.cancel, "LATE_REQUESTS_SECONDS", 0.0)
    monkeypatch.setattr(engine.operations.cancel, "CANCEL_SECONDS_MAX", 0.2)
    monkeypatch.setattr(engine.operations.cancel, "POLL_SECONDS", 0.02)
    made = CancelOffice(Pool(redis, settings, clock=None), sqlite)  # pyright: ignore[reportArgumentType]
    await made.prepare()
    return made


async def test_what_a_revoked_key_has_queued_ends_on_demand(office: CancelOffice):
    """Without --cancel it goes on; revoking again with it ends all of this key and nothing of another."""
    mine, others = [await office.send() for _ in range(3)], [await office.send("other")]
    key = office.keys["default"]["key"]
    revoke = ("keys", "revoke", "--tenant", "acme", key)
    assert "cancelled" not in await office.run(*revoke)
    assert await office.ended(mine) == [False] * 3
    assert (await office.run(*revoke, "--cancel"))["cancelled"] == 3
    assert await office.ended(mine) == [True] * 3
    assert await office.ended(others) == [False]
    assert await office.last_row() == ("request.cancel", key, {"key": key})
    assert (await office.run(*revoke, "--cancel"))["cancelled"] == 0


async def test_what_the_last_round_ended_is_not_said_to_be_open(
    office: CancelOffice, monkeypatch: pytest.MonkeyPatch
):
    """On a machine that took all of the time for the first one."""
    await office.send()
    monkeypatch.setattr(engine.operations.cancel, "CANCEL_SECONDS_MAX", 0.0)
    key = office.keys["default"]["key"]
    said = await office.run("keys", "revoke", "--tenant", "acme", key, "--cancel")
    assert said["cancelled"] == 1
    assert "not_ended_yet" not in said


async def test_a_successor_and_the_key_before_it_are_cancelled_apart(office: CancelOffice):
    """One owner, two keys: of each end those requests that it was used for."""
    first = office.keys["default"]
    rotated = await office.run("keys", "rotate", "--tenant", "acme", first["key"])
    office.keys["next"] = rotated | {"owner": first["key"]}
    before, after = await office.send(), await office.send("next")
    revoke = ("keys", "revoke", "--tenant", "acme", "--cancel")
    assert (await office.run(*revoke, rotated["key"], "--which", "new"))["cancelled"] == 1
    assert await office.ended([before, after]) == [False, True]
    assert (await office.run(*revoke, first["key"]))["cancelled"] == 1
    assert await office.ended([before]) == [True]


async def test_revoking_a_rotation_cancels_what_both_keys_have(office: CancelOffice):
    """Said once, and told as one number."""
    first = office.keys["default"]
    rotated = await office.run("keys", "rotate", "--tenant", "acme", first["key"])
    office.keys["next"] = rotated | {"owner": first["key"]}
    ids = [await office.send(), await office.send("next")]
    done = await office.run("keys", "revoke", "--tenant", "acme", "--cancel", rotated["key"])
    assert (done["cancelled"], done["ended"]) == (2, [first["prefix"], rotated["prefix"]])
    assert await office.ended(ids) == [True, True]


async def test_what_a_closed_user_runs_is_told_to_end(office: CancelOffice):
    """In every project and pool. What a worker has is its to end, and until it does the command says so."""
    there = Pool(office.pool.redis, office.pool.settings, "b", clock=None)  # pyright: ignore[reportArgumentType]
    await office.pool.worker()
    ann = (await office.run("users", "create", "--tenant", "acme", "ann"))["id"]
    running = await office.send(user=ann)
    (claim,) = await office.pool.claim(slots=1)
    assert claim.id == running
    elsewhere = await office.send("other", user=ann, pool=there)
    bobs = await office.send(user="bob")
    closed = await office.run("users", "close", "--tenant", "acme", "ann", "--cancel")
    assert (closed["cancelled"], closed["not_ended_yet"]) == (2, 1)
    view = await office.pool.queue.view(office.tenant, running)
    assert view is not None
    assert view.control == Control.CANCEL
    moved = await there.queue.view(office.tenant, elsewhere)
    assert moved is not None
    assert moved.ended
    assert await office.ended([bobs]) == [False]
    action, target, _ = await office.last_row()
    assert (action, target) == ("request.cancel", ann)


async def test_all_are_cancelled_by_who_may_and_a_dry_run_counts_them(
    office: CancelOffice, settings: Settings
) -> None:
    """A mistyped user is told so, and not taken for one who runs nothing."""
    ann = (await office.run("users", "create", "--tenant", "acme", "ann"))["id"]
    sent = [await office.send(user=ann), await office.send(user=ann)]
    stores = Stores(settings, office.db, lambda: office.pool.redis)
    support = OperationActor(Author("Sam", "api"), Role.SUPPORT)
    ask = CancelRequests(tenant="acme", user="ann")
    before = await office.last_row()
    would = await answer_of(cancel_requests, stores, support, ask, Terms(dry_run=True))
    assert (would.cancelled, await office.last_row()) == (2, before)
    assert await office.ended(sent) == [False, False]
    with pytest.raises(Refused, match="there is no user 'anne'"):
        await answer_of(cancel_requests, stores, support, CancelRequests(tenant="acme", user="anne"))
    finance = OperationActor(Author("Fay", "api"), Role.FINANCE)
    with pytest.raises(Refused, match="may not do this"):
        await answer_of(cancel_requests, stores, finance, ask)
    assert (await answer_of(cancel_requests, stores, support, ask)).cancelled == 2
    assert await office.ended(sent) == [True, True]


async def test_what_a_worker_took_out_of_the_list_is_found_by_its_row(office: CancelOffice):
    """A request of a conversation, by its user, key, project and tenant, and of nobody else's; by each key of
    a chain, where the directory does not say which."""
    first = office.keys["default"]
    ann = (await office.run("users", "create", "--tenant", "acme", "ann"))["id"]
    hidden = [await office.hidden(user=ann), await office.hidden()]
    others = await office.hidden("other")
    await office.send()
    close = ("users", "close", "--tenant", "acme", "ann", "--cancel")
    assert (await office.run(*close))["cancelled"] == 1
    assert await office.over(*hidden, others) == [True, False, False]
    rotated = await office.run("keys", "rotate", "--tenant", "acme", first["key"])
    revoke = ("keys", "revoke", "--tenant", "acme", "--cancel")
    assert (await office.run(*revoke, rotated["key"], "--which", "new"))["cancelled"] == 1
    assert await office.over(*hidden, others) == [True, True, False]
    assert (await office.run("projects", "close", "--tenant", "acme", "other", "--cancel"))["cancelled"] == 1
    assert await office.over(others) == [True]
    last = await office.hidden()
    assert (await office.run("tenants", "close", "acme", "--cancel"))["cancelled"] == 2
    assert await office.over(last) == [True]


async def test_a_row_of_another_key_of_the_chain_is_left_alone(office: CancelOffice):
    """Where the directory still names it: the row knows the chain only."""
    first = office.keys["default"]
    rotated = await office.run("keys", "rotate", "--tenant", "acme", first["key"])
    await office.hidden(keep_record=True)
    revoke = ("keys", "revoke", "--tenant", "acme", "--cancel")
    assert (await office.run(*revoke, rotated["key"], "--which", "new"))["cancelled"] == 0
    assert (await office.run(*revoke, first["key"]))["cancelled"] == 1


async def test_projects_and_tenants_are_closed_with_all_they_have(office: CancelOffice):
    """A project's requests, then whatever the tenant still has; a tenant without any is closed as well."""
    first, second = await office.send("other"), await office.send()
    closed = await office.run("projects", "close", "--tenant", "acme", "other", "--cancel")
    assert closed["cancelled"] == 1
    assert await office.ended([first, second]) == [True, False]
    assert (await office.run("tenants", "close", "acme", "--cancel"))["cancelled"] == 1
    assert await office.ended([second]) == [True]
    assert (await office.run("tenants", "close", "acme", "--cancel"))["cancelled"] == 0
    assert (await office.last_row())[1] == office.tenant
    assert (await office.run("audit", "verify", "--tenant", "acme"))["state"] == "whole"


async def test_one_that_comes_in_before_gateways_know_is_ended_too(
    office: CancelOffice, monkeypatch: pytest.MonkeyPatch
):
    """For as long as a gateway may let somebody in who is shut out."""
    monkeypatch.setattr(engine.operations.cancel, "LATE_REQUESTS_SECONDS", 600)
    monkeypatch.setattr(engine.operations.cancel, "CANCEL_SECONDS_MAX", 600)
    key = office.keys["default"]["key"]
    closing = asyncio.create_task(office.run("keys", "revoke", "--tenant", "acme", key, "--cancel"))

    async def revoked() -> bool:
        return (await office.last_row())[0] == "key.revoke"

    await wait_until(revoked)
    late = await office.send()

    async def over() -> bool:
        return await office.ends_of(late) == (True, True)

    await wait_until(over)
    monkeypatch.setattr(engine.operations.cancel, "LATE_REQUESTS_SECONDS", 0)
    assert (await closing)["cancelled"] == 1
    assert await office.ended([late]) == [True]


@pytest.mark.parametrize(
    "spoilt", [{"status": "moved", "dest": ""}, {"status": "x"}, None], ids=["circle", "status", "kind"]
)
async def test_closing_is_held_up_by_nothing_that_a_worker_made_up(
    office: CancelOffice, monkeypatch: pytest.MonkeyPatch, spoilt: dict[str, str] | None
):
    """A request that leads to itself for ever, or whose record is none: the others end, the command too."""
    bad, good = await office.send(), await office.send()
    record: Any = redis_keys.record(office.pool.name, office.tenant, bad)
    if spoilt is None:
        await office.pool.redis.set(record, "x")
    else:
        fields: Any = spoilt | ({"dest": office.pool.name} if "dest" in spoilt else {})
        await office.pool.redis.hset(record, mapping=fields)
    asked, control = list[str](), PoolQueue.control

    async def counted(queue: PoolQueue, tenant: str, id: str, flag: Control) -> Any:
        asked.append(id)
        assert len(asked) < 1_000
        return await control(queue, tenant, id, flag)

    monkeypatch.setattr(PoolQueue, "control", counted)
    closed = await office.run("tenants", "close", "acme", "--cancel")
    assert closed["not_ended_yet"] == 1
    if spoilt is not None and "dest" in spoilt:
        shown = await office.run("requests", "show", bad, "--tenant", office.tenant)
        assert len(shown["came_from"]) == HOPS_MAX
    view = await office.pool.queue.view(office.tenant, good)
    assert view is not None
    assert view.ended
