"""A gateway whose machine's clock is wrong: what it takes is answered, in time."""

import time

import pytest

from tests.server.site import Site

HOUR_SECONDS = 3_600


@pytest.mark.parametrize("seconds", [HOUR_SECONDS, -HOUR_SECONDS, 24 * HOUR_SECONDS, -24 * HOUR_SECONDS])
async def test_a_gateways_clock_may_jump(gateway: Site, monkeypatch: pytest.MonkeyPatch, seconds: int):
    """Its clients go by the time that it tells them; deadlines go by the server's, whatever that is."""
    true_ns, true = time.time_ns, time.time
    async with gateway.answering("Still here."):
        monkeypatch.setattr(time, "time_ns", lambda: true_ns() + seconds * 1_000_000_000)
        monkeypatch.setattr(time, "time", lambda: true() + seconds)
        async with gateway.welcomed() as peer:
            id = await peer.send(options={"deadline_ms": 30_000})
            accepted = await peer.hear("accepted", id=id)
            end = await peer.hear("end", g=accepted["g"])
    assert end["reason"] == "stop"
    assert 0 <= end["timing"]["total_ms"] < 30_000
