"""Looks after the Lua that Redis runs: `check` (headers, StyLua's format, luacheck's warnings) and `format`.

    .venv/bin/python -m scripts.lua check
    .venv/bin/python -m scripts.lua format

luacheck reads each script as Redis gets it, with its prelude in front, and knows what Redis offers. What a
prelude has for other scripts is no warning, unless no script at all needs it.
"""

import argparse
import importlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from core.redis.scripts import Script, known_scripts
from scripts import lua_headers
from scripts.javascript import find_node, install
from scripts.working_tree import files

ROOT = Path(__file__).resolve().parent.parent
FORMATTER = ROOT / "scripts" / "lua_format.mjs"
LUACHECK = "luacheck"
OFFERED = ("redis", "KEYS", "ARGV", "cmsgpack", "cjson", "bit")  # valkey.io/topics/lua-api
MADE_LINE = 2  # of a whole script: what makes `args` (core/redis/script_calls.py)
UNUSED = {"211", "212", "213", "221", "231", "241"}
_MAKES = re.compile(r"\b(Script|pool_script|quota_script)\(")
_WARNING = re.compile(r"^(?P<file>.*?):(?P<line>\d+):\d+: \((?P<code>[WE]\d+)\) (?P<said>.*)$")


class Warned(NamedTuple):
    """One warning, where it stands in the tree."""

    file: str
    line: int
    code: str
    said: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.said} ({self.code})"


def lua_files() -> list[str]:
    """All that are committed, or would be."""
    return [name for name in files(ROOT) if name.endswith(".lua")]


def load_scripts() -> Sequence[Script[Any, Any]]:
    """Every script of the product: the modules that make one are imported."""
    for name in files(ROOT):
        is_ours = name.startswith(("billing/", "engine/", "server/")) and name.endswith(".py")
        if is_ours and _MAKES.search((ROOT / name).read_text()):
            importlib.import_module(name.removesuffix(".py").replace("/", "."))
    return [script for script in known_scripts() if ROOT in script.files[0].parents]


def place_of(script: Script[Any, Any], line: int) -> tuple[str, int]:
    """The file and the line there of a line of the whole script, both from 1. The line that makes `args` is
    taken for the first of the script's own, the one that names Lua."""
    own, *prelude = script.files
    before = MADE_LINE
    if line <= before:
        return str(own.relative_to(ROOT)), 1
    for file in prelude:
        count = len(file.read_text().split("\n"))
        if line <= before + count:
            return str(file.relative_to(ROOT)), line - before
        before += count
    return str(own.relative_to(ROOT)), line - before + 1


def warnings_of(script: Script[Any, Any], said: Iterable[str]) -> set[Warned]:
    """luacheck's lines about one script."""
    found: set[Warned] = set()
    for each in filter(None, map(_WARNING.match, said)):
        if int(each["line"]) == MADE_LINE:
            continue
        found.add(Warned(*place_of(script, int(each["line"])), each["code"], each["said"]))
    return found


def worth_saying(found: dict[str, set[Warned]], users: dict[str, int]) -> list[Warned]:
    """What to mend. `found` by script; `users`: how many scripts a file is part of.

    A warning that something is unused counts where every script with that file has it."""
    seen: defaultdict[Warned, int] = defaultdict(int)
    for warnings in found.values():
        for each in warnings:
            seen[each] += 1
    return sorted(
        each for each, times in seen.items() if each.code[1:] not in UNUSED or times == users[each.file]
    )


def lint() -> list[Warned]:
    """luacheck over every script. Raises FileNotFoundError where there is none."""
    if (program := shutil.which(LUACHECK)) is None:
        raise FileNotFoundError("no luacheck here: apt-get install lua-check, or luarocks install luacheck")
    options = ("--no-config", "--no-color", "--codes", "--formatter", "plain", "--std", "lua51")
    options = (*options, "--max-line-length", "120", "--read-globals", *OFFERED)
    found: dict[str, set[Warned]] = {}
    users: defaultdict[str, int] = defaultdict(int)
    with tempfile.TemporaryDirectory(prefix="parley-lua-") as folder:
        whole = {Path(folder) / f"{script.sha}.lua": script for script in load_scripts()}
        for path, script in whole.items():
            path.write_text(script.source)
            for file in script.files:
                users[str(file.relative_to(ROOT))] += 1
        done = subprocess.run([program, *map(str, whole), *options], capture_output=True, text=True)
        if done.returncode > 1:  # 1: warnings; 2: errors in the code; 3: luacheck's own
            done.stdout += done.stderr
        for path, script in whole.items():
            found[script.sha] = warnings_of(
                script, [line for line in done.stdout.splitlines() if line.startswith(str(path))]
            )
    if done.returncode and not any(found.values()):
        raise RuntimeError(f"luacheck: {done.stdout.strip()[-500:]}")
    return worth_saying(found, users)


def formatted(*options: str) -> int:
    """StyLua's exit code."""
    node, npm = find_node()
    install(node, npm)
    return subprocess.run([*node, str(FORMATTER), *options, *lua_files()], cwd=ROOT).returncode


def check() -> int:
    """1 where something is to be mended, after naming it."""
    wrong = lua_headers.problems(load_scripts(), ROOT)
    try:
        warnings = lint()
    except (FileNotFoundError, RuntimeError) as error:
        print(error, file=sys.stderr)
        return 1
    for each in (*wrong, *warnings):
        print(each, file=sys.stderr)
    code = formatted("--check")
    if not wrong and not warnings and not code:
        print(f"{len(lua_files())} Lua files are formatted, and luacheck has nothing to say of them")
    return 1 if wrong or warnings or code else 0


def format() -> int:
    """Headers first."""
    lua_headers.write(load_scripts())
    return formatted()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("what", choices=("check", "format"))
    sys.exit(check() if parser.parse_args().what == "check" else format())
