"""Vets a prompt's text under a policy's rules for prompts, whole, before it is rendered or stored. Pure."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from engine.safety.filter import Filter
from engine.safety.policy import CompiledPolicy
from engine.safety.verdicts import Flag, Scope


class PromptFlag(msgspec.Struct, frozen=True, omit_defaults=True):
    """A verdict on a place of the text as it was sent, `n` code points from `p` on. `x`: what stands there
    now, where it was redacted."""

    category: str
    action: Literal["redact", "flag"]
    scope: Scope
    p: int
    n: int
    x: str = ""


class PromptBlock(msgspec.Struct, frozen=True):
    """The place of the text as it was sent for which all of it is refused."""

    category: str
    scope: Scope
    p: int
    n: int


@dataclass(frozen=True)
class VettedPrompt:
    """`text` goes to model and history; `flags` are places of it, `sent` the same of the text as it was sent.
    With a `block` there is no text. `counts`: verdicts by category and action."""

    text: str
    flags: tuple[Flag, ...] = ()
    sent: tuple[PromptFlag, ...] = ()
    block: PromptBlock | None = None
    counts: Counter[tuple[str, str]] = field(default_factory=Counter[tuple[str, str]])


def vetted(text: str, policy: CompiledPolicy) -> VettedPrompt:
    """What becomes of a text under `policy`, which is compiled for prompts."""
    filter = Filter(policy)
    out = filter.feed(text, final=True)
    if filter.blocked is not None:
        start, end = filter.taken[-1]
        block = PromptBlock(filter.blocked.category, filter.blocked.scope, start, end - start)
        return VettedPrompt("", block=block, counts=filter.counts)
    shown = "".join(each for each in out if isinstance(each, str))
    flags = sorted((each for each in out if isinstance(each, Flag)), key=lambda flag: flag.p)
    return VettedPrompt(shown, tuple(flags), _sent(shown, flags, filter.taken), counts=filter.counts)


def _sent(shown: str, flags: list[Flag], taken: list[tuple[int, int]]) -> tuple[PromptFlag, ...]:
    """The flags by their places in the text before it was redacted."""
    found: list[PromptFlag] = []
    places, shift = iter(taken), 0
    for flag in flags:
        if flag.action == "flag":
            found.append(PromptFlag(flag.category, "flag", flag.scope, flag.p + shift, flag.n))
            continue
        start, end = next(places)
        placeholder = shown[flag.p : flag.p + flag.n]
        found.append(PromptFlag(flag.category, "redact", flag.scope, start, end - start, placeholder))
        shift += end - start - flag.n
    return tuple(found)
