"""What is administered is as the last change of it says, or it is named."""

import pytest
from sqlalchemy import text

from billing.audit.compare import compare_states, differences, state_breaks
from billing.audit.log import record
from billing.audit.states import take_states
from billing.audit.verify import verify_log
from billing.dedicated_pools.pools import create_pool
from billing.enforcement.limit_settings import end_budget, set_budget
from billing.prices.book import NewVersion, add_version
from billing.prices.files import FlatPrices
from billing.prices.rating import Meter
from billing.prices.tiers import Tier, TierMode, TierPrices
from billing.tables.audit import AuditState
from billing.tables.pools import PoolRow
from billing.tables.tenants import PLATFORM, PoolTerms, Tenant
from billing.tenants.keys import create_key
from billing.tenants.pool_terms import set_terms
from billing.tenants.tenancy import create_tenant
from billing.wallets.wallets import GrantKind, NewGrant, grant
from chaos.tampering.unguarded import tamper
from core.redis.client import RedisClient
from core.sql.database import Database

PRICES = {"gpt": FlatPrices(1, 1, 1, 0), "*": FlatPrices(2, 2, 2, 0)}
TIERS = {("gpt", Meter.OUTPUT): TierPrices(TierMode.GRADUATED, (Tier(None, 5),), 7)}

EDITS = (
    (
        "UPDATE price SET input_nano = 0 WHERE model = 'gpt'",
        "price gold/1/gpt was changed past the commands: input_nano 1 → 0",
    ),
    ("DELETE FROM price WHERE model = '*' AND book_id = 'gold'", "price gold/1/* was removed"),
    (
        "INSERT INTO price SELECT book_id, version, 'o9', '', 0, 0, 0, 0 FROM price WHERE model = 'gpt'",
        "price gold/1/o9 was added",
    ),
    (
        "UPDATE price_tier SET minimum_nano = 0",
        "price_tier gold/1/gpt/output was changed past the commands: minimum_nano 7 → 0",
    ),
    (
        "UPDATE price_tier SET tiers = '[]'",
        "price_tier gold/1/gpt/output was changed past the commands: tiers",
    ),
    ("UPDATE gpu_price SET second_nano = 1", "gpu_price gold/1/h200 was changed"),
    (
        "UPDATE price_version SET valid_from_ms = 1 WHERE book_id = 'gold'",
        "price_version gold/1 was changed past the commands: valid_from_ms",
    ),
    ("UPDATE price_version SET withdrawn_ms = 1 WHERE book_id = 'gold'", "withdrawn_ms null → 1"),
    ("UPDATE price_book SET currency = 'jpy' WHERE id = 'gold'", "price_book gold was changed"),
    ("UPDATE pool_terms SET weight = 9", "was changed past the commands: weight 2.0 → 9.0"),
    ("UPDATE tenant SET price_book_id = 'gold'", 'price_book_id "default" → "gold"'),
    ("UPDATE budget SET limit_nano = 6", "limit_nano 5 → 6"),
    ("DELETE FROM budget", "was removed past the commands"),
    ("UPDATE wallet_grant SET expires_ms = 7", "expires_ms null → 7"),
    ("UPDATE api_key SET secret_sha256 = 'mine'", "secret_sha256 (hidden) → (hidden)"),
    ("UPDATE api_key SET scopes = '[\"usage:read\"]'", "scopes"),
    ("UPDATE pool_owner SET tenant_id = 'other'", "pool_owner own/"),
    ("UPDATE audit_state SET state = 'null' WHERE thing LIKE 'budget%'", "the states beside it were changed"),
    (
        "DELETE FROM audit_state WHERE thing LIKE 'budget%'",
        "the states beside it were changed, added or removed",
    ),
)


