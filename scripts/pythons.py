"""Tries the tests that start no engine under the other Pythons that are present here.

    python -m scripts.pythons                       Python 3.12 and 3.13, where present; all such tests
    python -m scripts.pythons --newest --without-worker tests/core    as CI does: the newest, and these tests

Each has a copy of the working tree and an environment of its own in .cache/pythons/, made once. Where no
build of torch for it can be had, what needs torch is left out, and said. Exit code 1: a test failed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

from scripts.working_tree import files

ROOT = Path(__file__).resolve().parent.parent
OTHERS = ("3.12", "3.13")
KEPT = ".cache/pythons"
WITHOUT_TORCH = "PARLEY_TEST_WITHOUT_TORCH"
# Lent to the copy, as they are the same under each Python: the converted model, the browser code's tools.
LENT = ("node_modules", ".cache/models")
KEEPS = (".venv", ".cache", "node_modules")


def candidates(version: str, on_path: str | None, pyenv: Iterable[Path]) -> list[str]:
    """Where a Python of this version may be, the likeliest first. Pure."""
    ours = [path for path in pyenv if path.name == version or path.name.startswith(f"{version}.")]
    kept = [str(path / "bin/python") for path in sorted(ours, key=_by_number, reverse=True)]
    return ([on_path] if on_path else []) + kept


def _by_number(path: Path) -> tuple[list[int], bool]:
    """3.13.10 after 3.13.9, and after its own candidates."""
    numbers = [int(number) for number in re.findall(r"\d+", path.name)]
    return numbers[:3], path.name.replace(".", "").isdecimal()


def present(version: str) -> str | None:
    """A Python of this version that starts and can make environments."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    pyenv = root.iterdir() if root.is_dir() else ()
    asked = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"
    for python in candidates(version, shutil.which(f"python{version}"), pyenv):
        done = subprocess.run([python, "-c", asked], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.strip() == version:
            return python
    return None


def copied(copy: Path) -> None:
    """Bring the copy to what the working tree is now; its environment stays."""
    for old in copy.glob("*"):
        if old.name not in KEEPS:
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
    for name in files(ROOT):
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, copy / name)
    for lent in LENT:
        place = copy / lent
        if (ROOT / lent).exists() and not place.is_symlink():
            place.parent.mkdir(parents=True, exist_ok=True)
            place.symlink_to(ROOT / lent)


def set_up(python: str, copy: Path, without_worker: bool) -> bool | None:
    """Make its environment. Whether it has torch; None: it cannot be made."""
    if without_worker:
        return None if subprocess.run([python, "scripts/setup.py", "test"], cwd=copy).returncode else False
    whole = [python, "scripts/setup.py", "cpu", "test"]
    if subprocess.run(whole, cwd=copy, capture_output=True).returncode == 0:
        return True
    done = subprocess.run([python, "scripts/setup.py", "--without-torch", "cpu", "test"], cwd=copy)
    return None if done.returncode else False


def tried(version: str, python: str, tests: Sequence[str], without_worker: bool = False) -> bool:
    """Run the tests under it; whether all passed. `without_worker`: what the other processes need is
    installed, and no more."""
    copy = ROOT / KEPT / version
    copy.mkdir(parents=True, exist_ok=True)
    copied(copy)
    torch = set_up(python, copy, without_worker)
    if torch is None:
        say(f"{version}: its environment cannot be made; see {copy / '.venv/.parley/setup.log'}")
        return False
    if not torch:
        why = "installed" if without_worker else "to be had here for it"
        say(f"{version}: no torch is {why}; what needs it is left out")
    environment = os.environ | ({} if torch else {WITHOUT_TORCH: "1"})
    command = [".venv/bin/python", "-m", "pytest", "-q", "-n", "auto", "-m", "not long and not vllm", *tests]
    passed = subprocess.run(command, cwd=copy, env=environment).returncode == 0
    say(f"{version}: {'passed' if passed else 'FAILED'}")
    return passed


def say(line: str) -> None:
    """One line, at once."""
    print(f"pythons: {line}", flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    """The exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--newest", action="store_true", help="only the newest that is present")
    parser.add_argument(
        "--without-worker",
        action="store_true",
        help="install nothing that only a worker needs: a minute less",
    )
    options, tests = parser.parse_known_args(argv)
    own = "{}.{}".format(*sys.version_info[:2])
    found = [(each, python) for each in OTHERS if each != own and (python := present(each))]
    missing = [each for each in OTHERS if each not in (own, *dict(found))]
    if missing:
        say(f"not present here: {', '.join(missing)}")
    chosen = found[-1:] if options.newest else found
    passed = [tried(version, python, tests, options.without_worker) for version, python in chosen]
    return 0 if all(passed) else 1


if __name__ == "__main__":
    sys.exit(main())
