"""Performs operations for commands: on this machine's stores, or over the API of another installation."""

import asyncio
import os
import stat
from collections.abc import AsyncGenerator, Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Protocol
from uuid import uuid4

import msgspec

from billing.cli.api_calls import (
    PROBLEM,
    ApiCall,
    answer_of_facts,
    answer_of_reply,
    call_of,
    checked_token,
    checked_url,
    refused_of_problem,
    version_of_tag,
    waits_of_reply,
)
from billing.unit_of_work.actors import local_actor
from billing.unit_of_work.perform import Performed, perform
from billing.unit_of_work.progress import ProgressEvent
from billing.unit_of_work.units import Stores, Terms
from core.api_address import ApiAddress
from core.configuration.settings import Settings
from core.errors import Refused, StartupError
from core.file_answer import FileAnswer
from core.files.private_files import OTHERS
from core.operations import Operation, operation_of
from core.sql.store_errors import redis_failure
from core.terminal.refused_text import refused_text

if TYPE_CHECKING:
    import httpx

Told = Callable[[ProgressEvent], None] | None
TRIES = 3
PAUSE_SECONDS = 0.5
PAUSE_SECONDS_MAX = 10.0
CONNECT_SECONDS, READ_SECONDS = 10.0, 120.0


class Performer(Protocol):
    """Performs operations as whoever runs the command."""

    async def perform(
        self, declared: Operation, ask: msgspec.Struct, terms: Terms, told: Told = None
    ) -> Performed:
        """Perform one. `told`: hears how far it is. Raises Refused, and StartupError where
        others were not told of it."""
        ...


@dataclass(frozen=True)
class LocalPerformer:
    """On this machine's stores."""

    stores: Stores

    async def perform(
        self, declared: Operation, ask: msgspec.Struct, terms: Terms, told: Told = None
    ) -> Performed:
        """As Performer."""
        done = await perform(self.stores, local_actor(), declared, ask, terms, told=told)
        check_announced(done, self.stores.settings)
        return done


def check_announced(done: Performed, settings: Settings) -> None:
    """Raise StartupError where others were not told of what is committed."""
    if isinstance(done.untold, Refused):
        raise StartupError(refused_text(done.untold.refusal)) from done.untold
    if done.untold is not None:
        why = redis_failure(done.untold, settings)
        raise StartupError(f"what is in the database is changed already, but {why}") from done.untold


