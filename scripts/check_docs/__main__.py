"""Fails where documents say of the repository what is not so, and says where and what to do.

Checked are: pages, headings and files that a page, docstring or comment names; the tables of
docs/settings.md; that each invariant is proved by a test; that each promise of docs/security.md names a
test; and that each test that a page names exists.
"""

import argparse
import sys
from pathlib import Path

from scripts.check_docs import invariants, named_tests, references, settings_table
from scripts.check_docs.tree import read

ROOT = Path(__file__).parents[2]


def main(write: bool, listed: bool) -> int:
    """1 where anything is wrong, after naming all of it."""
    tree = read(ROOT)
    if listed:
        print("\n".join(invariants.listed(tree)))
        return 0
    tables = settings_table.Tables.of_settings()
    if write:
        faults = tables.faults_of_source()
        if not faults:
            (ROOT / settings_table.PAGE).write_text(tables.page_of(tree.texts[settings_table.PAGE]))
    else:
        faults = [
            *references.faults(tree),
            *named_tests.faults(tree),
            *invariants.faults(tree),
            *tables.faults(tree.texts[settings_table.PAGE]),
        ]
    said = [str(fault) for fault in sorted(set(faults))]
    done = (
        f"{settings_table.PAGE} is written"
        if write
        else f"no fault in the documents and comments of {len(tree.texts)} files"
    )
    print("\n".join(said or [done]))
    return 1 if said else 0


if __name__ == "__main__":
    parser = argparse.ArgumentParser(
        prog="python -m scripts.check_docs",
        description=__doc__,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument("--write", action="store_true", help="write the tables of docs/settings.md")
    parser.add_argument("--list", action="store_true", help="print which test proves which invariant")
    options = parser.parse_args()
    sys.exit(main(options.write, options.list))
