"""Models, and the caller's own conversations."""

from collections.abc import Sequence

from starlette.requests import Request
from starlette.responses import Response

from billing.api import Principal
from core.clock import now_ms
from core.ids import uuid7_ms
from server.access.amount_visibility import usage_seen_by
from server.access.authorization import owner_of
from server.context import GatewayContext
from server.conversations.store import PAGE_ROWS, conversation_not_found
from server.conversations.tables import Message
from server.conversations.titles import checked_title
from server.http import cursors
from server.http.caller import reader
from server.http.fields import only_fields
from server.http.replies import body_object, json_reply


class ConversationRoutes:
    """/v1/models, /v1/conversations and below."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def models(self, request: Request) -> Response:
        """Models; with prices, in nano-units per 1,000,000 tokens, for whom amounts are shown."""
        principal = await reader(request, self._context)
        default = await self._context.catalogue.default()
        models: list[dict[str, object]] = []
        for record in await self._context.catalogue.models():
            facts: dict[str, object] = {
                "name": record.name,
                "version": record.version,
                "default": default is not None and record.name == default.name,
                "max_model_len": record.max_model_len,
            }
            if principal.sees_amounts:
                prices = await self._context.catalogue.prices(principal.tenant, record.name)
                facts["prices"] = {
                    "currency": prices.currency,
                    "input_nano": prices.input_nano,
                    "cached_input_nano": prices.cached_input_nano,
                    "output_nano": prices.output_nano,
                    "request_nano": prices.request_nano,
                }
            models.append(facts)
        return json_reply({"models": models})

    async def conversations(self, request: Request) -> Response:
        """The caller's conversations, last used first."""
        principal = await reader(request, self._context)
        cursor = cursors.read_time(request.query_params.get("cursor"))
        page = await self._context.conversations.page(principal.tenant, owner_of(principal), cursor)
        running = await self._running_in(principal.tenant, [row.id for row in page])
        rows = [
            {"id": row.id, "title": row.title, "updated_ms": row.updated_ms, "running": row.id in running}
            for row in page
        ]
        more = len(page) == PAGE_ROWS
        return json_reply(
            {
                "conversations": rows,
                "cursor": cursors.pack_time(page[-1].updated_ms, page[-1].id) if more else None,
            }
        )

    async def messages(self, request: Request) -> Response:
        """One conversation's messages, oldest first; a running answer names its request to attach to."""
        principal = await reader(request, self._context)
        conversation = _conversation(request)
        await self._catch_up(principal.tenant, conversation)
        after = cursors.read_position(request.query_params.get("cursor"))
        which = (principal.tenant, owner_of(principal), conversation)
        page = await self._context.conversations.messages(*which, after)
        if page is None:
            raise conversation_not_found(conversation)
        more = len(page) == PAGE_ROWS
        return json_reply(
            {
                "messages": [_message(row, principal) for row in page],
                "cursor": cursors.pack_position(page[-1].position) if more else None,
                "system": await self._context.conversations.system(*which),
            }
        )

    async def change(self, request: Request) -> Response:
        """Rename a conversation; or hide it at once, and server/conversations/purge.py takes it away."""
        principal = await reader(request, self._context)
        conversation = _conversation(request)
        which = (principal.tenant, owner_of(principal), conversation)
        if request.method == "PATCH":
            title = checked_title(only_fields(await body_object(request), "title").get("title"))
            done = await self._context.conversations.rename(*which, title)
        else:
            done = await self._context.conversations.delete(*which, now_ms())
        if not done:
            raise conversation_not_found(conversation)
        return json_reply({})

    async def _running_in(self, tenant: str, conversations: Sequence[str]) -> set[str]:
        """Of these conversations, those in which an answer runs. One that has just ended is recorded first:
        whoever read its end is not told that it runs."""
        store = self._context.conversations
        recorded = await store.running_in(tenant, conversations)
        for conversation in sorted(recorded):
            await self._catch_up(tenant, conversation)
        return await store.running_in(tenant, sorted(recorded)) if recorded else recorded

    async def _catch_up(self, tenant: str, conversation: str) -> None:
        await self._context.pools.recorders.catch_up(tenant, conversation)


def _message(row: Message, principal: Principal) -> dict[str, object]:
    return {
        "id": row.id,
        "role": row.role,
        "content": row.content,
        "status": row.status,
        "request_id": row.request_id,
        "reason": row.reason,
        "code": row.code,
        "flags": row.flags or [],
        "safety": row.safety,
        "context": _context(row),
        "continues": row.parent_id or None,
        "model": row.model,
        "usage": usage_seen_by(principal, row.usage),
        "cost": {"nano": row.cost_nano, "currency": "usd"} if principal.sees_amounts else None,
        "created_ms": row.created_ms,
    }


def _context(row: Message) -> dict[str, object] | None:
    """What of the conversation an answer's prompt had."""
    context = row.context
    return None if context is None else {name: context[name] for name in ("kept", "dropped", "room")}


def _conversation(request: Request) -> str:
    id: str = request.path_params["id"]
    if uuid7_ms(id) is None:
        raise conversation_not_found(id[:36])
    return id
