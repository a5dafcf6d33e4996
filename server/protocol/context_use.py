"""What frames tell of a model's context: how much of a conversation a prompt has, and what does not fit."""

import msgspec
from msgspec import Struct


class ContextUse(Struct, frozen=True):
    """What of its conversation a prompt has: turns `kept`, this one too, and `dropped`; `room`: tokens that
    turns may still have before some are dropped."""

    kept: int
    dropped: int
    room: int


class TurnFacts(Struct, frozen=True, array_like=True):
    """What `accepted` tells of a turn: the most tokens of its answer, and what of a conversation is read.
    Kept with the request, for a sender whose connection was lost before that came."""

    max_tokens: int | None = None
    context: ContextUse | None = None

    def packed(self) -> str:
        """As the request's record has it: under 64 bytes, or Redis would keep the whole record as a table."""
        return msgspec.json.encode(self).decode()


def turn_facts(packed: str) -> TurnFacts:
    """What a request's record has; nothing where it is of an older version, or damaged."""
    try:
        return msgspec.json.decode(packed, type=TurnFacts)
    except msgspec.MsgspecError:
        return TurnFacts()


class TokenCounts(Struct, frozen=True):
    """Tokens of what is too large: how many it `has`, and how many would `fit`."""

    has: int
    fit: int
