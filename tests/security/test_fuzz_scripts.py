"""What a taken-over worker may do to Redis: the short form of `chaos bench fuzz-scripts`."""

import secrets

from chaos.bench.fuzz.plants import TYPES
from chaos.bench.fuzz.scripts import ScriptRun, fuzz_scripts_of, fuzzing_worker, scripts_of_workers
from chaos.bench.fuzz.sweeps import FuzzedSite, with_tenants
from core.access.processes import WORKER
from core.configuration.settings import Settings
from core.sql.database import Database
from scripts.lua import load_scripts
from tests.support.redis import Redis

INPUTS, BATCH = 100, 1_000


async def test_nothing_that_a_worker_sends_or_plants_holds_up_redis_or_a_sweep(
    settings: Settings, sqlite: Database, redis: Redis, redis_url: str
):
    """No script is BUSY or takes 50 ms with keys of 10,000 members, no sweep ends in a traceback, what is due
    is ended, and a neighbour is served, whatever a worker's user calls and plants."""
    await with_tenants(sqlite)
    run = ScriptRun(secrets.token_hex(4), INPUTS, BATCH)
    async with fuzzing_worker(redis, redis_url) as worker:
        found = await fuzz_scripts_of(FuzzedSite(settings, redis, sqlite), worker, scripts_of_workers(), run)
    assert not found.wrong, f"seed {run.seed}: {found.wrong}"
    assert found.inputs == INPUTS * len(scripts_of_workers())
    assert found.answered > found.inputs // 4, f"seed {run.seed}: nearly everything was refused"


def test_every_script_and_every_kind_of_key_is_tried():
    """A new script is called, a new kind of key that a worker may write is planted."""
    assert {script.sha for script in scripts_of_workers()} == {script.sha for script in load_scripts()}
    assert TYPES.keys() == set(WORKER.writes)
