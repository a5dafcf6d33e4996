"""Model versions that this installation knows. Imports no engine, so that the gateway can read it."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sqlmodel import col, select

from billing.api import PLATFORM, record
from core.sql.database import Database
from core.sql.locks import lock_until_commit
from engine.models.tables import ModelVersion

MODELS = "models"  # name of the lock: an edit sees the one before


@dataclass(frozen=True)
class ModelRecord:
    """One model version as requests and workers see it. `max_model_len` counts prompt and answer tokens,
    `answer_tokens` those of an answer whose sender gives no length. `dtype`: the setting that its fingerprint
    was made with; None: it was added by rule 1, which covered no settings."""

    name: str
    version: str
    fingerprint: str
    folder: Path
    max_model_len: int
    answer_tokens: int | None = None
    dtype: str | None = None


async def list_models(db: Database) -> list[ModelRecord]:
    """The newest enabled version of each model, by name."""
    return list({record.name: record for record in await list_versions(db)}.values())


async def list_versions(db: Database) -> list[ModelRecord]:
    """All enabled versions of models, by name, oldest first."""
    async with db.session() as session:
        rows = await session.exec(
            select(ModelVersion)
            .where(col(ModelVersion.enabled))
            .order_by(col(ModelVersion.name), col(ModelVersion.created_ms), col(ModelVersion.version))
        )
        return [_record(row) for row in rows]


async def all_versions(db: Database) -> list[ModelRecord]:
    """All versions that there are or were, also those that no request can name any more, oldest first."""
    async with db.session() as session:
        rows = await session.exec(
            select(ModelVersion).order_by(col(ModelVersion.created_ms), col(ModelVersion.version))
        )
        return [_record(row) for row in rows]


async def resolve(db: Database, name: str) -> ModelRecord | None:
    """The newest enabled version of one model, None where there is none."""
    return next((record for record in await list_models(db) if record.name == name), None)


async def save(db: Database, model: ModelRecord, manifest: Mapping[str, Any], now_ms: int) -> None:
    """Make `model` a model version that requests can name, or bring the row of that version up to date."""
    async with db.transaction() as session:
        await lock_until_commit(session, MODELS)
        row = await session.get(ModelVersion, (model.name, model.version))
        answers = select(ModelVersion.answer_tokens).where(col(ModelVersion.name) == model.name)
        fresh = ModelVersion(
            name=model.name,
            version=model.version,
            fingerprint=model.fingerprint,
            folder=str(model.folder),
            max_model_len=model.max_model_len,
            manifest=dict(manifest),
            enabled=True,
            created_ms=row.created_ms if row else now_ms,
            answer_tokens=(await session.exec(answers.limit(1))).first(),
            checks=row.checks if row and row.fingerprint == model.fingerprint else [],
        )
        before = None if row is None else _facts(row)
        await session.merge(fresh)
        target = f"{fresh.name} {fresh.version}"
        await record(session, PLATFORM, "model.add", target, before, _facts(fresh))


async def find_version(db: Database, name: str, version: str) -> ModelRecord | None:
    """One version of a model, enabled or not; None where there is none."""
    async with db.session() as session:
        row = await session.get(ModelVersion, (name, version))
    return None if row is None else _record(row)


async def save_checks(db: Database, name: str, version: str, checks: Sequence[Mapping[str, Any]]) -> None:
    """Keep what a version passed, in place of what it passed before. It has to be there."""
    async with db.transaction() as session:
        await lock_until_commit(session, MODELS)
        row = await session.get_one(ModelVersion, (name, version))
        before = _facts(row)
        row.checks = [dict(each) for each in checks]
        session.add(row)
        await record(session, PLATFORM, "model.check", f"{name} {version}", before, _facts(row))


async def remove_version(db: Database, name: str, version: str, now_ms: int) -> ModelVersion:
    """Let nobody name a version any more, whose files are about to be deleted. It has to be there."""
    async with db.transaction() as session:
        await lock_until_commit(session, MODELS)
        row = await session.get_one(ModelVersion, (name, version))
        before = _facts(row)
        row.enabled, row.removed_ms = False, now_ms
        session.add(row)
        await record(session, PLATFORM, "model.remove", f"{name} {version}", before, _facts(row))
    return row


async def limit_answers(db: Database, name: str, tokens: int | None) -> int | None:
    """Set the length of answers of this model whose senders give none. Returns what it was."""
    async with db.transaction() as session:
        await lock_until_commit(session, MODELS)
        rows = (await session.exec(select(ModelVersion).where(col(ModelVersion.name) == name))).all()
        before = {row.version: row.answer_tokens for row in rows}
        for row in rows:
            row.answer_tokens = tokens
            session.add(row)
        await record(session, PLATFORM, "model.answers", name, before, dict.fromkeys(before, tokens))
    return next(iter(before.values()), None)


def _facts(row: ModelVersion) -> dict[str, Any]:
    """Fields of a version for the audit log, without its manifest, which has a line for each file."""
    return row.model_dump(exclude={"manifest"})


def _record(row: ModelVersion) -> ModelRecord:
    facts = (row.name, row.version, row.fingerprint, Path(row.folder))
    return ModelRecord(*facts, row.max_model_len, row.answer_tokens, dtype_of(row.manifest))


def dtype_of(manifest: Mapping[str, Any]) -> str | None:
    """The number format that a version was added with; None: by rule 1, which did not ask. Pure."""
    return manifest.get("made_with", {}).get("dtype")
