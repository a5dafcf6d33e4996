"""Builds our pages: Vite bundles the chat page (server/web) and the console (admin/web), each into its folder
`dist`, which gateways and consoles serve and wheels carry.

Nothing is done where the sources and package-lock.json are those of the last build. `make up` and the wheel's
build run it; while you work on a page, run `.venv/bin/python -m scripts.page` after a change and reload.
"""

import argparse
import fcntl
import hashlib
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from scripts.javascript import MODULES, ROOT, find_node, install, surroundings

VITE = MODULES / "vite" / "bin" / "vite.js"
STAMP = ".built-from"
NOT_SOURCES = {"dist", "tables"}
SHARED = (ROOT / "package-lock.json", ROOT / "scripts" / "vite_plugins.mjs")


@dataclass(frozen=True)
class WebPage:
    """A page: the folder of its sources, the configuration of its build, what else the build reads."""

    folder: Path
    config: Path
    others: tuple[Path, ...] = SHARED

    @property
    def built(self) -> Path:
        """Where its server looks for it."""
        return self.folder / "dist"

    def sources(self) -> list[Path]:
        """The files that a build reads."""
        given = [self.folder, self.config, *self.others]
        return sorted({file for path in given for file in _files(path)})

    def fingerprint(self) -> str:
        """What a build is made of: each file's name and content."""
        digest = hashlib.sha256()
        for path in self.sources():
            content = path.read_bytes()
            digest.update(f"{path.relative_to(ROOT)} {len(content)}\n".encode() + content)
        return digest.hexdigest()


CHAT = WebPage(ROOT / "server" / "web", ROOT / "vite.config.mjs", (ROOT / "clients" / "js" / "src", *SHARED))
CONSOLE = WebPage(ROOT / "admin" / "web", ROOT / "admin" / "web" / "vite.config.mjs")
PAGES = {"chat page": CHAT, "console": CONSOLE}


def build(page: WebPage = CHAT, target: Path | None = None, mode: str = "production") -> bool:
    """Build into a folder, which is replaced as a whole. False where that was done before. Processes that
    build at once wait for each other. Mode `modules`: each module under its own name, for tests."""
    target = target or page.built
    with page.config.open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        stamp, wanted = target / STAMP, page.fingerprint()
        if stamp.is_file() and stamp.read_text() == wanted:
            return False
        fresh, old = (target.with_name(f".{target.name}-{each}") for each in ("new", "old"))
        said = run_vite(page.config, fresh, mode)
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


def script_bytes(page: WebPage) -> dict[str, int]:
    """Size of each script as it goes over the wire (gzip), of a page that was built."""
    scripts = sorted((page.built / "assets").glob("*.js.gz"))
    return {path.name.removesuffix(".gz"): path.stat().st_size for path in scripts}


def _files(path: Path) -> list[Path]:
    """A file, or all in a folder but what was built and what no build reads."""
    if path.is_file():
        return [path]
    inside = [each for each in path.iterdir() if each.name not in NOT_SOURCES and each.name[0] != "."]
    return [file for each in inside for file in _files(each)] if path.is_dir() else []


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--sizes", action="store_true", help="print the compressed size of each script")
    given = parser.parse_args()
    for name, each in PAGES.items():
        where = each.built.relative_to(ROOT)
        print(f"the {name} was built: {where}" if build(each) else f"the {name} is as its sources")
        if given.sizes:
            for script, size in script_bytes(each).items():
                print(f"  {size / 1000:7.1f} kB  {script}")
