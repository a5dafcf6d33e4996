"""The tokens of a context are shared by a prompt and its answer, or the refusal says by how much they are too
many."""

import pytest

from core.errors import Refused, TokensThatFit
from server.models.prompts import RenderedPrompt
from server.requests.answer_room import AnswerRoom

CONTEXT = 8192


def prompt(*turns: int, fixed: int = 0) -> RenderedPrompt:
    """A prompt of turns of these sizes."""
    return RenderedPrompt([0] * (fixed + sum(turns)), turns)


def too_large(room: AnswerRoom, asked: RenderedPrompt, trimmed: bool = False) -> TokensThatFit:
    """What a refusal says of the tokens; its limit is the model's context."""
    with pytest.raises(Refused, match="too_large") as refused:
        room.turns_kept(asked) if trimmed else room.tokens_beside(asked, trimmed=False)
    refusal = refused.value.refusal
    assert refusal.limit == room.context
    assert refusal.tokens is not None
    for count in (refusal.tokens.has, refusal.tokens.fit):
        assert str(count) in refusal.message or "max_tokens" in refusal.message
    return refusal.tokens


def test_an_answer_has_what_it_asked_for_or_its_prompt_is_refused():
    """Of messages that are sent whole, nothing is dropped and no answer is shortened."""
    room = AnswerRoom(100, 60, asked=True)
    assert room.tokens_beside(prompt(40), trimmed=False) == 60
    assert too_large(room, prompt(41)) == TokensThatFit(41, 40)
    assert too_large(AnswerRoom(100, 2000, asked=True), prompt(1)) == TokensThatFit(1, 0)
    assert AnswerRoom(100, 1, asked=True).tokens_beside(prompt(99), trimmed=False) == 1


def test_an_answer_of_no_said_length_takes_what_is_left():
    """At most the default; and where a few words are all that is left, the prompt is refused: an answer of
    one token says nothing of why it is one."""
    room = AnswerRoom(CONTEXT, 2048, asked=False)
    assert room.tokens_beside(prompt(100), trimmed=False) == 2048
    assert room.tokens_beside(prompt(8000), trimmed=False) == 192
    assert room.tokens_beside(prompt(CONTEXT - 64), trimmed=False) == 64
    assert too_large(room, prompt(CONTEXT - 63)) == TokensThatFit(CONTEXT - 63, CONTEXT - 64)
    assert AnswerRoom(CONTEXT, 9, asked=False).tokens_beside(prompt(CONTEXT - 9), trimmed=False) == 9


def test_a_conversation_is_trimmed_to_make_room():
    """A quarter of the context is kept for the answer at most; one that asks for more gets what is left."""
    room = AnswerRoom(CONTEXT, 4000, asked=True)
    assert room.share == 2048
    assert room.turns_kept(prompt(3000, 3000, 100)) == 3
    assert room.tokens_beside(prompt(3000, 3000, 100), trimmed=True) == 2092
    assert room.left(prompt(3000, 3000, 100)) == 44
    assert room.turns_kept(prompt(3000, 3000, 100, 100)) == 3
    assert room.tokens_beside(prompt(3000, 100, 100), trimmed=True) == 4000


def test_a_last_turn_that_does_not_fit_is_refused_with_its_size():
    """What would have fitted is beside the answer, the system prompt and the template."""
    room = AnswerRoom(CONTEXT, 2048, asked=False)
    assert room.turns_kept(prompt(900, 6044, fixed=100)) == 1
    assert too_large(room, prompt(900, 9420, fixed=44), trimmed=True) == TokensThatFit(9420, 6100)
    with pytest.raises(Refused, match="too_large"):
        AnswerRoom(CONTEXT, CONTEXT + 1, asked=True).tokens_beside(prompt(1), trimmed=True)
