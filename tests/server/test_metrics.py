"""What a gateway process measures, as Prometheus reads it."""

import re
import signal

import httpx

from billing.api import set_policy
from core.configuration.settings import Settings
from core.redis.figure_minutes import read_figures
from core.sql.database import Database
from tests.engine.builders import FINGERPRINT
from tests.support.gateways import running_gateways
from tests.support.patience import soon, wait_until
from tests.support.redis import Redis

NAMES = (
    "parley_connections",
    "parley_sessions",
    "parley_in_flight_bytes",
    "parley_drain_remaining",
    "parley_ack_lag_events_bucket",
    "parley_send_window_shut_seconds_bucket",
    "parley_replayed_events_total",
    "parley_cursor_moves_total",
    "parley_resumes_total",
    "parley_frames_in_total",
    "parley_frames_out_total",
    "parley_bytes_out_bytes_total",
    "parley_sends_total",
    "parley_accept_seconds_bucket",
    "parley_log_catch_ups_total",
)


async def test_refusals_are_counted_by_code_scope_and_dimension(
    sqlite: Database, redis: Redis, settings: Settings
):
    """Those of limits in shadow mode apart. Whose limit it was is nobody's business."""
    async with running_gateways(settings, sqlite, redis, 1) as fleet:
        site = fleet.at(fleet.gateways[0])
        of = (site.database, site.redis, site.tenant)
        await set_policy(*of, scope="tenant", dimension="concurrency", limit=0, mode="shadow")
        await set_policy(*of, scope="user", dimension="requests_per_minute", limit=1)
        async with site.welcomed() as peer:
            for _ in range(2):
                await peer.send(metadata={"user": "ann"})
            assert (await peer.hear("error"))["scope"] == "user"
            async with httpx.AsyncClient() as client:
                page = (await client.get(fleet.gateways[0].metrics_url)).text
    counted = dict(re.findall(r"^(parley_limit_refusals\w*){([^}]*)} 1.0$", page, re.MULTILINE))
    refused, shadowed = (
        set(re.findall(r'(?:code|scope|dimension)="(\w+)"', counted[f"parley_limit_refusals{kind}_total"]))
        for kind in ("", "_shadow")
    )
    assert refused == {"rate_limited", "user", "requests_per_minute"}
    assert shadowed == {"insufficient_quota", "tenant", "concurrency"}
    assert "ann" not in page


async def test_the_page_says_what_happened_and_names_nobody(
    sqlite: Database, redis: Redis, settings: Settings
):
    """INV-15: labels are enums, never ids."""
    async with running_gateways(settings, sqlite, redis, 1, PARLEY_PAUSED_SECONDS="0.05") as fleet:
        site = fleet.at(fleet.gateways[0])
        async with site.answering("abc" * 50), site.welcomed(window={"events": 2}) as peer:
            id = await peer.send()
            g = (await peer.hear("accepted"))["g"]
            await peer.hear("event", k="paused")  # the window has shut, and text waits behind it
            await peer.tell("ack", a=[[g, 2]])
            await peer.hear("delta")
            await peer.tell("attach", id=id, o=1)
            await peer.hear("attached")

            async def whole() -> str:
                return await _page_of_all(fleet.gateways[0].metrics_url)

            page = await wait_until(whole)
    values = _values(page)
    assert (values["parley_connections"], values["parley_sessions"]) == ("1.0", "1.0")
    assert float(values["parley_cursor_moves_total"]) == 1
    assert id not in page
    assert site.tenant not in page


async def test_a_gateway_counts_the_ends_that_it_writes(sqlite: Database, redis: Redis, settings: Settings):
    """A request that is cancelled in line: on its page, and in the minute, at the latest as it ends."""
    async with running_gateways(settings, sqlite, redis, 1) as fleet:
        site, (gateway,) = fleet.at(fleet.gateways[0]), fleet.gateways
        await site.crew.queue.starting(FINGERPRINT)
        async with site.welcomed() as peer:
            id = await peer.send()
            await peer.hear("accepted")
            await peer.tell("cancel", id=id)
            await peer.hear("end")
        async with httpx.AsyncClient() as client:
            page = (await client.get(gateway.metrics_url)).text
        gateway.signal(signal.SIGTERM)
        await soon(gateway.process.wait())
        figures = await read_figures(redis, settings)
    assert 'parley_request_seconds_count{class="interactive",outcome="cancelled"} 1.0' in page
    assert sum(figures.ended({"cancelled"})) == figures.percentiles("queue_wait").count == 1


async def _page_of_all(url: str) -> str:
    """The page, once all of NAMES are on it: what is measured may come a moment later."""
    async with httpx.AsyncClient() as client:
        page = (await client.get(url)).text
    return page if set(NAMES) <= _values(page).keys() else ""


def _values(page: str) -> dict[str, str]:
    return dict(re.findall(r"^(parley_\w+)(?:{[^}]*})? (\S+)$", page, re.MULTILINE))
