"""Words of `parley chat` for what a safety policy took out of an answer. Pure."""

from collections import defaultdict
from collections.abc import Iterable

from parley_client import SafetyFlag

# A category's one and many, as the chat page has them (server/web/safety_words.js).
WORDS = {
    "api_key": ("key", "keys"),
    "private_key": ("private key", "private keys"),
    "card": ("card number", "card numbers"),
    "iban": ("IBAN", "IBANs"),
    "email": ("e-mail address", "e-mail addresses"),
    "phone": ("phone number", "phone numbers"),
}


def removed_text(text: str, flags: Iterable[SafetyFlag]) -> str:
    """One line on what is missing from an answer, each thing once however often its placeholder stands
    there; empty where nothing is."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for flag in flags:
        if flag.action == "redact":
            found[flag.category].add(text[flag.p : flag.p + flag.n])
    counts = [
        f"{len(placeholders)} {_word(category, placeholders)}" for category, placeholders in found.items()
    ]
    return f"Removed before it reached you: {', '.join(counts)}." if counts else ""


def _word(category: str, placeholders: set[str]) -> str:
    own = f"× {category.replace('_', ' ')}"  # a name that may be a plural, or no noun
    one, many = WORDS.get(category, (own, own))
    return one if len(placeholders) == 1 else many
