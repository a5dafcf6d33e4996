"""Looks up what a send names (model, project, user, conversation) and renders its prompt. Writes nothing."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import msgspec

from billing.api import LimitCache, Principal, find_project
from core.configuration.settings import Settings
from core.errors import Refused
from core.observability.telemetry import tracer
from core.sql.database import Database
from engine.api import ModelRecord, PriorityClass, Sampling
from server.access.authorization import owner_of
from server.access.closed_users import ClosedUsers
from server.access.users import Users
from server.conversations.history import HistoryBounds, PromptContext, TurnHistory
from server.conversations.store import ConversationStore
from server.models.answer_formats import AnswerFormats
from server.models.answer_lengths import answer_length
from server.models.catalogue import Catalogue, ServedModel
from server.models.prompt_vetting import PromptVetting, VettedMessages
from server.models.prompts import ChatPrompt, PromptRenderers
from server.models.safety_policies import ProjectPolicy, SafetyPolicies
from server.pools.gateway_pools import GatewayPools
from server.protocol.codes import ErrorCode, refusal
from server.requests import parse
from server.requests.answer_room import AnswerRoom
from server.requests.continued import GoingOn, going_on
from server.requests.parse import ParsedSend
from server.requests.prompt_turns import all_turns, context_of, system_message, within

TEMPERATURE_DEFAULT = 1.0

spans = tracer("server")


@dataclass(frozen=True)
class PreparedSend:
    """A send that is ready to be admitted."""

    send: ParsedSend
    record: ModelRecord
    pool: str
    prompt: list[int]
    sampling: Sampling
    priority: PriorityClass
    user: str
    accepted_ms: int
    deadline_ms: int
    policy: ProjectPolicy
    vetted: VettedMessages
    context: PromptContext | None = None
    going_on: GoingOn | None = None


class SendPreparer:
    """Prepares the sends of one gateway's connections."""

    def __init__(
        self,
        settings: Settings,
        db: Database,
        catalogue: Catalogue,
        limits: LimitCache,
        users: Users,
        closed_users: ClosedUsers,
        formats: AnswerFormats,
        policies: SafetyPolicies,
        vetting: PromptVetting,
        prompts: PromptRenderers,
        conversations: ConversationStore,
        pools: GatewayPools,
    ) -> None:
        self._settings = settings
        self._bounds = HistoryBounds(settings.prompt_messages_max, settings.prompt_characters_max)
        self._db = db
        self._catalogue = catalogue
        self._limits = limits
        self._users = users
        self._closed_users = closed_users
        self._formats = formats
        self._policies = policies
        self._vetting = vetting
        self._prompts = prompts
        self._conversations = conversations
        self._pools = pools

    def routes_changed(self) -> None:
        """Read anew which pool serves a tenant before the next send."""
        self._catalogue.routes_changed()

    async def prepare(
        self,
        principal: Principal,
        send: ParsedSend,
        facts: dict[str, object],
        bound: ServedModel | None = None,
    ) -> PreparedSend:
        """Prepare a send. Raises Refused for an unknown model, project, user or conversation. Puts the user
        into `facts` early: a refusal is counted to that user. `bound`: what it was admitted to before."""
        served = bound or await self._catalogue.resolve(await self._model(principal, send), principal.tenant)
        record = served.record
        user = await self._users.of_turn(principal, send.metadata, await self._project(principal, send))
        facts["user"] = user
        if await self._closed_users.has(principal.tenant, user):
            raise Refused(refusal(ErrorCode.FORBIDDEN, "this user is closed"))
        await self._formats.check(principal, served, send.options.response_format)
        policy = await self._policies.of(principal.tenant, principal.project)
        history = await self._history(principal, send, record.name)
        going = going_on(history, send.conversation or "", send.continues) if send.continues else None
        system = system_message(send.system, history.system)
        history = within(history, system, send.messages, self._bounds)
        self._prompts.count(principal, [*system, *history.messages, *send.messages])
        vetted = await self._vetted(principal, policy, send)
        turns = [*(turn.messages for turn in history.turns), *([vetted.messages] if send.messages else ())]
        asked = ChatPrompt(turns, system_message(vetted.system, history.system), unfinished=going is not None)
        accepted_ms = await self._pools.queues[served.pool].now_ms()  # its deadline goes by this clock
        room = await self._room(principal, record, send, user, accepted_ms)
        with spans.span("send.render"):
            fitting = room.turns_kept if send.stored else all_turns
            prompt = await self._prompts.render(principal, record.folder, asked, fitting)
        context = context_of(history, prompt, room, bool(send.messages)) if send.stored else None
        most = room.tokens_beside(prompt, trimmed=send.stored)
        sampling = parse.sampling(send.options, most, default_temperature(record.folder))
        priority = parse.capped_priority(send.options.priority, principal.priority_max)
        deadline_ms = parse.deadline_ms(send.options, priority, accepted_ms, self._settings)
        times = (accepted_ms, deadline_ms)
        who = (send, record, served.pool, prompt.ids, sampling, priority, user)
        return PreparedSend(*who, *times, policy, vetted, context, going)

    async def _model(self, principal: Principal, send: ParsedSend) -> str | None:
        """The model that it names; where an answer goes on, that answer's."""
        if send.model is not None or send.conversation is None or send.continues is None:
            return send.model
        who = (principal.tenant, owner_of(principal), send.conversation)
        return await self._conversations.newest_model(*who)

    async def _vetted(self, principal: Principal, policy: ProjectPolicy, send: ParsedSend) -> VettedMessages:
        if not send.messages:
            return VettedMessages([])
        texts = (send.messages, send.several, send.system)
        return await self._vetting.vet(principal.tenant, policy, *texts)

    async def _room(
        self, principal: Principal, record: ModelRecord, send: ParsedSend, user: str, now: int
    ) -> AnswerRoom:
        context = min(record.max_model_len, self._settings.worker_max_model_len or record.max_model_len)
        if send.options.max_tokens is not None:
            return AnswerRoom(context, send.options.max_tokens, asked=True)
        who = (principal.tenant, principal.project, principal.owner_key, user)
        limits = await self._limits.limits_for(*who, record.name, now)
        length = answer_length(record, limits, self._settings.answer_tokens)
        return AnswerRoom(context, length.tokens, asked=False)

    async def _project(self, principal: Principal, send: ParsedSend) -> str | None:
        named = send.metadata.get("project")
        if not isinstance(named, str) or named == principal.project:
            return principal.project if named else None
        found = await find_project(self._db, principal.tenant, named)
        return found.id if found else None

    async def _history(self, principal: Principal, send: ParsedSend, model: str) -> TurnHistory:
        """The turns of its conversation that a prompt of this gateway may have, and its system prompt."""
        if send.conversation is None:
            return TurnHistory()
        who = (principal.tenant, owner_of(principal), send.conversation)
        try:
            return await self._conversations.history(*who, model, self._bounds)
        except Refused as refused:
            if refused.refusal.code != ErrorCode.CONVERSATION_BUSY:
                raise
            await self._pools.recorders.catch_up(principal.tenant, send.conversation)
            return await self._conversations.history(*who, model, self._bounds)


@lru_cache(maxsize=64)
def default_temperature(folder: Path) -> float:
    """The temperature that a model's own generation_config.json asks for, else 1."""
    try:
        config = msgspec.json.decode((folder / "generation_config.json").read_bytes(), type=dict[str, object])
    except (OSError, msgspec.MsgspecError):
        return TEMPERATURE_DEFAULT
    value = config.get("temperature")
    return float(value) if isinstance(value, int | float) and 0 <= value <= 2 else TEMPERATURE_DEFAULT
