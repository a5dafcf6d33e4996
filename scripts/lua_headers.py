"""The header of each Lua script: what it takes and replies, made of its structs; and whether it reads that.

`scripts.lua format` writes the headers, `scripts.lua check` compares them. Their lines begin with `--:`.
"""

import re
import textwrap
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from core.redis.script_calls import header_of
from core.redis.scripts import NUMBERS as NUMBERS_LUA
from core.redis.scripts import Script

WIDTH = 120
MARK = "--:"
READERS = ("redis.call(", "cmsgpack.unpack(", "tonumber(record", "tonumber(call")
NUMBERS = ("tonumber(",)
_READ = re.compile(r"\bargs\.(\w+)")


def header(script: Script[Any, Any]) -> list[str]:
    """Its lines."""
    lines: list[str] = []
    for line in header_of(script.call, script.reply):
        wrapped = textwrap.wrap(line, WIDTH - len(MARK) - 3, break_on_hyphens=False)
        lines += [f"{MARK} {each}" if at == 0 else f"{MARK}   {each}" for at, each in enumerate(wrapped)]
    return lines


def with_header(text: str, lines: Iterable[str]) -> str:
    """The text of a script's file with these lines in place of its header. It keeps its first line."""
    first, *rest = text.split("\n")
    body = [line for line in rest if not line.startswith(MARK)]
    return "\n".join([first, *lines, *body])


def unread(script: Script[Any, Any]) -> list[str]:
    """What is wrong: `args` that the struct does not have, and fields that nothing reads."""
    text = "\n".join(file.read_text() for file in script.files)
    read, fields = set(_READ.findall(text)), set(script.call.__struct_fields__)
    if "args[" in text:  # by a name that is reckoned
        read |= {name for name in fields if f"'{name}'" in text}
    file = script.files[0]
    return [
        *(f"{file.name}: {script.call.__name__} has no field `{name}`" for name in sorted(read - fields)),
        *(f"{file.name}: nothing reads {script.call.__name__}.{name}" for name in sorted(fields - read)),
    ]


def read_past_prelude(script: Script[Any, Any], prelude: Path) -> list[str]:
    """Where the script's files read Redis' values by themselves, and not by what the first prelude has."""
    return [
        f"{file.name}: `{word}`: {prelude.name} has what reads it"
        for file in script.files
        if file != prelude
        for word in (*READERS, *([] if file.parent.name == "prelude" else NUMBERS))
        if word in file.read_text()
    ]


def write(scripts: Iterable[Script[Any, Any]]) -> None:
    """Bring every header up to date."""
    for script in scripts:
        path = script.files[0]
        if (wanted := with_header(path.read_text(), header(script))) != path.read_text():
            path.write_text(wanted)


def problems(scripts: Iterable[Script[Any, Any]], root: Path) -> list[str]:
    """What `check` has to say."""
    found: list[str] = []
    for script in scripts:
        path = script.files[0]
        if with_header(path.read_text(), header(script)) != path.read_text():
            found.append(f"{path.relative_to(root)}: its header is old: make format")
        found += unread(script) + read_past_prelude(script, NUMBERS_LUA)
    return sorted(set(found), key=found.index)
