"""SIGKILL of gateways under live streams: readers go on elsewhere, nothing is lost, repeated or run twice."""

import asyncio
import random
import signal
from contextlib import AsyncExitStack

import pytest

from tests.support.gateways import LetterEngine, RunningGateways
from tests.support.patience import wait_until
from tests.system.gateway_death import balanced, check_exactly_once, clients_of, finish, start

CLIENTS = 10
STREAMS_EACH = 10
TOKENS = 200
LONG = {"max_tokens": TOKENS, "min_tokens": TOKENS}
SHORT = {"max_tokens": 20, "min_tokens": 20}


async def test_all_streams_go_on_when_a_gateway_dies(pair: RunningGateways):
    """100 answers on 10 sockets; kill -9 of one of two gateways in the middle of all of them."""
    engine = LetterEngine(step_seconds=0.02)
    async with balanced(pair, engine) as balancer, AsyncExitStack() as stack:
        clients = await clients_of(stack, balancer.url, pair.site.key, CLIENTS)
        answers = await start(clients, STREAMS_EACH, LONG)
        reading = asyncio.create_task(finish(answers))
        await wait_until(lambda: min(len(answer.text) for answer in answers) > TOKENS // 5)
        pair.gateways[0].signal(signal.SIGKILL)
        ends = await reading
        assert {(end.reason, end.usage.output) for end in ends} == {("length", TOKENS)}
        assert sum(client.counters.resumed for client in clients) >= len(answers) // 4
        await check_exactly_once(pair, engine, clients, {answer.id: answer.text for answer in answers})
        assert {client.counters.gaps for client in clients} == {0}


async def test_both_gateways_may_die_in_turn(pair: RunningGateways):
    """The one that took over dies too; a third has started meanwhile."""
    engine = LetterEngine(step_seconds=0.03)
    async with balanced(pair, engine) as balancer, AsyncExitStack() as stack:
        clients = await clients_of(stack, balancer.url, pair.site.key, 4)
        answers = await start(clients, 5, LONG)
        reading = asyncio.create_task(finish(answers))
        for gateway in list(pair.gateways):
            await wait_until(lambda: min(len(answer.text) for answer in answers) > 0)
            gateway.signal(signal.SIGKILL)
            started = await pair.start()
            await wait_until(lambda port=started.port: port in balancer.ready)
        await reading
        await check_exactly_once(pair, engine, clients, {answer.id: answer.text for answer in answers})
        assert {client.counters.gaps for client in clients} == {0}


async def test_hellos_under_way_are_said_elsewhere(pair: RunningGateways):
    """A gateway dies while 40 clients say hello: all of them get in, and what they send is answered once."""
    engine = LetterEngine(step_seconds=0.001)
    async with balanced(pair, engine) as balancer, AsyncExitStack() as stack:
        opening = asyncio.create_task(clients_of(stack, balancer.url, pair.site.key, 40))
        await wait_until(lambda: sum(balancer.carried.values()) >= 10)
        pair.gateways[0].signal(signal.SIGKILL)
        clients = await opening
        answers = await start(clients, 1, SHORT)
        await finish(answers)
        await check_exactly_once(pair, engine, clients, {answer.id: answer.text for answer in answers})
        assert {client.counters.gaps for client in clients} == {0}


@pytest.mark.parametrize("stored", [False, True], ids=["stateless", "in a conversation"])
async def test_sends_under_way_run_once(pair: RunningGateways, stored: bool):
    """A gateway dies at a random moment of 60 sends not accepted yet: each is answered, none twice."""
    delay = random.uniform(0.0, 0.15)
    print(f"killed after {delay}")
    engine = LetterEngine(step_seconds=0.001)
    async with balanced(pair, engine) as balancer, AsyncExitStack() as stack:
        clients = await clients_of(stack, balancer.url, pair.site.key, CLIENTS)
        sends = [
            asyncio.create_task(
                client.send("now", options=SHORT, conversation=client.new_id() if stored else None)
            )
            for client in clients
            for _ in range(6)
        ]
        await asyncio.sleep(delay)
        pair.gateways[0].signal(signal.SIGKILL)
        answers = await asyncio.gather(*sends)
        await finish(answers)
        assert (
            sum(client.counters.resent for client in clients)
            + sum(client.counters.resumed for client in clients)
            > 0
        )
        await check_exactly_once(pair, engine, clients, {answer.id: answer.text for answer in answers})
        assert {client.counters.gaps for client in clients} == {0}
