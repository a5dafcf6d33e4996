"""The examples of docs/api.md, typed one after the other at a console."""

import asyncio
import os
import re
import shutil
import sys
from pathlib import Path

from billing.people.persons import ensure_owner
from core.actor import process_user
from core.configuration.settings import Settings
from core.sql.database import Database
from tests.browser.console_page import running_console
from tests.support.home import TEST_SECRET

PAGE = Path(__file__).parents[2] / "docs" / "api.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```", re.MULTILINE | re.DOTALL)
ANSWER = re.compile(r"^# → (.*)$", re.MULTILINE)
CUT = "--- the next example ---"


async def test_the_examples_of_the_api_are_answered_as_it_says(
    settings: Settings, redis_url: str, sqlite_template: Path, tmp_path: Path
):
    """Each by itself holds what its page says of it."""
    shutil.copy(sqlite_template, settings.home / "parley.db")
    db = Database(settings.database_endpoint)
    await ensure_owner(db, process_user())
    await db.close()
    blocks = BLOCK.findall(PAGE.read_text())
    async with running_console(settings) as address:
        script = f"echo '{CUT}'\n".join(blocks).replace("http://127.0.0.1:8081", address)
        printed = (await _typed(script, settings, redis_url, tmp_path)).split(CUT)
    assert len(printed) == len(blocks) > 5
    for block, answer in zip(blocks, printed, strict=True):
        for expected in ANSWER.findall(block):
            assert expected in answer, f"{block}\n{answer}"


async def _typed(script: str, settings: Settings, redis_url: str, folder: Path) -> str:
    """What a shell prints where `parley` is that of these tests."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    own = {"PATH": path, "PARLEY_HOME": str(settings.home), "PARLEY_REDIS_URL": redis_url}
    own["PARLEY_SECRET"] = TEST_SECRET
    shell = await asyncio.create_subprocess_exec(
        *("bash", "-euo", "pipefail", "-c", script),
        cwd=folder,
        env=own,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    printed, _ = await shell.communicate()
    assert shell.returncode == 0, printed.decode()
    return printed.decode()
