"""Vets what a send brings of its own under its project's policy, before anything of it is rendered or stored.

History was vetted as it was sent. Long texts are vetted off the event loop, one send of a tenant at a time,
so that other tenants find a thread.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Literal
from weakref import WeakValueDictionary

from core.errors import Refused, RefusedText
from core.observability.error_facts import error_summary
from core.observability.telemetry import logger
from engine.api import (
    CompiledPolicy,
    FilterTooDearError,
    Flag,
    PolicyError,
    PromptBlock,
    PromptFlag,
    VettedPrompt,
    compiled_policy,
    vetted_prompt,
)
from server.models.prompts import ChatMessage
from server.models.safety_policies import ProjectPolicy
from server.protocol.codes import ErrorCode, refusal, safety_blocked
from server.protocol.flags import SentFlag

INLINE_CHARACTERS_MAX = 4 * 1024
COMPILED_MAX = 64
THREADS = 2

Message = int | Literal["system"] | None
"""Which text of a send: the index in `messages`, its `system`, or its only content."""

log = logger(__name__)


@dataclass(frozen=True)
class VettedMessages:
    """`messages` are what model and history get, beside `system`, where the send brings one; `sent` the
    verdicts by their places in what was sent, `flags` those of the last message by their places in what it is
    now. `counts`: by category and action."""

    messages: list[ChatMessage]
    sent: tuple[SentFlag, ...] = ()
    flags: tuple[Flag, ...] = ()
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])
    system: str | None = None


class PromptVetting:
    """One gateway's vetting of prompts."""

    def __init__(self) -> None:
        self._compiled: OrderedDict[str, CompiledPolicy] = OrderedDict()
        self._threads = ThreadPoolExecutor(THREADS, "vetting")
        self._turns = WeakValueDictionary[str, asyncio.Lock]()

    async def vet(
        self,
        tenant: str,
        policy: ProjectPolicy,
        messages: Sequence[ChatMessage],
        several: bool,
        system: str | None = None,
    ) -> VettedMessages:
        """Vet messages that a send brings, and its `system`. `several`: they were given as `messages`, so
        that a place names which. Raises Refused (safety_blocked)."""
        if not policy.has_prompt_rules:
            return VettedMessages(list(messages), system=system)
        texts = [message["content"] for message in messages]
        if system is not None:
            texts.insert(0, system)
        try:
            found = await self._found(tenant, policy, texts)
        except FilterTooDearError as error:  # beyond what was tried as it was saved; says nothing of the text
            log.error("policies.too_dear", policy=policy.hash, error=error_summary(error))
            problem = "the safety policy of this project takes too long for this text"
            raise Refused(refusal(ErrorCode.INTERNAL, problem)) from error
        first, found = (found[0], found[1:]) if system is not None else (None, found)
        return _joined(messages, first, found, several)

    async def _found(self, tenant: str, policy: ProjectPolicy, texts: Sequence[str]) -> list[VettedPrompt]:
        compiled = self._known(policy.hash)
        if compiled is not None and sum(map(len, texts)) <= INLINE_CHARACTERS_MAX:
            return _vetted(texts, compiled)
        turn = self._turns.setdefault(tenant, asyncio.Lock())
        async with turn:
            return await self._in_thread(policy, texts)

    async def _in_thread(self, policy: ProjectPolicy, texts: Sequence[str]) -> list[VettedPrompt]:
        loop = asyncio.get_running_loop()
        compiled = self._known(policy.hash)
        if compiled is None:
            compiled = await loop.run_in_executor(self._threads, _compiled, policy)
            self._keep(policy.hash, compiled)
        return await loop.run_in_executor(self._threads, _vetted, texts, compiled)

    def _keep(self, hash: str, compiled: CompiledPolicy) -> None:
        self._compiled[hash] = compiled
        if len(self._compiled) > COMPILED_MAX:
            self._compiled.popitem(last=False)

    def _known(self, hash: str) -> CompiledPolicy | None:
        if hash in self._compiled:
            self._compiled.move_to_end(hash)
        return self._compiled.get(hash)


def _compiled(policy: ProjectPolicy) -> CompiledPolicy:
    try:
        return compiled_policy(policy.document, "prompt")
    except PolicyError as error:  # it was checked as it was saved, by another version of this code
        log.error("policies.not_compiled", policy=policy.hash, error=error_summary(error))
        problem = "the safety policy of this project cannot be applied"
        raise Refused(refusal(ErrorCode.INTERNAL, problem)) from error


def _vetted(texts: Sequence[str], policy: CompiledPolicy) -> list[VettedPrompt]:
    """What becomes of each text; none follows one that is blocked."""
    found: list[VettedPrompt] = []
    for text in texts:
        found.append(vetted_prompt(text, policy))
        if found[-1].block is not None:
            break
    return found


def _joined(
    messages: Sequence[ChatMessage],
    system: VettedPrompt | None,
    found: Sequence[VettedPrompt],
    several: bool,
) -> VettedMessages:
    sent: list[SentFlag] = []
    counts = Counter[tuple[str, str]]()
    places: list[tuple[Message, VettedPrompt]] = [] if system is None else [("system", system)]
    places += [(at if several else None, each) for at, each in enumerate(found)]
    for message, each in places:
        if each.block is not None:
            raise Refused(safety_blocked(_place(each.block, message)))
        sent += [_flag(flag, message) for flag in each.sent]
        counts += each.counts
    vetted = [{**message, "content": each.text} for message, each in zip(messages, found, strict=True)]
    said = None if system is None else system.text
    return VettedMessages(list(vetted), tuple(sent), found[-1].flags, counts, said)


def _place(block: PromptBlock, message: Message) -> RefusedText:
    return RefusedText(block.category, block.scope, block.p, block.n, message)


def _flag(flag: PromptFlag, message: Message) -> SentFlag:
    x = flag.x if flag.action == "redact" else None
    return SentFlag(flag.category, flag.action, flag.scope, flag.p, flag.n, x, message)
