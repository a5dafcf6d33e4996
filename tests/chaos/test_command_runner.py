"""Commands of a driver, each in a fork of one process that reads orders."""

import shutil
from pathlib import Path

from chaos.installation.command_runner import command_runner
from tests.support.home import settings_in


async def test_commands_run_one_after_another(home: Path, redis_url: str, sqlite_template: Path) -> None:
    """Each with a stdin of its own, whatever was read of the orders' before."""
    shutil.copy(sqlite_template, home / "parley.db")
    given = {"PARLEY_HOME": str(settings_in(home).home), "PARLEY_REDIS_URL": redis_url}
    async with command_runner(given) as commands:
        (made,) = await commands.parley("tenants", "create", "acme")
        again = await commands.run("tenants", "create", "acme")
        (listed,) = await commands.parley("tenants", "list")
    assert (made["tenant"], again.code, "acme" in again.err) == (listed["tenant"], 1, True)
