"""A turn from its socket to the ledger, with all that is said of it beside the answer: JSON logs, spans and
metrics of gateway, worker, biller and console."""

import json
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import pairwise
from typing import Any

import httpx
import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.trace import TraceFlags

from admin.console import Console
from billing.tables.tenants import UsageRow
from core.observability.telemetry import prometheus_page
from engine.api import RequestInput, input_decoder
from engine.queue import redis_keys
from tests.billing.posting.billers import a_biller, until_posted
from tests.engine.workers import paused_at
from tests.security.sinks import Sinks, spans
from tests.server.conftest import gateway as gateway
from tests.server.site import RawPeer, Site
from tests.support.patience import wait_until
from tests.support.staff import open_link, staff_code

PROMPT, ANSWER, WRONG = "canary-prompt-71", "canary-answer-72", "canary-wrong-73"


@dataclass
class Flow:
    """What was said by whom, and what may be in no sink."""

    id: str = ""
    tenant: str = ""
    carried: RequestInput = field(init=False)
    booked: UsageRow = field(init=False)
    secrets: list[str] = field(default_factory=list[str])
    lines: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])

    def of(self, event: str) -> list[dict[str, Any]]:
        """The log's lines of one event."""
        return [line for line in self.lines if line["event"] == event]


@asynccontextmanager
async def _signed_in(site: Site, flow: Flow) -> AsyncGenerator[httpx.AsyncClient]:
    """An operator's browser at the console."""
    code = await staff_code(site.settings, site.database)
    transport = httpx.ASGITransport(app=Console(site.settings, site.redis, site.database).app())
    async with httpx.AsyncClient(transport=transport, base_url="http://console.localhost") as browser:
        assert (await open_link(browser, code)).is_success
        flow.secrets += [code, *browser.cookies.values()]
        yield browser


async def _wrong(site: Site, peer: RawPeer) -> None:
    """What is refused quotes nothing either."""
    await peer.socket.send('{"t":"send","id":"canary-id","content":"canary-prompt-71","options":{"x":1}}')
    await peer.socket.send('canary-prompt-71{"')
    await peer.send(PROMPT, model=f"{WRONG}-model")
    for _ in range(3):
        await peer.hear("error")
    async with site.open() as stranger:
        await stranger.tell("hello", v=1, token=f"{site.key[:-4]}{WRONG}")
        await stranger.closed()


async def _ticket(site: Site, flow: Flow) -> str:
    async with httpx.AsyncClient() as client:
        headers = {"authorization": f"Bearer {site.key}"}
        reply = await client.post(f"{site.url}/v1/tickets", headers=headers, json={"user": "ann"})
    flow.secrets.append(reply.json()["ticket"])
    return flow.secrets[-1]


async def _turn(site: Site, flow: Flow) -> None:
    """Asked with a ticket; its worker dies in mid-answer and another goes on; it is resumed and read."""
    async with site.welcomed(await _ticket(site, flow)) as peer:
        async with site.crew.worker(paused_at(4, ANSWER)) as dying:
            flow.id = await peer.send(PROMPT, conversation="01890000-0000-7000-8000-000000000000")
            await peer.hear("accepted")
            asked = await site.redis.get(redis_keys.request_input(site.crew.pool, site.tenant, flow.id))
            assert isinstance(asked, bytes)
            flow.carried = input_decoder.decode(asked)
        await site.crew.lose(dying.name)
        flow.secrets.append(peer.welcome["resume_token"])
        await _wrong(site, peer)
    async with site.answering(ANSWER):
        reads = {"token": peer.welcome["resume_token"], "requests": [{"id": flow.id, "epoch": 1, "o": 0}]}
        async with site.welcomed(await _ticket(site, flow), resume=reads) as peer:
            flow.secrets.append(peer.welcome["resume_token"])
            await peer.hear("end")
        await site.crew_ended(flow.id)


@pytest.fixture
async def flow(gateway: Site, sinks: Sinks) -> Flow:
    """The turn is over, billed and looked at."""
    flow = Flow(tenant=gateway.tenant, secrets=[gateway.key, PROMPT, ANSWER, WRONG])
    await _turn(gateway, flow)
    async with a_biller(gateway.database, gateway.redis, gateway.settings):
        (flow.booked,) = await until_posted(gateway.database, 1, gateway.tenant)
    async with _signed_in(gateway, flow) as browser:
        for path in ("/api/status", "/api/books"):
            assert (await browser.get(path)).status_code == 200, path
    await wait_until(lambda: sum('"event": "connection.closed"' in line for line in sinks.lines) == 2)
    flow.lines = [json.loads(line) for line in sinks.lines]
    return flow


