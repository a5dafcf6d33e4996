"""A vLLM plugin (entry point `vllm.general_plugins`), loaded by vLLM in each of its processes.

vLLM 0.32 takes back the randomness of a prefill chunk's discarded sample by moving its generator's offset,
which CPU generators refuse: one seeded request whose prompt is prefilled in two chunks ends the whole engine.
On CPU we give it generators that can be taken back.
"""

from typing import Any

import torch
from vllm.platforms import current_platform
from vllm.v1.worker.gpu_input_batch import InputBatch


class RewindableGenerator(torch.Generator):
    """A CPU generator that moves back to its seed only: chunks are discarded before the first real sample."""

    def get_offset(self) -> int:
        """Any number will do: only the difference is used."""
        return 0

    def set_offset(self, offset: int) -> torch.Generator:
        """Start over."""
        del offset
        return self.manual_seed(self.initial_seed())


def register() -> None:
    """Called by vLLM, perhaps several times in a process."""
    if not current_platform.is_cpu() or getattr(InputBatch, "parley_rewinds", False):
        return
    add_request: Any = InputBatch.add_request

    def add_rewindable(batch: InputBatch, request: Any) -> Any:
        given = request.generator
        if given is not None and not isinstance(given, RewindableGenerator):
            request.generator = RewindableGenerator(device="cpu").manual_seed(given.initial_seed())
        return add_request(batch, request)

    batch_class: Any = InputBatch
    batch_class.add_request = add_rewindable
    batch_class.parley_rewinds = True
