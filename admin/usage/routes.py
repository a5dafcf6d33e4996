"""/v1/usage and /v1/costs: a tenant's usage, for its own services.

A key with the scope usage:read sees its own project, one with usage:read:tenant the tenant; tickets, browsers
and keys of one user see nothing. The key is looked up for each page, so one that is revoked stops at once.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from sqlalchemy.exc import DBAPIError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from admin.usage.cursors import as_of_line, digest_of, digest_of_buckets, pack_cursor, read_cursor, shape_of
from admin.usage.gate import RecordedReads, UsageGate
from admin.usage.query import UsageQuery, foreign_cursor, read_query, window_of
from admin.usage.reply import COSTS, USAGE, Names, UsageReply, as_csv, as_objects, rfc3339
from billing.api import (
    TENANT_USAGE_SCOPE,
    USAGE_SCOPE,
    Facet,
    PagePosition,
    Principal,
    UsagePage,
    UsageQuestion,
    UsageTerms,
    authenticate_key,
    check_question,
    is_suspended_secret,
    named_id,
    names_in_audit_log,
    names_of,
    record_separately,
    usage_page,
    usage_terms,
)
from core.actor import Author
from core.clock import now_ms
from core.configuration.settings import Settings
from core.errors import Refused
from core.network.addresses import address_of
from core.sql.database import Database, is_out_of_time
from server.api import (
    CallRates,
    ErrorCode,
    bad_request,
    bearer_of,
    json_reply,
    not_a_key,
    refusal,
    require_origin,
    suspended,
    unauthorized,
)

CURSOR_HEADER = "x-parley-cursor"


@dataclass(frozen=True)
class _UsageCaller:
    """The caller. `project`: the only one that it sees, None: all of the tenant."""

    principal: Principal
    project: str | None


@dataclass(frozen=True)
class _Read:
    """A page to be read. `digest`: of caller and question; `after`, `as_of`: of the page before."""

    question: UsageQuestion
    terms: UsageTerms
    digest: bytes
    after: PagePosition | None = None
    as_of: int | None = None


class UsageRoutes:
    """Routes over one database."""

    def __init__(self, settings: Settings, db: Database, rates: CallRates) -> None:
        self._settings = settings
        self._db = db
        self._rates = rates
        self._gate = UsageGate(settings)
        self._recorded = RecordedReads()

    def routes(self) -> list[BaseRoute]:
        """Both routes."""
        return [
            Route("/v1/usage", self.usage, methods=["GET"]),
            Route("/v1/costs", self.costs, methods=["GET"]),
        ]

    async def usage(self, request: Request) -> Response:
        """Requests, tokens and their cost."""
        return await self._answer(request, USAGE)

    async def costs(self, request: Request) -> Response:
        """Billed amounts, also by meter and kind of line."""
        return await self._answer(request, COSTS)

    async def _answer(self, request: Request, told: UsageReply) -> Response:
        reader = await self._reader(request)
        asked = read_query(request.query_params.multi_items(), told.facets)
        self._gate.read(reader.principal.tenant)
        with self._gate.turn(reader.principal.tenant):
            read = await self._read(reader, told, asked)
            await self._record(reader, told, asked, read)
            page = await self._page(read, asked.rows_max)
            names = await self._names(read.question, page)
        cursor = None
        if page.end is not None:
            keyring = self._settings.keyring
            cursor = pack_cursor(read.digest, read.question, page.as_of, page.end, keyring, now_ms())
        reply = await asyncio.to_thread(_reply, told, asked, read, page, names, cursor)
        if cursor is not None:
            reply.headers[CURSOR_HEADER] = cursor
        return reply

    async def _reader(self, request: Request) -> _UsageCaller:
        """Identify the caller. Raises Refused: unauthorized, account_suspended, forbidden, rate_limited."""
        token = bearer_of(request)
        if token is None:
            raise unauthorized("send `Authorization: Bearer <key>`, of a key with the scope usage:read")
        principal = await authenticate_key(self._db, token)
        if principal is None and await is_suspended_secret(self._db, token):
            raise Refused(suspended())
        if principal is None:
            problem = unauthorized(not_a_key(token)).refusal
            raise Refused(self._rates.failed(address_of(request.scope), "bearer", problem))
        self._rates.known(principal)
        require_origin(request, principal)
        if principal.fixed_user:
            raise _forbidden("usage is for services to read: this key is one user's")
        if TENANT_USAGE_SCOPE in principal.scopes:
            return _UsageCaller(principal, None)
        if USAGE_SCOPE in principal.scopes:
            return _UsageCaller(principal, principal.project)
        raise _forbidden("this key has no scope usage:read")

    async def _read(self, reader: _UsageCaller, told: UsageReply, asked: UsageQuery) -> _Read:
        tenant, now = reader.principal.tenant, now_ms()
        terms = await usage_terms(self._db, tenant)
        digest = digest_of(told.route, reader.principal, reader.project, asked)
        cursor = read_cursor(asked.cursor, digest, len(asked.by), self._settings.keyring, now)
        calendar = terms.calendar
        window = cursor.window if cursor is not None else window_of(asked.times, calendar, now)
        where = {facet: await self._ids(reader, facet, named) for facet, named in asked.where.items()}
        question = UsageQuestion(
            tenant,
            window,
            calendar,
            asked.by,
            asked.bucket,
            where,
            reader.project,
            only_amounts=not told.counts,
        )
        try:
            check_question(question)
        except ValueError as error:
            raise bad_request(str(error)) from error
        if cursor is None:
            return _Read(question, terms, digest)
        if cursor.buckets != digest_of_buckets(question):
            raise foreign_cursor()
        as_of = as_of_line(cursor, self._settings.keyring)
        return _Read(question, terms, digest, cursor.position, as_of)

    async def _ids(self, reader: _UsageCaller, facet: Facet, named: tuple[str, ...]) -> tuple[str, ...]:
        """Ids of a parameter's names. Raises Refused (bad_request), in the same words for a name that nobody
        has, that another tenant has, or that is of a project which the key may not see."""
        found: list[str] = []
        for name in named:
            id = await named_id(self._db, reader.principal.tenant, reader.project, facet, name)
            if id is None:
                raise bad_request(f"{facet.value}: there is none of this name or id that the key may see")
            found.append(id)
        return tuple(found)

    async def _record(self, reader: _UsageCaller, told: UsageReply, asked: UsageQuery, read: _Read) -> None:
        """Audit a read before running it. Later pages of it add no row; a key adds ROWS_AN_HOUR an hour at
        most, and its next row counts the reads that had none."""
        principal, (start, end) = reader.principal, read.question.window
        shape = shape_of(told.route, principal, reader.project, asked, read.question)
        if read.as_of is not None or self._recorded.has(principal.owner_key, shape):
            return
        where = read.question.where
        facts: dict[str, Any] = {
            "route": f"/v1/{told.route}",
            "from": rfc3339(start),
            "to": rfc3339(end),
            "by": list(asked.by),
            "bucket": asked.bucket,
            "where": {
                facet.value: [names_in_audit_log(facet, id) for id in ids] for facet, ids in where.items()
            },
            "format": "csv" if asked.as_csv else "json",
            "project": reader.project,
            **self._recorded.beside(principal.owner_key),
        }
        author = Author(principal.key, "api")
        await record_separately(self._db, principal.tenant, "usage.read", principal.key, facts, author)
        self._recorded.add(principal.owner_key, shape)

    async def _page(self, read: _Read, rows_max: int) -> UsagePage:
        seconds = self._settings.usage_seconds_max
        try:
            return await usage_page(self._db, read.question, rows_max, seconds, read.after, read.as_of)
        except DBAPIError as error:
            if not is_out_of_time(error):
                raise
            problem = f"this takes longer than {seconds:g} s: ask for a shorter time, or by less"
            raise Refused(refusal(ErrorCode.TOO_LARGE, problem)) from error

    async def _names(self, question: UsageQuestion, page: UsagePage) -> Names:
        return {
            facet: await names_of(
                self._db, question.tenant_id, facet, {row.group[place] for row in page.rows}
            )
            for place, facet in enumerate(question.by)
        }


def _reply(
    told: UsageReply, asked: UsageQuery, read: _Read, page: UsagePage, names: Names, cursor: str | None
) -> Response:
    """Build the reply, in a thread: a thousand rows take longer than others should wait."""
    question = read.question
    if asked.as_csv:
        text = as_csv(told, question, page.rows, names, read.terms.currency)
        headers = {
            "cache-control": "no-store",
            "content-disposition": f'attachment; filename="{told.route}.csv"',
        }
        return Response(text, headers=headers, media_type="text/csv")
    start, end = question.window
    return json_reply(
        {
            "from": rfc3339(start),
            "to": rfc3339(end),
            "time_zone": read.terms.calendar.zone.key,
            "by": list(asked.by),
            "bucket": asked.bucket,
            "currency": read.terms.currency,
            # Lines are the tenant's: their number tells a project's key how busy the others are.
            "as_of_line": page.as_of if question.project is None else None,
            "data": as_objects(told, question, page.rows, names),
            "cursor": cursor,
        }
    )


def _forbidden(problem: str) -> Refused:
    return Refused(refusal(ErrorCode.FORBIDDEN, problem))
