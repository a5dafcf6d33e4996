"""Anything in any header, query, path and body of every route: the short form of `chaos bench fuzz`."""

import gc
import secrets

import pytest

from chaos.bench.fuzz import targets
from chaos.bench.fuzz.holds import watched_holds
from core.configuration.settings import Settings
from core.observability.log_lines import LINE_BYTES_MAX
from core.sql.database import Database
from tests.support.redis import Redis

INPUTS = 25
HELD_SECONDS_MAX = 0.05


@pytest.mark.parametrize("process", ["gateway", "console"])
async def test_no_input_breaks_a_route_or_holds_the_loop(
    process: str, settings: Settings, sqlite: Database, redis: Redis
):
    """No 5xx, no log line over 2 KB or with a key, and no callback of 50 ms, whatever strangers send."""
    seed = secrets.token_hex(4)
    async with targets.opened(process, settings, sqlite, redis) as target:
        with targets.heard_logs(settings, target.secrets) as logs:
            await targets.warm(target, seed)
            gc.collect()
            found = targets.FuzzFindings()
            with watched_holds() as holds:
                for route in target.routes:
                    await targets.fuzz(target, route, seed, INPUTS, holds, found)
    shown = f"seed {seed}"
    assert not found.broken, f"{shown}: {found.broken[0]}"
    assert found.statuses.keys() & {200, 101}, f"{shown}: nothing got through: {found.statuses}"
    assert holds.longest_seconds < HELD_SECONDS_MAX, f"{shown}: held {holds.during[-1]}"
    for log in logs:
        assert len(log.longest.encode()) <= LINE_BYTES_MAX, f"{shown}: {log.longest[:300]}"
        assert not log.at_error, f"{shown}: {log.at_error[0]}"
        assert not log.told, f"{shown}: a secret in a line"


async def test_one_run_opens_both_processes(settings: Settings, sqlite: Database, redis: Redis):
    """As the command does: on one database."""
    async with (
        targets.opened("gateway", settings, sqlite, redis) as gateway,
        targets.opened("console", settings, sqlite, redis) as console,
    ):
        assert await gateway.sign_in()
        assert await console.sign_in()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/me", 200),
        ("/v1/login", 405),
        ("/web/%00", 404),
        ("/web/..%2f..%2fmain.py", 404),
        ("/healthz/", 404),
    ],
)
async def test_a_raw_request_is_answered(
    path: str, status: int, settings: Settings, sqlite: Database, redis: Redis
):
    """What the fuzzer sends through reaches the routes, so its silence means something."""
    async with targets.opened("gateway", settings, sqlite, redis) as target:
        head = f"GET {path} HTTP/1.1\r\nhost: 127.0.0.1:8080\r\nconnection: close\r\n\r\n"
        line = await target.served.ask([head.encode()], "127.0.0.1", whole=True)
        assert targets.status(line) == status
