"""Says whether a change needs the long form of the tests, why, and by which command.

    .venv/bin/python scripts/needs_long.py               what changed here since main
    .venv/bin/python scripts/needs_long.py --base HEAD~3 since another commit

Exit code 0: it does; 1: `make test` is enough; 2: the base is not known. So: needs_long.py && make test-long.
"""

import argparse
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from scripts.working_tree import GitError, changed

ROOT = Path(__file__).resolve().parent.parent
EVERYTHING = ""


class Reason(NamedTuple):
    """Changes under these paths want the long form of these tests."""

    paths: tuple[str, ...]
    why: str
    tests: tuple[str, ...]


REASONS = (
    Reason(
        (
            "engine/queue/lua/",
            "engine/queue/client.py",
            "engine/queue/types.py",
            "engine/queue/redis_keys.py",
            "engine/lifecycle/reaper.py",
        ),
        "the queue's scripts: models with more and longer histories, and kills",
        ("tests/engine", "tests/conformance", "tests/chaos"),
    ),
    Reason(
        ("server/session/", "server/protocol/", "server/connection/lua/"),
        "the session machine: models with more histories, both encodings",
        ("tests/server", "tests/conformance"),
    ),
    Reason(
        ("billing/quota/", "billing/enforcement/", "billing/dedicated_pools/lua/"),
        "the quotas' scripts: the machine of long histories, money and failpoints",
        ("tests/billing", "tests/chaos"),
    ),
    Reason(
        (
            "billing/posting/",
            "billing/booking/",
            "billing/ledger/",
            "billing/wallets/",
            "billing/reconciliation/",
        ),
        "how money is booked: each test on Postgres too, and failpoints",
        ("tests/billing", "tests/chaos"),
    ),
    Reason(
        ("core/sql/database.py", "core/migrations/", "core/access/database_roles.py"),
        "the database: each test on Postgres too",
        ("tests/billing", "tests/core", "tests/admin", "tests/security"),
    ),
    Reason(
        (
            "core/redis/client.py",
            "core/redis/shared_connection.py",
            "core/network/unidentified_sockets.py",
            "core/redis/scripts.py",
        ),
        "every process' way to Redis: chaos runs and benches",
        ("tests/core", "tests/engine", "tests/system", "tests/chaos"),
    ),
    Reason(("chaos/", "tests/chaos/"), "chaos runs and benches", ("tests/chaos",)),
    Reason(("tests/conformance/",), "both encodings of all cases", ("tests/conformance",)),
    Reason(
        ("tests/support/", "tests/conftest.py", "pyproject.toml", "requirements/"),
        "what all tests stand on",
        (EVERYTHING,),
    ),
)


def reasons(changed: Iterable[str]) -> dict[Reason, str]:
    """Why a change needs the long form; one of the changed files for each reason."""
    files = sorted(changed)
    found: dict[Reason, str] = {}
    for reason in REASONS:
        for file in files:
            if file.startswith(reason.paths) and not file.endswith(".md"):
                found.setdefault(reason, file)
    return found


def command(found: Iterable[Reason]) -> str:
    """What runs the long form of all that these reasons ask for."""
    tests = sorted({folder for reason in found for folder in reason.tests})
    return "make test-long" if EVERYTHING in tests else f'make test-long ARGS="{" ".join(tests)}"'


def changed_since(base: str, root: Path = ROOT) -> list[str]:
    """As working_tree.changed; where git does not know, this ends, and says why."""
    try:
        return changed(root, base)
    except GitError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def main(arguments: list[str]) -> int:
    """Tell, and answer by the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--base", default="main", help="the commit to compare with (main)")
    found = reasons(changed_since(parser.parse_args(arguments).base))
    for reason, file in found.items():
        print(f"{file}: {reason.why}")
    print(command(found) if found else "make test is enough")
    return 0 if found else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
