"""Limits of the caller, and the used part of them."""

from starlette.requests import Request
from starlette.responses import Response

from billing.api import LimitUse, Principal, RequestLimits, Scope
from core.clock import now_ms
from engine.api import ModelRecord
from server.context import GatewayContext
from server.http import limit_headers
from server.http.caller import reader
from server.http.replies import json_reply
from server.models.answer_lengths import answer_length

POLICIES = limit_headers.COUNTED.keys() | {"concurrency"}


class LimitRoutes:
    """/v1/limits."""

    def __init__(self, context: GatewayContext) -> None:
        self._context = context

    async def limits(self, request: Request) -> Response:
        """Every limit of the caller's tenant, project, key, user and models, with its use. Limits in shadow
        mode are left out; a user who sees no amounts gets the user's own rates alone."""
        principal = await reader(request, self._context)
        now = now_ms()
        limits = await self._limits(principal, now)
        used = [use for use in await self._context.quota.use(principal.tenant, limits, now) if not use.shadow]
        if not principal.sees_amounts:
            used = [use for use in used if use.scope == Scope.USER]
        user = await self._context.users.name_of(principal.tenant, principal.user)
        rates = [_limit(use, user) for use in used if use.dimension in POLICIES]
        money = [use for use in used if use.dimension not in POLICIES] if principal.sees_amounts else []
        budgets = [_budget(use, user) for use in money]
        reply = json_reply(
            {"limits": rates, "budgets": budgets, "answers": await self._answers(principal, now)}
        )
        reply.headers.update(_headers(used, now))
        return reply

    async def _answers(self, principal: Principal, now: int) -> list[dict[str, object]]:
        """For each model, how long an answer gets whose sender does not say, and whose limit that is."""
        shipped = self._context.settings.answer_tokens
        answers = list[dict[str, object]]()
        for record, limits in await self._by_model(principal, now):
            length = answer_length(record, limits, shipped)
            answers.append({"model": record.name, "max_tokens": length.tokens, "scope": length.scope})
        return answers

    async def _by_model(self, principal: Principal, now: int) -> list[tuple[ModelRecord, RequestLimits]]:
        who = (principal.tenant, principal.project, principal.owner_key, principal.user)
        models = await self._context.catalogue.models()
        return [(each, await self._context.limits.limits_for(*who, each.name, now)) for each in models]

    async def _limits(self, principal: Principal, now: int) -> RequestLimits:
        """The limits of all models together, each once."""
        found = [limits for _, limits in await self._by_model(principal, now)]
        units = {limit.key: limit for each in found for limit in each.units}
        money = {limit.key: limit for each in found for limit in each.money}
        return RequestLimits(tuple(units.values()), tuple(money.values()))


def _limit(use: LimitUse, user: str) -> dict[str, object]:
    return {
        "scope": use.scope,
        "scope_id": _of(use, user),
        "models": use.model_glob,
        "dimension": use.dimension,
        "limit": use.limit,
        "burst": use.burst,
        "used": use.spent,
        "remaining": use.remaining,
        "resets_at_ms": use.resets_at_ms,
    }


def _budget(use: LimitUse, user: str) -> dict[str, object]:
    return {
        "scope": use.scope,
        "scope_id": _of(use, user),
        "dimension": use.dimension,
        "hard": use.hard,
        "limit_nano": use.limit,
        "spent_nano": use.spent,
        "held_nano": use.held,
        "remaining_nano": use.remaining,
        "resets_at_ms": use.resets_at_ms,
    }


def _of(use: LimitUse, user: str) -> str | None:
    """Holder of a limit: an id, or the name of the caller's user."""
    return (user if use.scope == Scope.USER else use.scope_id) or None


def _headers(used: list[LimitUse], now: int) -> dict[str, str]:
    """Headers of the rates with the least left."""
    headers: dict[str, str] = {}
    for use in sorted(used, key=lambda use: use.remaining, reverse=True):
        counted = limit_headers.COUNTED.get(use.dimension)
        if counted is not None:
            reset_ms = 0 if use.resets_at_ms is None else use.resets_at_ms - now
            headers |= limit_headers.rate(counted, use.limit, use.remaining, reset_ms)
    return headers
