"""Makes the title of a conversation from its first message. Pure."""

TITLE_CHARACTERS_MAX = 80


def title_of(content: str) -> str:
    """The first words on one line; where some are left out, "…" says so. The page makes the same."""
    title = " ".join(content.split())
    if len(title) <= TITLE_CHARACTERS_MAX:
        return title
    head = title[:TITLE_CHARACTERS_MAX]
    end = head.rfind(" ")
    return head[: end if end >= TITLE_CHARACTERS_MAX // 2 else TITLE_CHARACTERS_MAX - 1] + "…"
