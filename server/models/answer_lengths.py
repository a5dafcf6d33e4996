"""Decides how long an answer gets whose sender does not say. Pure."""

from typing import NamedTuple

from billing.api import RequestLimits
from engine.api import ModelRecord

OF_MODEL = "model"


class AnswerLength(NamedTuple):
    """Most tokens of an answer, and whose limit that is: the model's, or a scope of limits."""

    tokens: int
    scope: str


def answer_length(record: ModelRecord, limits: RequestLimits, shipped: int) -> AnswerLength:
    """The least of the model's own, else the `shipped` one, and of what the sender's limits say."""
    own = AnswerLength(record.answer_tokens or shipped, OF_MODEL)
    if limits.answer is None or limits.answer.tokens >= own.tokens:
        return own
    return AnswerLength(limits.answer.tokens, limits.answer.scope)
