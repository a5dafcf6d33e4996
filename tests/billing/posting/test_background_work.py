"""What runs beside billing: its failures are its own."""

import asyncio

import pytest

from billing.posting import biller


async def test_a_task_that_fails_is_begun_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    """It says so, and neither ends the biller nor stays away."""
    monkeypatch.setattr(biller, "BACKGROUND_RETRY_SECONDS", 0.0)
    stop = asyncio.Event()
    runs: list[int] = []

    async def run() -> None:
        runs.append(1)
        if len(runs) < 3:
            raise ValueError("a bug")

    await biller._beside("work", run, stop)  # pyright: ignore[reportPrivateUsage]
    assert len(runs) == 3
