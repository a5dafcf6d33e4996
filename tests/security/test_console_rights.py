"""Each console may what its operations use, in Postgres and in Redis, and nothing else."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest
from redis.exceptions import ResponseError
from sqlalchemy.exc import DBAPIError

from admin.api.callers import OPERATORS_SIDE, TENANTS_SIDE, ApiSide
from billing.unit_of_work.perform import FRAME, perform
from billing.unit_of_work.units import Stores, Terms
from core.access.processes import CONSOLE, PERSON_CODES, PORTAL, SIGN_IN_TRIES, ProcessKind
from core.access.tables import PEOPLE, TABLES
from core.configuration.settings import Settings
from core.errors import Refused
from core.operations import STAFF, Operation, OperationKind, registered
from core.sql.database import Database
from tests.security.asked_operations import ask_for
from tests.security.database_roles import as_role
from tests.security.database_roles import roles as roles  # the fixture
from tests.security.rights_installation import (
    CLOCK,
    REFUSED,
    SeededInstallation,
    report_node,
    seeded_installation,
)
from tests.support.redis import Redis
from tests.support.users import client_of, make_user, url_of

SIDES = [
    pytest.param(OPERATORS_SIDE, CONSOLE, id="operators"),
    pytest.param(TENANTS_SIDE, PORTAL, id="tenants"),
]
# What a console may beside what its operations use, and what for.
PAGES = {  # the usage API, and the operators' pages
    CONSOLE: "recon_item recon_mark refusal_mark noisy_finding engine_hour ended_hour period_commitment",
    PORTAL: "gpu_price model_version period_commitment charge",
}
SIGN_IN_KEYS = {PERSON_CODES, SIGN_IN_TRIES}
STATUS_KEYS = {  # read for the operators' pages
    *("P:dropped", "P:ended_hours", "P:engine_hours", "P:ready", "P:ready_open", "P:replayed", "P:reserves"),
    *("P:sweeper", "P:trial:", "P:trials:", "P:verdict:", "T:cancel:", "I:figures:"),
}
LOCKED = {"tenant"}  # members' operations lock their tenant's row, and change nothing of it
DONE = ("workers.drain", "requests.cancel", "keys.revoke", "users.close")


def served(side: ApiSide) -> list[Operation]:
    """Operations of a side."""
    return [each for each in registered().values() if side.serves(each)]


@pytest.mark.parametrize(("side", "process"), SIDES)
def test_tables_are_those_that_operations_use(side: ApiSide, process: ProcessKind) -> None:
    """Of all operations that the side serves, what performs them and signs people in, and its pages."""
    operations, may = served(side), TABLES[process]
    used = [each.uses for each in operations]
    writes = set(" ".join([*(each.writes for each in used), FRAME.writes, PEOPLE]).split())
    reads = set(" ".join(each.reads for each in used).split()) - writes
    assert not (set(may.writes.split()) & set(may.locks.split()))
    assert {*may.writes.split(), *may.locks.split()} - set(PAGES[process].split()) == writes
    given = {*may.reads.split(), *may.columns, *may.writes.split()} - writes
    assert reads <= given
    assert given - reads <= set(PAGES[process].split())
    assert set(may.locks.split()) <= LOCKED


@pytest.mark.parametrize(("side", "process"), SIDES)
def test_keys_and_channels_are_those_that_operations_use(side: ApiSide, process: ProcessKind) -> None:
    """What looks name is read, what changes and orders name is written or published."""
    looks = [each for each in served(side) if each.kind is OperationKind.LOOK]
    writes = {key for each in served(side) if each.writes for key in each.uses.keys}
    writes |= {CLOCK, *FRAME.keys, *SIGN_IN_KEYS}
    reads = {key for each in looks for key in each.uses.keys} - writes
    assert {*process.writes, *process.listens} == writes
    assert reads <= set(process.reads)
    extra = set(process.reads) - reads - writes
    assert extra <= (STATUS_KEYS if side.staff else set())


@asynccontextmanager
async def under_rights(
    url: str, redis: Redis, redis_url: str, settings: Settings, process: ProcessKind
) -> AsyncGenerator[tuple[SeededInstallation, Stores]]:
    """A seeded installation, and its stores as a console's process has them."""
    owner, database = Database(url), Database(as_role(url, process))
    try:
        made = await seeded_installation(Stores(settings, owner, lambda: redis))
        async with client_of(redis, redis_url, process) as client:
            yield made, Stores(settings, database, lambda: client)
    finally:
        await database.close()
        await owner.close()


async def answered(
    made: SeededInstallation, stores: Stores, declared: Operation, staff: bool, dry_run: bool
) -> bool:
    """Whether somebody of that side is answered."""
    (who,) = [each for each in made.actors(declared) if (each.role in STAFF) == staff]
    terms = Terms("ticket 7", dry_run)
    try:
        done = await perform(stores, who, declared, ask_for(declared, made.asked(declared)), terms)
    except Refused as refused:
        print(declared.name, refused.refusal.message)
        return False
    assert done.untold is None
    return True


@pytest.mark.postgres
@pytest.mark.parametrize(("side", "process"), SIDES)
async def test_operations_run_under_their_consoles_rights(
    roles: str, redis: Redis, redis_url: str, settings: Settings, side: ApiSide, process: ProcessKind
) -> None:
    """Each of a side is tried in a transaction that is rolled back, and some are done."""
    async with under_rights(roles, redis, redis_url, settings, process) as (made, stores):
        for each in served(side):
            await report_node(made.stores)
            done = await answered(made, stores, each, side.staff, dry_run=each.writes)
            assert done or each.name in REFUSED, each.name
        for each in served(side):
            if each.name in DONE:
                await report_node(made.stores)
                assert await answered(made, stores, each, side.staff, dry_run=False), each.name


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["plans.create", "wallets.grant", "tenants.close", "pools.create"])
async def test_the_database_refuses_members_console_what_is_staffs(
    roles: str, redis: Redis, redis_url: str, settings: Settings, name: str
) -> None:
    """Also where somebody made its process believe that an owner asks."""
    async with under_rights(roles, redis, redis_url, settings, PORTAL) as (made, stores):
        with pytest.raises(DBAPIError, match="permission denied"):
            await answered(made, stores, registered()[name], True, dry_run=False)


async def test_redis_refuses_members_console_what_is_staffs(
    settings: Settings, sqlite: Database, redis: Redis, redis_url: str
) -> None:
    """Workers are none of their affair."""
    made = await seeded_installation(Stores(settings, sqlite, lambda: redis))
    client = Redis.from_url(url_of(redis_url, await make_user(redis, PORTAL)))
    stores = Stores(settings, sqlite, lambda: client)
    with pytest.raises(ResponseError, match="No permissions"):
        await answered(made, stores, registered()["workers.drain"], True, dry_run=False)
    await client.aclose()
