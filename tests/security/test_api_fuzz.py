"""Every route of both sides of the API, called as its document says and as it forbids: the short form of
`chaos bench api-fuzz`."""

import secrets

import pytest

from admin.api.callers import SIDES
from chaos.bench.fuzz.api import ApiFindings, fuzz_api
from chaos.bench.fuzz.api_cases import api_routes
from chaos.bench.fuzz.api_targets import ApiTarget
from chaos.bench.fuzz.targets import heard_logs
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.support.redis import Redis

EXAMPLES = 20
PARTS = 3


@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("side", SIDES)
async def test_no_call_breaks_a_route_or_is_answered_as_nobody_said(
    side: str, part: int, settings: Settings, sqlite: Database, redis: Redis
) -> None:
    """No 5xx, and no status, content type or body but those of /openapi.json, whatever is called."""
    begin, found, target = secrets.token_hex(4), ApiFindings(), ApiTarget(settings, sqlite, redis)
    with heard_logs(settings, []) as logs:
        for route in api_routes(await target.document(side))[part::PARTS]:
            await fuzz_api(target, side, route, EXAMPLES, begin, found)
    shown = f"seed {begin}"
    assert not found.broken, f"{shown}: {found.broken[0]}"
    assert not found.undescribed, f"{shown}: {found.undescribed[0]}"
    assert found.statuses[200] > found.calls / 10, f"{shown}: little got through: {found.statuses}"
    assert not (at_error := [line for log in logs for line in log.at_error]), f"{shown}: {at_error[0]}"