async def filled(db: Database, redis: RedisClient) -> str:
    """A tenant with some of all; its id."""
    tenant = (await create_tenant(db, "acme")).tenant_id
    await add_version(db, NewVersion("gold", PRICES, tiers=TIERS, gpus={"h200": 9}))
    await set_terms(db, redis, PoolTerms(tenant_id=tenant, weight=2.0))
    await set_budget(db, redis, tenant, scope="tenant", period="month", limit_nano=5)
    await grant(db, tenant, NewGrant(GrantKind.PAID, 100, "k1"))
    await create_key(db, tenant, await _project(db))
    row = PoolRow(pool="own", model="m", version="1", workers=1, labels={}, tenant_id=tenant, made_ms=1)
    await create_pool(db, row)
    return tenant


async def _project(db: Database) -> str:
    async with db.engine.connect() as connection:
        return (await connection.execute(text("SELECT id FROM project"))).scalar_one()


async def found_after(db: Database, *statements: str) -> str:
    """What is told of it."""
    await tamper(db, *statements)
    async with db.engine.connect() as connection:
        owners = (await connection.execute(text("SELECT tenant_id FROM audit_head"))).scalars().all()
    return "\n".join([fault for owner in owners for fault in (await compare_states(db, owner)).faults])


@pytest.mark.parametrize(
    ("statement", "told"),
    EDITS,
)
async def test_what_was_changed_past_the_commands_is_named(
    sqlite: Database, redis: RedisClient, statement: str, told: str
) -> None:
    """Prices, tiers, minimums, validity, terms, budgets, grants, keys, owners; and the states themselves."""
    await filled(sqlite, redis)
    assert await found_after(sqlite) == ""
    assert told in await found_after(sqlite, statement)


async def test_what_a_command_changed_again_is_named_still(sqlite: Database, redis: RedisClient) -> None:
    """A command that changes another column takes over what stood there."""
    tenant = await filled(sqlite, redis)
    await tamper(sqlite, "UPDATE budget SET limit_nano = 6")
    async with sqlite.engine.connect() as connection:
        budget = (await connection.execute(text("SELECT id FROM budget"))).scalar_one()
    await end_budget(sqlite, redis, tenant, budget)
    assert f"budget {budget} was changed past the commands: limit_nano 5 → 6 (before change" in (
        await found_after(sqlite)
    )


async def test_what_is_compared_is_whole_on_postgres_too(database: Database, redis: RedisClient) -> None:
    """Nothing is told of what the commands did; an edit is."""
    tenant = await filled(database, redis)
    assert await found_after(database) == ""
    assert (await compare_states(database, tenant)).rows > 5
    assert (await verify_log(database, tenant)).faults == []
    assert "price gold/1/gpt" in await found_after(
        database, "UPDATE price SET output_nano = 3 WHERE model = 'gpt'"
    )


