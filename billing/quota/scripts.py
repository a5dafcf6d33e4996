"""The Lua scripts on a tenant's hash slot keys, each with its arguments, reply and prelude."""

from pathlib import Path
from typing import TypeVar

from core.redis.script_calls import ScriptCall
from core.redis.scripts import Script

FOLDER = Path(__file__).parent / "lua"

Call = TypeVar("Call", bound=ScriptCall)
Reply = TypeVar("Reply")


def quota_script(name: str, call: type[Call], reply: type[Reply], *prelude: str) -> Script[Call, Reply]:
    """Load one script of billing/quota/lua."""
    files = [FOLDER / "prelude" / f"{part}.lua" for part in prelude]
    return Script(FOLDER / f"{name}.lua", call, reply, files)
