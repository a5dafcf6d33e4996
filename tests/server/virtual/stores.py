"""What a gateway asks of the database and of the tenants' slots, in memory: keys, admissions, conversations.

Each subclass or stand-in has the part of the real one's face that sessions need. Limits and budgets are not
here: they are billing's, and cases about them are played against the real ones.
"""

import asyncio
import secrets
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from billing.api import (
    UNLIMITED,
    Admission,
    AdmissionState,
    Admitted,
    Canceller,
    DirectoryEntry,
    PriceOffer,
    Principal,
    RequestLimits,
)
from core.clock import now_ms
from core.errors import Refused
from core.ids import uuid7
from engine.api import ModelRecord, VettedPrompt, compiled_policy, pinned_policy, vetted_prompt
from engine.safety.documents import DEFAULT
from server.access import tickets
from server.access.authentication import Authenticator
from server.access.authorization import user_of
from server.models.catalogue import ServedModel
from server.models.prompt_vetting import PromptVetting
from server.models.prompts import ChatMessage, ChatPrompt, Fitting, PromptRenderer, RenderedPrompt
from server.models.safety_policies import ProjectPolicy
from server.protocol.codes import ErrorCode, refusal
from tests.engine.builders import PRICES

TRIP_SECONDS = 0.0005  # a store's answer is not there at once


class MemoryKeys(Authenticator):
    """Keys by their secrets. Tickets are the real ones, spent in the Redis of the test."""

    def __init__(self, redis: Any, settings: Any) -> None:
        super().__init__(Any, redis, settings)  # pyright: ignore[reportArgumentType]  (asks no database)
        self.by_secret: dict[str, Principal] = {}
        self.gone: set[str] = set()
        self.closed_tenants: set[str] = set()

    def make(self, tenant: str, project: str, **facts: Any) -> tuple[str, Principal]:
        """A key: its secret and who shows it."""
        id, secret = uuid7(now_ms()), f"pk_{secrets.token_hex(8)}"
        user = facts.get("user", "")
        self.by_secret[secret] = Principal(
            tenant=tenant,
            project=project,
            key=id,
            user=user,
            scopes=frozenset(facts.get("scopes") or ("chat",)),
            priority_max=facts.get("priority_max") or "interactive",
            access_ends_ms=facts.get("expires_ms"),
            fixed_user=bool(user),
            owner_key=id,
            shared=not user,
        )
        return secret, self.by_secret[secret]

    async def of_api_key(self, secret: str) -> Principal | None:
        """See Authenticator."""
        return self._good(self.by_secret.get(secret))

    async def of_token(self, token: str) -> Principal | None:
        """See Authenticator."""
        known = self.by_secret.get(token)
        return self._good(known) if known is not None else await self._of_ticket(token)

    async def _of_ticket(self, token: str) -> Principal | None:
        return await super().of_token(token) if token.startswith(tickets.PREFIX) else None

    async def standing(self, tenant: str, key: str, session: str, user: str = "") -> Principal | None:
        """See Authenticator."""
        del session, user
        mine = (each for each in self.by_secret.values() if (each.tenant, each.key) == (tenant, key))
        return self._good(next(mine, None))

    async def is_suspended(self, token: str) -> bool:
        """See Authenticator."""
        known = self.by_secret.get(token)
        return known is not None and known.tenant in self.closed_tenants

    async def is_suspended_proof(self, tenant: str, key: str, session: str) -> bool:
        """See Authenticator."""
        del key, session
        return tenant in self.closed_tenants

    def _good(self, known: Principal | None) -> Principal | None:
        if known is None or known.key in self.gone or known.tenant in self.closed_tenants:
            return None
        ends = known.access_ends_ms
        return known if ends is None or ends > now_ms() else None


class MemoryUsers:
    """Users' names are their ids."""

    async def id_of(self, _tenant: str, name: str) -> str:
        """Who is named."""
        return name

    async def name_of(self, _tenant: str, id: str) -> str:
        """The name of somebody."""
        return id

    async def of_turn(self, principal: Principal, metadata: dict[str, Any], project: str | None) -> str:
        """Whom a turn is charged to."""
        return user_of(principal, metadata, project, principal.user)

    def changed(self) -> None:
        """Nothing is kept."""