@dataclass(frozen=True)
class ApiPerformer:
    """Over a console's API. A call is repeated under its key where its connection ends, so that it is done
    once."""

    url: str
    client: "httpx.AsyncClient"

    async def perform(
        self, declared: Operation, ask: msgspec.Struct, terms: Terms, told: Told = None
    ) -> Performed:
        """As Performer. Raises StartupError where the API cannot be reached, or answers something else."""
        call = call_of(declared, ask, terms)
        if declared.answers is FileAnswer:
            return Performed(await self._file(call))
        headers = {"idempotency-key": str(uuid4())} if declared.writes else {}
        if declared.edits and terms.version is not None:
            headers["if-match"] = f'"{terms.version}"'
        reply = await self._sent(call, headers)
        self._check(reply)
        if reply.status_code == 202 and declared.long:
            return await self._followed(declared, reply.headers.get("location", ""), told)
        if reply.status_code == 202:
            return Performed(waits_of_reply(reply.content), waits=True)
        said = reply.headers
        dry_run = said.get("x-parley-dry-run") == "true"
        return Performed(
            answer_of_reply(declared, reply.content, dry_run),
            dry_run=dry_run,
            version=version_of_tag(said.get("etag", "")),
            moved_nano=int(said.get("x-parley-moves", 0)),
            unasked_nano=int(said.get("x-parley-unasked", 0)),
            second_person=said.get("x-parley-second-person", ""),
        )

    async def _file(self, call: ApiCall) -> FileAnswer:
        """A file that is read as it comes."""
        import httpx

        url, query = f"{self.url}{call.path}", tuple(call.query)
        try:
            request = self.client.build_request(call.method, url, params=query, headers={"accept": "*/*"})
            reply = await self.client.send(request, stream=True)
            kind = reply.headers.get("content-type", "")
            if reply.status_code != 200 or not kind.startswith("text/"):
                await reply.aread()
                self._check(reply)
                raise StartupError(f"{self.url} does not answer as a console of Parley does")
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise StartupError(self._unreached(error, False)) from error
        return FileAnswer("reply.csv", kind, self._pieces(reply))

    async def _pieces(self, reply: "httpx.Response") -> AsyncGenerator[bytes]:
        import httpx

        try:
            async for piece in reply.aiter_bytes():
                yield piece
        except httpx.HTTPError as error:
            raise StartupError(f"{self.url} broke off: the file is not whole") from error
        finally:
            await reply.aclose()

    async def _followed(self, declared: Operation, location: str, told: Told) -> Performed:
        """The answer of what goes on as a run, once it has ended."""
        from billing.operations.runs import NameRun, RunFacts, show_run
        from billing.unit_of_work.run_rows import RunState

        ask, shown_ms = NameRun(run=location.rpartition("/")[2]), 0
        while True:
            run: RunFacts = (await self.perform(operation_of(show_run), ask, Terms())).answer
            for event in run.events:
                if told is not None and event.at_ms > shown_ms:
                    told(event)
                    shown_ms = event.at_ms
            if run.state is not RunState.RUNNING:
                break
            await asyncio.sleep(PAUSE_SECONDS)
        if run.answer is not None:
            return Performed(answer_of_facts(declared, run.answer))
        why = "" if run.problem is None else f": {run.problem.detail}"
        raise StartupError(f"it went on as run {run.run}, which is {run.state}{why}")

    async def _sent(self, call: ApiCall, headers: Mapping[str, str]) -> "httpx.Response":
        import httpx

        cut = False
        for left in reversed(range(TRIES)):
            pause = PAUSE_SECONDS
            try:
                reply = await self.client.request(
                    call.method,
                    f"{self.url}{call.path}",
                    params=tuple(call.query),
                    content=call.body,
                    headers=headers,
                )
            except (httpx.HTTPError, httpx.InvalidURL) as error:
                cut = cut or not isinstance(error, httpx.ConnectError | httpx.ConnectTimeout)
                if not left or not isinstance(error, httpx.TransportError):
                    raise StartupError(self._unreached(error, cut and call.body is not None)) from error
            else:
                after = reply.headers.get("retry-after", "")
                if not left or reply.status_code != 503 or not after.isdecimal():
                    return reply
                pause = min(float(after), PAUSE_SECONDS_MAX)
            await asyncio.sleep(pause)
        raise AssertionError("the last try returns or raises")

    def _unreached(self, error: Exception, unsure: bool) -> str:
        why = f"{self.url} does not answer ({type(error).__name__})"
        return f"{why}: whether it was done is not known, look before you repeat it" if unsure else why

    def _check(self, reply: "httpx.Response") -> None:
        status, kind = reply.status_code, reply.headers.get("content-type", "").partition(";")[0]
        if reply.is_redirect:
            to = reply.headers.get("location", "")[:200]
            raise StartupError(f"{self.url} redirects to {to}, which is not followed: is that the address?")
        if kind == PROBLEM and (refused := refused_of_problem(status, reply.content)) is not None:
            raise refused
        if status not in (200, 202) or kind != "application/json":
            raise StartupError(f"{self.url} does not answer as a console of Parley does (status {status})")


def opened_client(address: ApiAddress) -> ApiPerformer:
    """A performer whose client the caller closes. Raises StartupError for a URL or token that is none."""
    import httpx  # most commands are local

    url = checked_url(address.url)
    headers = {"authorization": f"Bearer {_token(address)}", "accept": "application/json"}
    client = httpx.AsyncClient(
        headers=headers,
        timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
        follow_redirects=False,
        trust_env=url.startswith("https:"),  # a proxy for plain http would read the token
    )
    return ApiPerformer(url, client)


def _token(address: ApiAddress) -> str:
    if address.token_file is None:
        if not (given := os.environ.get("PARLEY_TOKEN", "")):
            raise StartupError("give the service token in PARLEY_TOKEN, or name its file with --token-file")
        return checked_token(given, "PARLEY_TOKEN")
    path = Path(address.token_file)
    try:
        with path.open() as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & OTHERS:
                raise StartupError(f"others can read {path}: `chmod 600` it, and replace the token")
            return checked_token(file.read(4096), str(path))
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StartupError(f"cannot read the token's file {path}: {why}") from error
