"""Answers of a given shape, in vLLM's engine core, for both of its model runners.

A continued answer's tail comes in as prompt, but vLLM starts every grammar at its root: here a grammar first
takes the tail, in the thread that compiled it, before its generation is scheduled. And xgrammar 0.2.8 lets
raw control characters into strings of bounded length, which no JSON parser takes: tokens that hold one are
never sampled for JSON. Every call of a grammar is timed: one that takes too long of a step ends its request.
"""

import logging
from typing import Any

import numpy
import torch
from vllm.sampling_params import StructuredOutputsParams
from vllm.v1.structured_output import StructuredOutputManager
from vllm.v1.structured_output.backend_types import StructuredOutputOptions

from core.observability.telemetry import logger
from engine.backends.mask_budget import keep_within_budget
from engine.backends.vllm_seeded_sampling import TAIL
from engine.grammar.response_format import format_of

# Options left out here vLLM would choose anew for each request, from whichever compiler takes it, but it
# keeps only one. Whitespace would let a model that is lost in its answer go on with it for ever.
CONFIG = {"backend": "xgrammar", "disable_any_whitespace": True}
JSON = (StructuredOutputOptions.JSON, StructuredOutputOptions.JSON_OBJECT)
SPACE = 0x20
SCHEDULER = "vllm.v1.core.sched.scheduler"
REJECTED = "Unexpected: grammar rejected tokens"

log = logger(__name__)


def structured_outputs(response_format: str | None) -> StructuredOutputsParams | None:
    """vLLM's parameters for a checked shape."""
    if response_format is None:
        return None
    shape = format_of(response_format)
    if shape.object:
        return StructuredOutputsParams(json_object=True)
    if shape.pattern is not None:
        return StructuredOutputsParams(regex=shape.pattern)
    if shape.choices:
        return StructuredOutputsParams(choice=list(shape.choices))
    return StructuredOutputsParams(json=shape.schema)


def replay(grammar: Any, request: Any) -> None:
    """Bring a fresh grammar to where the answer is. Raises ValueError where the tail does not fit, which ends
    this request only."""
    tail = (request.sampling_params.extra_args or {}).get(TAIL, 0)
    ids = request.prompt_token_ids[len(request.prompt_token_ids) - tail :]
    if not grammar.accept_tokens(request.request_id, ids):
        raise ValueError("the answer so far does not fit its shape")


def printable(decoded_vocabulary: list[bytes], width: int) -> torch.Tensor:
    """The tokens without control characters, as vLLM's masks have them: 32 in each of `width` words."""
    may = numpy.ones(width * 32, dtype=bool)
    for id, token in enumerate(decoded_vocabulary[: width * 32]):
        may[id] = all(byte >= SPACE for byte in token)
    return torch.from_numpy(numpy.packbits(may, bitorder="little").view(numpy.int32))


def _without_controls(grammar: Any, backend: Any) -> None:
    if getattr(backend, "parley_printable", None) is None:
        width = backend.allocate_token_bitmask(1).shape[1]
        backend.parley_printable = printable(grammar.ctx.tokenizer_info.decoded_vocab, width)
    fill, may = grammar.fill_bitmask, backend.parley_printable

    def fill_bitmask(bitmask: torch.Tensor, index: int) -> None:
        fill(bitmask, index)
        bitmask[index] &= may

    grammar.fill_bitmask = fill_bitmask


def _silent_on_text(record: logging.LogRecord) -> bool:
    """False for vLLM's line about tokens that a grammar did not take, as it holds text."""
    return not str(record.msg).startswith(REJECTED)


def installed() -> bool:
    """True where this process has the changes."""
    return getattr(StructuredOutputManager, "parley_replays", False)


def install() -> None:
    """Install the changes, once a process."""
    manager_class: Any = StructuredOutputManager
    if installed():
        return
    create = manager_class._create_grammar

    def create_at_the_seam(manager: Any, request: Any) -> Any:
        grammar = create(manager, request)
        replay(grammar, request)
        if request.structured_output_request.structured_output_key[0] in JSON:
            _without_controls(grammar, manager.backend)

        def too_slow(seconds: float) -> None:
            log.error("engine.answer_format_too_slow", id=request.request_id, ms=round(seconds * 1000))

        keep_within_budget(grammar, too_slow)
        return grammar

    logging.getLogger(SCHEDULER).addFilter(_silent_on_text)
    manager_class._create_grammar = create_at_the_seam
    manager_class.parley_replays = True
