"""An answer that ended at its length limit goes on: which one may, and that no secret comes out by it."""

from typing import Any

import httpx
import pytest

from core.clock import now_ms
from core.errors import Refused
from core.ids import uuid7
from engine.api import TextSeam
from server.access.authorization import ConversationOwner
from server.conversations.history import HistoryBounds, TurnHistory, turns_of
from server.conversations.store import ConversationStore, RecordedAnswer, Turn
from server.conversations.tables import Message
from server.requests.continued import going_on
from tests.server.site import Site
from tests.support.patience import wait_until

KEY = "AKIA" + "IOSFODNN7EXAMPLQ"
TOKEN = "ghp_" + "a1B2c3D4e5f6G7h8I9j0K1l2M3n4O5p6Q7r8S9t0U1v2W3x4"
FLAG = {"category": "card", "action": "redact", "scope": "platform"}


def message(id: str, role: str, content: str, reason: str = "", flags: Any = None) -> Message:
    """A row; its request has an r in front."""
    of: dict[str, Any] = {"tenant_id": "t", "conversation_id": "c", "position": 0, "status": "ended"}
    return Message(
        **of, id=id, request_id=f"r{id}", role=role, content=content, reason=reason, flags=flags, created_ms=1
    )


def history(*rows: Message) -> TurnHistory:
    """What these rows, oldest first, are."""
    return TurnHistory(turns_of(rows[::-1]))


ASKED = message("1", "user", "x")
CUT = message("2", "assistant", "pay [CARD_2]", "length", [{**FLAG, "p": 4, "n": 8}])


def test_the_newest_answer_goes_on_by_its_id_or_its_requests():
    """With the text and the numbers of all its parts."""
    for name in ("2", "r2"):
        assert going_on(history(ASKED, CUT), "c", name).id == "2"
    more = message("3", "assistant", ", [CARD_3] a", "length", [{**FLAG, "p": 2, "n": 8}])
    found = going_on(history(ASKED, CUT, more), "c", "3")
    assert (found.id, found.seam) == ("3", TextSeam("pay [CARD_2], [CARD_3] a", {"card": 3}))


def test_behind_a_placeholder_it_goes_on_behind_a_redaction():
    """Also where the last part was the rest of the same secret alone, and has no letter left."""
    seam = TextSeam("pay [CARD_2]", {"card": 2}, redacted=True)
    assert going_on(history(ASKED, CUT), "c", "2").seam == seam
    empty = message("3", "assistant", "", "length", [])
    assert going_on(history(ASKED, CUT, empty), "c", "3").seam == seam


@pytest.mark.parametrize(
    ("rows", "asked", "code"),
    [
        ([], "2", "unknown_conversation"),
        ([ASKED, CUT], "1", "bad_request"),
        ([ASKED, CUT, message("3", "user", "y"), message("4", "assistant", "z", "stop")], "2", "bad_request"),
        ([ASKED, message("2", "assistant", "z", "stop")], "2", "bad_request"),
        ([ASKED, message("2", "assistant", "z", "blocked")], "2", "bad_request"),
        ([ASKED, message("2", "assistant", "", "error")], "2", "bad_request"),
        ([ASKED], "1", "bad_request"),
    ],
)
def test_no_other_answer_goes_on(rows: list[Message], asked: str, code: str):
    """An older one, one that ended otherwise, a message of a user."""
    with pytest.raises(Refused) as refused:
        going_on(history(*rows), "c", asked)
    assert refused.value.refusal.code == code


@pytest.mark.parametrize(
    ("key", "cut", "parts"),
    [(KEY, 10, (f"Use {KEY[:10]}", "[API_KEY_1] and go")), (TOKEN, 44, ("Use [API_KEY_1]", " and go"))],
)
async def test_a_secret_that_the_limit_cut_is_not_completed(
    gateway: Site, key: str, cut: int, parts: tuple[str, str]
):
    """Neither in the second part, nor in what is stored of it, had the first one too few of its letters or
    enough; both parts are one message in prompts."""
    conversation = uuid7(now_ms())
    async with gateway.answering(f"Use {key} and go"), gateway.welcomed() as peer:
        first = await peer.send(conversation=conversation, options={"max_tokens": len("Use ") + cut})
        assert (await peer.hear("end"))["reason"] == "length"
        await _stored(gateway, conversation, 2)
        second = uuid7(now_ms())
        await peer.tell("send", id=second, conversation=conversation, **{"continue": first})
        assert (await peer.hear("accepted", id=second))["g"] == 2
        end = await peer.hear("end", g=2)
        assert (end["reason"], end["usage"]["output"]) == (
            "stop",
            len(f"Use {key} and go") - len(parts[0]) + 1,
        )
        stored = await _stored(gateway, conversation, 3)
    assert [row["content"] for row in stored] == ["hello", *parts]
    assert stored[2]["continues"] == stored[1]["id"]
    flags = [row["content"][flag["p"] :][: flag["n"]] for row in stored[1:] for flag in row["flags"] or ()]
    assert flags == ["[API_KEY_1]"]
    store = ConversationStore(gateway.database)
    owner = ConversationOwner(gateway.project, gateway.key_id, "")
    found = await store.history(gateway.tenant, owner, conversation, "tiny", HistoryBounds(10, 1000))
    assert found.messages[1]["content"] == "".join(parts)


async def _stored(site: Site, conversation: str, rows: int) -> list[dict[str, Any]]:
    path = f"/v1/conversations/{conversation}/messages"
    found = list[dict[str, Any]]()

    async def ended() -> bool:
        async with httpx.AsyncClient(base_url=site.url) as http:
            reply = await http.get(path, headers={"authorization": f"Bearer {site.key}"})
        found[:] = reply.json()["messages"]
        return len(found) == rows and all(row["status"] == "ended" for row in found)

    await wait_until(ended)
    return found


async def test_of_two_that_go_on_at_once_one_does(gateway: Site):
    """The answer that another goes on with meanwhile is no longer the newest."""
    store, owner = ConversationStore(gateway.database), ConversationOwner("p", "", "ann")
    await store.open_turn("t", owner, Turn("c", "r1", "x", "tiny", 1))
    await ends_at_length(store, "r1")
    found = await store.messages("t", owner, "c", 0)
    assert found is not None
    answer = found[1]
    assert await store.newest_model("t", owner, "c") == "tiny"
    assert await store.newest_model("t", ConversationOwner("p", "", "bob"), "c") is None
    going = Turn("c", "r2", "", "tiny", 2, continues=answer.id)
    await store.open_turn("t", owner, going)
    await ends_at_length(store, "r2")
    with pytest.raises(Refused, match="conversation_busy"):
        await store.open_turn("t", owner, Turn("c", "r3", "", "tiny", 3, continues=answer.id))
    with pytest.raises(Refused, match="unknown_conversation"):
        await store.open_turn("t", owner, Turn("other", "r4", "", "tiny", 4, continues=answer.id))
    rows = await store.messages("t", owner, "c", 0) or ()
    assert [(row.role, row.position, row.parent_id) for row in rows] == [
        ("user", 1, ""),
        ("assistant", 2, ""),
        ("assistant", 3, answer.id),
    ]


async def ends_at_length(store: ConversationStore, request: str) -> None:
    """The recorder completes an answer."""
    assert await store.record("t", request, RecordedAnswer("a", "length", "", {}, {}, 0, 1, 1, 5))