async def test_nothing_that_is_said_or_secret_is_in_any_sink(flow: Flow, sinks: Sinks):
    """INV-15: Prompt, answer, key, tickets, resume tokens, an operator's link, and the cookies of their
    session and of their browser."""
    assert len(flow.secrets) == len(set(flow.secrets)) == 11
    everything = sinks.everything
    for each in ("parley_sends_total", "send.handle", flow.id, flow.tenant):
        assert each in everything, "a sink says nothing"
    for secret in flow.secrets:
        assert secret not in everything
    assert "canary" not in everything
    metrics = prometheus_page().decode()
    for id in (flow.id, flow.tenant, *(line["key"] for line in flow.of("send.handled"))):
        assert id not in metrics, "labels are enums"


async def test_every_line_is_json_that_says_when_what_and_whose(flow: Flow):
    """Event, level, time and process in each; request, connection, session and tenant in those of theirs."""
    for line in flow.lines:
        assert re.fullmatch(r"[a-z][a-z_. -]+", line["event"]), line
        assert line["level"] in ("info", "warning"), line
        assert datetime.fromisoformat(line["timestamp"]).tzinfo == UTC
        assert line["service"] == "test"
    (sent, *_), (ended,) = flow.of("send.handled"), flow.of("request.ended")
    connections = flow.of("connection.closed")
    assert (sent["request"], sent["tenant"], sent["outcome"]) == (flow.id, flow.tenant, "accepted")
    assert (ended["id"], ended["tenant"], ended["reason"], ended["claims"]) == (
        flow.id,
        flow.tenant,
        "stop",
        2,
    )
    assert [line["tenant"] for line in connections] == [flow.tenant] * 2
    assert len({line["connection"] for line in connections}) == 2
    assert len({line["session"] for line in connections}) == 1
    assert [line["turns"] for line in connections] == [3, 0]
    assert [line["outcome"] for line in flow.of("send.handled")[1:]] == ["bad_request", "unknown_model"]
    assert [line["events"] for line in flow.of("biller.posted")] == [1]


def _named(of: ReadableSpan) -> dict[str, ReadableSpan]:
    """The spans right under one, by their names."""
    assert of.context is not None
    below = (span for span in spans.get_finished_spans() if span.parent is not None)
    return {span.name: span for span in below if span.parent and span.parent.span_id == of.context.span_id}


async def test_a_turn_is_one_trace_whose_last_span_goes_along_with_the_request(flow: Flow):
    """`send.handle` with `send.render`, `send.admit` and `send.enqueue` in it, one after the other; the
    request carries the third's id to its worker, and its books name the trace. What is refused says why by
    its code, in its own trace."""
    taken, *refused = [span for span in spans.get_finished_spans() if span.name == "send.handle"]
    assert [span.parent for span in (taken, *refused)] == [None] * 3
    steps = _named(taken)
    assert list(steps) == ["send.render", "send.admit", "send.enqueue"]
    assert all((a.end_time or 0) <= (b.start_time or 0) for a, b in pairwise(steps.values()))
    contexts = [span.context for span in (taken, *steps.values())]
    assert len({context.trace_id for context in contexts if context}) == 1
    enqueue = contexts[-1]
    assert enqueue is not None
    carried, flags = flow.carried.trace.rsplit("-", 1)
    assert carried == f"00-{enqueue.trace_id:032x}-{enqueue.span_id:016x}"
    assert int(flags, 16) & TraceFlags.SAMPLED
    assert (flow.booked.trace_id, flow.booked.priority_class) == (f"{enqueue.trace_id:032x}", "interactive")
    assert [dict(span.attributes or {}) for span in (taken, *steps.values())] == [{}] * 4
    assert [dict(span.attributes or {}) for span in refused] == [
        {"error.type": "Refused bad_request"},
        {"error.type": "Refused unknown_model"},
    ]
    assert len({span.context.trace_id for span in (taken, *refused) if span.context}) == 3
