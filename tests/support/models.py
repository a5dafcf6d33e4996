"""Model versions without a model."""

from pathlib import Path

from core.clock import now_ms
from core.sql.database import Database
from engine.models.registry import ModelRecord, save


async def add_model(db: Database, name: str, version: str = "v1", made_ms: int | None = None) -> ModelRecord:
    """Let the installation know a version of a model."""
    record = ModelRecord(name, version, f"print-{name}-{version}", Path("/none"), "default", 4096)
    await save(db, record, {}, now_ms() if made_ms is None else made_ms)
    return record
