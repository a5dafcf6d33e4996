"""Decides which messages a prompt is made of. Pure."""

from collections.abc import Sequence

from server.conversations.fit import fit
from server.conversations.history import HistoryBounds, PromptContext, TurnHistory
from server.models.prompts import ChatMessage, RenderedPrompt
from server.requests.answer_room import AnswerRoom


def system_message(replaced: str | None, own: str) -> list[ChatMessage]:
    """The message that a prompt begins with: the send's, also where that is empty, else its conversation's
    own."""
    text = own if replaced is None else replaced
    return [{"role": "system", "content": text}] if text else []


def within(history: TurnHistory, sent: Sequence[ChatMessage], bounds: HistoryBounds) -> TurnHistory:
    """The history without its oldest turns, where a prompt would have too many messages or characters beside
    what is `sent`."""
    own = sum(len(message["content"]) for message in sent)
    rows = fit([*(turn.rows for turn in history.turns), len(sent)], bounds.messages)
    text = fit([*(turn.characters for turn in history.turns), own], bounds.characters)
    return history.newest(max(0, min(rows, text) - 1))


def all_turns(prompt: RenderedPrompt) -> int:
    """Every turn is kept."""
    return len(prompt.turns)


def context_of(history: TurnHistory, prompt: RenderedPrompt, room: AnswerRoom) -> PromptContext:
    """What of a conversation is in its prompt, whose last turn is the one that was sent."""
    kept = history.newest(len(prompt.turns) - 1)
    first = kept.turns[0].id if kept.turns else ""
    return PromptContext(first, len(prompt.turns), kept.dropped, room.left(prompt))
