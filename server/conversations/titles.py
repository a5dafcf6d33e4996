"""Makes the title of a conversation from its first message, and checks one that somebody gives it. Pure."""

from core.errors import bad_request
from core.names import is_shown, is_visible

TITLE_CHARACTERS_MAX = 80
TITLE_RULE = f"1 to {TITLE_CHARACTERS_MAX} characters, some of them visible, none that turns text around"


def checked_title(given: object) -> str:
    """The title that a text is, on one line. Raises Refused."""
    title = " ".join(given.split()) if isinstance(given, str) else ""
    if len(title) > TITLE_CHARACTERS_MAX or not is_shown(title):
        raise bad_request(f"title: expected {TITLE_RULE}")
    return title


def title_of(content: str) -> str:
    """The first words on one line; where some are left out, or nothing of them can be seen, "…" says so. The
    page makes the same."""
    title = " ".join(content.split())
    if title and not is_visible(title):
        return "…"
    if len(title) <= TITLE_CHARACTERS_MAX:
        return title
    head = title[:TITLE_CHARACTERS_MAX]
    end = head.rfind(" ")
    return head[: end if end >= TITLE_CHARACTERS_MAX // 2 else TITLE_CHARACTERS_MAX - 1] + "…"
