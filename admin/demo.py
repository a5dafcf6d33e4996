"""The demo tenant that `parley up` makes once, and the key it keeps in up.json."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path

from billing.api import (
    DEFAULT_PROJECT,
    Principal,
    authenticate_key,
    create_key,
    create_tenant,
    find_project,
    find_tenant,
    key_for_link,
    list_tenants,
    set_tenant,
)
from core.errors import Refused, StartupError
from core.sql.database import Database
from core.terminal.refused_text import refused_text

TENANT = "demo"
KEY_NAME = "parley up"
USER = "demo"  # the user of the links: after signing in again a browser finds its conversations


@dataclass(frozen=True)
class UpFile:
    """PARLEY_HOME/up.json: address and key of this platform, for scripts. Mode 0600: it holds a key."""

    url: str
    console: str
    tenant: str
    key: str
    metrics: str = ""
    portal: str = ""

    def write(self, path: Path) -> None:
        """Replace the file at once, so that nobody reads half of it."""
        draft = path.with_name(path.name + ".new")
        draft.unlink(missing_ok=True)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w") as file:
            json.dump(asdict(self), file, indent=2)
            file.write("\n")
        draft.replace(path)


@dataclass(frozen=True)
class Demo:
    """The demo key's principal, its secret, and the user (an id) of its sign-in links. `alone`: there is no
    other tenant."""

    principal: Principal
    secret: str
    user: str
    alone: bool = False


async def demo_key(db: Database, up_file: Path) -> Demo:
    """The key of the last start where it still works, else a new one; the tenant is made once."""
    alone = {tenant.name for tenant in await list_tenants(db)} <= {TENANT}
    kept = _kept_key(up_file)
    principal = await authenticate_key(db, kept) if kept else None
    if principal is not None and kept is not None:
        return Demo(principal, kept, await _link_user(db, principal), alone)
    tenant = await find_tenant(db, TENANT)
    if tenant is None:
        made = await create_tenant(db, TENANT)
        tenant = await set_tenant(db, made.tenant_id, shows_costs=True)  # one person's own tenant
    project = await find_project(db, tenant.tenant_id, DEFAULT_PROJECT)
    assert project is not None, "a tenant is made with its default project"
    _, secret = await create_key(db, tenant.tenant_id, project.id, name=KEY_NAME)
    made = await authenticate_key(db, secret)
    assert made is not None, "a new key is good"
    return Demo(made, secret, await _link_user(db, made), alone)


async def _link_user(db: Database, principal: Principal) -> str:
    named = "" if principal.fixed_user else USER
    try:
        return (await key_for_link(db, principal.tenant, principal.key, named))[1]
    except Refused as refused:
        raise StartupError(refused_text(refused.refusal)) from refused


def _kept_key(up_file: Path) -> str | None:
    try:
        key = json.loads(up_file.read_text())["key"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return key if isinstance(key, str) else None
