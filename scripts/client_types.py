"""Writes the TypeScript types of the browser's client: `.venv/bin/python scripts/client_types.py`.

frames.d.ts is made from the server's own message types; the others from the JSDoc of the package's entries
and of the modules that their types name, by the TypeScript of package-lock.json. `--check` writes nothing and
fails where the written ones are stale.
"""

import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from frame_types import frames

ROOT = Path(__file__).resolve().parent.parent
SOURCES = ROOT / "clients" / "js" / "src"
ENTRIES = ("client", "ai_sdk")
FRAMES = "frames.d.ts"
NAMED = re.compile(r"""(?:from|import\()\s*["']\./([a-z0-9_-]+)\.js["']""")
OPTIONS = ["--declaration", "--emitDeclarationOnly", "--allowJs", "--strict", "--target", "es2022"]
LIBRARIES = ["--lib", "es2022,dom,dom.iterable", "--module", "es2022", "--moduleResolution", "bundler"]


def main(check: bool) -> int:
    """1 where `check` finds stale types."""
    made = declarations()
    written = {path.name: path.read_text() for path in SOURCES.glob("*.d.ts")}
    if check:
        stale = sorted(name for name in made.keys() | written.keys() if made.get(name) != written.get(name))
        if stale:
            print(f"stale: {', '.join(stale)}; run scripts/client_types.py", file=sys.stderr)
        return 1 if stale else 0
    for name in written.keys() - made.keys():
        (SOURCES / name).unlink()
    for name, text in made.items():
        (SOURCES / name).write_text(text)
    return 0


def declarations() -> dict[str, str]:
    """The .d.ts files by name: the frames', the entries' and those that they name, directly or not."""
    made = {FRAMES: frames()}
    with tempfile.TemporaryDirectory() as folder:
        sources = Path(folder) / "sources"
        # A copy without the written types, which would be taken for the truth about the modules.
        shutil.copytree(SOURCES, sources, ignore=shutil.ignore_patterns("*.d.ts"))
        (sources / FRAMES).write_text(made[FRAMES])
        emitted = Path(folder) / "types"
        tsc = [sys.executable, str(ROOT / "scripts" / "javascript.py"), "tsc"]
        entries = [str(sources / f"{entry}.js") for entry in ENTRIES]
        subprocess.run([*tsc, *entries, "--outDir", str(emitted), *OPTIONS, *LIBRARIES], check=True)
        for entry in ENTRIES:
            _reachable(emitted, entry, made)
        return made


def _reachable(folder: Path, module: str, found: dict[str, str]) -> None:
    name = f"{module}.d.ts"
    if name not in found:
        found[name] = (folder / name).read_text()
        for named in NAMED.findall(found[name]):
            _reachable(folder, named, found)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where the written ones are stale")
    sys.exit(main(parser.parse_args().check))
