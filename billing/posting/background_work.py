"""Runs what lives in the biller process beside billing: its failures are its own, and it holds up no stop."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from core.observability.error_facts import error_facts
from core.observability.telemetry import logger
from core.tasks import run_until

log = logger(__name__)

RETRY_SECONDS = 10.0
STOP_SECONDS_MAX = 2.0  # a comparison of large books takes minutes


async def run_beside(
    operation: str, run: Callable[[], Coroutine[Any, Any, None]], stop: asyncio.Event
) -> None:
    """Run a task until `stop`; then it has STOP_SECONDS_MAX, and is cancelled: what it writes is whole at any
    moment, as a kill could come too. A failure is logged, and the task starts again after a while."""
    while not stop.is_set():
        try:
            await run_until(stop, run(), STOP_SECONDS_MAX)
            return
        except Exception as error:  # noqa: BLE001
            log.error("biller.task_failed", operation=operation, **error_facts(error))
            await run_until(stop, asyncio.sleep(RETRY_SECONDS), 0.0)
