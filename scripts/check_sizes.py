"""Fails where a source file has more lines than the ceiling: past it, split by concept."""

import argparse
import sys
from pathlib import Path

from scripts.working_tree import files

LINES_MAX = 400
SUFFIXES = {".py", ".lua", ".js", ".css", ".html", ".sh"}
ROOT = Path(__file__).parent.parent


def main() -> int:
    """1 where any file is too long, after naming all of them."""
    long = []
    for name in files(ROOT):
        path = ROOT / name
        if path.suffix in SUFFIXES:
            lines = len(path.read_text().splitlines())
            if lines > LINES_MAX:
                long.append(f"{name}: {lines} lines, {LINES_MAX} at most")
    print("\n".join(long) or f"no source file has more than {LINES_MAX} lines")
    return 1 if long else 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
