"""A send that is repeated after its pool has changed the model's version keeps its first one."""

import shutil
from typing import Any

import pytest
from sqlmodel import delete

from billing.dedicated_pools.versions import WantedVersion, tell_routes, use_version
from engine.api import Enqueue, PoolQueue, list_models
from engine.models.registry import ModelRecord, save
from engine.models.tables import ModelVersion
from tests.server.site import Site


async def changed(gateway: Site) -> ModelRecord:
    """The pool has another version in use, with a template of its own; the one before."""
    (before,) = await list_models(gateway.database)
    folder = before.folder.with_name("another")
    shutil.copytree(before.folder, folder)
    (folder / "chat_template.jinja").write_text("another template")
    await save(gateway.database, ModelRecord(before.name, "another", "f-another", folder, 4096), {}, 1)
    await use_version(gateway.database, "default", WantedVersion("another", at_once=True))
    await tell_routes(gateway.redis)
    return before


async def first_tries(gateway: Site, monkeypatch: pytest.MonkeyPatch) -> tuple[dict[str, Any], list[Enqueue]]:
    """A send whose gateway ends between admission and enqueue, and what is enqueued from then on."""
    enqueued, real = list[Enqueue](), PoolQueue.enqueue

    async def enqueue(queue: PoolQueue, item: Enqueue) -> Any:
        enqueued.append(item)
        if len(enqueued) == 1:
            raise RuntimeError("the gateway ended")
        return await real(queue, item)

    monkeypatch.setattr(PoolQueue, "enqueue", enqueue)
    async with gateway.welcomed() as peer:
        id = await peer.send("hello")
        await peer.hear("error")
    return {"id": id}, enqueued


async def test_a_repeated_send_keeps_its_version(gateway: Site, monkeypatch: pytest.MonkeyPatch):
    """Prompt and fingerprint are those of the first one; a new send gets the version in use."""
    send, enqueued = await first_tries(gateway, monkeypatch)
    before = await changed(gateway)
    async with gateway.welcomed() as peer:
        await peer.send("hello", **send)
        await peer.hear("accepted")
        await peer.send("hello")
        await peer.hear("accepted")
    first, again, new = enqueued
    assert (again.fingerprint, again.prompt_tokens) == (before.fingerprint, first.prompt_tokens)
    assert new.fingerprint == "f-another"
    assert new.prompt_tokens != first.prompt_tokens


async def test_a_version_that_is_forgotten_is_told(gateway: Site, monkeypatch: pytest.MonkeyPatch):
    """The send can be made again under a new id, and nothing is held for the old one."""
    send, _ = await first_tries(gateway, monkeypatch)
    before = await changed(gateway)
    async with gateway.database.transaction() as session:
        await session.exec(delete(ModelVersion).where(ModelVersion.version == before.version))  # type: ignore[arg-type]
    async with gateway.welcomed() as peer:
        await peer.send("hello", **send)
        assert (await peer.hear("error"))["code"] == "log_lost"
        await peer.send("hello")
        await peer.hear("accepted")
