"""The demo tenant, its key, and the file that says where everything is."""

import json
import stat
from pathlib import Path

import pytest

from admin.demo import UpFile, demo_key
from billing.api import create_key, create_project, create_tenant, find_tenant, user_id
from billing.tenants.key_ends import revoke_key
from billing.tenants.keys import list_keys
from billing.tenants.users import close_user
from core.errors import StartupError
from core.sql.database import Database
from tests.support.redis import Redis


def test_the_file_is_replaced_at_once(tmp_path: Path):
    """Also where an earlier write was cut short; nobody else reads it."""
    path = tmp_path / "up.json"
    (tmp_path / "up.json.new").write_text("half")
    UpFile("u", "c", "t", "k").write(path)
    facts = {"url": "u", "console": "c", "tenant": "t", "key": "k", "metrics": "", "portal": ""}
    assert path.read_text() == json.dumps(facts, indent=2) + "\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert sorted(each.name for each in tmp_path.iterdir()) == ["up.json"]


def kept(path: Path, key: object) -> Path:
    """A file that an earlier start left."""
    path.write_text(json.dumps({"key": key}))
    return path


async def test_the_tenant_is_made_once_and_its_key_kept(sqlite: Database, redis: Redis, tmp_path: Path):
    """It is one person's: it sees what answers cost. A key that works no longer has a successor."""
    path = tmp_path / "up.json"
    demo = await demo_key(sqlite, path)
    tenant = await find_tenant(sqlite, "demo")
    assert tenant is not None
    assert (demo.principal.tenant, tenant.shows_costs) == (tenant.tenant_id, True)
    assert demo.user == await user_id(sqlite, tenant.tenant_id, "demo", 9)
    again = await demo_key(sqlite, kept(path, demo.secret))
    assert again == demo
    assert demo.alone
    await create_tenant(sqlite, "other")
    assert not (await demo_key(sqlite, path)).alone
    await revoke_key(sqlite, redis, tenant.tenant_id, demo.principal.key)
    new = await demo_key(sqlite, path)
    assert (new.principal.tenant, new.user) == (tenant.tenant_id, demo.user)
    assert new.secret != demo.secret
    assert [key.name for key in await list_keys(sqlite, tenant.tenant_id)] == ["parley up"] * 2


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"key": 7}', '{"key": ""}', '{"key": "pk_no_key"}'])
async def test_a_file_that_holds_no_key_is_as_none(sqlite: Database, tmp_path: Path, text: str):
    """Whatever was done to it, the platform starts."""
    path = tmp_path / "up.json"
    path.write_text(text)
    assert (await demo_key(sqlite, path)).secret.startswith("pk_")


async def test_a_key_of_ones_own_is_kept_for_its_user(sqlite: Database, redis: Redis, tmp_path: Path):
    """The links sign in whom it is bound to; where he is closed the start says so."""
    demo = await demo_key(sqlite, tmp_path / "none")
    tenant = demo.principal.tenant
    project = await create_project(sqlite, tenant, "own")
    _, secret = await create_key(sqlite, tenant, project.id, user="ann")
    path = kept(tmp_path / "up.json", secret)
    found = await demo_key(sqlite, path)
    assert (found.secret, found.user) == (secret, await user_id(sqlite, tenant, "ann", 9))
    await close_user(sqlite, redis, tenant, "demo")
    with pytest.raises(StartupError, match="is closed"):
        await demo_key(sqlite, tmp_path / "none")