class MemoryQuota:
    """Admissions without limits, as billing/quotas keeps them for a gateway."""

    def __init__(self) -> None:
        self._found: dict[tuple[str, str], DirectoryEntry] = {}
        self._cancels: dict[tuple[str, str], set[str]] = {}

    async def directory(self, tenant: str, id: str) -> DirectoryEntry | None:
        """What is known of a request."""
        await asyncio.sleep(TRIP_SECONDS)
        found = self._found.get((tenant, id))
        return None if found is None or found.state is AdmissionState.RELEASED else found

    async def admit(self, asked: Admission) -> Admitted:
        """Let it in."""
        at = asked.tenant, asked.id
        known = await self.directory(*at)
        cancelled = not self._members(asked).isdisjoint(self._cancels.get(at, ()))
        if known is None:
            known = self._found[at] = DirectoryEntry(
                tenant=asked.tenant,
                id=asked.id,
                body_hash=asked.body_hash,
                pool=asked.pool,
                fingerprint=asked.fingerprint,
                prices=asked.prices,
                project=asked.project,
                key=asked.owner_key,
                user=asked.user,
                model=asked.model,
                input_tokens=asked.input_tokens,
                granted=asked.chunk_tokens,
                deadline_ms=asked.deadline_ms,
                admitted_ms=now_ms(),
                cancelled=cancelled,
                state=AdmissionState.OPEN,
                cost_nano=None,
            )
        elif (known.body_hash, known.project, known.key) != (asked.body_hash, asked.project, asked.owner_key):
            raise Refused(refusal(ErrorCode.ID_CONFLICT, "this id was used for another send: make a new one"))
        granted = asked.chunk_tokens
        return Admitted(
            False, known.pool, known.fingerprint, 1, known.prices, cancelled, granted, known.state
        )

    async def release(self, tenant: str, id: str) -> None:
        """It may come again."""
        self._settle(tenant, id, AdmissionState.RELEASED)

    async def mark_cancel(self, tenant: str, id: str, canceller: Canceller) -> DirectoryEntry | None:
        """Remember a cancel that came first."""
        found = await self.directory(tenant, id)
        if found is None:
            self._cancels.setdefault((tenant, id), set()).add(canceller.member)
        return found

    def settle(self, tenant: str, id: str) -> None:
        """It has ended."""
        self._settle(tenant, id, AdmissionState.ENDED)

    def forget(self, tenant: str, id: str) -> None:
        """As after its retention."""
        self._found.pop((tenant, id), None)

    def _settle(self, tenant: str, id: str, state: AdmissionState) -> None:
        if found := self._found.get((tenant, id)):
            self._found[tenant, id] = replace(found, state=state)

    def _members(self, asked: Admission) -> set[str]:
        """Those whose cancels stop it."""
        user = {Canceller(asked.project, "", asked.user).member} if asked.user else set[str]()
        return {Canceller().member, Canceller(asked.project, asked.owner_key).member} | user


class MemoryCatalogue:
    """One model, which one pool serves."""

    def __init__(self, served: ServedModel) -> None:
        self._served = served

    async def models(self) -> list[ModelRecord]:
        """All of them."""
        return [self._served.record]

    async def default(self) -> ModelRecord:
        """The one of a turn that names none."""
        return self._served.record

    async def served_default(self) -> ServedModel:
        """The same."""
        return self._served

    async def pools(self) -> frozenset[str]:
        """The one."""
        return frozenset({self._served.pool})

    async def resolve(self, name: str | None, _tenant: str) -> ServedModel:
        """The one to use."""
        if name not in (None, self._served.record.name):
            problem = f"unknown model; there are: {self._served.record.name}"
            raise Refused(refusal(ErrorCode.UNKNOWN_MODEL, problem))
        return self._served

    async def offer(self, _tenant: str, _model: str) -> PriceOffer:
        """What it costs."""
        return PriceOffer(PRICES)

    def prices_changed(self) -> None:
        """They do not."""


_renderer = lru_cache(PromptRenderer.load)


class MemoryPrompts:
    """Prompts of the tests' tiny model, rendered where they are asked for."""

    def __init__(self, folder: Path, characters_max: int) -> None:
        self._renderer = _renderer(folder)
        self._characters_max = characters_max

    def count(self, _who: Principal, messages: list[ChatMessage]) -> None:
        """Only how many are too many."""
        if sum(len(message["content"]) for message in messages) > self._characters_max:
            problem = f"the messages together may have {self._characters_max} characters: send fewer"
            raise Refused(refusal(ErrorCode.TOO_LARGE, problem, limit=self._characters_max))

    async def render(
        self, _who: Principal, _folder: Path, prompt: ChatPrompt, fitting: Fitting
    ) -> RenderedPrompt:
        """Token ids."""
        self.count(_who, [message for turn in prompt.turns for message in turn])
        return self._renderer.render_fitting(prompt, fitting)


class MemoryPolicies:
    """One policy for everybody."""

    def __init__(self) -> None:
        self.document = DEFAULT

    async def of(self, _tenant: str, _project: str) -> ProjectPolicy:
        """What holds."""
        return ProjectPolicy(self.document, pinned_policy(self.document))

    def changed(self) -> None:
        """It is never looked up."""


class MemoryVetting(PromptVetting):
    """Prompts vetted where they come: virtual time knows no threads."""

    async def _in_thread(self, policy: ProjectPolicy, texts: Sequence[str]) -> list[VettedPrompt]:
        compiled = compiled_policy(policy.document, "prompt")
        return [vetted_prompt(text, compiled) for text in texts]


class Nothing:
    """What is not asked for anything, or whose answer is always that there is nothing."""

    async def has(self, *_: Any) -> bool:
        """Nobody is closed."""
        return False

    async def check(self, *_: Any) -> None:
        """Every shape is good."""

    async def limits_for(self, *_: Any) -> RequestLimits:
        """Nothing is limited."""
        return UNLIMITED

    async def catch_up(self, *_: Any) -> None:
        """What has ended is recorded already."""

    async def give_up(self, *_: Any) -> bool:
        """Nothing is lost."""
        return False

    def note(self, *_: Any) -> "Nothing":
        """Nothing is kept."""
        return self

    def changed(self, *_: Any) -> None:
        """Nothing is kept."""

    def keep(self, *_: Any) -> None:
        """Nothing is kept."""

    def __await__(self) -> Any:
        return iter(())
