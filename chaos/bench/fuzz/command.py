"""`python -m chaos bench fuzz`: anything in any header, query, path and body of every route, of gateway and
console, in this process: what breaks, what is logged, and how long the event loop is held."""

import asyncio
import gc
import os
import tempfile
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path

import click
from rich.markup import escape

from chaos.bench.fuzz import targets
from chaos.bench.fuzz.holds import Holds, watched_holds
from chaos.figures.figures import Figure, json_option, progress, show
from core.configuration.settings import Settings
from core.observability.log_lines import LINE_BYTES_MAX
from core.redis.client import connect
from core.runtime.embedded import EmbeddedValkey, ensure_home
from core.sql.database import Database, migrate

SHOWN = 5
HOLD_MS_MAX = 50


@click.command()
@click.option("--inputs", default=2_000, show_default=True, type=click.IntRange(1), help="For each route.")
@click.option("--seed", help="Repeats a run; by default a new one, which is printed.")
@click.option("--route", "only", help="Only routes with this in their path.")
@json_option
def fuzz(inputs: int, seed: str | None, only: str | None, as_json: bool) -> None:
    """Fuzz every HTTP route and the upgrade of a gateway and a console: none may answer 5xx, none may hold
    the event loop or write a long log line."""
    chosen = seed or os.urandom(4).hex()
    progress(f"seed {chosen}")
    with tempfile.TemporaryDirectory(prefix="parley-fuzz-") as home:
        figures, facts = asyncio.run(_run(Path(home), chosen, inputs, only))
    show(f"fuzz, seed {chosen}, {inputs} inputs a route", figures, as_json, facts)
    raise SystemExit(0 if all(figure.reached is not False for figure in figures) else 1)


async def _run(home: Path, seed: str, count: int, only: str | None) -> tuple[list[Figure], dict[str, object]]:
    settings = Settings(home=home)
    ensure_home(settings)
    async with AsyncExitStack() as stack:
        valkey = EmbeddedValkey(settings)
        await valkey.start()
        stack.push_async_callback(valkey.stop)
        await migrate(settings.database_endpoint)
        redis, db = connect(settings), Database(settings.database_endpoint)
        stack.push_async_callback(redis.aclose)
        stack.push_async_callback(db.close)
        opened = [
            (name, await stack.enter_async_context(targets.opened(name, settings, db, redis)))
            for name in ("gateway", "console")
        ]
        secrets: list[str] = []
        logs = stack.enter_context(targets.heard_logs(settings, secrets))
        for _, target in opened:
            target.secrets = secrets
            await targets.warm(target, seed)
        gc.collect()
        gc.freeze()
        holds = stack.enter_context(watched_holds())
        found, routes = targets.FuzzFindings(), 0
        for name, target in opened:
            for route in target.routes:
                if only is None or only in route.path:
                    routes += 1
                    progress(f"{name} {route.method} {route.path}")
                    await targets.fuzz(target, route, seed, count, holds, found)
    for each in [*found.broken[:SHOWN], *(line for log in logs for line in log.at_error[:SHOWN])]:
        progress(escape(each))
    for each in holds.during[-SHOWN:]:
        progress(escape(f"held {each}"))
    figures = _figures(routes, found, logs, holds)
    return figures, {"statuses": {str(code): n for code, n in sorted(found.statuses.items())}, "seed": seed}


def _figures(
    routes: int, found: targets.FuzzFindings, logs: Sequence[targets.BoundedLog], holds: Holds
) -> list[Figure]:
    """Of all that was sent, logged and held."""
    longest = max((log.longest for log in logs), key=lambda line: len(line.encode(errors="replace")))
    progress(escape(f"the longest line: {longest[:200]}"))
    return [
        Figure("routes", routes, ""),
        Figure("inputs", found.inputs, ""),
        Figure("answers of 5xx", len(found.broken), "", most=0),
        Figure("errors logged", sum(len(log.at_error) for log in logs), "", most=0),
        Figure(
            "longest hold of the loop, CPU of its thread",
            holds.longest_seconds * 1000,
            "ms",
            most=HOLD_MS_MAX,
        ),
        Figure("log lines", sum(log.lines for log in logs), ""),
        Figure("longest log line", len(longest.encode(errors="replace")), "bytes", most=LINE_BYTES_MAX),
        Figure("log lines with a key or a cookie", sum(len(log.told) for log in logs), "", most=0),
        Figure("connections ended without an answer", found.unanswered, ""),
    ]
