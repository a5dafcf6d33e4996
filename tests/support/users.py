"""Clients that have a process' own Redis user, so that a key kind or command that it lacks fails a test."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from core.access.processes import ProcessKind
from core.access.redis_acl import rules, user_name
from core.redis.scripts import load_scripts
from tests.support.redis import Redis

PASSWORD = "the-tests-own"


async def make_user(admin: Any, process: ProcessKind, pool: str = "default") -> str:
    """Its name, on the server of that client. Scripts that this process knows are there."""
    name = user_name(process, pool)
    await load_scripts(admin)
    allowed = rules(process, "parley", pool)
    await admin.execute_command("ACL", "SETUSER", name, "reset", "on", f">{PASSWORD}", *allowed)
    await admin.execute_command("ACL", "LOG", "RESET")
    return name


def url_of(url: str, user: str) -> str:
    """The unix:// URL of that user."""
    socket = url.removeprefix("unix://").rpartition("@")[2].partition("?")[0]
    return f"unix://{user}@{socket}?password={PASSWORD}"


@asynccontextmanager
async def client_of(
    admin: Redis, url: str, process: ProcessKind, pool: str = "default"
) -> AsyncGenerator[Redis]:
    """A client of that process. What it was refused fails the block's end."""
    name = await make_user(admin, process, pool)
    client = Redis.from_url(url_of(url, name))
    try:
        yield client
    finally:
        await client.aclose()
        await assert_nothing_refused(admin, name)


async def assert_nothing_refused(admin: Any, user: str) -> None:
    """With what core/access/processes.py would have to name."""
    found = await refused(admin, user)
    assert not found, f"core/access/processes.py does not let {user} do what it does: {found}"


async def refused(admin: Any, user: str) -> list[str]:
    """What the server refused a user: reason, object and whether a script asked."""
    log: Any = await admin.execute_command("ACL", "LOG", 100)
    found: list[str] = []
    for entry in log:
        facts = dict(zip(entry[::2], entry[1::2], strict=True)) if isinstance(entry, list) else entry
        facts = {_text(key): _text(value) for key, value in facts.items()}
        if facts["username"] == user:
            found.append(f"{facts['reason']} {facts['object']} ({facts['context']})")
    return found


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
