"""Builds the chat page: Vite bundles server/web into server/web/dist, which gateways serve and wheels carry.

Nothing is done where the sources and package-lock.json are those of the last build. `make up` and the wheel's
build run it; while you work on the page, run `.venv/bin/python -m scripts.page` after a change and reload.
"""

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
from pathlib import Path

from scripts.javascript import MODULES, ROOT, find_node, install, surroundings

WEB = ROOT / "server" / "web"
BUILT = WEB / "dist"
CONFIG = ROOT / "vite.config.mjs"
SOURCES = (WEB, ROOT / "clients" / "js" / "src", ROOT / "package-lock.json", CONFIG)
VITE = MODULES / "vite" / "bin" / "vite.js"
STAMP = ".built-from"


def build(target: Path = BUILT, mode: str = "production") -> bool:
    """Build into a folder, which is replaced as a whole. False where that was done before. Processes that
    build at once wait for each other. Mode `modules`: each module under its own name, for tests."""
    with CONFIG.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = target / STAMP, fingerprint()
        if stamp.is_file() and stamp.read_text() == wanted:
            return False
        fresh, old = (target.with_name(f".{target.name}-{each}") for each in ("new", "old"))
        said = run_vite(CONFIG, fresh, mode)
        if said is not None:
            sys.exit(f"{said}the page could not be built: {target} is as it was")
        (fresh / STAMP).write_text(wanted)
        shutil.rmtree(old, ignore_errors=True)
        if target.exists():
            target.rename(old)
        fresh.rename(target)
        shutil.rmtree(old, ignore_errors=True)
        return True


def run_vite(config: Path, target: Path, mode: str = "production") -> str | None:
    """Build into a folder by this configuration. What Vite says where it could not."""
    node, npm = find_node()
    install(node, npm)
    command = [*node, str(VITE), "build", "--config", str(config), "--mode", mode, "--outDir", str(target)]
    pipe, folded = subprocess.PIPE, subprocess.STDOUT
    done = subprocess.run(command, cwd=ROOT, env=surroundings(node), stdout=pipe, stderr=folded, text=True)
    return done.stdout if done.returncode else None


def fingerprint() -> str:
    """What a build is made of: each file's name and content."""
    digest = hashlib.sha256()
    for path in sources():
        content = path.read_bytes()
        digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
    return digest.hexdigest()


def sources() -> list[Path]:
    """The files that a build reads."""
    folders = [path for path in SOURCES if path.is_dir()]
    files = [path for folder in folders for path in sorted(folder.iterdir()) if path.is_file()]
    return [*files, *(path for path in SOURCES if path.is_file())]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.parse_args()
    print(f"the page was built: {BUILT.relative_to(ROOT)}" if build() else "the page is as its sources")
