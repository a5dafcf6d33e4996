"""The fingerprint that decides when two prepared folders are the same model, and what it is made of.

Two workers may continue each other's requests exactly when their fingerprints are equal: it covers all that
changes an answer's text. Rule 1 covered less; what was prepared by it keeps its fingerprint, so that an
upgrade takes no worker from anybody, until it is prepared again.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from core.configuration.settings import Settings

# The engine in the fingerprint; pyproject.toml pins the same version for CPU and GPU.
ENGINE = "vllm-0.32.0"
# What engine/backends/vllm.py gives the engine beside its settings, of that which changes an answer's text.
ENGINE_FLAGS: Mapping[str, str | None] = {"kv_cache_dtype": "auto", "quantization": None}
RULE = 2
OF_RULE_1 = (
    "*.safetensors",
    "config.json",
    "generation_config.json",
    "tokenizer.json",
    "chat_template.jinja",
)
# Files that decide which tokens a folder's model produces and which text they are. All others are ignored.
OF_RULE_2 = (
    *OF_RULE_1,
    "tokenizer_config.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "*.model",
    "*.safetensors.index.json",
)
COVERED: Mapping[int, tuple[str, ...]] = {1: OF_RULE_1, RULE: OF_RULE_2}
CHUNK_BYTES = 1 << 20


@dataclass(frozen=True)
class MadeWith:
    """Settings that a fingerprint covers: number format, and tokens of prompt and answer together."""

    dtype: str
    max_model_len: int


def rule_of(manifest: Mapping[str, Any]) -> int:
    """The rule by which a folder was prepared."""
    return manifest.get("fingerprint_rule", 1)


def covered(folder: Path, rule: int = RULE) -> list[Path]:
    """Files of a folder that a fingerprint covers, by name."""
    return sorted({file for pattern in COVERED[rule] for file in folder.glob(pattern)})


def digests(folder: Path, rule: int = RULE) -> dict[str, str]:
    """sha-256 (hex) by name of every file that a fingerprint covers. Reads the weights: takes seconds."""
    return {file.name: digest(file) for file in covered(folder, rule)}


def made_with(manifest: Mapping[str, Any], settings: Settings) -> MadeWith:
    """What a folder is run with by these settings: the shorter of the model's and the operator's length."""
    own, most = manifest["max_model_len"], settings.worker_max_model_len
    return MadeWith(settings.worker_dtype, min(own, most) if most else own)


def fingerprint_of(manifest: Mapping[str, Any], run: MadeWith) -> str:
    """The fingerprint of a prepared folder as it is run. Pure."""
    return fingerprint(manifest["sha256"], run, rule_of(manifest))


def fingerprint(files: Mapping[str, str], run: MadeWith, rule: int = RULE, engine: str = ENGINE) -> str:
    """The fingerprint (hex) of a model's `digests` as run by an engine; `auto`: the weights' dtype. Pure."""
    facts: dict[str, Any] = {"files": dict(sorted(files.items())), "dtype": run.dtype, "engine": engine}
    if rule != 1:
        facts |= {"rule": rule, "max_model_len": run.max_model_len, "flags": dict(ENGINE_FLAGS)}
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def digest(file: Path) -> str:
    """The sha-256 (hex) of a file."""
    sha = hashlib.sha256()
    with file.open("rb") as stream:
        while chunk := stream.read(CHUNK_BYTES):
            sha.update(chunk)
    return sha.hexdigest()
