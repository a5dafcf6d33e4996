"""`python -m chaos bench api-fuzz`: every route of the API's two sides, called as its document says and as it
forbids: nothing may answer 5xx, or what the document does not say."""

import asyncio
import contextlib
import os
from dataclasses import dataclass, field
from datetime import timedelta

import click
import httpx
from rich.markup import escape
from schemathesis.checks import load_all_checks, not_a_server_error
from schemathesis.core.failures import FailureGroup
from schemathesis.specs.openapi import checks

from admin.api.callers import SIDES
from chaos.bench.billing import billing_testbed
from chaos.bench.fuzz.api_cases import ApiCase, ApiRoute, api_cases, api_routes
from chaos.bench.fuzz.api_targets import ORIGIN, ApiReply, ApiTarget
from chaos.bench.fuzz.targets import heard_logs
from chaos.bench.seeded_books import opened
from chaos.figures.figures import Figure, json_option, progress, show
from core.redis.client import connect

SHOWN = 5
MOVED_TYPES = ("application/json", "application/problem+json")
CHECKS = [
    not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
]


@dataclass
class ApiFindings:
    """What was answered, and what is wrong with it."""

    calls: int = 0
    statuses: dict[int, int] = field(default_factory=dict[int, int])
    broken: list[str] = field(default_factory=list[str])
    undescribed: list[str] = field(default_factory=list[str])

    def judge(self, call: ApiCase, reply: ApiReply) -> None:
        """Note one answer."""
        self.calls += 1
        self.statuses[reply.status] = self.statuses.get(reply.status, 0) + 1
        shown = f"{reply.status}: {call.shown}: {reply.body[:400]!r}"
        if reply.status >= 500 or reply.status == 0:
            self.broken.append(shown)
        elif call.moved:
            if reply.headers.get("content-type") not in MOVED_TYPES:
                self.undescribed.append(shown)
        elif problems := _undescribed(call, reply):
            self.undescribed.append(f"{problems} {shown}")


def _undescribed(call: ApiCase, reply: ApiReply) -> str:
    """How the answer is not what the document says; empty where it is."""
    request = httpx.Request(call.method, ORIGIN)
    response = httpx.Response(reply.status, headers=dict(reply.headers), content=reply.body, request=request)
    response.elapsed = timedelta()  # schemathesis asks for it
    try:
        call.case.validate_response(response, checks=CHECKS)
    except FailureGroup as failed:
        return "; ".join(f"{each.title}: {each.message[:300]}" for each in failed.exceptions)
    return ""


async def fuzz_api(
    target: ApiTarget, side: str, route: ApiRoute, count: int, seed: str, found: ApiFindings
) -> None:
    """So many calls of a route, by somebody who may do most."""
    visitor, known = await target.visitor(side)
    for call in await asyncio.to_thread(lambda: list(api_cases(route, count, seed, known))):
        reply = await visitor.ask(call.method, call.target, call.body, call.headers)
        found.judge(call, reply)
        if reply.status == 401:  # it ended its own session
            visitor, _ = await target.visitor(side)


@click.command("api-fuzz")
@click.option("--examples", default=200, show_default=True, type=click.IntRange(1), help="For each route.")
@click.option("--seed", help="Repeats a run; by default a new one, which is printed.")
@click.option("--route", "only", default="", help="Only routes with this in their method and path.")
@click.option("--postgres", is_flag=True, help="On Postgres instead of SQLite.")
@json_option
def api_fuzz(examples: int, seed: str | None, only: str, postgres: bool, as_json: bool) -> None:
    """Call every route of both sides as the OpenAPI document says, and as it forbids."""
    chosen = seed or os.urandom(4).hex()
    progress(f"seed {chosen}")
    load_all_checks()
    routes, found, errors = asyncio.run(_run("postgres" if postgres else "sqlite", chosen, examples, only))
    for each in errors[:SHOWN]:
        progress(escape(each))
    figures = [
        Figure("routes", routes, ""),
        Figure("calls", found.calls, ""),
        Figure("done (200)", found.statuses.get(200, 0), "", least=1),
        Figure("answers of 5xx, or none", len(found.broken), "", most=0),
        Figure("answers that the document does not describe", len(found.undescribed), "", most=0),
        Figure("errors logged", len(errors), "", most=0),
    ]
    facts = {"statuses": {str(code): n for code, n in sorted(found.statuses.items())}, "seed": chosen}
    show(f"api-fuzz, seed {chosen}, {examples} examples a route", figures, as_json, facts)
    raise SystemExit(0 if all(figure.reached is not False for figure in figures) else 1)


async def _run(dialect: str, seed: str, count: int, only: str) -> tuple[int, ApiFindings, list[str]]:
    found, routes = ApiFindings(), 0
    async with (
        billing_testbed(dialect) as settings,
        opened(settings) as db,
        contextlib.aclosing(connect(settings)) as redis,
    ):
        with heard_logs(settings, []) as logs:
            target = ApiTarget(settings, db, redis)
            for side in SIDES:
                for route in api_routes(await target.document(side)):
                    if only in route.label:
                        routes += 1
                        progress(f"{side} {route.label}")
                        seen = len(found.broken), len(found.undescribed)
                        await fuzz_api(target, side, route, count, seed, found)
                        for each in found.broken[seen[0] :][:SHOWN] + found.undescribed[seen[1] :][:SHOWN]:
                            progress(escape(each))
    return routes, found, [line for log in logs for line in log.at_error]
