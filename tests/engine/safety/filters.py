"""Filters under small policies, and what they let through."""

from collections.abc import Sequence

from engine.safety.answer_views import View
from engine.safety.documents import DEFAULT_POLICY
from engine.safety.filter import Filter
from engine.safety.policy import BuiltInPolicies, CompiledPolicy
from engine.safety.rules import Rule
from engine.safety.verdicts import Action, Flag

POLICIES = BuiltInPolicies()
DEFAULT = POLICIES.compiled(DEFAULT_POLICY)


def policy(**patterns: tuple[Action, str]) -> CompiledPolicy:
    """Rules by category: an action, a pattern."""
    return CompiledPolicy(
        [Rule(pattern, category, action, "tenant") for category, (action, pattern) in patterns.items()]
    )


def shown(out: Sequence[str | Flag]) -> str:
    """The visible text."""
    return "".join(each for each in out if isinstance(each, str))


def flags(out: Sequence[str | Flag]) -> list[Flag]:
    """The flags."""
    return [each for each in out if isinstance(each, Flag)]


def filtered(text: str, under: CompiledPolicy = DEFAULT, view: View | None = None) -> str:
    """The whole text's visible text."""
    return shown(Filter(under, view).feed(text, final=True))
