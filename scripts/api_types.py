"""Writes the TypeScript types of the API, from its registered operations: `python -m scripts.api_types`.

They go to admin/web/shared/api-types.d.ts, which is not committed: `make check` writes them before it judges
the console's types, so a change of an operation fails there and not in a browser. A build needs no types.
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import msgspec

from admin.api.openapi import document
from core.operations import registered
from scripts.javascript import ROOT, find_node, install, program

TYPES = ROOT / "admin" / "web" / "shared" / "api-types.d.ts"


def main() -> int:
    """The exit code of openapi-typescript; nothing is written where the types are as they were."""
    made = msgspec.json.encode(document(list(registered().values()), "0", "session"))
    node, npm = find_node()
    install(node, npm)
    with tempfile.TemporaryDirectory() as folder:
        given, written = Path(folder) / "openapi.json", Path(folder) / "api-types.d.ts"
        given.write_bytes(made)
        command = [*node, str(program("openapi-typescript")), str(given), "-o", str(written)]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
        if done.returncode:
            print(done.stdout, done.stderr, file=sys.stderr)
            return done.returncode
        if not TYPES.is_file() or TYPES.read_bytes() != written.read_bytes():
            TYPES.write_bytes(written.read_bytes())
    return 0


if __name__ == "__main__":
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter).parse_args()
    sys.exit(main())
