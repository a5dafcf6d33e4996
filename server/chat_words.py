"""Words of `parley chat` for what a safety policy did to an answer or its prompt, and for refusals. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

from parley_client import ProtocolError, SafetyFlag, SafetyPromptFlag, error_text

# A category's one and many, as the chat page has them (server/web/safety_words.js).
WORDS = {
    "api_key": ("key", "keys"),
    "private_key": ("private key", "private keys"),
    "card": ("card number", "card numbers"),
    "iban": ("IBAN", "IBANs"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("phone number", "phone numbers"),
}
POLICIES = {"tenant": "your organization's", "project": "this project's", "platform": "this service's"}
_REFUSAL = (
    "code",
    "retry",
    "after_ms",
    "scope",
    "dimension",
    "limit",
    "remaining",
    "spent",
    "held",
    "resets_at_ms",
)


def prompt_lines(flags: Sequence[SafetyPromptFlag]) -> Iterator[str]:
    """What was done to a prompt, a line each; none where nothing was."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for flag in flags:
        if flag.action == "redact":
            found[flag.category].add(flag.x or "")
    if found:
        yield f"Removed from your text before the model got it: {_counted(found)}."
    if marked := _names(flag.category for flag in flags if flag.action == "flag"):
        yield f"Marked in your text, and sent: {marked}."


def answer_lines(text: str, flags: Sequence[SafetyFlag]) -> Iterator[str]:
    """The same of an answer."""
    if removed := removed_text(text, flags):
        yield removed
    if marked := _names(flag.category for flag in flags if flag.action == "flag"):
        yield f"Marked in this answer: {marked}."


def removed_text(text: str, flags: Iterable[SafetyFlag]) -> str:
    """One line on what is missing from an answer, each thing once however often its placeholder stands
    there; empty where nothing is."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for flag in flags:
        if flag.action == "redact":
            found[flag.category].add(text[flag.p : flag.p + flag.n])
    return f"Removed before it reached you: {_counted(found)}." if found else ""


def refused_text(error: ProtocolError, now_ms: int) -> str:
    """Why a turn was refused, or failed, and what may be done about it."""
    if (place := error.safety) is None:
        return error_text(error, now_ms)
    where = f"characters {place.p + 1} to {place.p + place.n}"
    none = f"nothing in that it calls “{_named(place.category)}”"
    if place.category in WORDS:
        none = f"no {WORDS[place.category][1]} in"
    return (
        f"not sent: {policy_of(place.scope)} lets {none} ({where}). "
        f"Nothing was stored or billed. Change the text and send it again"
    )


def refusal_facts(error: ProtocolError) -> dict[str, Any]:
    """The same for programs, in the protocol's names."""
    said = {name: getattr(error, name) for name in _REFUSAL}
    said["safety"] = error.safety and {k: v for k, v in asdict(error.safety).items() if v is not None}
    return {name: value for name, value in said.items() if value is not None}


def policy_of(scope: str) -> str:
    """Whose policy it is."""
    return f"{POLICIES.get(scope, 'the')} safety policy"


def _counted(found: dict[str, set[str]]) -> str:
    return ", ".join(
        f"{len(placeholders)} {_word(category, placeholders)}" for category, placeholders in found.items()
    )


def _names(categories: Iterable[str]) -> str:
    each = dict.fromkeys(categories)
    return ", ".join(WORDS[name][0] if name in WORDS else _named(name) for name in each)


def _named(category: str) -> str:
    return category.replace("_", " ")


def _word(category: str, placeholders: set[str]) -> str:
    own = f"× {_named(category)}"  # a name that may be a plural, or no noun
    one, many = WORDS.get(category, (own, own))
    return one if len(placeholders) == 1 else many
