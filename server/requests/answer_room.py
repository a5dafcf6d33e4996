"""Decides how the tokens of a model's context are shared by a prompt and its answer. Pure."""

from dataclasses import dataclass

from core.errors import Refused, TokensThatFit
from server.conversations.fit import answer_share, fit
from server.models.prompts import RenderedPrompt
from server.protocol.codes import ErrorCode, refusal

LEAST_TOKENS = 64  # of an answer that nobody gave a length: with less, its prompt is refused


@dataclass(frozen=True)
class AnswerRoom:
    """`context`: most tokens of prompt and answer; `most`: of the answer; `asked`: the client said so."""

    context: int
    most: int
    asked: bool

    @property
    def share(self) -> int:
        """Tokens that the turns of a conversation leave free for the answer."""
        return answer_share(self.most, self.context)

    def turns_kept(self, prompt: RenderedPrompt) -> int:
        """How many of the newest turns of a conversation are kept. Raises Refused (too_large) where the last
        one alone leaves an answer no room."""
        kept = fit(prompt.turns, self.context, self.share, prompt.fixed)
        if not kept:
            raise _too_large(prompt.turns[-1], self.context - self.share - prompt.fixed, self.context)
        return kept

    def left(self, prompt: RenderedPrompt) -> int:
        """Tokens that further turns may have before the oldest are dropped."""
        return max(0, self.context - self.share - len(prompt.ids))

    def tokens_beside(self, prompt: RenderedPrompt, trimmed: bool) -> int:
        """The most tokens of the answer to a prompt. `trimmed`: its turns were fitted, and what the answer
        asks for beyond its share is not refused, but shortened. Raises Refused (too_large)."""
        tokens = len(prompt.ids)
        room = self.context - tokens
        if self.asked and self.most > (self.context if trimmed else room):
            problem = (
                f"the prompt has {tokens} tokens and max_tokens asks for {self.most}, the model takes "
                f"{self.context} in all: shorten the prompt, or ask for less"
            )
            fits = max(0, self.context - self.most)
            raise Refused(
                refusal(ErrorCode.TOO_LARGE, problem, limit=self.context, tokens=TokensThatFit(tokens, fits))
            )
        least = 1 if self.asked or trimmed else min(LEAST_TOKENS, self.share)
        if room < least:
            raise _too_large(tokens, self.context - least, self.context)
        return min(self.most, room)


def _too_large(tokens: int, fits: int, context: int) -> Refused:
    fits = max(0, fits)
    problem = (
        f"this message has {tokens} tokens, {fits} fit beside an answer: shorten it, send it in parts, or "
        "ask a model that reads more"
    )
    return Refused(refusal(ErrorCode.TOO_LARGE, problem, limit=context, tokens=TokensThatFit(tokens, fits)))
