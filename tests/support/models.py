"""Model versions without a model, and folders with a small one."""

import json
from pathlib import Path

from core.clock import now_ms
from core.sql.database import Database
from engine.models.registry import ModelRecord, save


async def add_model(db: Database, name: str, version: str = "v1", made_ms: int | None = None) -> ModelRecord:
    """Let the installation know a version of a model."""
    record = ModelRecord(name, version, f"print-{name}-{version}", Path("/none"), 4096)
    await save(db, record, {}, now_ms() if made_ms is None else made_ms)
    return record


def small_model(folder: Path) -> Path:
    """A model folder as a user might have one: small, complete, template inside the tokenizer's config."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"max_position_embeddings": 128, "eos_token_id": 0}))
    words = {"type": "WordLevel", "vocab": {"<unk>": 0, "a": 1}, "unk_token": "<unk>"}
    (folder / "tokenizer.json").write_text(json.dumps({"version": "1.0", "added_tokens": [], "model": words}))
    (folder / "tokenizer_config.json").write_text(json.dumps({"chat_template": "{{ messages }}"}))
    (folder / "model.safetensors").write_bytes(b"weights")
    return folder
