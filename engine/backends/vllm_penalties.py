"""Penalties of an answer that is continued: its tail came in as prompt, but counts as output. For vLLM's V1
model runner, which loads this class in the engine core.

Presence and frequency penalties look at output only, so a continuation would sample as if it had just begun.
Such a generation gets neutral penalties in vLLM and its own ones here, by vLLM's own function, at the place
where vLLM would apply them: the result is bit for bit that of the uninterrupted answer.
"""

from collections.abc import Callable
from typing import Any

import torch
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import AdapterLogitsProcessor
from vllm.v1.sample.ops.penalties import apply_all_penalties

from engine.backends.base import Generation

NAME = "parley_penalties"
NEUTRAL = {"presence_penalty": 0.0, "frequency_penalty": 0.0, "repetition_penalty": 1.0}


def penalties(generation: Generation) -> dict[str, Any]:
    """The sampling parameters that ask for this generation's penalties."""
    own = {name: getattr(generation, name) for name in NEUTRAL}
    if own == NEUTRAL or not generation.tail_tokens:
        return own
    return {**NEUTRAL, "extra_args": {NAME: {**own, "tail_tokens": generation.tail_tokens}}}


class TailPenalties(AdapterLogitsProcessor):
    """Logits processor for generations that ask for it, and for no others."""

    def is_argmax_invariant(self) -> bool:
        """False: penalties change the most likely token."""
        return False

    def new_req_logits_processor(self, params: SamplingParams) -> Any:
        """The penalties of a continued answer; None for a generation that needs none of ours."""
        asked = (params.extra_args or {}).get(NAME)
        return _penalise(**asked) if asked else None


def _penalise(
    tail_tokens: int, presence_penalty: float, frequency_penalty: float, repetition_penalty: float
) -> Callable[[list[int], list[int], torch.Tensor], torch.Tensor]:
    """Apply them. `output_ids` is vLLM's own list and grows; -1 at its end is an id not known yet."""

    def penalise(prompt_ids: list[int], output_ids: list[int], logits: torch.Tensor) -> torch.Tensor:
        def row(values: list[Any]) -> torch.Tensor:
            return torch.tensor(values, device=logits.device)

        counted = [*prompt_ids[len(prompt_ids) - tail_tokens :], *output_ids]
        return apply_all_penalties(
            logits.unsqueeze(0),
            row([prompt_ids]),
            row([presence_penalty]),
            row([frequency_penalty]),
            row([repetition_penalty]),
            [counted],
        )[0]

    return penalise
