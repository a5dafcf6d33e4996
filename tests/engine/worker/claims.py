"""Requests as a worker claims them."""

from typing import Any

from engine.queue.types import Claim
from engine.request import Control, Sampling
from engine.worker.continuation import pack_ids
from tests.engine.builders import request_input, tokens
from tests.engine.tokens import ids_of
from tests.engine.workers import PROMPT


def a_claim(
    tail: str = "", visible: int = 0, o: int = 2, prompt: list[int] = PROMPT, **sampling: Any
) -> Claim:
    """A claim of an answer that has `tail`, of which `visible` code points are logged."""
    options: dict[str, Any] = {"max_tokens": 50, **sampling}
    packed_input = request_input(prompt=tokens(*prompt), sampling=Sampling(**options))
    ids = ids_of(tail)
    return Claim(
        tenant="t1",
        id="r1",
        ck="ck",
        cn=2 if tail else 1,
        epoch=1,
        n=len(ids),
        o=o,
        raw=visible,
        visible=visible,
        input=packed_input,
        tokens=pack_ids(ids),
        granted=1000,
        control=Control(0),
        deaths=0,
        claimed_ms=1,
        first_token_ms=1 if tail else 0,
        input_cached=0,
    )
