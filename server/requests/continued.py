"""Decides whether an answer goes on that ended at its length limit, and what its filter has to know. Pure."""

from dataclasses import dataclass

from engine.api import EndReason, Flag, TextSeam, seam_behind
from server.conversations.history import StoredTurn, TurnHistory
from server.conversations.store import conversation_not_found
from server.requests.parse import bad_request


@dataclass(frozen=True)
class GoingOn:
    """An answer that goes on: the `id` of its last part, and the seam behind its text."""

    id: str
    seam: TextSeam


def going_on(history: TurnHistory, conversation: str, asked: str) -> GoingOn:
    """The newest answer of a conversation, where that is the one that was asked for. Raises Refused:
    unknown_conversation where nobody used that one, bad_request for an answer that cannot go on."""
    if not history.turns:
        raise conversation_not_found(conversation)
    last = history.turns[-1]
    newest = last.rows[-1]
    if newest.role != "assistant" or asked not in (newest.id, newest.request_id):
        raise bad_request("continue: only the newest answer of a conversation goes on, and this is another")
    if newest.reason != EndReason.LENGTH:
        raise bad_request(
            f"continue: this answer ended `{newest.reason}`; only one that ended `length` goes on"
        )
    return GoingOn(newest.id, seam_behind(last.messages[-1]["content"], _flags(last)))


def _flags(turn: StoredTurn) -> list[Flag]:
    """The flags of all parts of its answer, at their places in the whole text."""
    found, before = list[Flag](), 0
    for row in turn.rows:
        if row.role != "assistant":
            continue
        for flag in row.flags or ():
            found.append(Flag(**{**flag, "p": before + flag["p"]}))
        before += len(row.content)
    return found
