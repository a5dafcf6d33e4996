"""Runs of one process: operations that take long go on behind their call.

A call is answered once its audit row is committed, and its run with it; until then it is refused like any
other. What comes after stands in the run, for whichever console is asked.
"""

import asyncio
from contextlib import suppress

import msgspec
from sqlalchemy.exc import SQLAlchemyError

from billing.unit_of_work.actors import OperationActor
from billing.unit_of_work.perform import Performed, perform
from billing.unit_of_work.progress import BegunRun
from billing.unit_of_work.run_rows import (
    BEAT_SECONDS,
    RunProblem,
    RunState,
    beat,
    end_run,
    is_to_stop,
    write_run,
)
from billing.unit_of_work.units import Stores, Terms
from core.clock import monotonic
from core.errors import Refusal, Refused
from core.observability.telemetry import logger
from core.operations import Operation
from core.redis import redis_errors

HERE_MAX = 16
LOOK_SECONDS = 1.0
DRAIN_SECONDS = 5.0
END_TRIES = 20
STORE_ERRORS = (redis_errors.RedisError, SQLAlchemyError, OSError)

log = logger(__name__)


class LongRuns:
    """The runs that this process carries out. `patience_seconds`: how long it lets them end when it is to end
    itself, and once more when they were asked to stop."""

    def __init__(self, stores: Stores, patience_seconds: float = DRAIN_SECONDS) -> None:
        self._stores = stores
        self._patience_seconds = patience_seconds
        self._under_way: dict[asyncio.Task[Performed], BegunRun] = {}
        self._ending = False

    async def perform(
        self, who: OperationActor, operation: Operation, ask: msgspec.Struct, terms: Terms
    ) -> Performed:
        """Perform an operation; where it takes long, return its run once it is begun. Raises Refused as
        `perform`, and where too many run here."""
        if not operation.long or terms.dry_run:
            return await perform(self._stores, who, operation, ask, terms)
        self._check_room()
        run, begun = BegunRun.of(who, operation, write_run), asyncio.Event()
        task = asyncio.create_task(self._carry_out(run, who, ask, terms, begun))
        self._under_way[task] = run
        task.add_done_callback(self._forget)
        waiting = asyncio.create_task(begun.wait())
        try:
            await asyncio.wait((task, waiting), return_when=asyncio.FIRST_COMPLETED)
        finally:
            waiting.cancel()
        return Performed(run.started, run=run.id) if run.begun else await task

    async def drain(self) -> None:
        """Begin no more, and let those under way end; then ask them to stop, and at last break them off as
        interrupted."""
        self.end()
        await self._ended_soon()
        for run in self._under_way.values():
            run.progress.stop()
        await self._ended_soon()
        left = list(self._under_way)
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)

    def end(self) -> None:
        """Begin no more."""
        self._ending = True

    def _check_room(self) -> None:
        if self._ending:
            raise Refused(Refusal("overloaded", "this console is stopping", retry=True, after_ms=2000))
        if len(self._under_way) >= HERE_MAX:
            text = f"{HERE_MAX} runs are under way at this console: wait until one has ended"
            raise Refused(Refusal("overloaded", text, retry=True, after_ms=5000))

    def _forget(self, task: asyncio.Task[Performed]) -> None:
        del self._under_way[task]
        if not task.cancelled():
            task.exception()  # its caller has it, or is gone

    async def _ended_soon(self) -> None:
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=self._patience_seconds)

    async def _carry_out(
        self, run: BegunRun, who: OperationActor, ask: msgspec.Struct, terms: Terms, begun: asyncio.Event
    ) -> Performed:
        beating = asyncio.create_task(self._beat(run, begun))
        try:
            run.on_begun = begun.set
            done = await perform(self._stores, who, run.operation, ask, terms, run)
        except BaseException as error:
            await _cancelled(beating)
            if run.begun:
                await self._ended(run, *_ending_of(run, error))
            raise
        await _cancelled(beating)
        if run.begun:
            state = RunState.STOPPED if run.progress.heeded else RunState.DONE
            await self._ended(run, state, None, done.answer)
        return done

    async def _beat(self, run: BegunRun, begun: asyncio.Event) -> None:
        """Say every few seconds that the run lives, at once how far it is, and learn that it is to stop."""
        await begun.wait()
        steps, beaten = 0, monotonic()
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            with suppress(*STORE_ERRORS):  # until the database answers again
                async with self._stores.db.transaction() as session:
                    if run.progress.steps != steps or monotonic() - beaten >= BEAT_SECONDS:
                        steps, beaten = run.progress.steps, monotonic()
                        await beat(session, run)
                    if await is_to_stop(session, run):
                        run.progress.stop()

    async def _ended(
        self, run: BegunRun, state: RunState, why: RunProblem | None, answer: object = None
    ) -> None:
        """Write how a run ended; where the database does not answer for long, it reads as interrupted."""
        for _ in range(END_TRIES):
            try:
                async with self._stores.db.transaction() as session:
                    await end_run(session, run, state, answer, why)
            except STORE_ERRORS as error:
                log.warning("run.not_written", run=run.id, state=state, error=type(error).__name__)
                await asyncio.sleep(LOOK_SECONDS)
            else:
                return


async def _cancelled(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def _ending_of(run: BegunRun, error: BaseException) -> tuple[RunState, RunProblem]:
    """How a run ended that an error ended."""
    if isinstance(error, Refused):
        refusal = error.refusal
        return RunState.REFUSED, RunProblem(refusal.code, refusal.message, refusal.field)
    if isinstance(error, asyncio.CancelledError):
        return RunState.INTERRUPTED, RunProblem("interrupted", "its console stopped: do what is left again")
    log.error("run.failed", run=run.id, operation=run.operation.name, error=type(error).__name__)
    if isinstance(error, STORE_ERRORS):
        return RunState.FAILED, RunProblem("overloaded", "a store did not answer: repeat what is left")
    return RunState.FAILED, RunProblem("internal", f"this is our fault ({type(error).__name__})")
