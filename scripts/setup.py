"""Makes .venv and installs locks into it: `python3 scripts/setup.py cpu test`.

Needs nothing but Python. A lock that is installed already costs nothing: .venv/.parley/ remembers its hash.
Keep it readable for Python 3.7, so that an old one gets a clear line instead of a syntax error.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import subprocess
import sys
import time
import venv
from pathlib import Path
from typing import NoReturn

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMPS = VENV / ".parley"
PYTHON = VENV / "bin" / "python"
LOG = STAMPS / "setup.log"
OLDEST = (3, 11)
# Plain pip finds torch's CPU build only where an index or a folder offers it; PyTorch's own index has it.
TORCH_CPU_INDEX = "https://download.pytorch.org/whl/cpu"
PACKAGE_LINE = re.compile(r"(?:Collecting|Processing|Requirement already satisfied:) (\S+)")
PACKAGE_NAME = re.compile(r"([A-Za-z0-9_.-]+?)(?:==|-\d|$)")
SHOWN_SECONDS = 2.0


def main(stacks: list[str]) -> None:
    """Bring .venv up to date with base, build, the named locks and the project itself."""
    if sys.version_info < OLDEST:
        sys.exit(
            "Parley needs Python {}.{} or newer, and {} is {}.{}: make PYTHON=python3.12 …".format(
                *OLDEST, sys.executable, *sys.version_info[:2]
            )
        )
    make_environment()
    for stack in ["base", "build", *stacks]:
        lock = ROOT / "requirements" / (stack + ".txt")
        if not lock.is_file():
            sys.exit(f"there is no lock {lock}")
        install_lock(stack, lock)
    build_page()
    install_project()


def make_environment() -> None:
    """.venv, where there is none or it lost its Python."""
    made = STAMPS / "made"
    if PYTHON.exists() and made.exists():
        return
    say("making .venv with " + sys.executable)
    try:
        venv.create(VENV, with_pip=True, clear=VENV.is_dir() and not VENV.is_symlink())
    except (OSError, subprocess.CalledProcessError) as error:
        sys.exit(f"cannot make {VENV}: {error} (on Debian and Ubuntu: install python3-venv)")
    STAMPS.mkdir(exist_ok=True)
    made.touch()


def install_lock(stack: str, lock: Path) -> None:
    """Install one lock, unless it was installed before."""
    text = lock.read_text()
    lines = [line.strip() for line in text.splitlines() if "==" in line]
    stamp, wanted = STAMPS / stack, digest(text)
    if stamp.exists() and stamp.read_text() == wanted:
        return
    if "--hash=" in text:
        say(f"installing {lock.relative_to(ROOT)} ({len(lines)} packages, by their hashes)")
        if not pip(["--require-hashes", "--requirement", str(lock)], len(lines)):
            fail()
        stamp.write_text(wanted)
        return
    torch = [line for line in lines if line.startswith("torch==") and line.endswith("+cpu")]
    say(f"installing {lock.relative_to(ROOT)} ({len(lines)} packages)")
    for line in torch:
        if not pip([line], 1):
            say("no CPU build of torch there: taking it from PyTorch's own index")
            if not pip(["--index-url", TORCH_CPU_INDEX, line], 1):
                fail()
    if not pip([line for line in lines if line not in torch], len(lines) - len(torch)):
        fail()
    stamp.write_text(wanted)


def install_project() -> None:
    """The project itself and its Python client, editable: their code is run from this folder, the project's
    command is .venv/bin/parley."""
    stamp = STAMPS / "project"
    parts = [ROOT / "clients" / "python", ROOT]
    wanted = digest(str(ROOT) + "".join((part / "pyproject.toml").read_text() for part in parts))
    if stamp.exists() and stamp.read_text() == wanted:
        return
    say("installing parley itself")
    editable = [argument for part in parts for argument in ("--editable", str(part))]
    if not pip(["--no-build-isolation", *editable], len(parts)):
        fail()
    stamp.write_text(wanted)


def build_page() -> None:
    """The chat page, where its sources changed (scripts/page.py); else the project's build would."""
    command = [str(PYTHON), "-m", "scripts.page"]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit(1)
    if "built" in done.stdout:
        say(done.stdout.strip())


def pip(arguments: list[str], count: int) -> bool:
    """Run `pip install --no-deps`, with a line of progress now and then. True where it worked."""
    argv = [str(PYTHON), "-m", "pip", "install", "--no-deps", "--disable-pip-version-check", "--no-input"]
    argv += ["--progress-bar", "off", *arguments]
    seen, shown = 0, time.monotonic()
    with LOG.open("a") as log:
        process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=log, universal_newlines=True)
        for line in process.stdout or ():
            log.write(line)
            match = PACKAGE_LINE.match(line)
            seen += bool(match)
            if match and time.monotonic() - shown > SHOWN_SECONDS:
                name = PACKAGE_NAME.match(match.group(1).rpartition("/")[2])
                say(f"  {seen}/{count} {name.group(1) if name else ''}")
                shown = time.monotonic()
            elif line.startswith("Installing collected packages"):
                say("  unpacking")
        return process.wait() == 0


def digest(text: str) -> str:
    """What a stamp holds: the hash of what was installed, for this Python."""
    return hashlib.sha256((sys.version + text).encode()).hexdigest()


def fail() -> NoReturn:
    """End with the last lines that pip wrote."""
    sys.stderr.write("\n".join(LOG.read_text().splitlines()[-15:]) + "\n")
    sys.exit(f"setup failed; all of it is in {LOG}")


def say(line: str) -> None:
    """One line of progress, at once."""
    print("parley setup: " + line, flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("locks", nargs="*", help="beside base and build: cpu or gpu, test")
    try:
        main(parser.parse_args().locks)
    except KeyboardInterrupt:
        sys.exit(130)
