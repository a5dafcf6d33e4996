"""The noise of seeded sampling, for vLLM's V1 model runner: each token's depends on the seed and on the
token's position in the answer, and on nothing else.

vLLM's own generators go on from where they are, so a continuation would sample with the noise of the first
tokens again. With these a continued answer is the uninterrupted one. They also spare the engine's life on
CPU: vLLM 0.32 takes back the noise of a prefill chunk's discarded sample by moving its generator's offset,
which CPU generators refuse.
"""

import hashlib
from collections.abc import Mapping
from typing import Any

import torch
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu_input_batch import InputBatch

TAIL = "parley_tail"


def seed_at(seed: int, position: int) -> int:
    """The seed of one token's noise."""
    digest = hashlib.sha256(b"%d:%d" % (seed, position)).digest()
    return int.from_bytes(digest[:8]) >> 2


class PositionedGenerator(torch.Generator):
    """One generation's generator. `tail_tokens`: of its answer, those that came in as prompt."""

    answer_seed: int
    tail_tokens: int

    def place(self, sampled: int) -> None:
        """Make ready for the token behind `sampled` ones of this generation."""
        self.manual_seed(seed_at(self.answer_seed, self.tail_tokens + sampled))

    def get_offset(self) -> int:
        """Any number: nothing depends on it."""
        return 0

    def set_offset(self, offset: int) -> torch.Generator:
        """Ignore the offset: there is nothing to take back."""
        del offset
        return self


def positioned(given: torch.Generator, extra_args: Mapping[str, Any] | None) -> PositionedGenerator:
    """Our generator in place of vLLM's, for a generation with these extra arguments."""
    generator = PositionedGenerator(device=given.device)
    generator.answer_seed = given.initial_seed()
    generator.tail_tokens = (extra_args or {}).get(TAIL, 0)
    return generator


def installed() -> bool:
    """True where this process has the changes."""
    return getattr(InputBatch, "parley_noise", False)


def install() -> None:
    """Install the changes, once a process."""
    batch_class: Any = InputBatch
    sampler_class: Any = Sampler
    if installed():
        return
    add_request, sample = batch_class.add_request, sampler_class.sample

    def add_positioned(batch: Any, request: Any) -> Any:
        given = request.generator
        if given is not None and not isinstance(given, PositionedGenerator):
            request.generator = positioned(given, request.sampling_params.extra_args)
        return add_request(batch, request)

    def sample_positioned(sampler: Any, logits: Any, metadata: Any, *rest: Any, **named: Any) -> Any:
        for row, generator in metadata.generators.items():
            if isinstance(generator, PositionedGenerator):
                # vLLM keeps these lists up to date where there are logits processors of ours (vllm.py).
                generator.place(len(metadata.output_token_ids[row]))
        return sample(sampler, logits, metadata, *rest, **named)

    batch_class.add_request, sampler_class.sample = add_positioned, sample_positioned
    batch_class.parley_noise = True