async def test_pages_are_seams_of_nothing(
    database: Database, redis: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One row at a time finds what all at once do, and tells how far it is."""
    monkeypatch.setattr("billing.audit.compare.ROWS_AT_ONCE", 1)
    tenant = await filled(database, redis)
    told: list[str] = []
    rows = (await compare_states(database, tenant, told.append)).rows
    states = len(told) - rows
    assert told[:states] == [f"{number} states read" for number in range(1, states + 1)]
    assert told[states:] == [f"{number} rows compared" for number in range(1, rows + 1)]
    assert min(states, rows) > 5
    assert await found_after(database) == ""
    found = await found_after(database, "UPDATE budget SET limit_nano = 6", "UPDATE price SET input_nano = 7")
    assert ("limit_nano 5 → 6" in found, "price gold/1/gpt" in found) == (True, True)


def test_last_states_and_rows_give_what_differs() -> None:
    """Of columns that are newer than a state, the default is meant."""
    last = {'budget:["t","b"]': {"limit_nano": 5}, 'budget:["t","c"]': None, 'budget:["t","d"]': {}}
    rows = {
        'budget:["t","b"]': {"limit_nano": 5, "mode": "enforce"},
        'budget:["t","c"]': {"limit_nano": 1},
        'budget:["t","e"]': {"limit_nano": 1},
    }
    assert differences(last, rows) == [
        "budget c was added past the commands",
        "budget d was removed past the commands",
        "budget e was added past the commands",
    ]
    shadow = {'budget:["t","b"]': {"limit_nano": 5, "mode": "shadow"}}
    assert differences({'budget:["t","b"]': {"limit_nano": 5}}, shadow) == [
        'budget b was changed past the commands: mode "enforce" → "shadow"'
    ]


def test_what_a_change_found_is_what_the_one_before_it_left() -> None:
    """Where nobody looked, nothing is told."""

    def row(seq: int, state: str, was: str) -> AuditState:
        return AuditState(tenant_id="t", thing='budget:["t","b"]', seq=seq, number=0, state=state, was=was)

    added, ended = row(1, '{"limit_nano":5}', "null"), row(3, '{"limit_nano":7}', '{"limit_nano":6}')
    assert state_breaks({}, [added, row(2, '{"limit_nano":6}', '{"limit_nano":5}'), ended]) == []
    assert state_breaks({}, [added, ended]) == [
        "budget b was changed past the commands: limit_nano 5 → 6 (before change 3)"
    ]
    assert state_breaks({}, [added, row(2, '{"limit_nano":9}', "")]) == []
    assert state_breaks({}, [added, row(2, "null", '{"limit_nano":5}'), row(3, "{}", "null")]) == []
    gone, found = row(2, "null", '{"limit_nano":5}'), row(3, '{"limit_nano":7}', '{"limit_nano":6}')
    assert state_breaks({}, [added, gone, found]) == [
        "budget b was added past the commands (before change 3)"
    ]


async def test_the_platforms_rows_are_not_a_tenants(sqlite: Database, redis: RedisClient) -> None:
    """A row that was moved to another owner is missed by one and too many for the other."""
    tenant = await filled(sqlite, redis)
    other = (await create_tenant(sqlite, "beta")).tenant_id
    await tamper(sqlite, f"UPDATE budget SET tenant_id = '{other}'")
    assert "removed" in "".join((await compare_states(sqlite, tenant)).faults)
    assert "added" in "".join((await compare_states(sqlite, other)).faults)
    assert (await compare_states(sqlite, PLATFORM)).faults == []


async def test_a_state_beside_a_change_that_had_none_is_named(sqlite: Database) -> None:
    """It would say what a row is, in no hash."""
    async with sqlite.transaction() as session:
        await record(session, "t1", "thing.change", "x", None, {})
        session.add(AuditState(tenant_id="t1", thing="none:[]", seq=1, number=0, state="{}", was=""))
    told = (await compare_states(sqlite, "t1")).faults
    assert "change 1: the states beside it were changed, added or removed" in told


async def test_what_one_transaction_changed_twice_was_what_stood_before_it(sqlite: Database) -> None:
    """And what was rolled back is recorded with nobody's change."""
    made = await create_tenant(sqlite, "acme")
    async with sqlite.session() as session:
        tenant = await session.get_one(Tenant, made.tenant_id)
        before = tenant.time_zone
        for zone in ("Asia/Tokyo", "Europe/Berlin"):
            tenant.time_zone = zone
            session.add(tenant)
            await session.flush()
        (stated,) = take_states(session, made.tenant_id)
        assert (stated.was, stated.state and stated.state["time_zone"]) == (
            {"time_zone": before},
            "Europe/Berlin",
        )
        tenant.time_zone = "Asia/Tokyo"
        await session.flush()
        await session.rollback()
        assert take_states(session, made.tenant_id) == []


async def test_states_of_one_thing_on_two_pages_are_one_things(
    sqlite: Database, redis: RedisClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Only the last of them is what its row must be."""
    monkeypatch.setattr("billing.audit.compare.ROWS_AT_ONCE", 1)
    tenant = await filled(sqlite, redis)
    async with sqlite.engine.connect() as connection:
        budget = (await connection.execute(text("SELECT id FROM budget"))).scalar_one()
    await end_budget(sqlite, redis, tenant, budget)
    assert await found_after(sqlite) == ""
