"""Time limit for one request's shape in the steps that all requests share. Pure but for the thread's clock.

A token mask is native code that nothing interrupts, so a slow one is known only afterwards: its request then
takes no further token, by which the engine ends it in the same step. Knows no vLLM.
"""

import time
from collections.abc import Callable
from typing import Any

CALL_SECONDS_MAX = 0.1  # of the thread's CPU time


def keep_within_budget(
    grammar: Any, on_slow: Callable[[float], None], clock: Callable[[], float] = time.thread_time
) -> None:
    """Time every mask and every token of a grammar. After one over the budget it refuses its next token,
    unless that completes the answer; `on_slow` is called once, with the seconds."""
    fill, accept, slow = grammar.fill_bitmask, grammar.accept_tokens, False

    def timed(call: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal slow
        began = clock()
        try:
            return call(*arguments)
        finally:
            took = clock() - began
            if took > CALL_SECONDS_MAX and not slow:
                slow = True
                on_slow(took)

    def fill_bitmask(bitmask: Any, index: int) -> None:
        timed(fill, bitmask, index)

    def accept_tokens(request_id: str, tokens: list[int]) -> bool:
        taken = timed(accept, request_id, tokens)
        return taken and (not slow or grammar.is_terminated())

    grammar.fill_bitmask, grammar.accept_tokens = fill_bitmask, accept_tokens
