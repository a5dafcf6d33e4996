"""Fails where a source file has more lines than the ceiling: past it, split by concept."""

import argparse
import subprocess
import sys
from pathlib import Path

LINES_MAX = 400
SUFFIXES = {".py", ".lua", ".js", ".css", ".html", ".sh"}
ROOT = Path(__file__).parent.parent


def main() -> int:
    """1 where any file is too long, after naming all of them."""
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        text=True,
    )
    long = []
    for name in sorted(set(listed.stdout.splitlines())):
        path = ROOT / name
        if path.suffix in SUFFIXES and path.is_file():
            lines = len(path.read_text().splitlines())
            if lines > LINES_MAX:
                long.append(f"{name}: {lines} lines, {LINES_MAX} at most")
    print("\n".join(long) or f"no source file has more than {LINES_MAX} lines")
    return 1 if long else 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
