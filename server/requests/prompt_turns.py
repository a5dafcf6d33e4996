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


def within(
    history: TurnHistory, system: Sequence[ChatMessage], own: Sequence[ChatMessage], bounds: HistoryBounds
) -> TurnHistory:
    """The history without its oldest turns, where a prompt would have too many messages or characters.
    `own`: what the send brings besides, none where an answer goes on."""
    fixed, new = _characters(system), [own] if own else []
    rows = fit([*(len(turn.rows) for turn in history.turns), *map(len, new)], bounds.messages)
    texts = [turn.messages for turn in history.turns] + new
    text = fit([_characters(each) for each in texts], bounds.characters, fixed=fixed)
    return history.newest(max(0, min(rows, text) - len(new)))


def all_turns(prompt: RenderedPrompt) -> int:
    """Every turn is kept."""
    return len(prompt.turns)


def context_of(history: TurnHistory, prompt: RenderedPrompt, room: AnswerRoom, own: bool) -> PromptContext:
    """What of a conversation is in its prompt. `own`: the prompt's last turn is the one that was sent."""
    kept = history.newest(len(prompt.turns) - own)
    first = kept.turns[0].id if kept.turns else ""
    return PromptContext(first, len(prompt.turns), kept.dropped, room.left(prompt))


def _characters(messages: Sequence[ChatMessage]) -> int:
    return sum(len(message["content"]) for message in messages)
