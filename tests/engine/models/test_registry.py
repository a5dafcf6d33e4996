"""The registry: the newest enabled version of a model wins."""

import asyncio
from dataclasses import replace
from pathlib import Path

from sqlalchemy import inspect
from sqlmodel import select

from billing.audit.log import list_rows
from billing.tables.tenants import PLATFORM
from core.sql.database import Database, migrate
from engine.models.registry import (
    ModelRecord,
    limit_answers,
    list_models,
    resolve,
    save,
)
from engine.models.tables import ModelVersion


async def test_the_newest_enabled_version_of_a_name_is_resolved(tmp_path: Path):
    """Disabled versions and unknown names do not resolve; saving again updates the row."""
    endpoint = f"sqlite+aiosqlite:///{tmp_path / 'parley.db'}"
    await migrate(endpoint)
    db = Database(endpoint)
    try:
        old, new = _record("1", tmp_path), _record("2", tmp_path)
        await save(db, old, {"version": "1"}, now_ms=1)
        await save(db, new, {"version": "2"}, now_ms=2)
        assert await resolve(db, "tiny") == new
        assert await list_models(db) == [new]
        async with db.transaction() as session:
            row = await session.get_one(ModelVersion, ("tiny", "2"))
            row.enabled = False
        assert await resolve(db, "tiny") == old
        await save(db, new, {"version": "2"}, now_ms=3)
        assert await resolve(db, "tiny") == new
        assert await resolve(db, "huge") is None
    finally:
        await db.close()


async def test_models_have_their_names_and_versions_for_themselves(tmp_path: Path):
    """Two of one version, and two versions of one name that came at once; each has a row of its own."""
    endpoint = f"sqlite+aiosqlite:///{tmp_path / 'parley.db'}"
    await migrate(endpoint)
    db = Database(endpoint)
    try:
        saved = [
            _record("1", tmp_path),
            _record("2", tmp_path),
            replace(_record("1", tmp_path), name="big", max_model_len=1),
        ]
        for each in saved:
            await save(db, each, {}, now_ms=1)
        async with db.session() as session:
            rows = (await session.exec(select(ModelVersion))).all()
        assert {(row.name, row.version, row.max_model_len) for row in rows} == {
            ("tiny", "1", 128),
            ("tiny", "2", 128),
            ("big", "1", 1),
        }
        assert all(row.enabled for row in rows)
        assert await list_models(db) == [saved[2], saved[1]]
        assert inspect(ModelVersion).primary_key == (
            ModelVersion.__table__.c.name,  # pyright: ignore[reportAttributeAccessIssue]
            ModelVersion.__table__.c.version,  # pyright: ignore[reportAttributeAccessIssue]
        )
        await save(db, saved[0], {}, now_ms=9)
        async with db.session() as session:
            row = await session.get_one(ModelVersion, ("tiny", "1"))
        assert row.created_ms == 1, "it is as old as it was"
        assert await limit_answers(db, "tiny", 500) is None
        await save(db, replace(saved[0], version="9"), {}, now_ms=99)
        assert [each.answer_tokens for each in await list_models(db)] == [None, 500]
        assert await limit_answers(db, "tiny", None) == 500
    finally:
        await db.close()


async def test_models_added_and_limited_at_once_are_as_somebody_said(database: Database, tmp_path: Path):
    """The same version from eight sides, and a length of its answers: one row, and nobody fails."""
    model = _record("1", tmp_path)
    await asyncio.gather(*(save(database, model, {}, now_ms=1) for _ in range(8)))
    await asyncio.gather(*(limit_answers(database, "tiny", tokens) for tokens in (100, 200) * 4))
    (found,) = await list_models(database)
    said = [row for row in reversed(await list_rows(database, PLATFORM)) if row.action == "model.answers"]
    assert f":{found.answer_tokens}}}" in said[-1].after
    assert [row.before for row in said[1:]] == [row.after for row in said[:-1]]


def _record(version: str, folder: Path) -> ModelRecord:
    return ModelRecord("tiny", version, f"print-{version}", folder, 128)
