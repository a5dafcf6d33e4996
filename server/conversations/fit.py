"""Decides how many of a conversation's turns a prompt still has. Pure.

Nothing is dropped while all of it fits. Once it does not, whole oldest turns go until three quarters are in
use: the beginning stays the same for the turns that follow, and with it what the engine has cached of it.
Cut to the brim instead, each turn would drop one, and every prompt would begin anew.
"""

from collections.abc import Sequence

ANSWER_PART = 4  # an answer's reserve is at most this part of the context
TARGET_NUMERATOR, TARGET_DENOMINATOR = 3, 4


def answer_share(max_tokens: int, context: int) -> int:
    """Tokens of the context that turns leave free for an answer of at most `max_tokens`: its share."""
    return min(max_tokens, context // ANSWER_PART)


def fit(turns: Sequence[int], context: int, reserve: int = 0, fixed: int = 0) -> int:
    """The number of newest turns that are kept; the last one always is. 0: it alone does not fit.

    `turns`: size of each, oldest first; `fixed`: what is in the prompt whatever is dropped (a system prompt,
    the template)."""
    used = fixed + reserve + sum(turns)
    if used <= context:
        return len(turns)
    target = context * TARGET_NUMERATOR // TARGET_DENOMINATOR
    kept = len(turns)
    while kept > 1 and used > target:
        used -= turns[-kept]
        kept -= 1
    return kept if used <= context else 0
