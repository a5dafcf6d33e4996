"""The gateway is held to every case under gateway/ (README.md).

Cases that mostly wait are played beside the others from the first test on; their tests look at how they went.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from itertools import groupby
from pathlib import Path

import pytest
import pytest_asyncio

from tests.conformance.cases import Case, cases_in
from tests.conformance.ledger import BrokenPromise
from tests.conformance.runner import play
from tests.conformance.sample import over_a_socket
from tests.conformance.stage import StagedHouses
from tests.support import leaks
from tests.support.redis import Redis

CASES = cases_in(Path(__file__).parent / "gateway")
SHORT = over_a_socket(CASES)
pytestmark = pytest.mark.asyncio(loop_scope="module")


class Players:
    """Plays cases: the waiting ones in lanes beside the others, each lane on gateways of its own."""

    def __init__(self, houses: Callable[[], StagedHouses], waiting: Sequence[Case]) -> None:
        self._houses = houses
        self._main = houses()
        self._outcomes = {case.id: asyncio.Future[str]() for case in waiting}
        lanes = groupby(sorted(waiting, key=lambda case: case.lane), key=lambda case: case.lane)
        self._lanes = [asyncio.create_task(self._lane(list(cases))) for _, cases in lanes]

    async def outcome(self, case: Case) -> str:
        """Which promise the gateway broke in a case, empty for none."""
        if case.lane:
            return await self._outcomes[case.id]
        return await _outcome(case, self._main)

    async def aclose(self) -> None:
        """Stop all gateways."""
        for lane in self._lanes:
            lane.cancel()
        await asyncio.gather(*self._lanes, return_exceptions=True)
        await self._main.aclose()

    async def _lane(self, cases: Sequence[Case]) -> None:
        async with aclosing(self._houses()) as houses:
            for case in cases:
                try:
                    self._outcomes[case.id].set_result(await _outcome(case, houses))
                except Exception as error:  # noqa: BLE001  (its test raises it)
                    self._outcomes[case.id].set_exception(error)


async def _outcome(case: Case, houses: StagedHouses) -> str:
    try:
        await play(case, houses)
    except BrokenPromise as broken:
        return str(broken)
    return ""


@pytest_asyncio.fixture(loop_scope="module", scope="module")
async def players(
    request: pytest.FixtureRequest, valkey_url: str, sqlite_template: Path
) -> AsyncGenerator[Players]:
    """Those who play the cases that this run has chosen."""
    redis = Redis.from_url(valkey_url)
    chosen = {item.name for item in request.session.items}
    waiting = [case for case in CASES if case.lane and any(f"[{case.id}]" in name for name in chosen)]
    players = Players(lambda: StagedHouses(redis, valkey_url, sqlite_template), waiting)
    with request.config.stash[leaks.LEAKS].shared():
        async with aclosing(players):
            yield players
    await redis.aclose()


def _parameter(case: Case) -> object:
    marks: list[pytest.MarkDecorator] = []
    if case.xfail:
        marks.append(pytest.mark.xfail(reason=case.xfail, strict=True))
    if case not in SHORT:
        marks.append(pytest.mark.long)
    return pytest.param(case, id=case.id, marks=marks)


@pytest.mark.parametrize("case", [_parameter(case) for case in sorted(CASES, key=lambda case: case.lane)])
async def test_the_gateway_keeps_the_protocol(case: Case, players: Players):
    """One case, in one encoding."""
    problem = await players.outcome(case)
    if problem:
        pytest.fail(problem, pytrace=False)
