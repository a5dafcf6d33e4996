"""The gateway is held to every case under gateway/ (README.md)."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
import pytest_asyncio
from redis.asyncio import Redis

from tests.conformance.cases import Case, cases_in
from tests.conformance.ledger import BrokenPromise
from tests.conformance.runner import play
from tests.conformance.stage import Houses

CASES = cases_in(Path(__file__).parent / "gateway")
pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def houses(redis_url: str, sqlite_template: Path) -> AsyncGenerator[Houses]:
    """The gateways that the cases share."""
    redis = Redis.from_url(redis_url)
    await redis.flushall()
    built = Houses(redis, redis_url, sqlite_template)
    yield built
    await built.close()
    await redis.aclose()


def _parameter(case: Case) -> object:
    marks = [pytest.mark.xfail(reason=case.xfail, strict=True)] if case.xfail else []
    return pytest.param(case, id=case.id, marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
async def test_the_gateway_keeps_the_protocol(case: Case, houses: Houses):
    """One case, in one encoding."""
    problem = ""
    try:
        await play(case, houses)
    except BrokenPromise as broken:
        problem = str(broken)
    if problem:
        pytest.fail(problem, pytrace=False)
