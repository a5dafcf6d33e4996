"""Answers in which safety marked something, as a worker logs them and as the server stores them."""

import re
from typing import Any

from playwright.async_api import Locator, Page, expect

from tests.browser.chat_page import opened
from tests.browser.conftest import OpenPage, WatchedPage
from tests.support.scripted_peer import Frame, Peer, Socket

CHAT = "01a20386-e0cd-7c47-ab3d-5bcd65c9d2d6"
PLACEHOLDER = re.compile(r"\[([A-Z_]+)_(\d+)\]")
OWN = "[EMAIL_9]"  # the model's own words
ANSWER = f"""😀 Write to [EMAIL_1], call [PHONE_1], never **[EMAIL_1]**, not {OWN}.

| who | where |
|---|---|
| rent | [IBAN_1] |
| heating | [IBAN_2] |

```bash
to=[EMAIL_1]   # yours
key=[API_KEY_1]
```

Set `TO=[EMAIL_1]` and [pay](https://ok.example/)."""


def flags_of(text: str, scope: str = "tenant") -> list[Frame]:
    """The redactions of a text, as a worker logs them."""
    found = [each for each in PLACEHOLDER.finditer(text) if each[0] != OWN]
    return [
        {
            "category": each[1].lower(),
            "action": "redact",
            "scope": scope,
            "p": each.start(),
            "n": len(each[0]),
        }
        for each in found
    ]


async def said(socket: Socket, text: str, **end: Any) -> None:
    """An answer as its log has it: each flag behind its placeholder."""
    o, p = 1, 0
    for flag in flags_of(text):
        upto = flag["p"] + flag["n"]
        await socket.delta(text[p:upto], o, p=p)
        await socket.tell("event", g=1, o=o + 1, k="flagged", v=flag)
        o, p = o + 2, upto
    await socket.delta(text[p:], o, p=p)
    await socket.end(text, o + 1, **end)


def stored(text: str, **more: Any) -> list[Frame]:
    """A chat of one turn, as the server has it."""
    usage = {"input": 37, "cached_input": 0, "output": 12, "total": 49}
    facts = {"status": "ended", "code": "", "model": "smollm2", "usage": usage, "cost": None, "safety": None}
    asked = {"id": "a", "role": "user", "content": "Who?", "request_id": "r1", "reason": "", "flags": []}
    answer = {"id": "b", "role": "assistant", "content": text, "request_id": "r1", "reason": "stop"}
    return [facts | asked, facts | answer | {"flags": flags_of(text)} | more]


async def history(open_page: OpenPage, peer: Peer, text: str, **options: Any) -> WatchedPage:
    """The page with a stored answer."""
    more = options.pop("more", {})
    peer.messages[CHAT] = stored(text, **more)
    watched, _ = await opened(open_page, peer, f"/#/{CHAT}", **options)
    await expect(watched.page.locator(".facts")).to_be_visible()
    return watched


def chips(page: Page) -> Locator:
    """The placeholders on the page."""
    return page.locator(".prose .chip")
