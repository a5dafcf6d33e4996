"""The programs that a page shows with a new key do run, as they are copied."""

import asyncio
import json
import shlex
import sys
from pathlib import Path

import httpx
import pytest

from core.configuration.settings import Settings
from core.sql.database import Database
from scripts.javascript import ROOT, find_node
from tests.server.site import Site, running_site
from tests.support.redis import Redis

pytestmark = [pytest.mark.browser, pytest.mark.asyncio(loop_scope="session")]

SNIPPETS = ROOT / "admin" / "web" / "shared" / "api-keys" / "snippets.ts"
PRINT = """
const { LANGUAGES, snippetOf } = await import(%s);
const [url, key] = %s;
console.log(JSON.stringify(Object.fromEntries(LANGUAGES.map((each) => [each, snippetOf(each, url, key)]))));
"""
TEXT = "Nile, Rhine and Zambezi: 川 🌊."


async def said(*command: str | Path) -> str:
    """What a program prints."""
    pipe = asyncio.subprocess.PIPE
    running = await asyncio.create_subprocess_exec(*map(str, command), stdout=pipe, stderr=pipe)
    printed, errors = await running.communicate()
    assert running.returncode == 0, errors.decode()
    return printed.decode().strip()


async def programs_for(site: Site) -> dict[str, str]:
    """The programs by language, with the whole key."""
    told = json.dumps(SNIPPETS.as_uri()), json.dumps([site.url, site.key])
    return json.loads(await said(*find_node()[0], "--input-type=module", "--eval", PRINT % told))


async def test_each_program_gets_its_answer(
    settings: Settings, sqlite: Database, redis: Redis, tmp_path: Path
):
    """From a gateway, with the key; Python and JavaScript an answer, curl the models."""
    (tmp_path / "node_modules").mkdir()
    (tmp_path / "node_modules" / "parley-client").symlink_to(ROOT / "clients" / "js")
    async with running_site(settings, sqlite, redis) as site, site.answering(TEXT, 0.002):
        programs = await programs_for(site)
        (tmp_path / "first.py").write_text(programs["Python"])
        (tmp_path / "first.mjs").write_text(programs["JavaScript"])
        assert await said(sys.executable, tmp_path / "first.py") == TEXT
        assert await said(*find_node()[0], tmp_path / "first.mjs") == TEXT
        curl, url, flag, header = shlex.split(programs["curl"].replace("\\\n", ""))
        assert (curl, flag) == ("curl", "-H")
        name, _, value = header.partition(": ")
        async with httpx.AsyncClient(verify=False) as client:
            assert "tiny" in (await client.get(url, headers={name: value})).text
